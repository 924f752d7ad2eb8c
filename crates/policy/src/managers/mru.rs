//! MRU: the page used most recently goes first. It suits a loop over more pages than the cache has.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "mru",
    gives_up: "the page used most recently",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::Mru),
    off_line: false,
};

/// How soon a page goes that is used now.
pub(super) fn rank(used: &mut Use) -> u64 {
    used.now
}
