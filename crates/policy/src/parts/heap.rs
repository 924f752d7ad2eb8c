//! A priority queue of pages: the page with the least key first. Keys change in O(log n), and victims may be refused.

use crate::policy::{AllRefused, Caller};

/// In a page's place: it is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// Pages ordered by a key.
#[derive(Debug)]
pub(crate) struct Heap<K> {
    /// By page. HP1. The place of a page in `heap` is where `heap` holds it; that of any other is `NOWHERE`.
    places: Vec<u32>,
    /// HP2. No page goes before the one at half its place.
    heap: Vec<(K, u32)>,
    /// HP3. Pages of the heap up to here are in its order; all are, but for refused victims during an eviction.
    ordered: usize,
}

impl<K: Copy + PartialOrd> Heap<K> {
    /// Empty; page numbers are below `pages`, and no more than `most` of them are in it at once.
    pub(crate) fn new(pages: u32, most: u32) -> Self {
        let mut heap = Self { places: Vec::new(), heap: Vec::new(), ordered: 0 };
        heap.reserve(pages);
        heap.reserve_places(most);
        heap
    }

    /// Page numbers below `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        let more = (pages as usize).saturating_sub(self.places.len());
        self.places.reserve_exact(more);
        self.places.resize(self.places.len() + more, NOWHERE);
    }

    /// Up to `most` pages may be in the heap at once.
    pub(crate) fn reserve_places(&mut self, most: u32) {
        let most = (most as usize).min(self.places.len());
        self.heap.reserve_exact(most.saturating_sub(self.heap.len()));
    }

    pub(crate) fn len(&self) -> u32 {
        self.heap.len() as u32
    }

    pub(crate) fn contains(&self, page: u32) -> bool {
        self.places[page as usize] != NOWHERE
    }

    /// The key of a page that is in the heap.
    pub(crate) fn key(&self, page: u32) -> K {
        self.heap[self.places[page as usize] as usize].0
    }

    /// The page with the least key, and that key.
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// The pages in their order, each with its key.
    pub(crate) fn sorted(&self) -> Vec<(K, u32)> {
        let mut pages = self.heap.clone();
        pages.sort_by(|one, other| one.0.partial_cmp(&other.0).expect("keys have an order"));
        pages
    }

    /// Puts a page in, or gives it another key.
    pub(crate) fn set(&mut self, page: u32, key: K) {
        match self.places[page as usize] {
            NOWHERE => {
                self.heap.push((key, page));
                self.take_in();
            }
            place => {
                self.heap[place as usize].0 = key;
                self.settle(place as usize);
            }
        }
    }

    pub(crate) fn remove(&mut self, page: u32) {
        debug_assert!(self.contains(page), "page {page} is not in the heap");
        self.set_aside(self.places[page as usize] as usize);
        self.drop_aside();
    }

    /// Offers the pages in their order until the caller accepts one, which leaves the heap. Each refusal costs O(log n).
    pub(crate) fn offer<C: Caller>(&mut self, caller: &mut C) -> Result<u32, AllRefused> {
        self.offer_with_key(caller).map(|(_, page)| page)
    }

    /// The same, with the key that the page had.
    pub(crate) fn offer_with_key<C: Caller>(&mut self, caller: &mut C) -> Result<(K, u32), AllRefused> {
        let mut result = Err(AllRefused);
        while result.is_err() && self.ordered > 0 {
            let (key, page) = self.heap[0];
            self.set_aside(0);
            if caller.evict(page) {
                self.drop_aside();
                result = Ok((key, page));
            }
        }
        while self.ordered < self.heap.len() {
            self.take_in();
        }
        result
    }

    pub(crate) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<u32>() + self.heap.capacity() * size_of::<(K, u32)>()
    }

    /// Recounts the heap.
    pub(crate) fn check(&self) {
        let places = self.heap.iter().enumerate();
        assert!(places.into_iter().all(|(place, &(_, page))| self.places[page as usize] == place as u32)); // HP1
        assert_eq!(self.places.iter().filter(|&&place| place != NOWHERE).count(), self.heap.len()); // HP1
        assert!((1..self.heap.len()).all(|place| !self.before(place, (place - 1) / 2))); // HP2
        assert_eq!(self.ordered, self.heap.len()); // HP3
    }

    fn before(&self, place: usize, other: usize) -> bool {
        self.heap[place].0 < self.heap[other].0
    }

    fn swap(&mut self, place: usize, other: usize) {
        self.heap.swap(place, other);
        self.places[self.heap[place].1 as usize] = place as u32;
        self.places[self.heap[other].1 as usize] = other as u32;
    }

    /// Moves the page at `place` to where its key belongs: the others make way, and it is written once.
    fn settle(&mut self, mut place: usize) {
        let moved = self.heap[place];
        while place > 0 && moved.0 < self.heap[(place - 1) / 2].0 {
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let first = if right < self.ordered && self.before(right, left) { right } else { left };
            if first >= self.ordered || moved.0 <= self.heap[first].0 {
                break;
            }
            self.put(place, self.heap[first]);
            place = first;
        }
        self.put(place, moved);
    }

    fn put(&mut self, place: usize, entry: (K, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }

    /// Takes the page behind the ordered ones into the order.
    fn take_in(&mut self) {
        let place = self.ordered;
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
        let (_, page) = self.heap.pop().expect("the heap is not empty");
        self.places[page as usize] = NOWHERE;
    }
}
