//! RMIN: Belady's rule within one manager's pages, off-line: the page whose next use is farthest goes first. The best that
//! an owner who knows all its references can do with the pages it is given.

/// How soon a page goes that is used next at `next`.
pub(super) fn rank(next: u32) -> u64 {
    u64::from(next)
}
