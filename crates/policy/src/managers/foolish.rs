//! Foolish: the page used next goes first, off-line. Every one of its overrulings is a mistake: what an errant or malicious
//! manager can do at worst, for tests and to show what place-holders are for.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "foolish",
    gives_up: "the page whose next use is nearest: off-line, the worst that a manager can do",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::Foolish),
    off_line: true,
};

/// How soon a page goes that is used now.
pub(super) fn rank(used: &mut Use) -> u64 {
    u64::from(u32::MAX - used.next)
}
