//! LRU, the kernel's default: the manager never overrules, so it keeps nothing and is never asked.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "lru",
    gives_up: "the candidate: it never overrules",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::Lru),
    off_line: false,
};

pub(super) fn rank(_: &mut Use) -> u64 {
    unreachable!("nobody manages what is LRU's")
}

/// In place of a rule: nobody manages these pages, so that they are LRU's too.
pub(super) const NOBODY: u32 = u32::MAX;
