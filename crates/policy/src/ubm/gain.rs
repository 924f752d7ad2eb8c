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
    /// References until c and k are fitted again.
    until_fit: u32,
    c: f64,
    k: f64,
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
            until_fit: 0,
            c: 1.0,
            k: 0.0,
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

    pub(super) fn oldest(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.back_to_front(&self.nodes)
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

    /// Counts one reference, by the page if it is other.
    pub(super) fn count(&mut self, other: Option<u32>) {
        self.all += 1.0;
        if let Some(page) = other {
            self.others += 1.0;
            if self.contains(page)
                && let Some(hits) = self.hits[..self.sizes.len()].get_mut(usize::from(self.nodes[page]))
            {
                *hits += 1.0;
            }
        }
        let capacity = f64::from(self.sizes[self.sizes.len() - 1]);
        if self.all > 8.0 * capacity.max(500.0) {
            self.hits.iter_mut().for_each(|hits| *hits /= 2.0);
            self.others /= 2.0;
            self.all /= 2.0;
        }
    }

    /// `MG_other(n)`: the hits per reference that the n-th buffer gives.
    pub(super) fn marginal_gain(&mut self, n: u32) -> f64 {
        if n == 0 || self.others == 0.0 {
            return 0.0;
        }
        self.fit(n);
        if n == 1 {
            return (1.0 - self.c).max(0.0) * self.others / self.all;
        }
        let misses = |n: u32| self.c * f64::from(n).powf(-self.k);
        (misses(n - 1) - misses(n)) * self.others / self.all
    }

    /// c and k from the hit ratios at the preset sizes on both sides of n.
    fn fit(&mut self, n: u32) {
        let last = self.sizes.len() - 1;
        if last == 0 {
            (self.c, self.k) = (1.0, 0.0);
            return;
        }
        let q = self.sizes.iter().position(|&size| size >= n).unwrap_or(last).max(1);
        let ratio = |index: usize| {
            let hits: f64 = self.hits[..=index].iter().sum();
            // One more miss than counted: no ratio is 1.
            1.0 - hits / (self.others + 1.0)
        };
        let (p, q) = (q - 1, q);
        let (low, high) = (ratio(p), ratio(q));
        self.k = (low / high).ln() / (f64::from(self.sizes[q]) / f64::from(self.sizes[p])).ln();
        self.c = low * f64::from(self.sizes[p]).powf(self.k);
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
