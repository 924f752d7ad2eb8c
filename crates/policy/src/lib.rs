//! Buffer replacement policies: metadata alone, for simulators and real caches alike.
//!
//! A [`Policy`] decides which resident page to evict when another one needs its frame. It holds no data, does no hashing
//! and makes no virtual call: pages are dense numbers, and its [`Caller`] (the simulator, or a real cache) says which
//! number stands for which page and has the last word on every victim.
//!
//! Each policy is one file and one line in [`registry`]; the command line, the contract tests and the documentation
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

mod clock;
mod clock_pro;
mod fifo;
mod gclock;
mod lfu;
mod list;
mod lru;
mod lru_sp;
pub mod managers;
mod mru;
pub mod opt;
mod parameters;
mod policy;
mod random;
pub mod registry;
mod time_set;
pub mod worst;

pub use parameters::{Kind, Parameter, Settings};
pub use policy::{AllRefused, Caller, Future, Info, NEVER, Operation, Place, Policy, Reference, Setup, Uses};
pub use registry::{Clock, ClockPro, Fifo, Gclock, Lfu, Lru, LruSp, Mru, Opt, Random, Spec, Visitor, Worst};
