//! The open passes: found by where they are, in logarithmic time however many are open, and closed by what they cost.
//!
//! ```text
//! …   ^ pass      ^ pass   reference …      the last pass before the reference, if it is no more than `gap` blocks behind
//! ```
//!
//! There is room for a pass to every [`FRAMES`] pages of the cache, and for [`LEAST_OPEN`] at least. When it is full, the one is
//! closed whose loss costs the least for the time that it has waited: a pass of one block can be found again at its next, a run takes as
//! many blocks again as make one. So references all over the place do not close streams.

use super::detector::Class;
use crate::parts::list::{List, Nodes};
use crate::parts::ordered::Ordered;
use forebay_basis::Place;

/// Frames for each pass that there is room for.
const FRAMES: u32 = 8;
const LEAST_OPEN: u32 = 64;
/// How often a pass of one block is looked for at random.
const TRIES: u32 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// How its last block was referenced.
    pub(super) class: Class,
    /// How many blocks it has referenced, counted up to the least of a sequence.
    pub(super) length: u32,
    /// Infinite where its blocks were not known before.
    pub(super) period: f32,
    /// The run that it adds to.
    pub(super) run: u32,
    /// Its first block, and when it was referenced.
    pub(super) first: u64,
    pub(super) begun: u64,
}

/// What a pass costs, by its length: one block; fewer than make a run; a run.
const COSTS: usize = 3;

/// Where a reference is among the open passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The pass that it belongs to, and whether that is at this very block already.
    pub(super) pass: Option<u32>,
    pub(super) repeated: bool,
    /// Another pass that is at this block.
    resting: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Passes {
    /// UP1. The blocks where the open passes are. No two of them are at one block.
    places: Ordered,
    /// By their slots there.
    passes: Vec<Pass>,
    /// UP2. An open pass is in the list of its cost, the one continued last at the front; the value says when that was.
    by_cost: [List; COSTS],
    links: Nodes<u64>,
    gap: u64,
    /// The least length of a run.
    least: u32,
    /// UP3. No more are open.
    most: u32,
    /// References so far.
    continued: u64,
    /// The pass that the last one was of.
    last: u32,
    /// Random numbers: xorshift.
    random: u32,
}

impl Passes {
    pub(super) fn new(capacity: u32, least: u32, gap: u64) -> Self {
        let mut passes = Self {
            places: Ordered::new(),
            passes: Vec::new(),
            by_cost: [List::new(); COSTS],
            links: Nodes::new(0),
            gap,
            least,
            most: 0,
            continued: 0,
            last: 0,
            random: 1,
        };
        passes.reserve(capacity);
        passes
    }

    /// The cache may have this many pages.
    pub(super) fn reserve(&mut self, capacity: u32) {
        self.most = self.most.max(LEAST_OPEN + capacity / FRAMES);
        self.places.reserve(self.most);
        self.passes.reserve_exact(self.most as usize - self.passes.len());
        self.links.reserve(self.most);
    }

    /// Passes have numbers below this.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    pub(super) fn len(&self) -> u32 {
        self.by_cost.iter().map(List::len).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.places.bytes() + self.passes.capacity() * size_of::<Pass>() + self.links.bytes()
    }

    pub(super) fn get(&mut self, index: u32) -> &mut Pass {
        &mut self.passes[index as usize]
    }

    /// The block that a pass referenced last.
    pub(super) fn place(&self, index: u32) -> Place {
        self.places.key(index)
    }

    /// The open pass that a reference belongs to: the one that it is least far ahead of. One that has just been at that very block comes
    /// after that: it may have ended there, as another over the same blocks will.
    pub(super) fn find(&self, place: Place) -> Found {
        let nearest = self.places.at_or_before(place, self.last);
        let resting = nearest.filter(|&index| self.place(index) == place);
        let behind = if resting.is_some() { self.places.before(place) } else { nearest };
        let reaches = |&index: &u32| {
            let last = self.place(index);
            last.object == place.object && place.block - last.block <= self.gap
        };
        let behind = behind.filter(reaches);
        Found { pass: behind.or(resting), repeated: behind.is_none() && resting.is_some(), resting }
    }

    /// Opens a pass at a block where none is.
    pub(super) fn open(&mut self, pass: Pass, place: Place) -> u32 {
        if self.len() == self.most {
            let cheapest = self.cheapest();
            self.close(cheapest);
        }
        let index = self.places.insert(place);
        match self.passes.get_mut(index as usize) {
            Some(unused) => *unused = pass,
            None => self.passes.push(pass),
        }
        self.by_cost[self.cost(pass.length)].push_front(&mut self.links, index);
        self.links[index] = self.continued;
        index
    }

    /// A pass goes on to the block where it was found for. Another that rests there ends.
    pub(super) fn advance(&mut self, found: &Found, index: u32, to: Place, was: u32) {
        if let Some(resting) = found.resting
            && resting != index
        {
            self.close(resting);
        }
        self.places.move_to(index, to);
        let (was, is) = (self.cost(was), self.cost(self.passes[index as usize].length));
        if was == is {
            self.by_cost[is].move_to_front(&mut self.links, index);
        } else {
            self.by_cost[was].remove(&mut self.links, index);
            self.by_cost[is].push_front(&mut self.links, index);
        }
        self.continued += 1;
        self.last = index;
        self.links[index] = self.continued;
    }

    fn cost(&self, length: u32) -> usize {
        match length {
            _ if length >= self.least => 2,
            0..=1 => 0,
            _ => 1,
        }
    }

    /// The pass that has waited longest for its cost, of those of each cost. Of those of one block it is any: if there are more streams than
    /// passes, the oldest would always be the next to go on.
    fn cheapest(&mut self) -> u32 {
        let least = u64::from(self.least);
        let costs = [1, least.div_ceil(2).max(2), 2 * least.max(2)];
        let oldest = self.by_cost.iter().zip(costs).filter_map(|(list, cost)| Some((list.back()?, cost)));
        let waited = |index: u32, cost: u64| (self.continued - self.links[index]) / cost;
        let (cheapest, cost) = oldest.max_by_key(|&(index, cost)| waited(index, cost)).expect("passes are open");
        for _ in 0..TRIES * u32::from(cost == 1) {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            let index = ((u64::from(self.random) * u64::from(self.most)) >> 32) as u32;
            if self.cost(self.passes[index as usize].length) == 0 {
                return index;
            }
        }
        cheapest
    }

    fn close(&mut self, index: u32) {
        self.places.remove(index);
        self.by_cost[self.cost(self.passes[index as usize].length)].remove(&mut self.links, index);
    }

    pub(super) fn check(&self) {
        let (places, _) = self.places.check();
        assert_eq!(places, self.len()); // UP1
        assert!(self.len() <= self.most); // UP3
        for (cost, list) in self.by_cost.iter().enumerate() {
            list.check(&self.links);
            for index in list.front_to_back(&self.links) {
                assert_eq!(self.cost(self.passes[index as usize].length), cost); // UP2
                assert_eq!(self.places.at_or_before(self.place(index), self.last), Some(index)); // UP1
            }
        }
    }
}
