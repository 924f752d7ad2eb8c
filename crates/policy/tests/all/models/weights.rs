//! LRFU.

use crate::models::{Model, Reference};

/// Pages with the times of all their uses.
pub(crate) struct Weights {
    pub(crate) pages: Vec<(u32, Vec<usize>)>,
    pub(crate) capacity: usize,
    pub(crate) lambda: f64,
    pub(crate) period: usize,
    /// The last pages evicted, and the most of them.
    pub(crate) ghosts: Vec<(u32, Vec<usize>)>,
    pub(crate) history: usize,
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
                let victim = self.pages.remove(victim);
                evicted.push(victim.0);
                self.ghosts.push(victim);
                self.ghosts.drain(..self.ghosts.len().saturating_sub(self.history));
            }
            let ghost = self.ghosts.iter().position(|ghost| ghost.0 == page);
            let times = ghost.map_or_else(Vec::new, |place| self.ghosts.remove(place).1);
            self.pages.push((page, [times, vec![now]].concat()));
        }
        evicted
    }
}
