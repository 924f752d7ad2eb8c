//! OPT and WORST.

use crate::models::{Model, Reference};

/// Pages with their next use, found by looking through the references.
pub(crate) struct Foreseen {
    pub(crate) pages: Vec<u32>,
    pub(crate) capacity: usize,
    pub(crate) references: Vec<u32>,
    pub(crate) farthest: bool,
}

impl Foreseen {
    fn next_use(&self, page: u32, now: usize) -> usize {
        let later = self.references[now..].iter().position(|&other| other == page);
        later.map_or(usize::MAX, |distance| now + distance)
    }
}

impl Model for Foreseen {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if !self.pages.contains(&page) {
            if self.pages.len() == self.capacity {
                // Among pages never used again any may go: which one changes no hit.
                let uses = self.pages.iter().map(|&page| (self.next_use(page, now), page));
                let victim = if self.farthest { uses.max() } else { uses.min() }.unwrap().1;
                self.pages.retain(|&other| other != victim);
                evicted.push(victim);
            }
            self.pages.push(page);
        }
        evicted
    }
}
