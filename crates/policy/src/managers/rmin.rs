//! RMIN: Belady's rule within one manager's pages, off-line: the page whose next use is farthest goes first. The best that
//! an owner who knows all its references can do with the pages it is given.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "rmin",
    gives_up: "the page whose next use is farthest away: off-line, a limit to compare with",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::Rmin),
    off_line: true,
};

/// How soon a page goes that is used now.
pub(super) fn rank(used: &mut Use) -> u64 {
    u64::from(used.next)
}
