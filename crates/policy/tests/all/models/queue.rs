//! LRU, FIFO, MRU.

use crate::models::{Model, Reference};

/// Policies that order the resident pages in a queue: the first is the victim.
pub(crate) struct Queue {
    pub(crate) pages: Vec<u32>,
    pub(crate) capacity: usize,
    /// A hit moves its page to the end.
    pub(crate) by_use: bool,
    /// The victim is the last and not the first.
    pub(crate) newest: bool,
}

impl Model for Queue {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if let Some(place) = self.pages.iter().position(|&other| other == page) {
            if self.by_use {
                self.pages.remove(place);
                self.pages.push(page);
            }
        } else {
            if self.pages.len() == self.capacity {
                evicted.push(self.pages.remove(if self.newest { self.capacity - 1 } else { 0 }));
            }
            self.pages.push(page);
        }
        evicted
    }
}
