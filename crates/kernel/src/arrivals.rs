//! Pages that have come into the cache, until it is known whether a program asked for them or they were read ahead.
//!
//! Where functions of the kernel cannot be watched, a read is seen when its pages are there: the pages come first, and the read that they came for comes after
//! it has waited for the disk. The policy is to learn of the use first, as it is of a miss. So arrivals wait for the next use of their file by the process that
//! brought them. If none comes for a while, they were read ahead.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a use is waited for. A slow disk's request is over by then.
const PATIENCE: Duration = Duration::from_millis(200);
/// The most that wait: 128 KiB.
const MOST: usize = 4096;

/// A folio that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) object: u32,
    pub(crate) process: u32,
    pub(crate) first: u64,
    pub(crate) count: u32,
}

impl Arrival {
    /// Whether it has any of these pages.
    pub(crate) fn meets(&self, pages: &Range<u64>) -> bool {
        self.first < pages.end && pages.start < self.first + u64::from(self.count)
    }
}

/// Those that wait, the oldest first.
#[derive(Default)]
pub(crate) struct Arrivals {
    waiting: VecDeque<(Instant, Arrival)>,
}

impl Arrivals {
    /// A folio has come. Answers one that has waited too long among too many.
    pub(crate) fn add(&mut self, arrival: Arrival, now: Instant) -> Option<Arrival> {
        self.waiting.push_back((now, arrival));
        if self.waiting.len() > MOST { self.waiting.pop_front().map(|(_, arrival)| arrival) } else { None }
    }

    /// Those of a file that `are` so come to their end.
    pub(crate) fn take(&mut self, object: u32, are: impl Fn(&Arrival) -> bool, each: &mut dyn FnMut(Arrival)) {
        // Most often there are few, or none.
        if self.waiting.is_empty() {
            return;
        }
        self.waiting.retain(|&(_, arrival)| {
            let taken = arrival.object == object && are(&arrival);
            if taken {
                each(arrival);
            }
            !taken
        });
    }

    /// One that no use has come for.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Arrival> {
        let &(at, _) = self.waiting.front()?;
        if now.saturating_duration_since(at) < PATIENCE {
            return None;
        }
        self.waiting.pop_front().map(|(_, arrival)| arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(object: u32, process: u32, first: u64) -> Arrival {
        Arrival { object, process, first, count: 1 }
    }

    #[test]
    fn a_use_takes_what_its_process_has_brought_of_its_file_and_what_leaves_what_has_come_there() {
        let mut arrivals = Arrivals::default();
        let now = Instant::now();
        for (object, process) in [(1, 10), (1, 11), (2, 10)] {
            assert_eq!(arrivals.add(arrival(object, process, 5), now), None);
        }
        let mut taken = Vec::new();
        arrivals.take(1, |arrival| arrival.process == 10, &mut |arrival| taken.push(arrival));
        assert_eq!(taken, [arrival(1, 10, 5)]);
        assert_eq!(arrivals.due(now), None);
        assert_eq!(arrivals.due(now + PATIENCE), Some(arrival(1, 11, 5)));
        arrivals.take(2, |arrival| arrival.meets(&(6..9)), &mut |arrival| taken.push(arrival));
        arrivals.take(2, |arrival| arrival.meets(&(0..5)), &mut |arrival| taken.push(arrival));
        assert_eq!(taken.len(), 1, "others come and go");
        arrivals.take(2, |arrival| arrival.meets(&(5..6)), &mut |arrival| taken.push(arrival));
        assert_eq!(taken[1..], [arrival(2, 10, 5)]);
        assert_eq!(arrivals.due(now + PATIENCE), None);
    }

    #[test]
    fn of_too_many_the_oldest_waits_no_longer() {
        let mut arrivals = Arrivals::default();
        let now = Instant::now();
        let over: Vec<_> = (0..MOST as u64 + 2).filter_map(|page| arrivals.add(arrival(0, 0, page), now)).collect();
        assert_eq!(over, [arrival(0, 0, 0), arrival(0, 0, 1)]);
    }
}
