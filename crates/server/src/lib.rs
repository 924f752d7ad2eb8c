//! Services: volumes (files, block devices, memory and object storage) behind a buffer pool, served over NBD; and directories behind a
//! pool, mounted over FUSE; and the kernel's own page cache, steered by the pool's policy.
//!
//! [`Options`], [`MountOptions`] and [`SteerOptions`] say what to serve, from the command line and from a configuration file; [`serve`], [`mount`] and [`steer`] do it
//! until a signal ends it. What all have is in `frame.rs`: sockets, recording, reading again, the stop; and in `options.rs` and
//! `cache.rs`. `volumes` has the first, `directories` the second, `steering` the third. `control` takes commands, `figures` gathers and shows what is counted,
//! `record` writes down what clients refer to, `managers.rs` has the rules of those with files, `manager_socket.rs` lets programs manage. `inherited.rs` frees a service of limits and signals of the program that starts it.

mod bounded;
mod cache;
mod control;
mod declared;
mod delay;
mod directories;
mod error;
mod figures;
mod frame;
mod inherited;
mod listen;
pub mod log;
mod manager_socket;
mod managers;
mod memory;
mod options;
mod paging;
mod record;
mod signals;
mod steering;
mod volumes;
mod words;

pub use control::socket::ask;
pub use control::{Answer, Command};
pub use directories::clock::round_trip;
pub use directories::mount;
pub use directories::options::{DirectoryOptions, MountOptions};
pub use error::Error;
pub use figures::{CacheReport, Report, VolumeReport};
pub use frame::{Hooks, Reload, SetLog};
pub use inherited::settle;
pub use listen::Listen;
pub use managers::{ManagerReport, OwnersOption};
pub use options::{BesideOptions, Direct, ServiceOptions};
pub use paging::figures::{MemoryFigures, MemoryReport};
pub use paging::guard::guard;
pub use steering::figures::{PageCacheFigures, PageCacheReport};
pub use steering::options::SteerOptions;
pub use steering::recording::{Held, Recording};
pub use steering::{Lowered, SteerEnd, lower, record_memory, record_page_cache, steer};
pub use volumes::options::{Options, TlsMode, TlsOptions};
pub use volumes::serve;
pub use volumes::source::Source;
pub use volumes::volume::{Mode, VolumeOptions};
pub use words::{Address, Age, Count, Level, Policy, Room, Share, Size};
