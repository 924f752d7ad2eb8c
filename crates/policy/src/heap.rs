//! A priority queue of pages: the page with the least key first. Keys change in O(log n), and victims may be refused.

use crate::policy::{AllRefused, Caller};

/// In a page's place: it is not in the heap.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    key: K,
    place: u32,
}

/// Pages ordered by a key.
#[derive(Debug)]
pub(crate) struct Heap<K> {
    /// By page. H1. The place of a page in `heap` is where `heap` holds it; that of any other is `NOWHERE`.
    entries: Vec<Entry<K>>,
    /// H2. No page goes before the one at half its place.
    heap: Vec<u32>,
    /// H3. Pages of the heap up to here are in its order; all are, but for refused victims during an eviction.
    ordered: usize,
}

impl<K: Copy + Default + PartialOrd> Heap<K> {
    /// Empty; page numbers are below `pages`, and no more than `most` of them are in it at once.
    pub(crate) fn new(pages: u32, most: u32) -> Self {
        let mut heap = Self { entries: Vec::new(), heap: Vec::new(), ordered: 0 };
        heap.reserve(pages);
        heap.reserve_places(most);
        heap
    }

    /// Page numbers below `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        if pages as usize > self.entries.len() {
            self.entries.resize(pages as usize, Entry { key: K::default(), place: NOWHERE });
        }
    }

    /// Up to `most` pages may be in the heap at once.
    pub(crate) fn reserve_places(&mut self, most: u32) {
        let most = (most as usize).min(self.entries.len());
        self.heap.reserve_exact(most.saturating_sub(self.heap.len()));
    }

    pub(crate) fn len(&self) -> u32 {
        self.heap.len() as u32
    }

    pub(crate) fn contains(&self, page: u32) -> bool {
        self.entries[page as usize].place != NOWHERE
    }

    /// The key of a page that is in the heap.
    pub(crate) fn key(&self, page: u32) -> K {
        self.entries[page as usize].key
    }

    /// The page with the least key.
    pub(crate) fn first(&self) -> Option<u32> {
        self.heap.first().copied()
    }

    /// Puts a page in, or gives it another key.
    pub(crate) fn set(&mut self, page: u32, key: K) {
        self.entries[page as usize].key = key;
        match self.entries[page as usize].place {
            NOWHERE => {
                self.heap.push(page);
                self.take_in();
            }
            place => self.settle(place as usize),
        }
    }

    pub(crate) fn remove(&mut self, page: u32) {
        debug_assert!(self.contains(page), "page {page} is not in the heap");
        self.set_aside(self.entries[page as usize].place as usize);
        self.drop_aside();
    }

    /// Offers the pages in their order until the caller accepts one, which leaves the heap.
    pub(crate) fn offer<C: Caller>(&mut self, caller: &mut C) -> Result<u32, AllRefused> {
        let mut result = Err(AllRefused);
        while result.is_err() && self.ordered > 0 {
            let page = self.heap[0];
            self.set_aside(0);
            if caller.evict(page) {
                self.drop_aside();
                result = Ok(page);
            }
        }
        while self.ordered < self.heap.len() {
            self.take_in();
        }
        result
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<K>>() + self.heap.capacity() * size_of::<u32>()
    }

    /// Recounts the heap.
    pub(crate) fn check(&self) {
        let places = self.heap.iter().enumerate();
        assert!(places.into_iter().all(|(place, &page)| self.entries[page as usize].place == place as u32)); // H1
        assert_eq!(self.entries.iter().filter(|entry| entry.place != NOWHERE).count(), self.heap.len()); // H1
        assert!((1..self.heap.len()).all(|place| !self.before(place, (place - 1) / 2))); // H2
        assert_eq!(self.ordered, self.heap.len()); // H3
    }

    fn before(&self, place: usize, other: usize) -> bool {
        let key = |place: usize| self.entries[self.heap[place] as usize].key;
        key(place) < key(other)
    }

    fn swap(&mut self, place: usize, other: usize) {
        self.heap.swap(place, other);
        self.entries[self.heap[place] as usize].place = place as u32;
        self.entries[self.heap[other] as usize].place = other as u32;
    }

    /// Moves the page at `place` to where its key belongs.
    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.before(place, (place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let first = if right < self.ordered && self.before(right, left) { right } else { left };
            if first >= self.ordered || !self.before(first, place) {
                break;
            }
            self.swap(first, place);
            place = first;
        }
    }

    /// Takes the page behind the ordered ones into the order.
    fn take_in(&mut self) {
        let place = self.ordered;
        self.entries[self.heap[place] as usize].place = place as u32;
        self.ordered += 1;
        self.settle(place);
    }

    /// Puts a page of the order right behind it.
    fn set_aside(&mut self, place: usize) {
        self.ordered -= 1;
        self.swap(place, self.ordered);
        if place < self.ordered {
            self.settle(place);
        }
    }

    /// Drops the page that was set aside last.
    fn drop_aside(&mut self) {
        self.swap(self.ordered, self.heap.len() - 1);
        let page = self.heap.pop().expect("the heap is not empty");
        self.entries[page as usize].place = NOWHERE;
    }
}
