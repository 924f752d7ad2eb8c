//! Managers of programs' own (Cao, Felten and Li, USENIX Summer 1994, section 4.1, "User-Kernel Interaction"): a process learns what happens to
//! pages of a process, and keeps a list of those to go first. The cache takes from that list and never waits for it.
//!
//! ```text
//!   manager                      the cache
//!     | register, add file    ->   session.rs: checks, and answers         peer.rs: whose process is it
//!     | give up               ->   the owner's free-list in the pool
//!     |                       <-   events of a Follower of the pool, by a thread of their own; `low` when the list runs short
//! ```
//!
//! - **Rights.** A process speaks for itself, and for processes of its own user; root for all. It learns of that process's own references and of
//!   what becomes of pages that it has used, so nothing that the process could not know.
//! - **Nobody else pays.** LRU-SP has a manager's mistakes paid for by its own owner. Queues are bounded: what is lost is counted, and the manager
//!   is notified. A session works a quarter of the time at most, in steps that hold the pool's lock briefly.
//! - A manager that goes, whose process has gone, or that takes nothing for a minute loses its session, and its list with it.
//!
//! The messages are in `wire.rs`, and in `docs/own-managers.md`.
//!
//! It is a crate beside the mount's, `forebay-fuse`, and above the pool, whose owners, free-lists and followers it uses. It does not know the mount:
//! the server connects the two by [`Files`], and another front end with files, as a steered page cache, brings its own.

mod counters;
mod managers;
mod peer;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod wire;

pub use counters::Counts;
pub use managers::{Files, Managers};
pub use wire::{LENGTH, Message, Reason, VERSION, kind};
