//! Numbers for the pages that a policy knows, the resident ones and its ghosts, from 0 up without gaps.
//!
//! ```text
//! slot_of:  [ - | 1 | - | - | 0 | - | … ]      by page: 4 bytes for each that there is
//! page_of:  [ 4 | 1 | … ]                      by slot, as all else that the policy knows of a page
//! ```
//!
//! A cache and its ghosts are usually a small part of all pages: what is kept by slot takes little memory, and stays in the
//! processor's caches.

use crate::parts::prefetch::prefetch;
use crate::policy::Caller;

/// No slot: the policy does not know the page.
const NONE: u32 = u32::MAX;

/// The slots of the known pages.
#[derive(Debug)]
pub(crate) struct PageSlots {
    slot_of: Vec<u32>,
    /// PS1. `page_of[slot_of[page]]` is the page, if it is known. An unused slot has the next unused one instead.
    page_of: Vec<u32>,
    /// The unused slot to be given out next, and the slots in use.
    unused: u32,
    len: u32,
}

impl PageSlots {
    /// For pages with numbers below `pages`, of which no more than `known` are known at once.
    pub(crate) fn new(pages: u32, known: u64) -> Self {
        let mut slots = Self { slot_of: Vec::new(), page_of: Vec::new(), unused: 0, len: 0 };
        slots.reserve(pages, known);
        slots
    }

    /// Page numbers below `pages` may occur, and this many be known at once.
    pub(crate) fn reserve(&mut self, pages: u32, known: u64) {
        if pages as usize > self.slot_of.len() {
            self.slot_of.resize(pages as usize, NONE);
        }
        let (from, to) = (self.page_of.len(), known.min(self.slot_of.len() as u64) as usize);
        if to > from {
            self.page_of.reserve_exact(to - from);
            // New slots come behind the unused ones, each followed by the next; the last one points to the first that is not.
            self.page_of.extend(from as u32 + 1..=to as u32);
        }
    }

    /// Page numbers are below this.
    pub(crate) fn pages(&self) -> u32 {
        self.slot_of.len() as u32
    }

    /// Slots are below this: the length of what is kept by slot.
    pub(crate) fn end(&self) -> u32 {
        self.page_of.len() as u32
    }

    /// The slot of a page, if it is known.
    #[inline]
    pub(crate) fn of(&self, page: u32) -> Option<u32> {
        let slot = self.slot_of[page as usize];
        (slot != NONE).then_some(slot)
    }

    /// The page in a slot that is in use.
    #[inline]
    pub(crate) fn page(&self, slot: u32) -> u32 {
        self.page_of[slot as usize]
    }

    /// Gives a page that is not known a slot.
    #[inline]
    pub(crate) fn give(&mut self, page: u32) -> u32 {
        debug_assert_eq!(self.slot_of[page as usize], NONE, "page {page} has a slot");
        let slot = self.unused;
        self.unused = std::mem::replace(&mut self.page_of[slot as usize], page);
        self.slot_of[page as usize] = slot;
        self.len += 1;
        slot
    }

    /// The page in a slot is not known any more: says which it was.
    #[inline]
    pub(crate) fn take_back(&mut self, slot: u32) -> u32 {
        let page = std::mem::replace(&mut self.page_of[slot as usize], self.unused);
        self.slot_of[page as usize] = NONE;
        self.unused = slot;
        self.len -= 1;
        page
    }

    /// The page will be asked for soon. Its slot alone is fetched: where that leads is not known before it is there.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        prefetch(&self.slot_of, page as usize);
    }

    /// A caller that is offered slots.
    pub(crate) fn offered<'a, C: Caller>(&'a self, caller: &'a mut C) -> Offered<'a, C> {
        Offered { slots: self, caller }
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.slot_of.capacity() + self.page_of.capacity()) * size_of::<u32>()
    }

    /// Recounts the slots, of which this many are in use.
    pub(crate) fn check(&self, known: u32) {
        let slots = self.slot_of.iter().enumerate().filter(|&(_, &slot)| slot != NONE);
        assert!(slots.clone().all(|(page, &slot)| self.page(slot) as usize == page)); // PS1
        assert_eq!((slots.count(), known), (self.len as usize, self.len));
    }
}

/// Tells a caller of slots as of the pages in them.
pub(crate) struct Offered<'a, C> {
    slots: &'a PageSlots,
    caller: &'a mut C,
}

impl<C: Caller> Caller for Offered<'_, C> {
    fn evict(&mut self, slot: u32) -> bool {
        self.caller.evict(self.slots.page(slot))
    }

    fn forget(&mut self, slot: u32) {
        self.caller.forget(self.slots.page(slot));
    }

    fn await_use(&mut self, slot: u32) {
        self.caller.await_use(self.slots.page(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_again_and_grow_in_number() {
        let mut slots = PageSlots::new(10, 2);
        assert_eq!([7, 3].map(|page| slots.give(page)), [0, 1]);
        slots.reserve(20, 4);
        assert_eq!(slots.take_back(0), 7);
        assert_eq!([19, 7].map(|page| slots.give(page)), [0, 2]);
        assert_eq!([19, 3, 7, 8].map(|page| slots.of(page)), [Some(0), Some(1), Some(2), None]);
        assert_eq!((slots.end(), slots.pages()), (4, 20));
        slots.check(3);
    }
}
