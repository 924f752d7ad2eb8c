//! Sequential: a file is read from its beginning to its end. Of the candidate's file, the page needed last is the one just
//! read, then those before it, from there to the beginning; those still ahead are needed first, the nearest of all.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "sequential",
    gives_up: "of the candidate's file, the block just read, then those before it",
    needs: "",
    scope: Scope::File,
    begin: Begin::Last,
    plain: Some(Manager::Sequential),
    off_line: false,
};

/// How soon a page goes: the manager begins at the page read last and goes down, then wraps to the file's end.
pub(super) fn rank(used: &mut Use) -> u64 {
    used.place.block
}
