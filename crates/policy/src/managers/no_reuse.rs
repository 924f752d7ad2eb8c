//! No-reuse: what a program uses it does not use again, and it wants to take nothing from others. Its pages go before all others' in the order in which
//! they came, and are in nobody's charge (SP4 in `policies/lru_sp.rs`). Under access-once a program's pages are LRU's like all others, and younger than
//! those of a program that reads less: then these go.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "no-reuse",
    gives_up: "before all other pages those that its owner has brought, the earliest first: for a backup beside a service",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::NoReuse),
    off_line: false,
};

/// How soon a page goes that is used now: the earliest first, if it is managed as others are.
pub(super) fn rank(used: &mut Use) -> u64 {
    u64::MAX - used.now
}
