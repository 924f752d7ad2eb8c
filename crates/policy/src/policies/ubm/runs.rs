//! The table of section 3.1: runs of consecutive blocks that were sequential or looping, each with its object, first and last block and period.
//!
//! ```text
//! object 7   [ 0 … 19, period 80 ]   [ 24 … 90, sequential ]   [ 91 … 99, period 40 ]   …
//! ```
//!
//! Runs do not overlap: a block is in the run that was detected of it last. So a run whose part is read again is split, and what is left of it
//! keeps its period. The run that holds a block is found in O(log n) steps. When a block was referenced is not kept for each, but reckoned from
//! the run's first and last, taking it to have been read at an even pace.
//!
//! There is room for [`OF_A_FRAME`] runs to every page of the cache, and for [`LEAST_KNOWN`] at least. When it is full, the run leaves
//! that costs the least to lose for the time since it grew: a long one is as much worth as all its blocks.

use super::detector::Class;
use crate::parts::list::{List, Nodes};
use crate::parts::ordered::Ordered;
use forebay_basis::Place;

/// Runs that there is room for, for each frame.
const OF_A_FRAME: u32 = 2;
const LEAST_KNOWN: u32 = 1024;
/// Runs cost by the binary logarithm of their length, up to this.
const COSTS: usize = 16;

/// A reckoned time may be wrong by this number of references, and by this part of the time since the run began.
const NEAR: f32 = 32.0;
const NEAR_PART: f32 = 16.0;

/// No run.
pub(super) const NO_RUN: u32 = u32::MAX;

/// Consecutive blocks, referenced in their order in one pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// When the first block was referenced, and the last.
    first: u64,
    last: u64,
    /// The blocks after the first.
    more: u32,
    /// The mean of its blocks' periods; infinite where it was read once.
    pub(super) period: f32,
    pub(super) class: Class,
    /// Between which paces, in references a block, a line from its first block comes near the time of each block.
    slowest: f32,
    fastest: f32,
    /// Whether its first block began a pass.
    head: bool,
    /// UK2. The list that it is in.
    cost: u8,
}

/// What is known of a block that is referenced again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// References since the last one to the block.
    pub(super) gap: u64,
    pub(super) period: f32,
    pub(super) class: Class,
    /// Whether a pass began with this block.
    pub(super) head: bool,
}

impl Before {
    /// The exponential average of the periods, this one included.
    pub(super) fn averaged(&self) -> f32 {
        if self.period.is_finite() { (self.period + self.gap as f32) / 2.0 } else { self.gap as f32 }
    }
}

/// How a block is referenced now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    pub(super) period: f32,
    /// Whether it begins a pass.
    pub(super) head: bool,
}

impl Run {
    /// The pace, if the block `more` behind the first is referenced now, and how much less or more would be near enough.
    fn pace(&self, now: u64, more: u32) -> (f32, f32) {
        let (time, blocks) = (now.saturating_sub(self.first) as f32, more as f32);
        (time / blocks, (NEAR + time / NEAR_PART) / blocks)
    }
}

#[derive(Debug)]
pub(super) struct Runs {
    /// UK1. The first block of each run; no two runs have a block in common.
    starts: Ordered,
    /// By their slots there.
    runs: Vec<Run>,
    /// UK2. A run is in one of these: it cost no less than 2^k blocks when it grew last, or lost a block. The one of which that was last is at the front.
    by_cost: [List; COSTS],
    links: Nodes<()>,
    /// UK3. There are no more.
    most: u32,
}

impl Runs {
    pub(super) fn new(capacity: u32) -> Self {
        let mut runs = Self {
            starts: Ordered::new(),
            runs: Vec::new(),
            by_cost: [List::new(); COSTS],
            links: Nodes::new(0),
            most: 0,
        };
        runs.reserve(capacity);
        runs
    }

    /// The cache may have this many pages.
    pub(super) fn reserve(&mut self, capacity: u32) {
        self.most = self.most.max(capacity.saturating_mul(OF_A_FRAME).saturating_add(LEAST_KNOWN));
        self.starts.reserve(self.most);
        self.runs.reserve_exact(self.most as usize - self.runs.len());
        self.links.reserve(self.most);
    }

    pub(super) fn bytes(&self) -> usize {
        self.starts.bytes() + self.runs.capacity() * size_of::<Run>() + self.links.bytes()
    }

    pub(super) fn len(&self) -> u32 {
        self.by_cost.iter().map(List::len).sum()
    }

    /// First block, last block and kind of each run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, u64, &Run)> {
        let slots = self.by_cost.iter().flat_map(|list| list.front_to_back(&self.links));
        slots.map(|index| (self.starts.key(index), self.end(index), &self.runs[index as usize]))
    }

    /// The run that holds a place; found at once where that is the run `near`, or the next one.
    #[inline]
    pub(super) fn holder(&self, place: Place, near: u32) -> Option<u32> {
        self.starts
            .at_or_before(place, near)
            .filter(|&index| self.starts.key(index).object == place.object && place.block <= self.end(index))
    }

    pub(super) fn get(&self, index: u32) -> &Run {
        &self.runs[index as usize]
    }

    pub(super) fn start(&self, index: u32) -> Place {
        self.starts.key(index)
    }

    pub(super) fn end(&self, index: u32) -> u64 {
        self.starts.key(index).block + u64::from(self.runs[index as usize].more)
    }

    /// When the first block of a run was referenced.
    pub(super) fn begun(&self, index: u32) -> u64 {
        self.runs[index as usize].first
    }

    /// What is known of a place that a run holds.
    pub(super) fn before(&self, index: u32, place: Place, now: u64) -> Before {
        let Run { period, class, head, .. } = self.runs[index as usize];
        let gap = now - self.time_of(index, place.block);
        Before { gap, period, class, head: head && place == self.starts.key(index) }
    }

    fn time_of(&self, index: u32, block: u64) -> u64 {
        let Run { first, last, more, .. } = self.runs[index as usize];
        if more == 0 {
            return first;
        }
        let span = u128::from(last - first);
        first + (span * u128::from(block - self.starts.key(index).block) / u128::from(more)) as u64
    }

    /// A block is referenced at a time: it leaves the run that holds it, if one does, and is added to the run `growing`, if that ends before
    /// it and is of its kind. Else it is a run of its own. Says in which run it is.
    pub(super) fn put(&mut self, growing: u32, place: Place, kind: Kind, now: u64) -> u32 {
        if let Some(holder) = self.holder(place, growing) {
            self.take_out(holder, place, now);
        }
        if self.grows(growing, place, kind, now) {
            let run = &mut self.runs[growing as usize];
            (run.more, run.last) = (run.more + 1, now);
            let (pace, slack) = run.pace(now, run.more);
            (run.fastest, run.slowest) = (run.fastest.max(pace - slack), run.slowest.min(pace + slack));
            if kind.period.is_finite() {
                run.period += (kind.period - run.period) / (run.more + 1) as f32;
            }
            self.settle(growing);
            return growing;
        }
        self.make_room(now);
        let Kind { class, period, head } = kind;
        self.add(
            place,
            Run { first: now, last: now, more: 0, period, class, fastest: 0.0, slowest: f32::INFINITY, head, cost: 0 },
        )
    }

    /// Whether a pass adds the place to the run that it has added to: one that ends right before the place was last read by this pass.
    fn grows(&self, index: u32, place: Place, Kind { class, period, .. }: Kind, now: u64) -> bool {
        if index == NO_RUN || !self.links.is_linked(index) {
            return false;
        }
        let (run, start) = (&self.runs[index as usize], self.starts.key(index));
        let (pace, _) = run.pace(now, run.more.saturating_add(1));
        start.object == place.object
            && self.end(index).checked_add(1) == Some(place.block)
            && run.more < u32::MAX - 1
            && (run.fastest..=run.slowest).contains(&pace)
            && (run.class, run.period.is_finite()) == (class, period.is_finite())
    }

    /// Takes a block out of the run that holds it, splitting that if need be.
    fn take_out(&mut self, index: u32, place: Place, now: u64) {
        let (run, start) = (self.runs[index as usize], self.starts.key(index));
        let after = self.end(index) - place.block;
        if run.more == 0 {
            self.drop_run(index);
            return;
        }
        let time = |block| self.time_of(index, block);
        let left = (place != start).then(|| Run {
            more: (place.block - start.block) as u32 - 1,
            last: time(place.block - 1),
            ..run
        });
        if after == 0 {
            self.runs[index as usize] = left.expect("the run has other blocks");
            self.settle(index);
            return;
        }
        // What is behind the block keeps the run's slot: its own pass may be adding to it.
        let next = Place { block: place.block + 1, ..place };
        let right = Run { more: after as u32 - 1, first: time(next.block), head: false, ..run };
        self.runs[index as usize] = right;
        self.starts.move_to(index, next);
        self.settle(index);
        if let Some(left) = left {
            self.make_room(now);
            self.add(start, left);
        }
    }

    fn add(&mut self, start: Place, run: Run) -> u32 {
        let index = self.starts.insert(start);
        match self.runs.get_mut(index as usize) {
            Some(unused) => *unused = run,
            None => self.runs.push(run),
        }
        let cost = cost(run.more);
        self.runs[index as usize].cost = cost;
        self.by_cost[usize::from(cost)].push_front(&mut self.links, index);
        index
    }

    /// A run has grown or lost a block.
    fn settle(&mut self, index: u32) {
        let run = &mut self.runs[index as usize];
        let was = std::mem::replace(&mut run.cost, cost(run.more));
        let is = usize::from(run.cost);
        if usize::from(was) == is {
            self.by_cost[is].move_to_front(&mut self.links, index);
        } else {
            self.by_cost[usize::from(was)].remove(&mut self.links, index);
            self.by_cost[is].push_front(&mut self.links, index);
        }
    }

    /// Makes room for one more run.
    fn make_room(&mut self, now: u64) {
        if self.len() < self.most {
            return;
        }
        let oldest = self.by_cost.iter().zip(0..).filter_map(|(list, cost)| Some((list.back()?, cost)));
        let waited = |index: u32, cost: u32| {
            u128::from(now.saturating_sub(self.runs[index as usize].last)) << (COSTS as u32 - cost)
        };
        let (cheapest, _) = oldest.max_by_key(|&(index, cost)| waited(index, cost)).expect("the table is full");
        self.drop_run(cheapest);
    }

    fn drop_run(&mut self, index: u32) {
        self.starts.remove(index);
        self.by_cost[usize::from(self.runs[index as usize].cost)].remove(&mut self.links, index);
    }

    pub(super) fn check(&self) {
        let (starts, _) = self.starts.check();
        assert_eq!(starts, self.len()); // UK1
        assert!(self.len() <= self.most); // UK3
        let mut sorted: Vec<(Place, u64)> = self.iter().map(|(start, end, _)| (start, end)).collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            assert!(pair[0].0.object < pair[1].0.object || pair[0].1 < pair[1].0.block); // UK1
        }
        for (cost, list) in self.by_cost.iter().enumerate() {
            list.check(&self.links);
            assert!(list.front_to_back(&self.links).all(|index| usize::from(self.runs[index as usize].cost) == cost)); // UK2
        }
    }
}

fn cost(more: u32) -> u8 {
    (more + 1).ilog2().min(COSTS as u32 - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn place(block: u64) -> Place {
        Place { object: 7, block }
    }

    fn kind(class: Class, period: f32) -> Kind {
        Kind { class, period, head: false }
    }

    #[test]
    fn a_block_taken_out_splits_its_run_and_keeps_the_times() {
        let mut runs = Runs::new(10);
        let mut last = NO_RUN;
        for number in 0..10 {
            // Two references for each block, beyond what 32 bits hold.
            last = runs.put(last, place(100 + number), kind(Class::Looping, 30.0), (1 << 32) + 50 + 2 * number);
        }
        let now = (1 << 32) + 90;
        let before = runs.before(runs.holder(place(104), NO_RUN).unwrap(), place(104), now);
        assert_eq!((before.gap, before.period, before.class), (32, 30.0, Class::Looping));
        runs.put(NO_RUN, place(104), kind(Class::Other, 30.0), now);
        let parts = [103, 104, 105].map(|block| runs.holder(place(block), NO_RUN).unwrap());
        assert_eq!(parts.map(|run| (runs.start(run).block, runs.end(run))), [(100, 103), (104, 104), (105, 109)]);
        let gaps = [100, 103, 105, 109]
            .map(|block| runs.before(runs.holder(place(block), NO_RUN).unwrap(), place(block), now).gap);
        assert_eq!(gaps, [40, 34, 30, 22]);
        runs.check();
    }

    #[test]
    fn a_long_run_outlives_short_ones_that_are_newer() {
        let mut runs = Runs::new(0);
        runs.most = 64;
        let mut last = NO_RUN;
        for now in 0..64 {
            last = runs.put(last, place(now), kind(Class::Sequential, f32::INFINITY), now);
        }
        for number in 0..1_000 {
            runs.put(NO_RUN, place(1_000 + 2 * number), kind(Class::Sequential, f32::INFINITY), 64 + number);
        }
        assert!(runs.holder(place(30), NO_RUN).is_some() && runs.holder(place(1_000), NO_RUN).is_none());
        assert!(runs.holder(place(2_998), NO_RUN).is_some());
        // It is worth no more than its 64 blocks.
        for number in 0..10_000 {
            runs.put(NO_RUN, place(5_000 + 2 * number), kind(Class::Sequential, f32::INFINITY), 1_064 + number);
        }
        assert!(runs.holder(place(30), NO_RUN).is_none());
        runs.check();
    }

    proptest! {
        #[test]
        fn every_block_is_in_the_run_that_it_was_put_into_last(steps in prop::collection::vec((0u32..2, 0u64..120, 1u64..9), 1..120)) {
            let mut runs = Runs::new(240);
            let mut model = BTreeMap::new();
            for (pass, &(object, start, length)) in steps.iter().enumerate() {
                let mut last = NO_RUN;
                for number in start..start + length {
                    let place = Place { object, block: number };
                    prop_assert_eq!(runs.holder(place, NO_RUN).is_some(), model.insert(place, pass).is_some());
                    last = runs.put(last, place, kind(Class::Looping, pass as f32 + 1.0), pass as u64);
                }
                runs.check();
            }
            for (place, pass) in model {
                prop_assert_eq!(runs.before(runs.holder(place, NO_RUN).unwrap(), place, 120).period, pass as f32 + 1.0);
            }
        }
    }
}
