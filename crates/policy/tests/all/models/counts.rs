//! LFU.

use crate::models::{Model, Reference};

/// Pages with counts and times of last use.
pub(crate) struct Counts {
    pub(crate) pages: Vec<(u32, u64, usize)>,
    pub(crate) capacity: usize,
    pub(crate) ageing: f64,
    /// The counts of the last pages evicted, and the most of them.
    pub(crate) ghosts: Vec<(u32, u64)>,
    pub(crate) history: usize,
}

impl Counts {
    pub(crate) fn new(capacity: usize, ageing: f64, history: usize) -> Self {
        Self { pages: Vec::new(), capacity, ageing, ghosts: Vec::new(), history: history * capacity }
    }

    fn age(&mut self) {
        let sum: u64 = self.pages.iter().map(|page| page.1).sum();
        if self.ageing > 0.0 && sum as f64 > self.ageing * self.pages.len() as f64 {
            // Pages that become equal keep the order of their counts, the lower one first to go.
            self.pages.sort_by_key(|&(_, count, time)| (count, time));
            for (time, entry) in self.pages.iter_mut().enumerate() {
                // Times below every later reference, so that those used after the ageing count as more recent.
                *entry = (entry.0, entry.1.div_ceil(2), time);
            }
        }
    }
}

impl Model for Counts {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if let Some(place) = self.pages.iter().position(|other| other.0 == page) {
            let (_, count, _) = self.pages.remove(place);
            self.pages.push((page, count + 1, now));
        } else {
            if self.pages.len() == self.capacity {
                let victim = self.pages.iter().copied().min_by_key(|&(_, count, time)| (count, time)).unwrap();
                self.pages.retain(|other| other.0 != victim.0);
                evicted.push(victim.0);
                self.ghosts.push((victim.0, victim.1));
                self.ghosts.drain(..self.ghosts.len().saturating_sub(self.history));
            }
            let ghost = self.ghosts.iter().position(|ghost| ghost.0 == page);
            let count = ghost.map_or(0, |place| self.ghosts.remove(place).1);
            self.pages.push((page, count + 1, now));
        }
        self.age();
        evicted
    }
}
