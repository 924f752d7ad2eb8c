//! SIEVE.

use crate::models::{Model, Reference};

/// The queue from the tail to the head, each page with its visited bit, and the hand's place in it.
pub(crate) struct Sifted {
    pub(crate) queue: Vec<(u32, bool)>,
    pub(crate) hand: usize,
    pub(crate) capacity: usize,
}

impl Model for Sifted {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        if let Some(entry) = self.queue.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            return Vec::new();
        }
        let mut evicted = Vec::new();
        if self.queue.len() == self.capacity {
            while std::mem::take(&mut self.queue[self.hand].1) {
                self.hand = (self.hand + 1) % self.capacity;
            }
            evicted.push(self.queue.remove(self.hand).0);
            // The next page has moved up to the hand; past the head, the hand starts again from the tail.
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
        }
        self.queue.push((page, false));
        evicted
    }
}
