//! Pages that were to leave, and are looked at again later: most have left by then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long it takes until they are looked at for the first time, and at most.
const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// Ranges by the time at which they are due.
#[derive(Default)]
pub(crate) struct Later {
    ranges: BinaryHeap<Reverse<Due>>,
}

/// The earliest is the least.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    object: u32,
    start: u64,
    end: u64,
    tries: u8,
}

impl Later {
    /// Pages of a file were to leave, for this many times before.
    pub(crate) fn add(&mut self, object: u32, pages: Range<u64>, tries: u8, now: Instant) {
        let pause = LONGEST.min(FIRST * 4u32.saturating_pow(tries.into()));
        let Range { start, end } = pages;
        self.ranges.push(Reverse(Due { at: now + pause, object, start, end, tries }));
    }

    /// What is due: the file, its pages, and how often they were to leave before.
    pub(crate) fn due(&mut self, now: Instant) -> Option<(u32, Range<u64>, u8)> {
        self.ranges.peek().filter(|due| due.0.at <= now)?;
        let Reverse(Due { object, start, end, tries, .. }) = self.ranges.pop()?;
        Some((object, start..end, tries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_more_often_is_due_later() {
        let mut later = Later::default();
        let now = Instant::now();
        later.add(1, 0..4, 2, now);
        later.add(2, 8..9, 0, now);
        later.add(3, 8..9, 200, now);
        assert_eq!(later.due(now), None);
        assert_eq!(later.due(now + FIRST), Some((2, 8..9, 0)));
        assert_eq!(later.due(now + FIRST), None);
        assert_eq!(later.due(now + FIRST * 16), Some((1, 0..4, 2)));
        assert_eq!(later.due(now + LONGEST), Some((3, 8..9, 200)));
        assert_eq!(later.due(now + 2 * LONGEST), None);
    }
}
