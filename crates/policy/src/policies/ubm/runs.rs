//! The table of runs: for each, its object, first and last block, when these were referenced, and its period.
//!
//! Runs never overlap: a block is in the run of its last reference. So a run whose part is read again is split, and what is
//! left of it keeps its period. The table is a treap by (object, first block): the run that holds a block is found in O(log n) steps.
//! The runs are also in a list by their last growth: when the table is full, the one grown least recently is dropped.

use super::detector::Class;
use crate::parts::list::{List, Nodes};
use crate::policy::Place;

const NONE: u32 = u32::MAX;
/// One reference adds two runs at most: the rest of a run that it splits, and its own.
const ADDED: u32 = 2;

/// Consecutive blocks, referenced in their order in one pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) start: Place,
    /// The blocks after the first.
    pub(super) more: u32,
    /// The pass that referenced it.
    pub(super) pass: u64,
    /// When the first block was referenced, and the last.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Infinite for all but looping references.
    pub(super) period: f32,
    pub(super) class: Class,
    priority: u32,
    left: u32,
    right: u32,
}

impl Run {
    pub(super) fn end(&self) -> u64 {
        self.start.block + u64::from(self.more)
    }

    /// Whether it is long enough to be a run.
    pub(super) fn detected(&self) -> bool {
        self.class != Class::Other || self.period.is_finite()
    }

    /// When `block` was referenced, taking the run to have been read at an even pace.
    fn time_of(&self, block: u64) -> u64 {
        if self.more == 0 {
            return self.first;
        }
        let span = u128::from(self.last - self.first);
        self.first + (span * u128::from(block - self.start.block) / u128::from(self.more)) as u64
    }

    fn holds(&self, place: Place) -> bool {
        self.start.object == place.object && self.start.block <= place.block && place.block <= self.end()
    }
}

/// A block that is referenced now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) place: Place,
    pub(super) pass: u64,
    pub(super) class: Class,
    pub(super) period: f32,
    pub(super) now: u64,
}

/// The runs, about as many at most as there are page numbers: enough for a run of its own for each known page.
#[derive(Debug)]
pub(super) struct Runs {
    /// UR1. A treap: starts rise from left to right, priorities fall from the root down; runs do not overlap.
    runs: Vec<Run>,
    root: u32,
    /// UR2. In `growth` if and only if in the treap, the run grown last at the front.
    growth: List,
    links: Nodes<()>,
    /// Slots out of use, chained by `right`.
    unused: u32,
    most: u32,
    seed: u32,
}

impl Runs {
    pub(super) fn new(pages: u32) -> Self {
        let mut runs = Self {
            runs: Vec::new(),
            root: NONE,
            growth: List::new(),
            links: Nodes::new(0),
            unused: NONE,
            most: 0,
            seed: 1,
        };
        runs.reserve(pages);
        runs
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        self.most = self.most.max(pages + ADDED);
        self.links.reserve(self.most);
        self.runs.reserve(self.most as usize - self.runs.len());
    }

    pub(super) fn len(&self) -> u32 {
        self.growth.len()
    }

    /// All runs, the one grown last first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.growth.front_to_back(&self.links).map(|index| &self.runs[index as usize])
    }

    /// The run that holds a place.
    pub(super) fn find(&self, place: Place) -> Option<&Run> {
        self.holder(place).map(|index| &self.runs[index as usize])
    }

    /// The number of the run that holds a place; the `guesses` are looked at first.
    #[inline]
    pub(super) fn holder_by<const N: usize>(&self, guesses: [Option<u32>; N], place: Place) -> Option<u32> {
        let right = |&index: &u32| {
            self.runs.get(index as usize).is_some_and(|run| run.holds(place)) && self.links.is_linked(index)
        };
        guesses.into_iter().flatten().find(right).or_else(|| self.holder(place))
    }

    /// Whether a pass put the blocks of a run there.
    pub(super) fn is_of(&self, index: u32, pass: u64) -> bool {
        self.runs[index as usize].pass == pass
    }

    /// A block is referenced: it leaves the run that holds it, if any does, and is added to the run before it, if that is of
    /// the same pass and kind. Else it is a run of its own. Says in which run it is.
    pub(super) fn put(&mut self, holder: Option<u32>, growing: Option<u32>, block: Block) -> u32 {
        let Block { place, pass, class, period, now, .. } = block;
        if let Some(index) = growing {
            let run = &mut self.runs[index as usize];
            debug_assert!(run.pass == pass && run.start.object == place.object && run.end() + 1 == place.block);
            // What the pass referenced before it was long enough to be a run is of the run's kind too.
            let undetected = run.class == Class::Other && run.period.is_infinite();
            if run.more < u32::MAX && (undetected || run.class == class && run.period == period) {
                (run.more, run.last, run.class, run.period) = (run.more + 1, now, class, period);
                if let Some(holder) = holder {
                    self.shrink(holder, place);
                }
                self.growth.move_to_front(&mut self.links, index);
                return index;
            }
        }
        let run = Run {
            start: place,
            more: 0,
            pass,
            first: now,
            last: now,
            period,
            class,
            priority: 0,
            left: NONE,
            right: NONE,
        };
        match holder {
            Some(index) if self.runs[index as usize].more == 0 => {
                // The same block again: its place in the treap stays.
                let Run { priority, left, right, .. } = self.runs[index as usize];
                self.runs[index as usize] = Run { priority, left, right, ..run };
                self.growth.move_to_front(&mut self.links, index);
                index
            }
            _ => {
                if let Some(holder) = holder {
                    self.shrink(holder, place);
                }
                self.add(run)
            }
        }
    }

    /// Takes a block out of the run that holds it, splitting that if need be.
    fn shrink(&mut self, index: u32, place: Place) {
        let run = self.runs[index as usize];
        let after = (run.end() - place.block) as u32;
        let next = Place { block: place.block.saturating_add(1), ..place };
        if run.more == 0 {
            self.drop_run(index);
        } else if place.block == run.start.block {
            // Its place in the treap is the same: no run lies between.
            self.runs[index as usize] = Run { start: next, more: after - 1, first: run.time_of(next.block), ..run };
        } else {
            let before = (place.block - run.start.block) as u32;
            let kept = &mut self.runs[index as usize];
            (kept.more, kept.last) = (before - 1, run.time_of(place.block - 1));
            if after > 0 {
                self.add(Run { start: next, more: after - 1, first: run.time_of(next.block), ..run });
            }
        }
    }

    /// Makes room for the runs that one reference may add.
    pub(super) fn make_room(&mut self) {
        while self.len() + ADDED > self.most {
            let oldest = self.growth.back().expect("the table is full");
            self.drop_run(oldest);
        }
    }

    fn key(&self, index: u32) -> Place {
        self.runs[index as usize].start
    }

    fn holder(&self, place: Place) -> Option<u32> {
        let (mut at, mut below) = (self.root, NONE);
        while at != NONE {
            let run = &self.runs[at as usize];
            if run.start <= place {
                (below, at) = (at, run.right);
            } else {
                at = run.left;
            }
        }
        let run = self.runs.get(below as usize)?;
        run.holds(place).then_some(below)
    }

    fn add(&mut self, run: Run) -> u32 {
        // Xorshift: any spread of priorities keeps the treap shallow.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        let run = Run { priority: self.seed, left: NONE, right: NONE, ..run };
        let index = if self.unused == NONE {
            self.runs.push(run);
            self.runs.len() as u32 - 1
        } else {
            let index = self.unused;
            self.unused = self.runs[index as usize].right;
            self.runs[index as usize] = run;
            index
        };
        self.growth.push_front(&mut self.links, index);
        // Down to where its priority belongs; what hangs there is split around its start.
        let mut parent = None;
        let mut at = self.root;
        while at != NONE && self.runs[at as usize].priority >= run.priority {
            let right = self.key(at) < run.start;
            parent = Some((at, right));
            at = if right { self.runs[at as usize].right } else { self.runs[at as usize].left };
        }
        let (mut into_left, mut into_right) = ((index, false), (index, true));
        self.hang(parent, index);
        while at != NONE {
            if self.key(at) < run.start {
                self.hang(Some(into_left), at);
                into_left = (at, true);
                at = self.runs[at as usize].right;
            } else {
                self.hang(Some(into_right), at);
                into_right = (at, false);
                at = self.runs[at as usize].left;
            }
        }
        self.hang(Some(into_left), NONE);
        self.hang(Some(into_right), NONE);
        index
    }

    fn drop_run(&mut self, index: u32) {
        let key = self.key(index);
        let mut parent = None;
        let mut at = self.root;
        while at != index {
            let right = self.key(at) < key;
            parent = Some((at, right));
            at = if right { self.runs[at as usize].right } else { self.runs[at as usize].left };
        }
        // Its two subtrees are joined in its place.
        let Run { mut left, mut right, .. } = self.runs[index as usize];
        while left != NONE && right != NONE {
            if self.runs[left as usize].priority >= self.runs[right as usize].priority {
                self.hang(parent, left);
                parent = Some((left, true));
                left = self.runs[left as usize].right;
            } else {
                self.hang(parent, right);
                parent = Some((right, false));
                right = self.runs[right as usize].left;
            }
        }
        self.hang(parent, if left == NONE { right } else { left });
        self.growth.remove(&mut self.links, index);
        self.runs[index as usize].right = self.unused;
        self.unused = index;
    }

    /// Hangs `child` below a run, on its right side or its left; without one, as the root.
    fn hang(&mut self, parent: Option<(u32, bool)>, child: u32) {
        match parent {
            None => self.root = child,
            Some((parent, true)) => self.runs[parent as usize].right = child,
            Some((parent, false)) => self.runs[parent as usize].left = child,
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        self.growth.check(&self.links);
        let mut sorted: Vec<&Run> = self.iter().collect();
        sorted.sort_by_key(|run| run.start);
        for pair in sorted.windows(2) {
            assert!(pair[0].start.object < pair[1].start.object || pair[0].end() < pair[1].start.block); // UR1
        }
        for index in self.growth.front_to_back(&self.links) {
            let run = &self.runs[index as usize];
            assert_eq!(self.holder(run.start), Some(index)); // UR1, UR2
            for child in [run.left, run.right].into_iter().filter(|&child| child != NONE) {
                assert!(self.runs[child as usize].priority <= run.priority); // UR1
                assert!(self.links.is_linked(child)); // UR2
            }
        }
        assert!(self.len() <= self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const INFINITE: f32 = f32::INFINITY;

    fn place(block: u64) -> Place {
        Place { object: 7, block }
    }

    /// A reference to a block as the next of a pass, and the run that had it.
    fn refer(runs: &mut Runs, last: Option<u32>, block: Block) -> (u32, Option<Run>) {
        runs.make_room();
        let holder = runs.holder(block.place);
        let before = holder.map(|holder| runs.runs[holder as usize]);
        (runs.put(holder, last, block), before)
    }

    fn block(block: u64, pass: u64, class: Class, now: u64) -> Block {
        Block { place: place(block), pass, class, period: INFINITE, now }
    }

    #[test]
    fn a_block_taken_out_splits_its_run_and_tells_its_time() {
        let mut runs = Runs::new(10);
        let mut last = None;
        for number in 0..10 {
            // Two references for each block, beyond what 32 bits hold.
            let of = block(100 + number, 1, Class::Looping, (1 << 32) + 50 + 2 * number);
            last = Some(refer(&mut runs, last, Block { period: 30.0, ..of }).0);
        }
        let now = (1 << 32) + 90;
        let before = refer(&mut runs, None, block(104, 2, Class::Other, now)).1.unwrap();
        assert_eq!((before.time_of(104) - (1 << 32), before.period, before.class), (58, 30.0, Class::Looping));
        let parts = [103, 104, 105].map(|block| runs.find(place(block)).unwrap());
        assert_eq!(parts.map(|run| (run.start.block, run.end())), [(100, 103), (104, 104), (105, 109)]);
        let times = parts.map(|run| (run.first - (1 << 32), run.last - (1 << 32)));
        assert_eq!(times, [(50, 56), (90, 90), (60, 68)]);
        runs.check();
    }

    #[test]
    fn the_run_grown_least_recently_makes_room() {
        let mut runs = Runs::new(2);
        let mut last = [None; 5];
        for (time, number) in [10, 20, 11, 30, 40].into_iter().enumerate() {
            let last = &mut last[number as usize / 10];
            *last = Some(refer(&mut runs, *last, block(number, number / 10, Class::Other, time as u64)).0);
        }
        let known = [11, 20, 30, 40].map(|block| runs.find(place(block)).is_some());
        assert_eq!(known, [true, false, true, true]);
        runs.check();
    }

    proptest! {
        #[test]
        fn every_block_is_in_the_run_that_it_was_put_into_last(steps in prop::collection::vec((0u32..2, 0u64..120, 1u64..9), 1..120)) {
            let mut runs = Runs::new(240);
            let mut model = BTreeMap::new();
            for (pass, &(object, start, length)) in steps.iter().enumerate() {
                let mut last = None;
                for number in start..start + length {
                    let place = Place { object, block: number };
                    let of = Block { place, ..block(number, pass as u64, Class::Sequential, 0) };
                    let (index, before) = refer(&mut runs, last, of);
                    last = Some(index);
                    prop_assert_eq!(before.is_some(), model.insert(place, pass as u64).is_some());
                }
            }
            runs.check();
            for (place, pass) in model {
                prop_assert_eq!(runs.find(place).unwrap().pass, pass);
                let all = 0..runs.len();
                prop_assert!(all.clone().all(|guess| runs.holder_by([Some(guess)], place) == runs.holder(place)));
            }
        }
    }
}
