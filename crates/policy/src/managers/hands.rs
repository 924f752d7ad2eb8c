//! Managers that go round in a circle of pages with reference bits: what [`second_chance`](super::second_chance) and
//! [`two_handed_clock`](super::two_handed_clock) have in common.
//!
//! The circle is the group's ranking, cut open at the hand that gives pages up: the page before it has the highest rank. A page that the
//! hand passes comes behind all others. The lowest bit of a rank is the reference bit, so that a use leaves the page in its place.
//!
//! A group of n pages is gone through twice at most for a victim, n log n steps. A page that is passed without being refused was used
//! since it was passed last, so that each use costs a step.

use super::Use;

/// How a manager goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hands {
    /// How many pages ahead of the hand that gives up another hand clears reference bits; 0: the first clears them as it passes.
    pub(super) spread: u32,
}

/// The reference bit.
const USED: u64 = 1;
const LATEST: u64 = u64::MAX >> 1;

/// The rank of a page that comes behind all others, this being the number of times that any did.
pub(super) fn behind(stamp: u64) -> u64 {
    (LATEST - stamp) << 1
}

/// Which of those times it was.
pub(super) fn stamp(rank: u64) -> u64 {
    LATEST - (rank >> 1)
}

pub(super) fn is_used(rank: u64) -> bool {
    rank & USED != 0
}

pub(super) fn clear(rank: u64) -> u64 {
    rank & !USED
}

/// Whether a page has been passed by the hand that is at `front`.
pub(super) fn is_passed(rank: u64, front: u64) -> bool {
    clear(rank) >= clear(front)
}

/// A page that is used stays where it is, with its bit set; one that has come is behind all others, with its bit clear.
pub(super) fn rank(used: &Use) -> u64 {
    used.before.map_or_else(|| behind(used.stamp), |rank| rank | USED)
}
