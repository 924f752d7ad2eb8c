//! A server of volumes: files, block devices, memory and object storage behind a buffer pool, served over NBD; and directories behind a
//! pool, mounted over FUSE (`mount.rs`, `directories.rs`).
//!
//! [`Options`] say what to serve, from the command line and from a configuration file; [`serve`] does it until a signal ends it.
//! `volumes.rs` puts devices behind pools, `export.rs` shows them to the NBD server, `record.rs` writes down what clients refer to,
//! `report.rs` gathers figures, which `metrics.rs` says in Prometheus' words and `control.rs` hands out. `attached.rs` is a volume's
//! life from when it is attached to when it is closed, `changes.rs` what changes at run time, on SIGHUP or by the commands of
//! `commands.rs`, which come through `command_socket.rs`. `inherited.rs` frees a service of limits and signals of the program that
//! starts it. `owning.rs` lets programs manage their own pages.

mod attached;
mod bounded;
mod changes;
mod command_socket;
mod commands;
mod control;
mod declared;
mod delay;
mod directories;
mod error;
mod export;
mod flushes;
mod frame;
mod http;
mod inherited;
mod listen;
pub mod log;
mod managers;
mod memory;
mod metrics;
mod mount_options;
mod mounted;
mod options;
mod owning;
mod record;
mod report;
mod served;
mod service_options;
mod signals;
mod source;
mod volume_options;
mod volumes;
mod words;

pub use command_socket::ask;
pub use commands::{Answer, Command};
pub use error::Error;
pub use frame::{Hooks, Reload, SetLog};
pub use inherited::settle;
pub use listen::Listen;
pub use managers::{ManagerReport, OwnersOption};
pub use mount_options::{DirectoryOptions, MountOptions};
pub use mounted::mount;
pub use options::{Options, TlsMode, TlsOptions};
pub use report::{CacheReport, Report, VolumeReport};
pub use served::serve;
pub use service_options::{Direct, ServiceOptions};
pub use source::Source;
pub use volume_options::{Mode, VolumeOptions};
pub use words::{Address, Age, Count, Policy, Share, Size};
