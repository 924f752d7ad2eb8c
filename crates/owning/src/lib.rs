//! The owners that use files, and the managers of these uses: what mounts and steering have in common, above the pool.
//!
//! - `processes.rs`: owners of references are processes, users, cgroups or programs.
//! - `rules.rs`: the rules in force say who manages which owner's uses of which files.
//! - `words.rs`, `advice.rs`: what attributes of files, and programs themselves, say of managers and of uses to come.
//! - The rest is for programs that manage their own pages (Cao, Felten and Li, USENIX Summer 1994, section 4.1, "User-Kernel Interaction"): a process
//!   learns what happens to pages of a process, and keeps a list of those to go first. The cache takes from that list and never waits for it.
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
//! It knows no front end: the mount and the steered page cache use its owners and rules, and the server connects a session to their files by [`Files`].

mod advice;
mod counters;
mod managers;
mod mistakes;
mod peer;
mod proc;
mod processes;
mod rules;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod wire;
mod words;

pub use advice::Advice;
pub use counters::Counts;
pub use managers::{Files, Managers};
pub use mistakes::Mistakes;
pub use proc::user_of;
pub use processes::{Ancestor, Owners, Process, Processes, User};
pub use rules::{InForce, Ruled, Rules};
pub use wire::{LENGTH, Message, Reason, VERSION, kind};
pub use words::{Attributes, Directories, HINT, MANAGER, Word};
