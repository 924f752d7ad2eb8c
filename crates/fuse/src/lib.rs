//! A directory behind a buffer pool, mounted over FUSE: any program, unchanged, runs on any policy.
//!
//! ```text
//!   kernel (protocol/)        filesystem.rs, naming.rs, data.rs    a request each
//!     |                          |
//!   nodes.rs (numbers)        object.rs (a file's bytes: a volume of the pool)
//!     |                          |
//!   inode.rs (what is         device.rs -> descriptors.rs (the file below, past the page cache)
//!   below, by handle)
//! ```
//!
//! - A hit is answered by the thread that received the request. What has to wait goes to a thread of its own (`workers.rs`).
//! - The kernel keeps no copies of files but of those that programs map; these copies go when the pool's page goes (`mapped.rs`).
//! - Locks are taken in this order: a node's object, an object's shape, the pool's.

mod attributes;
mod behind;
mod claim;
mod clearing;
mod credentials;
mod cut;
mod data;
mod descriptors;
mod device;
mod directory;
mod error;
mod file_limit;
mod filesystem;
mod fuse_device;
mod hints;
mod inode;
mod ioctl;
mod last_change;
mod layouts;
mod managing;
mod mapped;
mod mount;
mod mountinfo;
mod mounts;
mod naming;
mod nodes;
mod object;
mod outside;
mod permissions;
mod place;
mod privileges;
mod protocol;
mod recent;
mod shared;
mod slab;
mod times;
mod workers;

#[cfg(feature = "testing")]
pub use protocol::read_message;

pub use device::Wrap;
pub use error::Error;
pub use forebay_owning::Advice;
pub use mount::{Mount, Options, Watch};
pub use mounts::{Finder, Mounts};
