//! S3-FIFO.

use crate::models::{Model, Reference, take};
use std::collections::BTreeMap;

/// Algorithm 1 on three `Vec`s from tail to head, with the counts aside.
pub(crate) struct ThreeQueues {
    s: Vec<u32>,
    m: Vec<u32>,
    g: Vec<u32>,
    freq: BTreeMap<u32, u64>,
    capacity: usize,
    share_of_small: usize,
    most_ghosts: usize,
    threshold: u64,
}

impl ThreeQueues {
    pub(crate) fn new(capacity: usize, small: f64, ghost: f64, threshold: u64) -> Self {
        Self {
            s: Vec::new(),
            m: Vec::new(),
            g: Vec::new(),
            freq: BTreeMap::new(),
            capacity,
            share_of_small: ((capacity as f64 * small) as usize).max(1),
            most_ghosts: (capacity as f64 * ghost) as usize,
            threshold,
        }
    }

    fn evict(&mut self) -> u32 {
        if self.s.len() >= self.share_of_small { self.evict_s() } else { self.evict_m() }
    }

    fn evict_s(&mut self) -> u32 {
        while !self.s.is_empty() {
            let t = self.s.remove(0);
            if self.freq[&t] >= self.threshold {
                self.freq.insert(t, 0);
                self.m.push(t);
                if self.m.len() > self.capacity - self.share_of_small {
                    return self.evict_m();
                }
            } else {
                self.g.push(t);
                if self.g.len() > self.most_ghosts {
                    self.g.remove(0);
                }
                return t;
            }
        }
        self.evict_m()
    }

    fn evict_m(&mut self) -> u32 {
        loop {
            let t = self.m.remove(0);
            if self.freq[&t] == 0 {
                return t;
            }
            *self.freq.get_mut(&t).unwrap() -= 1;
            self.m.push(t);
        }
    }
}

impl Model for ThreeQueues {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if self.s.contains(&page) || self.m.contains(&page) {
            self.freq.insert(page, (self.freq[&page] + 1).min(3));
            return evicted;
        }
        if self.s.len() + self.m.len() == self.capacity {
            evicted.push(self.evict());
        }
        self.freq.insert(page, 0);
        if take(&mut self.g, page) {
            self.m.push(page)
        } else {
            self.s.push(page)
        }
        evicted
    }
}
