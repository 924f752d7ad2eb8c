//! MRU: the page used most recently goes first. It suits a loop over more pages than the cache has.

use super::{About, Manager, Scope};

pub(super) static ABOUT: About = About {
    name: "mru",
    gives_up: "the page used most recently",
    needs: "",
    scope: Scope::Owner,
    plain: Some(Manager::Mru),
    off_line: false,
};

/// How soon a page goes that is used now.
pub(super) fn rank(now: u64) -> u64 {
    now
}
