//! Memory larger than memory: ranges of addresses whose pages come and go under any of Forebay's policies.
//!
//! ```
//! use forebay_pager::{Options, Pager, Region};
//! use forebay_policy::Spec;
//! use forebay_pool::VolumeConfig;
//! use forebay_pool::device::MemoryDevice;
//! use std::sync::Arc;
//!
//! // 16 MiB of which 1 MiB is resident at most, under CLOCK-Pro.
//! let pager = Pager::new(&Options::new(1 << 20, Spec::parse("clock-pro").expect("a policy")))?;
//! let device = Arc::new(MemoryDevice::new(16 << 20));
//! let mut region = Region::map(&pager, device, VolumeConfig::new("data"))?;
//!
//! region[10_000_000] = 7; // a fault: its page is read, mapped, and dirty
//! assert_eq!(region[10_000_000], 7); // no fault
//! region.sync()?; // now it is durable
//! assert_eq!(pager.faults().major, 1);
//! region.close()?;
//! # Ok::<(), forebay_pager::Error>(())
//! ```
//!
//! # How it is built
//!
//! ```text
//!   the program touches an absent page
//!     |  messages.rs: the kernel stops its thread, and says where
//!     v
//!   faults.rs: a thread has the pool bring the page, maps it, and the program goes on
//!     |        or in_place.rs: the thread that touches it does, by a signal's handler (seats.rs; handed.rs: where it may not)
//!     v
//!   bring.rs, order.rs: what has to be done     uses.rs: takes mappings away whose uses the policy waits to see
//!     |                               hand.rs: the same for policies that would see all
//!     v
//!   the pool: policy, readahead, writeback, devices
//!     |
//!     v
//!   space.rs: which page a frame has
//!   extent.rs: one region's addresses, for the program and for the pool
//!   budget.rs: how many frames there are
//!   buffers.rs: where bytes are read to
//!   leaving.rs: pages whose memory is given back together
//!   cores.rs: where faults are handled
//!   held.rs: pages that stay for direct input
//!   told.rs: failures that repeat
//!   freeze.rs: a moment at which no byte changes
//!   userfault.rs: what the kernel is asked to do with them
//! ```

mod bring;
mod budget;
mod buffers;
mod cores;
mod error;
mod extent;
mod faults;
mod figures;
mod freeze;
mod hand;
mod handed;
mod held;
mod in_place;
mod leaving;
mod messages;
mod order;
mod pager;
mod region;
mod seats;
mod signals;
mod space;
mod told;
mod userfault;
mod uses;

pub use error::Error;
pub use figures::Faults;
pub use freeze::Frozen;
pub use held::{Held, Pages};
pub use pager::{Notice, Options, Pager, Watch};
pub use region::{Advice, Region};
