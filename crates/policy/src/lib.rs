//! Buffer replacement policies: metadata alone, for simulators and real caches alike.
//!
//! A [`Policy`] decides which resident page to evict when another one needs its frame. It holds no data, does no hashing
//! and makes no virtual call: pages are dense numbers, and its [`Caller`] (the simulator, or a real cache) says which
//! number stands for which page and has the last word on every victim.
//!
//! Each policy is one file and one line in [`policies`]; the command line, the contract tests and the documentation
//! iterate over the registry.
//!
//! ```
//! use forebay_policy::{AllRefused, Caller, Lru, Policy, Reference, Settings, Setup};
//!
//! struct AnyVictim;
//! impl Caller for AnyVictim {
//!     fn evict(&mut self, _page: u32) -> bool {
//!         true
//!     }
//!     fn forget(&mut self, _page: u32) {}
//! }
//!
//! let mut lru = Lru::new(&Setup::new(2, 10, Settings::defaults(Lru::INFO.parameters)));
//! let mut hits = 0;
//! for page in [0, 1, 0, 2, 1] {
//!     let reference = Reference::of(page);
//!     if lru.contains(page) {
//!         lru.hit(&reference);
//!         hits += 1;
//!     } else {
//!         lru.miss(&reference, &mut AnyVictim)?;
//!     }
//! }
//! assert_eq!(hits, 1);
//! # Ok::<(), AllRefused>(())
//! ```

mod boxed;
mod control;
pub mod drawing;
pub mod guest;
mod layout;
pub mod managers;
mod page;
mod parameters;
mod parts;
pub mod policies;
mod policy;
pub mod readahead;
pub mod registry;

pub use boxed::{AnyPolicy, Hit};
pub use control::{Charge, Control, Uncontrolled};
pub use layout::Layout;
pub use page::page;
pub use parameters::{Kind, Parameter, Part, Settings};
#[doc(hidden)]
pub use parts::prefetch;
pub use policies::*;
pub use policy::{AllRefused, Caller, Future, Info, NEVER, Policy, Reference, Setup, Uses};
pub use registry::{Spec, Visitor};
