//! The stack distances of OPT, Belady's MIN, in one pass that does not look ahead.
//!
//! That OPT's distances do not depend on the future, and can be had in O(log V) a reference: G. Bilardi, K. Ekanadham and
//! P. Pattnaik, "Optimal On-Line Computation of Stack Distances for MIN and OPT", Computing Frontiers 2017. What is done here
//! is another way there, by interval scheduling.
//!
//! Between two uses of a page, at `s` and `t`, a cache that is to hit at `t` spends a frame on it during `s+1..t`. OPT with C
//! pages hits as often as intervals can be placed on C - 1 *machines* (one frame holds the page in use), a machine taking
//! one after another. Taking the intervals by their end, the most are placed if each goes to the machine that became free
//! last before its start, or nowhere if none is free (U. Faigle and W. M. Nawijn, "Note on Scheduling Intervals On-Line",
//! Discrete Applied Mathematics 58, 1995). What is optimal for each prefix of the trace hits at the very references at which
//! OPT hits.
//!
//! One list serves every number of machines: the first k entries say when each of k machines becomes free. By induction over
//! k, an interval does this to the list: of the entries not later than its start, take the prefix maxima, in the order of
//! the list. Each moves to the place of the next one, the first place gets the interval's end, the last entry is dropped.
//! The first place is the stack distance; if no entry is early enough, the list grows by one.
//!
//! The list is kept by time, not by place: slots in the order of the ends, each with its place in the list. Then the same
//! walk goes from the start of the interval back in time, carrying a place and swapping it for each smaller one, found
//! in a `MinTree`. New ends come last, so slots are taken one after another, and move together when all are taken.
//!
//! Places between two sizes that are asked need not be told apart: each place is kept as the index of the smallest size asked
//! that reaches it. A reference then makes at most as many swaps as there are sizes, each in O(log V), and the
//! hits at these sizes are still exact. Where all sizes are asked, long chains of swaps are the rule.
//!
//! Memory: 4 bytes a page for its bound, 8.5 for the slots and the tree, 8 while slots move; 4 bytes a size.

use super::min_tree::{MinTree, NONE};
use super::ranks::Ranks;
use super::stack::Stack;
use forebay_policy::prefetch::prefetch;

/// "Not used yet", in `Opt::bounds`; no page, in `Opt::previous`.
const UNUSED: u32 = u32::MAX;

/// OPT's stack.
#[derive(Debug)]
pub struct Opt {
    /// For each page but the one used last: the ends in the slots below this are not later than the start of an interval that
    /// begins at the page's last use.
    bounds: Vec<u32>,
    /// By slot: the place in the list of machines of that end, if it is still in the list, as an index into `sizes`.
    places: MinTree,
    slots: u32,
    /// The sizes asked, rising.
    sizes: Vec<u32>,
    /// The slots from here on have not been taken.
    next: u32,
    /// The length of the list, and the first size that reaches behind its end.
    machines: u32,
    beyond: usize,
    /// The page used last.
    previous: u32,
}

impl Stack for Opt {
    fn new(pages: u32) -> Self {
        Self::at(pages, (1..=pages).collect())
    }

    #[inline]
    fn reference(&mut self, page: u32) -> u32 {
        if page == self.previous {
            return self.sizes.first().copied().unwrap_or(0);
        }
        let mut distance = 0;
        if self.bounds[page as usize] != UNUSED {
            if self.next == self.slots {
                self.move_together(self.slots);
            }
            let first = self.place_interval(self.bounds[page as usize]);
            distance = self.sizes.get(first as usize).copied().unwrap_or(0);
        }
        if let Some(bound) = self.bounds.get_mut(self.previous as usize) {
            *bound = self.next;
        }
        self.previous = page;
        distance
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        prefetch(&self.bounds, page as usize);
    }

    fn reserve(&mut self, pages: u32) {
        if pages as usize > self.bounds.len() {
            self.bounds.resize(pages as usize, UNUSED);
            self.move_together(slots_for(pages));
        }
    }
}

/// Fewer entries than pages are in the list; with twice the slots, moving them costs O(1) a reference.
fn slots_for(pages: u32) -> u32 {
    (pages as usize * 2).next_multiple_of(64).min(UNUSED as usize - 1) as u32
}

impl Opt {
    /// An empty stack for page numbers below `pages`, which tells of each reference the smallest of these sizes, which rise,
    /// that hits; 0 if none does.
    pub fn at(pages: u32, sizes: Vec<u32>) -> Self {
        let slots = slots_for(pages);
        Self {
            bounds: vec![UNUSED; pages as usize],
            places: MinTree::new(slots as usize),
            slots,
            next: 0,
            sizes,
            machines: 0,
            beyond: 0,
            previous: UNUSED,
        }
    }

    /// Places an interval that ends now, and that may follow the ends in the slots below `bound`. Returns the place in the
    /// list of the first machine that takes it, as an index into `sizes`; `NONE` if it is beyond all of them.
    fn place_interval(&mut self, bound: u32) -> u32 {
        let mut carried = NONE;
        let mut end = bound as usize;
        while let Some(slot) = self.places.last_below(end, carried) {
            carried = self.places.raise(slot, carried);
            end = slot;
        }
        if carried == NONE {
            // A machine at place P is one of the P + 1 that a cache of P + 2 pages has.
            let reaches = |size: &u32| *size >= self.machines.saturating_add(2);
            while self.sizes.get(self.beyond).is_some_and(|size| !reaches(size)) {
                self.beyond += 1;
            }
            if self.beyond == self.sizes.len() {
                return NONE;
            }
            carried = self.beyond as u32;
            self.machines += 1;
        }
        self.places.put(self.next as usize, carried);
        self.next += 1;
        carried
    }

    /// Moves the ends that are still in the list to the first of this many slots, in their order.
    fn move_together(&mut self, slots: u32) {
        let places: Vec<u32> = (0..self.slots as usize).map(|slot| self.places.get(slot)).collect();
        let bits = |slots: &[u32]| slots.iter().rev().fold(0, |word, &place| word << 1 | u64::from(place != NONE));
        let ranks = Ranks::new(places.chunks(64).map(bits));
        for bound in self.bounds.iter_mut().filter(|bound| **bound != UNUSED) {
            *bound = ranks.below(*bound);
        }
        self.places.clear_for(slots as usize);
        self.slots = slots;
        self.next = 0;
        for place in places.into_iter().filter(|&place| place != NONE) {
            self.places.put(self.next as usize, place);
            self.next += 1;
        }
    }
}
