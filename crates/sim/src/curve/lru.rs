//! The stack distances of LRU: how many distinct pages were used since the page was used last, itself counted.
//!
//! B. T. Bennett and V. J. Kruskal, "LRU Stack Processing", IBM Journal of Research and Development 19(4), 1975, with the tree
//! of P. M. Fenwick, "A New Data Structure for Cumulative Frequency Tables", Software: Practice and Experience 24(3), 1994.
//!
//! Each use of a page takes the next slot and frees the page's slot of before, so the slots in use, from the last to the
//! first, are the LRU stack. A bit says whether a slot is in use; a Fenwick tree counts these bits by groups. There are
//! twice as many slots as pages: when the last is taken, the slots in use move together, which costs O(1) a reference.
//!
//! Memory: 4 bytes a page for its slot, 1/4 for the bits, 1/64 for the tree, and 3/8 while slots move.

use super::ranks::Ranks;
use super::stack::Stack;
use forebay_policy::prefetch::prefetch;

/// The page has no slot.
const NO_SLOT: u32 = u32::MAX;
/// Words of bits in a group that the tree counts as one: a cache line.
const GROUP: usize = 8;

/// LRU's stack.
#[derive(Debug)]
pub struct Lru {
    /// The slot of each page.
    slots: Vec<u32>,
    /// Whether each slot is in use.
    bits: Vec<u64>,
    /// `tree[i]` counts the slots in use of the groups from `i & (i + 1)` to `i`.
    tree: Vec<u32>,
    /// The slots from here on have not been taken.
    next: u32,
    /// How many slots are in use.
    used: u32,
}

impl Stack for Lru {
    fn new(pages: u32) -> Self {
        let groups = groups_for(pages);
        Self {
            slots: vec![NO_SLOT; pages as usize],
            bits: vec![0; groups * GROUP],
            tree: vec![0; groups],
            next: 0,
            used: 0,
        }
    }

    #[inline]
    fn reference(&mut self, page: u32) -> u32 {
        let slot = self.slots[page as usize];
        if slot != NO_SLOT && slot + 1 == self.next {
            return 1;
        }
        let mut distance = 0;
        if slot != NO_SLOT {
            distance = self.used - self.used_below(slot);
            self.free(slot);
        }
        if self.next as usize == self.bits.len() * 64 {
            self.slots[page as usize] = NO_SLOT;
            self.move_together(self.tree.len());
        }
        self.slots[page as usize] = self.next;
        self.take_next();
        distance
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        prefetch(&self.slots, page as usize);
    }

    fn reserve(&mut self, pages: u32) {
        if pages as usize > self.slots.len() {
            self.slots.resize(pages as usize, NO_SLOT);
            let groups = groups_for(pages);
            self.move_together(groups);
        }
    }
}

/// Twice as many slots as pages.
fn groups_for(pages: u32) -> usize {
    (pages as usize * 2).div_ceil(64 * GROUP).max(1)
}

impl Lru {
    /// Takes a page out of the stack, as if it had never been used.
    pub fn remove(&mut self, page: u32) {
        let slot = std::mem::replace(&mut self.slots[page as usize], NO_SLOT);
        if slot != NO_SLOT {
            self.free(slot);
        }
    }

    fn used_below(&self, slot: u32) -> u32 {
        let word = slot as usize / 64;
        let group = word / GROUP;
        let mut below = (self.bits[word] & !(u64::MAX << (slot % 64))).count_ones();
        below += self.bits[group * GROUP..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let mut end = group;
        while end > 0 {
            below += self.tree[end - 1];
            end &= end - 1;
        }
        below
    }

    fn free(&mut self, slot: u32) {
        self.bits[slot as usize / 64] &= !(1 << (slot % 64));
        self.used -= 1;
        let mut group = slot as usize / 64 / GROUP;
        while let Some(count) = self.tree.get_mut(group) {
            *count -= 1;
            group |= group + 1;
        }
    }

    fn take_next(&mut self) {
        let slot = self.next;
        self.bits[slot as usize / 64] |= 1 << (slot % 64);
        self.used += 1;
        self.next += 1;
        let mut group = slot as usize / 64 / GROUP;
        while let Some(count) = self.tree.get_mut(group) {
            *count += 1;
            group |= group + 1;
        }
    }

    /// Moves the slots in use to the start, in their order, in this many groups.
    fn move_together(&mut self, groups: usize) {
        let ranks = Ranks::new(self.bits.iter().copied());
        for slot in self.slots.iter_mut().filter(|slot| **slot != NO_SLOT) {
            *slot = ranks.below(*slot);
        }
        self.bits.clear();
        self.bits.resize(groups * GROUP, 0);
        self.tree.clear();
        self.tree.resize(groups, 0);
        let used = std::mem::take(&mut self.used);
        self.next = 0;
        for _ in 0..used {
            self.take_next();
        }
    }
}
