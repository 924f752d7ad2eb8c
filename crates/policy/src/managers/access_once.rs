//! Access-once: a program does not read again what it has read. Every page that it has done with may go; it has done with all
//! but the one it used last, which it may still be reading from. The most recent of them goes first: should the program be
//! run again, it needs that one last.

use super::{About, Manager, Scope};

pub(super) static ABOUT: About = About {
    name: "access-once",
    gives_up: "the page used most recently but one: what is read is not read again",
    needs: "",
    scope: Scope::Owner,
    plain: Some(Manager::AccessOnce),
    off_line: false,
};

/// How soon a page goes that is used now.
pub(super) fn rank(now: u64) -> u64 {
    now
}

/// Where the manager begins: below the page used last.
pub(super) fn begin(last: u64) -> u64 {
    last - 1
}
