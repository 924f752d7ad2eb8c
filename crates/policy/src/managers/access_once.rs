//! Access-once: a program does not read again what it has read. Every page that it has done with may go; it has done with all
//! but the one it used last, which it may still be reading from. The most recent of them goes first: should the program be
//! run again, it needs that one last.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "access-once",
    gives_up: "the page used most recently but one: what is read is not read again",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::BelowLast,
    plain: Some(Manager::AccessOnce),
    off_line: false,
};

/// How soon a page goes that is used now.
pub(super) fn rank(used: &mut Use) -> u64 {
    used.now
}
