//! Same-order: a file or a group of files is read again and again in the same order, so that the page used last is the one
//! needed last. The paper: "for same-order, the most recently accessed block can be replaced". This is MRU under the name
//! of the pattern that calls for it.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "same-order",
    gives_up: "the same, under the name of its pattern: files read again and again in the same order",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::SameOrder),
    off_line: false,
};

/// How soon a page goes that is used now.
pub(super) fn rank(used: &mut Use) -> u64 {
    super::mru::rank(used)
}
