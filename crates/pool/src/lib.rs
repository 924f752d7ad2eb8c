//! A buffer pool: frames of memory in front of a [`device`], under any of Forebay's replacement policies.
//!
//! ```
//! use forebay_pool::device::MemoryDevice;
//! use forebay_pool::{Config, Durability, Pool, VolumeConfig};
//! use forebay_policy::Spec;
//! use std::sync::Arc;
//!
//! // 8 MiB of frames of 4 KiB, under CLOCK-Pro, in front of 64 MiB.
//! let pool = Pool::new(Config::new(8 << 20, Spec::parse("clock-pro").expect("a policy")))?;
//! let volume = pool.attach(Arc::new(MemoryDevice::new(64 << 20)), VolumeConfig::new("data"));
//!
//! let handle = pool.handle()?; // one for each thread
//! handle.write_at(&volume, 10_000, b"forebay", Durability::Flush)?;
//! let page = handle.read(&volume, 2)?; // pinned until it is dropped
//! assert_eq!(&page[10_000 - 2 * 4096..][..7], b"forebay");
//! drop(page);
//!
//! let mut page = handle.write(&volume, 3)?;
//! page[0] = 1;
//! page.commit()?;
//! handle.flush(&volume)?; // now both are durable
//!
//! drop(handle);
//! assert_eq!(pool.statistics().misses, 2);
//! pool.close()?;
//! # Ok::<(), forebay_pool::Error>(())
//! ```
//!
//! # How it is built
//!
//! ```text
//!   Handle (a thread's slots and batch of hits)          handle.rs, bytes.rs
//!     | hit: no lock                | miss
//!     v                             v
//!   table.rs -> page.rs          replacer.rs (one lock: policy, free frames, numbers, laundry)
//!   (object, block) -> state       | victims are judged (judge.rs): pinned ones refused, dirty ones to the laundry
//!     |                            v
//!   frames.rs                    load.rs: one read for a run of pages          writeback.rs: dirty pages in runs
//!     (memory)                      \________________ device ___________________/
//! ```
//!
//! - **A hit** finds its page in a table that is read without a lock, names it in a slot of its handle (`slots.rs`), and looks whether
//!   somebody else holds the page exclusively. No line of memory is written that another core writes, but for the policy's sake: hits
//!   reach it in batches, or, for policies whose hits set a bit, as a mark in the page.
//! - **A miss** takes the replacer's lock, tells the policy first of this handle's hits and then of the miss, and reads without the lock.
//!   Other threads that want the page wait for that one read.
//! - **A dirty victim** goes to the laundry: the policy has let it go, and it keeps its frame, readable, until it is written. So the
//!   policy decides here as in the simulator, whatever is dirty: one thread has the same hits in both.
//! - **A policy that panics** is replaced by CLOCK, with the resident pages, and no request fails (`contained.rs`).
//! - **Writing** holds a page alone; a page in writeback is copied first, and can be written again meanwhile.
//! - A failed writeback leaves its pages dirty; the next flush tells of it, and they are written again.
//! - A flush is shared by all who ask for one while another is under way (`commit.rs`), and holds nothing that a reader needs.
//! - Each volume is written back by a thread of its own while it is due, so that a device that hangs holds up no other (`background.rs`).
//! - **Where bytes lie** is a question apart (`memory.rs`): in a mapping of the pool's own (`frames.rs`), or in a program's address space. Replacer, judge,
//!   writeback and readahead are the same for both.
//!
//! ```text
//! core         pages and their states, the page table, the replacer and its policy, where bytes lie
//! access       handles, pins, bytes, misses, hints, ranges that are given up
//! objects      volumes, which come and go, and owners
//! writeback    dirty pages, flushes, the threads that write
//! readahead    streams, and the threads that read ahead
//! device       what the pool is in front of
//! ```
//!
//! The state of a page and the rules that say who may touch its bytes stand in `core/page.rs`, the order of locks in `writeback/mod.rs`.
//!
//! # What is exact, and what is not
//!
//! Frames never take more than the capacity. Beside them there are the pages' states, the page table and the policy, 80 to 240 bytes for
//! each page number (at most [`Config::most_metadata`]), and copies of what is being written, for 8 writebacks at a time ([`Config::copies`]) a 64th of the
//! capacity each, from 256 KiB to 4 MiB. A volume takes 400 bytes beside its
//! pages if it is not counted by itself. With several threads the policy learns of another thread's last hits a little late.

mod access;
mod config;
mod core;
pub mod device;
mod error;
#[cfg(all(test, feature = "model-check"))]
mod model_check;
mod objects;
mod pool;
mod readahead;
mod stats;
mod sync;
mod writeback;

pub use access::bytes::Durability;
pub use access::elsewhere::Referred;
pub use access::handle::Handle;
pub use access::hints::Hint;
pub use access::pins::{OwnedPin, ReadPin, WritePin};
pub use config::{Config, LEAST_PAGE_SIZE, MOST_PAGE_SIZE, READAHEAD, Share, VolumeConfig, WriteMode};
pub use core::frames::Frames;
pub use core::memory::{Buffer, Memory};
pub use error::{Error, errno_of};
pub use forebay_figures::Distribution;
pub use objects::followers::{Event, Follower, Happened};
pub use objects::owners::Owner;
pub use objects::volume::Volume;
pub use pool::Pool;
pub use stats::{DeviceStatistics, ShareStatistics, Statistics, Together, VolumeStatistics};
pub use writeback::background::HANDLES;
