//! Sequential: a file is read from its beginning to its end. Of the candidate's file, the page needed last is the one just
//! read, then those before it, from there to the beginning; those still ahead are needed first, the nearest of all.

use super::{About, Manager, Scope};

pub(super) static ABOUT: About = About {
    name: "sequential",
    gives_up: "of the candidate's file, the block just read, then those before it",
    needs: "",
    scope: Scope::File,
    plain: Some(Manager::Sequential),
    off_line: false,
};

/// How soon a page goes: the manager begins at the page read last and goes down, then wraps to the file's end.
pub(super) fn rank(block: u64) -> u64 {
    block
}
