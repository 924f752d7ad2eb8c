//! LRFU.

use crate::{Model, Reference};

/// Pages with the times of all their uses.
pub(crate) struct Weights {
    pub(crate) pages: Vec<(u32, Vec<usize>)>,
    pub(crate) capacity: usize,
    pub(crate) lambda: f64,
    pub(crate) period: usize,
}

impl Model for Weights {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if let Some((_, times)) = self.pages.iter_mut().find(|other| other.0 == page) {
            if now - times.last().unwrap() <= self.period {
                times.pop();
            }
            times.push(now);
        } else {
            if self.pages.len() == self.capacity {
                let weight = |times: &[usize]| -> f64 {
                    times.iter().map(|&time| 0.5f64.powf(self.lambda * (now - time) as f64)).sum()
                };
                let order = |(_, times): &(u32, Vec<usize>)| (weight(times), *times.last().unwrap());
                let victim = (0..self.capacity)
                    .min_by(|&a, &b| order(&self.pages[a]).partial_cmp(&order(&self.pages[b])).unwrap())
                    .unwrap();
                evicted.push(self.pages.remove(victim).0);
            }
            self.pages.push((page, vec![now]));
        }
        evicted
    }
}
