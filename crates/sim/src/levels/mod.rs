//! Hierarchies: caches in a row, each of which sees what the one above lets through.
//!
//! ```text
//!   references   owner 0      owner 1  …  owner N-1
//!                   |            |            |
//!   level 1      [cache 0]    [cache 1] … [cache N-1]     owner number modulo N says which
//!                   \____________|____________/
//!   level 2               [ one cache ]                   read misses and writes of all above
//!                                |
//!   level 3 …             [ one cache ]
//!                                |
//!   storage                 (a device)
//! ```
//!
//! What goes down is a read (the page is wanted), a write (its new content, by write-through or as a writeback of a dirty page),
//! or, in an exclusive hierarchy, a demotion (the page itself, clean or dirty). A write is of a whole page, so a write that misses reads
//! nothing from below. `docs/levels.md` says what each [`Mode`] does, and what it is good for.

mod analysis;
mod cache;
mod hierarchy;
mod run;
mod storage;
#[cfg(test)]
mod tests;

pub use analysis::Analysis;
pub use hierarchy::{Hierarchy, HierarchyOutcome, Level, Mode, Passed, Write};
