//! The marginal gain of other references (section 3.3): Belady's lifetime function, fitted to hits that are counted in ghost buffers.
//!
//! ```text
//! stack   front | page page | page page | page page page page | …        LRU, resident pages and ghosts
//!               marks      sizes[0]    sizes[1]              sizes[2]
//! ```
//!
//! A page knows between which marks it is, so a reference shows for which of the preset sizes it is a hit without its
//! position being counted. Two of these sizes around the present one give c and k in 1 - c n^-k.

use crate::list::{List, Nodes};

/// Preset sizes: the cache's, its half, and so on.
const SIZES: usize = 7;
/// Counts are halved once they cover so many references for each page of the cache, or of a cache of `SMALL` pages.
const PERIOD: f64 = 8.0;
const SMALL: f64 = 500.0;

/// The LRU stack of the other references, with a mark at each preset size.
#[derive(Debug)]
pub(super) struct Stack {
    /// G1. A page's value is the number of preset sizes that are too small for it.
    nodes: Nodes<u8>,
    pages: List,
    /// G2. Rising; the last is the capacity.
    sizes: Vec<u32>,
    /// G3. `marks[i]` is the page at depth `sizes[i]`, if the stack is that deep.
    marks: Vec<Option<u32>>,
    /// References during the observed period: those found between the marks, all other ones, and all.
    hits: [f64; SIZES],
    others: f64,
    all: f64,
}

impl Stack {
    pub(super) fn new(pages: u32, capacity: u32) -> Self {
        let mut stack = Self {
            nodes: Nodes::new(pages),
            pages: List::new(),
            sizes: Vec::with_capacity(SIZES),
            marks: Vec::with_capacity(SIZES),
            hits: [0.0; SIZES],
            others: 0.0,
            all: 0.0,
        };
        stack.set_capacity(capacity);
        stack
    }
    pub(super) fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    pub(super) fn len(&self) -> u32 {
        self.pages.len()
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page)
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = u32> {
        self.pages.front_to_back(&self.nodes)
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        self.pages.back()
    }

    /// Preset sizes for another capacity; what was counted at the old ones is no longer comparable.
    pub(super) fn set_capacity(&mut self, capacity: u32) {
        self.sizes.clear();
        self.sizes.extend((0..SIZES).rev().map(|halvings| capacity >> halvings).filter(|&size| size > 0));
        self.hits = [0.0; SIZES];
        (self.others, self.all) = (0.0, 0.0);
        self.marks.clear();
        self.marks.resize(self.sizes.len(), None);
        let mut depth = 0;
        let mut zone = 0;
        let mut next = self.pages.front();
        while let Some(page) = next {
            depth += 1;
            self.nodes[page] = zone as u8;
            if zone < self.sizes.len() && self.sizes[zone] == depth {
                self.marks[zone] = Some(page);
                zone += 1;
            }
            next = self.nodes.towards_back(page);
        }
    }

    /// Takes a page out.
    pub(super) fn remove(&mut self, page: u32) {
        let zone = usize::from(self.nodes[page]);
        // The zones from its own on each gain the first page of the next.
        for index in zone..self.sizes.len() {
            let Some(mark) = self.marks[index] else { break };
            let next = self.nodes.towards_back(mark);
            self.marks[index] = next;
            if let Some(next) = next {
                self.nodes[next] = index as u8;
            }
        }
        self.pages.remove(&mut self.nodes, page);
    }

    /// Puts a page on top.
    pub(super) fn push(&mut self, page: u32) {
        self.pages.push_front(&mut self.nodes, page);
        self.nodes[page] = 0;
        for index in 0..self.sizes.len() {
            match self.marks[index] {
                Some(mark) => {
                    self.nodes[mark] = index as u8 + 1;
                    self.marks[index] = self.nodes.towards_front(mark);
                }
                None => {
                    if self.pages.len() == self.sizes[index] {
                        self.marks[index] = self.pages.back();
                    }
                    break;
                }
            }
        }
    }

    /// Counts one reference; if it is other, its page counts too, if that is known.
    pub(super) fn count(&mut self, other: Option<Option<u32>>) {
        self.all += 1.0;
        if let Some(page) = other {
            self.others += 1.0;
            if let Some(page) = page
                && self.contains(page)
                && let Some(hits) = self.hits[..self.sizes.len()].get_mut(usize::from(self.nodes[page]))
            {
                *hits += 1.0;
            }
        }
        let capacity = f64::from(self.sizes[self.sizes.len() - 1]);
        if self.all > PERIOD * capacity.max(SMALL) {
            self.hits.iter_mut().for_each(|hits| *hits /= 2.0);
            self.others /= 2.0;
            self.all /= 2.0;
        }
    }

    /// `MG_other(n)`: the hits per reference that the n-th buffer gives.
    pub(super) fn marginal_gain(&self, n: u32) -> f64 {
        if n == 0 || self.others == 0.0 {
            return 0.0;
        }
        let (c, k) = self.fit(n);
        // Without a buffer every reference is a miss, which the function does not say.
        let misses = |n: u32| if n == 0 { 1.0 } else { c * f64::from(n).powf(-k) };
        (misses(n - 1) - misses(n)).max(0.0) * self.others / self.all
    }

    /// c and k from the miss ratios at the preset sizes p and q on both sides of n.
    fn fit(&self, n: u32) -> (f64, f64) {
        let last = self.sizes.len() - 1;
        let upper = self.sizes.iter().position(|&size| size >= n).unwrap_or(last).max(1);
        // A cache of one page has one size: the function is then flat.
        let (lower, upper) = (upper - 1, upper.min(last));
        let [p, q] = [lower, upper].map(|index| f64::from(self.sizes[index]));
        // One more miss than was counted: no miss ratio is 0.
        let misses = |index: usize| 1.0 - self.hits[..=index].iter().sum::<f64>() / (self.others + 1.0);
        let k = if p < q { (misses(lower) / misses(upper)).ln() / (q / p).ln() } else { 0.0 };
        (misses(lower) * p.powf(k), k)
    }

    pub(super) fn check(&self) {
        self.pages.check(&self.nodes);
        let mut zone = 0;
        for (index, page) in self.pages.front_to_back(&self.nodes).enumerate() {
            assert_eq!(usize::from(self.nodes[page]), zone); // G1
            if zone < self.sizes.len() && self.sizes[zone] as usize == index + 1 {
                assert_eq!(self.marks[zone], Some(page)); // G3
                zone += 1;
            }
        }
        assert!(self.marks[zone..].iter().all(Option::is_none)); // G3
        assert!(self.sizes.is_sorted_by(|a, b| a < b)); // G2
    }
}

/// What a buffer would gain if it held a sequential block: nothing, says the paper, as such a block is referenced once. Here
/// that is measured, as its section 4.7 proposes: how many are referenced again so soon that the other partition would still hold them.
#[derive(Debug, Default)]
pub(super) struct Recurrence {
    /// During the observed period: sequential references; those followed by another one within `residence`; their gaps.
    once: f64,
    soon: f64,
    gaps: f64,
    /// How long an other block stays after its last reference: an exponential average. 0: none has left yet.
    residence: f64,
}

/// Counts are halved once they cover so many sequential references.
const ONCE: f64 = 1000.0;

impl Recurrence {
    /// An other block leaves, so many references after its last one.
    pub(super) fn evicted(&mut self, unused_for: u64) {
        self.residence += (unused_for as f64 - self.residence) / 16.0;
    }

    /// A sequential reference.
    pub(super) fn count(&mut self) {
        self.once += 1.0;
        if self.once > ONCE {
            (self.once, self.soon, self.gaps) = (self.once / 2.0, self.soon / 2.0, self.gaps / 2.0);
        }
    }

    /// A block whose last reference was sequential is referenced again.
    pub(super) fn again(&mut self, gap: u64) {
        if gap as f64 <= self.residence {
            self.soon += 1.0;
            self.gaps += gap as f64;
        }
    }

    /// The hits for each reference that a buffer is occupied: a block occupies one until it is a hit, or until it leaves.
    pub(super) fn marginal_gain(&self) -> f64 {
        let occupied = self.gaps + (self.once - self.soon).max(0.0) * self.residence;
        if occupied > 0.0 { self.soon / occupied } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack whose references follow the lifetime function; a quarter of all references are other.
    fn following(c: f64, k: f64) -> Stack {
        let mut stack = Stack::new(0, 640);
        let hit_ratio = |size: u32| 1.0 - c * f64::from(size).powf(-k);
        (stack.others, stack.all) = (1e9, 4e9);
        let mut below = 0.0;
        for (index, &size) in stack.sizes.iter().enumerate() {
            stack.hits[index] = (hit_ratio(size) - below) * stack.others;
            below = hit_ratio(size);
        }
        stack
    }

    #[test]
    fn the_lifetime_function_is_found_again() {
        for (c, k) in [(0.9, 0.2), (0.8, 0.7), (1.0, 1.5)] {
            let stack = following(c, k);
            for n in [2, 11, 160, 200, 640] {
                let fitted = stack.fit(n);
                assert!((fitted.0 / c - 1.0).abs() < 1e-3 && (fitted.1 / k - 1.0).abs() < 1e-3, "{fitted:?} at {n}");
                let expected = c * (f64::from(n - 1).powf(-k) - f64::from(n).powf(-k)) / 4.0;
                assert!((stack.marginal_gain(n) / expected - 1.0).abs() < 1e-2);
            }
        }
    }

    #[test]
    fn hits_are_counted_at_the_least_preset_size_that_holds_them() {
        let mut stack = Stack::new(20, 8);
        for page in 0..10 {
            stack.push(page);
        }
        stack.check();
        // Depths 1, 2, 3, 5, 8 and 9, at the sizes 1, 2, 4 and 8.
        for page in [9, 8, 7, 5, 2, 1] {
            stack.count(Some(Some(page)));
        }
        stack.count(None);
        assert_eq!((stack.hits[..4].to_vec(), stack.others, stack.all), (vec![1.0, 1.0, 1.0, 2.0], 6.0, 7.0));
    }

    #[test]
    fn sequential_blocks_earn_what_they_return_for_the_time_they_stay() {
        let mut recurrence = Recurrence { residence: 100.0, ..Recurrence::default() };
        for _ in 0..4 {
            recurrence.count();
        }
        assert_eq!(recurrence.marginal_gain(), 0.0);
        recurrence.again(60);
        recurrence.again(101);
        // One hit in 60 references, and three buffers lost for 100.
        assert_eq!(recurrence.marginal_gain(), 1.0 / 360.0);
    }
}
