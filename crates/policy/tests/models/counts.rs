//! LFU.

use crate::{Model, Reference};

/// Pages with counts and times of last use.
pub(crate) struct Counts {
    pub(crate) pages: Vec<(u32, u64, usize)>,
    pub(crate) capacity: usize,
    pub(crate) ageing: f64,
}

impl Model for Counts {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if let Some(place) = self.pages.iter().position(|other| other.0 == page) {
            let (_, count, _) = self.pages.remove(place);
            self.pages.push((page, count + 1, now));
            let sum: u64 = self.pages.iter().map(|page| page.1).sum();
            if self.ageing > 0.0 && sum as f64 > self.ageing * self.pages.len() as f64 {
                // Pages that become equal keep the order of their counts, the lower one first to go.
                self.pages.sort_by_key(|&(_, count, time)| (count, time));
                for (time, entry) in self.pages.iter_mut().enumerate() {
                    // Times below every later reference, so that those used after the ageing count as more recent.
                    *entry = (entry.0, entry.1.div_ceil(2), time);
                }
            }
        } else {
            if self.pages.len() == self.capacity {
                let victim = self.pages.iter().copied().min_by_key(|&(_, count, time)| (count, time)).unwrap();
                self.pages.retain(|other| other.0 != victim.0);
                evicted.push(victim.0);
            }
            self.pages.push((page, 1, now));
        }
        evicted
    }
}
