//! The marginal gain of other references (section 3.3): Belady's lifetime function, fitted to hits that are counted in ghost buffers.
//!
//! ```text
//! stack   front | page page | page page | page page page page | …        LRU, resident pages and ghosts
//!               marks      sizes[0]    sizes[1]              sizes[2]
//! ```
//!
//! A page knows between which marks it is, so a reference shows for which of the preset sizes it is a hit without its
//! position being counted. Two of these sizes around the present one give c and k in 1 - c n^-k.
//!
//! ```text
//! hits                    o-------o   counted at the preset sizes
//!                      -  |
//!                  -      |           the hull: what growing to a preset size gives for each buffer
//!              -          |
//! o-------o---------------o
//!     n
//! ```
//!
//! The function is concave, and so is what it tells of hits at sizes near n. A cycle of other references is a step: no buffer short of it
//! gains anything, and all together gain much. So the gain at n is not taken to be below the slope of the hull of all that was counted.

use crate::parts::list::{List, Nodes};
use std::cell::Cell;

/// Preset sizes: the cache's, its half, and so on.
const SIZES: usize = 7;
/// Counts are halved once they cover this many references for each page of the cache, or of a cache of `SMALL` pages.
const PERIOD: f64 = 4.0;
const SMALL: f64 = 1000.0;
/// The number of references after which the function is fitted anew.
const REFIT: u32 = 64;

/// The LRU stack of the other references, with a mark at each preset size.
#[derive(Debug)]
pub(super) struct Stack {
    /// UG1. A page's value is the number of preset sizes that are too small for it.
    nodes: Nodes<u8>,
    pages: List,
    /// UG2. Rising; the last is the capacity.
    sizes: Vec<u32>,
    /// UG3. `marks[i]` is the page at depth `sizes[i]`, if the stack is that deep.
    marks: Vec<Option<u32>>,
    /// References during the observed period: those found between the marks, all other ones, and all.
    hits: [f64; SIZES],
    others: f64,
    all: f64,
    /// The gains up to each preset size and above the one before, fitted when `until_refit` was `REFIT`.
    zones: [Zone; SIZES],
    until_refit: u32,
    /// Whether the gain is not taken to be below the hull.
    hull: bool,
    /// The size that was asked for last since then, and its gain.
    asked: Cell<(u32, f64)>,
}

/// The gain between two preset sizes.
#[derive(Clone, Copy, Debug, Default)]
struct Zone {
    /// c and k of the lifetime function.
    c: f64,
    k: f64,
    /// The slope of the hull.
    slope: f64,
    /// Other references by all.
    share: f64,
}

impl Stack {
    pub(super) fn new(pages: u32, capacity: u32, hull: bool) -> Self {
        let mut stack = Self {
            hull,
            nodes: Nodes::new(pages),
            pages: List::new(),
            sizes: Vec::with_capacity(SIZES),
            marks: Vec::with_capacity(SIZES),
            hits: [0.0; SIZES],
            others: 0.0,
            all: 0.0,
            zones: [Zone::default(); SIZES],
            until_refit: REFIT,
            asked: Cell::default(),
        };
        stack.set_capacity(capacity);
        stack
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        self.nodes.prefetch_links(page);
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
        self.refit();
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

    /// Moves a page to the top, as taking it out and putting it there would. Only the marks above it move.
    pub(super) fn touch(&mut self, page: u32) {
        let zone = usize::from(self.nodes[page]);
        if self.marks.get(zone).is_some_and(|&mark| mark == Some(page)) {
            self.marks[zone] = self.nodes.towards_front(page).or(Some(page));
        }
        self.pages.move_to_front(&mut self.nodes, page);
        self.nodes[page] = 0;
        for index in 0..zone {
            let mark = self.marks[index].expect("the page is deeper");
            self.nodes[mark] = index as u8 + 1;
            self.marks[index] = self.nodes.towards_front(mark);
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
        self.until_refit -= 1;
        if self.until_refit == 0 {
            self.refit();
        }
    }

    /// `MG_other(n)`: the hits per reference that the n-th buffer gives.
    pub(super) fn marginal_gain(&self, n: u32) -> f64 {
        let (asked, gain) = self.asked.get();
        if n == 0 {
            return 0.0;
        }
        if asked == n {
            return gain;
        }
        let zone = self.sizes.iter().position(|&size| size >= n).unwrap_or(self.sizes.len() - 1);
        let Zone { c, k, slope, share } = self.zones[zone];
        // Without a buffer every reference is a miss, which the function does not say.
        let misses = |n: u32| if n == 0 { 1.0 } else { c * f64::from(n).powf(-k) };
        let gain = (misses(n - 1) - misses(n)).max(slope) * share;
        self.asked.set((n, gain));
        gain
    }

    fn refit(&mut self) {
        self.until_refit = REFIT;
        self.asked.set((0, 0.0));
        let count = self.sizes.len();
        // One more miss than was counted: no miss ratio is 0.
        let mut hits = [(0.0, 0.0); SIZES + 1];
        for index in 0..count {
            let more = self.hits[index] / (self.others + 1.0);
            hits[index + 1] = (f64::from(self.sizes[index]), hits[index].1 + more);
        }
        let share = if self.all > 0.0 { self.others / self.all } else { 0.0 };
        for index in 0..count {
            // c and k from the preset sizes on both sides. A cache of one page has one size: the function is then flat.
            let ((p, at_p), (q, at_q)) = (hits[index.max(1)], hits[(index + 1).max(2).min(count)]);
            let k = if p < q { ((1.0 - at_p) / (1.0 - at_q)).ln() / (q / p).ln() } else { 0.0 };
            let (below, above) = hits[..=count].split_at(index + 1);
            let slope = |from: &(f64, f64), to: &(f64, f64)| (to.1 - from.1) / (to.0 - from.0);
            let least = |to| below.iter().map(|from| slope(from, to)).fold(f64::INFINITY, f64::min);
            let slope = if self.hull { above.iter().map(least).fold(0.0, f64::max) } else { 0.0 };
            self.zones[index] = Zone { c: (1.0 - at_p) * p.powf(k), k, slope, share };
        }
    }

    pub(super) fn check(&self) {
        self.pages.check(&self.nodes);
        let mut zone = 0;
        for (index, page) in self.pages.front_to_back(&self.nodes).enumerate() {
            assert_eq!(usize::from(self.nodes[page]), zone); // UG1
            if zone < self.sizes.len() && self.sizes[zone] as usize == index + 1 {
                assert_eq!(self.marks[zone], Some(page)); // UG3
                zone += 1;
            }
        }
        assert!(self.marks[zone..].iter().all(Option::is_none)); // UG3
        assert!(self.sizes.is_sorted_by(|a, b| a < b)); // UG2
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

/// Counts are halved once they cover this many sequential references.
const ONCE: f64 = 1000.0;

impl Recurrence {
    /// An other block leaves, this many references after its last one.
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
        let mut stack = Stack::new(0, 640, true);
        let hit_ratio = |size: u32| 1.0 - c * f64::from(size).powf(-k);
        (stack.others, stack.all) = (1e9, 4e9);
        let mut below = 0.0;
        for (index, &size) in stack.sizes.iter().enumerate() {
            stack.hits[index] = (hit_ratio(size) - below) * stack.others;
            below = hit_ratio(size);
        }
        stack.refit();
        stack
    }

    #[test]
    fn the_lifetime_function_is_found_again() {
        for (c, k) in [(0.9, 0.2), (0.8, 0.7), (1.0, 1.5)] {
            let stack = following(c, k);
            for (n, zone) in [(2, 0), (11, 1), (160, 4), (200, 5), (640, 6)] {
                let fitted = stack.zones[zone];
                assert!((fitted.c / c - 1.0).abs() < 1e-3 && (fitted.k / k - 1.0).abs() < 1e-3, "{fitted:?} at {n}");
                let near = c * (f64::from(n - 1).powf(-k) - f64::from(n).powf(-k)) / 4.0;
                assert!(stack.marginal_gain(n) > near * 0.999);
                // Of a concave function the hull is the chord of the zone: no steeper than its lower end.
                let steepest = c * k * f64::from(stack.sizes[zone] / 2).max(1.0).powf(-k - 1.0) / 4.0;
                assert!(zone == 0 || stack.marginal_gain(n) < 1.1 * steepest, "{c} {k} at {n}");
            }
        }
    }

    #[test]
    fn hits_far_beyond_the_present_size_are_seen_from_it() {
        // Half of all references are a cycle through more than 250 pages.
        let mut stack = Stack::new(0, 1000, true);
        (stack.others, stack.all, stack.hits[5]) = (1e9, 2e9, 1e9);
        stack.refit();
        for n in [1, 20, 100, 251, 400, 500] {
            let gain = stack.marginal_gain(n);
            assert!(gain >= 0.499 / 500.0, "{gain} at {n}");
        }
        assert!(stack.marginal_gain(501) < 1e-6 && stack.marginal_gain(1000) < 1e-6);
    }

    #[test]
    fn hits_are_counted_at_the_least_preset_size_that_holds_them() {
        let mut stack = Stack::new(20, 8, true);
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
    fn to_touch_a_page_is_to_take_it_out_and_put_it_on_top() {
        for depth in 0..20 {
            let [mut touched, mut taken] = [(); 2].map(|()| {
                let mut stack = Stack::new(20, 8, true);
                (0..20).for_each(|page| stack.push(page));
                stack
            });
            touched.touch(19 - depth);
            taken.remove(19 - depth);
            taken.push(19 - depth);
            touched.check();
            assert_eq!(touched.marks, taken.marks, "{depth}");
            assert!(touched.pages().eq(taken.pages()), "{depth}");
        }
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
