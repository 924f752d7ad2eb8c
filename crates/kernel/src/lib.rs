//! The kernel's own page cache, for a daemon that steers it.
//!
//! - [`watch`] sees which pages of which files are used, added to the page cache and removed from it.

pub mod watch;
