//! How long requests are, before and after a policy: the distributions of DULO's figures 4 and 5 (TOS 2007).
//!
//! Before, a request is the trace's own. After a policy its misses are left, and those of one request that are adjacent are one
//! request of the device, as `device` has it. DULO's *sequences* are what a disk sees of these: references to adjacent pages
//! that follow each other, whichever request they are of.

use super::replays::Replay;
use crate::input::trace::Trace;
use crate::replay::Cursor;
use crate::walk::AHEAD;
use forebay_basis::Place;
use serde::Serialize;
use std::collections::BTreeMap;

/// Lengths of requests and sequences.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lengths {
    /// The policy, as the user named it; none for the trace itself.
    pub policy: Option<String>,
    /// The cache's size; none for the trace itself.
    pub pages: Option<u32>,
    /// Requests by length.
    pub requests: Vec<LengthPoint>,
    /// Sequences by length.
    pub sequences: Vec<LengthPoint>,
}

/// Those of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LengthPoint {
    /// This many pages long
    pub length: u64,
    /// are this many,
    pub count: u64,
    /// and this percentage is no longer.
    pub percent: f64,
}

/// How many there are, and their mean length.
pub fn count_and_mean(points: &[LengthPoint]) -> (u64, f64) {
    let count: u64 = points.iter().map(|point| point.count).sum();
    let pages: u64 = points.iter().map(|point| point.count * point.length).sum();
    (count, if count == 0 { 0.0 } else { pages as f64 / count as f64 })
}

/// The percentage of those that are no longer than a bound.
pub fn no_longer(points: &[LengthPoint], bound: u64) -> f64 {
    let shorter = points.partition_point(|point| point.length <= bound);
    shorter.checked_sub(1).map_or(0.0, |last| points[last].percent)
}

impl Lengths {
    /// Those of the trace.
    pub(super) fn before(trace: &Trace) -> Self {
        Self::of(trace, None, 0..trace.len())
    }

    /// Those of a policy's misses.
    pub(super) fn after(trace: &Trace, replay: &Replay) -> Self {
        Self::of(trace, Some(replay), replay.missed.iter().map(|&time| time as usize))
    }

    fn of(trace: &Trace, replay: Option<&Replay>, times: impl Iterator<Item = usize> + Clone) -> Self {
        let (mut requests, mut sequences) = (Open::default(), Open::default());
        let mut cursor = Cursor::default();
        // The time of the reference before, and what is adjacent to it.
        let mut before: Option<(usize, Place)> = None;
        let mut ahead = times.clone().skip(AHEAD);
        for time in times {
            if let Some(soon) = ahead.next() {
                trace.places.prefetch(trace.references[soon]);
            }
            let place = trace.places.of(trace.references[time]);
            let continued = before.filter(|&(_, next)| next == place);
            sequences.add(continued.is_some());
            // Where a request begins is looked up for adjacent ones alone: of random misses there are few.
            requests.add(continued.is_some_and(|(last, _)| {
                cursor.advance(&trace.requests, last);
                !cursor.advance(&trace.requests, time)
            }));
            before = place.block.checked_add(1).map(|block| (time, Place { block, ..place }));
        }
        Self {
            policy: replay.map(|replay| replay.policy.clone()),
            pages: replay.map(|replay| replay.pages),
            requests: requests.points(),
            sequences: sequences.points(),
        }
    }
}

/// Lengths below this are counted in an array: most are, and a tree takes longer than all else that is done for a reference.
const SHORT: usize = 256;

/// Counts by length, and the one that may grow.
struct Open {
    length: u64,
    short: [u64; SHORT],
    long: BTreeMap<u64, u64>,
}

impl Default for Open {
    fn default() -> Self {
        Self { length: 0, short: [0; SHORT], long: BTreeMap::new() }
    }
}

impl Open {
    fn add(&mut self, continued: bool) {
        if !continued {
            self.close();
        }
        self.length += 1;
    }

    /// Counts it; one of length 0 is none yet, and left out of the points.
    fn close(&mut self) {
        let length = std::mem::take(&mut self.length);
        match self.short.get_mut(length as usize) {
            Some(count) => *count += 1,
            None => *self.long.entry(length).or_default() += 1,
        }
    }

    fn points(mut self) -> Vec<LengthPoint> {
        self.close();
        let short = (0..).zip(self.short).skip(1).filter(|&(_, count)| count > 0);
        let counts = || short.clone().chain(self.long.iter().map(|(&length, &count)| (length, count)));
        let all: u64 = counts().map(|(_, count)| count).sum();
        let mut up_to = 0;
        let point = |(length, count)| {
            up_to += count;
            LengthPoint { length, count, percent: 100.0 * up_to as f64 / all as f64 }
        };
        counts().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::trace;
    use forebay_policy::Spec;

    fn counts(points: &[LengthPoint]) -> Vec<(u64, u64)> {
        points.iter().map(|point| (point.length, point.count)).collect()
    }

    #[test]
    fn hits_cut_requests_and_adjacent_requests_make_sequences() {
        // Blocks 10 to 12, then 13 and 14, then 12 to 15, of which 12 to 14 hit with three pages, then 10 to 12.
        let trace = trace("10 3 0 0\n13 2 0 1\n12 4 0 2\n10 3 0 3\n");
        let before = Lengths::before(&trace);
        assert_eq!(counts(&before.requests), [(2, 1), (3, 2), (4, 1)]);
        assert_eq!(counts(&before.sequences), [(3, 1), (4, 1), (5, 1)]);
        assert_eq!(before.requests.iter().map(|point| point.percent).collect::<Vec<_>>(), [25.0, 75.0, 100.0]);
        let after = Lengths::after(&trace, &Replay::run(&trace, &Spec::parse("lru").unwrap(), 3, None, &|_| {}));
        assert_eq!((after.policy.as_deref(), after.pages), (Some("lru"), Some(3)));
        assert_eq!(counts(&after.requests), [(1, 1), (2, 1), (3, 2)]);
        // What is left of the third request, block 15, follows block 14 of the second.
        assert_eq!(counts(&after.sequences), [(3, 1), (6, 1)]);
    }

    #[test]
    fn long_requests_come_after_the_short_ones() {
        let before =
            Lengths::before(&trace("0 255 0 0\n300 256 0 1\n1000 1 0 2\n2000 999 0 3\n3000 257 0 4\n4000 999 0 5\n"));
        assert_eq!(counts(&before.requests), [(1, 1), (255, 1), (256, 1), (257, 1), (999, 2)]);
        assert_eq!(before.requests.last().unwrap().percent, 100.0);
    }

    #[test]
    fn a_request_that_is_hit_in_its_middle_is_two() {
        let trace = trace("11 1 0 0\n10 3 0 1\n");
        let after = Lengths::after(&trace, &Replay::run(&trace, &Spec::parse("lru").unwrap(), 3, None, &|_| {}));
        assert_eq!(counts(&after.requests), [(1, 3)]);
    }
}
