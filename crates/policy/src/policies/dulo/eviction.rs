//! The eviction section: sequences in GreedyDual-Size order (the paper's section 3.4).
//!
//! A sequence enters with `H = L + 1 / size`; with `cost=device`, `L` plus what the device takes for each of its blocks. The inflation `L` never falls. So those
//! of one size enter in rising order of `H`, and a list for each size is sorted by itself:
//!
//! ```text
//!            top                                     bottom
//! size 1     s(H 1.9)  ...  s(H 1.5)  s(H 1.5)       <-- the bottom of the section is the lists' back with the least H
//! size 2     s(H 1.4)  ...  s(H 1.1)
//! size 128   s(H 0.9)
//! ```
//!
//! This is the order that merging the sorted bank into one sorted list gives, without walking over that list. Where two
//! sequences have the same `H`, the longer one is nearer to the bottom, and of one size the one that entered before.
//!
//! A section above its limit *drains*: its blocks leave in the order in which they entered, whatever their sequences.

use super::cost::Prices;
use super::stack::{At, Block};
use crate::parts::list::{List, Nodes};

/// `L` is set back when it gets there, so that `1 / size` does not vanish beside it. It grows by one an eviction at most.
pub(super) const MOST_INFLATION: f64 = (1u64 << 32) as f64;

#[derive(Debug)]
pub(super) struct Eviction {
    /// DE1. By size: the blocks of the sequences of that size, in the order in which they entered, `H` rising towards the front.
    lists: Vec<List>,
    /// DE2. The rank of each list's back, or infinity.
    least: Vec<f64>,
    /// DE4. The size whose list holds the bottom: the least rank, and of equals the largest size.
    lowest: usize,
    prices: Prices,
    len: u32,
    /// How many blocks have ever entered.
    entered: u64,
    /// Whether the bottom is the block that entered first, instead of one with the least `H`.
    drains: bool,
    /// DE3. `L`: no sequence has a smaller `H`.
    inflation: f64,
}

impl Eviction {
    pub(super) fn new(longest: u16, prices: Prices) -> Self {
        let sizes = usize::from(longest) + 1;
        Self {
            lists: vec![List::new(); sizes],
            least: vec![f64::INFINITY; sizes],
            lowest: sizes - 1,
            prices,
            len: 0,
            entered: 0,
            drains: false,
            inflation: 0.0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[cfg(test)]
    pub(super) fn set_inflation(&mut self, inflation: f64) {
        self.inflation = inflation;
    }

    /// `L`.
    pub(super) fn inflation(&self) -> f64 {
        self.inflation
    }

    /// The blocks by the sequences, one that has lost some of its blocks counting for what is left of it.
    pub(super) fn mean_sequence(&self) -> f64 {
        let sequences: f64 =
            (1..).zip(&self.lists[1..]).map(|(size, list)| f64::from(list.len()) / f64::from(size)).sum();
        if self.len == 0 { 0.0 } else { f64::from(self.len) / sequences }
    }

    /// A block enters, of a sequence of this many.
    pub(super) fn push(&mut self, nodes: &mut Nodes<Block>, page: u32, size: u16) {
        let h = self.inflation + self.prices.each(size);
        self.entered += 1;
        nodes[page] = Block { size, h, entered: self.entered, at: At::Eviction, ..nodes[page] };
        let size = usize::from(size);
        if self.lists[size].is_empty() {
            self.least[size] = self.rank(&nodes[page]);
            self.lowest = self.lower(self.lowest, size);
        }
        self.lists[size].push_front(nodes, page);
        self.len += 1;
    }

    /// The key by which the bottom is found: `H`, or while the section drains the order of entry.
    fn rank(&self, block: &Block) -> f64 {
        if self.drains { block.entered as f64 } else { block.h }
    }

    /// Sets whether blocks leave in the order of entry or by `H`. A change looks at the back of each list.
    pub(super) fn set_drains(&mut self, nodes: &Nodes<Block>, drains: bool) {
        if drains != self.drains {
            self.drains = drains;
            self.compare(nodes);
        }
    }

    /// Compares all lists by the rank of their backs.
    fn compare(&mut self, nodes: &Nodes<Block>) {
        for size in 0..self.lists.len() {
            self.least[size] = self.lists[size].back().map_or(f64::INFINITY, |page| self.rank(&nodes[page]));
        }
        self.find_lowest();
    }

    fn find_lowest(&mut self) {
        self.lowest = (0..self.lists.len()).reduce(|a, b| self.lower(a, b)).expect("there are lists");
    }

    /// The block to be evicted next.
    pub(super) fn bottom(&self) -> Option<u32> {
        self.lists[self.lowest].back()
    }

    /// A block leaves. The lists are compared only when a list's least rank changes: by `H` it does not from block to block of
    /// a sequence, nor between sequences of one size that entered together.
    pub(super) fn remove(&mut self, nodes: &mut Nodes<Block>, page: u32) {
        let size = usize::from(nodes[page].size);
        self.lists[size].remove(nodes, page);
        self.len -= 1;
        let least = self.lists[size].back().map_or(f64::INFINITY, |page| self.rank(&nodes[page]));
        if least != self.least[size] {
            self.least[size] = least;
            self.find_lowest();
        }
    }

    /// Which of two sizes has the lower bottom.
    fn lower(&self, a: usize, b: usize) -> usize {
        let key = |size: usize| (self.least[size], std::cmp::Reverse(size));
        if key(a) < key(b) { a } else { b }
    }

    /// A block of a sequence with this `H` has been evicted. While the section drains `L` stays: the victim's `H` is not the least.
    pub(super) fn inflate(&mut self, nodes: &mut Nodes<Block>, h: f64) {
        if self.drains {
            return;
        }
        self.inflation = h;
        if h >= MOST_INFLATION {
            self.deflate(nodes);
        }
    }

    /// Takes the same from `L` and from every `H`, which is exact: they are multiples of what the greatest is, and become smaller.
    fn deflate(&mut self, nodes: &mut Nodes<Block>) {
        for list in &self.lists {
            let mut next = list.back();
            while let Some(page) = next {
                nodes[page].h -= MOST_INFLATION;
                next = nodes.towards_front(page);
            }
        }
        self.least.iter_mut().for_each(|least| *least -= MOST_INFLATION);
        self.inflation -= MOST_INFLATION;
    }

    /// The blocks in the order in which they leave.
    pub(super) fn in_order(&self, nodes: &Nodes<Block>) -> Vec<u32> {
        let mut blocks: Vec<u32> = self.lists.iter().flat_map(|list| list.back_to_front(nodes)).collect();
        blocks.sort_by(|&one, &other| {
            let [one, other] = [one, other].map(|slot| &nodes[slot]);
            let by_rank = self.rank(one).total_cmp(&self.rank(other));
            by_rank.then(other.size.cmp(&one.size)).then(one.entered.cmp(&other.entered))
        });
        blocks
    }

    pub(super) fn bytes(&self) -> usize {
        self.lists.capacity() * size_of::<List>() + self.least.capacity() * size_of::<f64>()
    }

    pub(super) fn check(&self, nodes: &Nodes<Block>) {
        let mut len = 0;
        for (size, list) in self.lists.iter().enumerate() {
            list.check(nodes);
            let blocks: Vec<Block> = list.back_to_front(nodes).map(|page| nodes[page]).collect();
            assert!(blocks.iter().all(|block| usize::from(block.size) == size && block.at == At::Eviction)); // DE1
            assert!(blocks.is_sorted_by(|a, b| a.h <= b.h)); // DE1
            assert!(blocks.is_sorted_by(|a, b| a.entered < b.entered)); // DE1
            assert_eq!(self.least[size], blocks.first().map_or(f64::INFINITY, |block| self.rank(block))); // DE2
            assert!(blocks.iter().all(|block| block.h >= self.inflation)); // DE3
            len += list.len();
        }
        assert_eq!(len, self.len);
        assert!((0..self.lists.len()).all(|size| self.lower(self.lowest, size) == self.lowest)); // DE4
    }
}
