//! dm-cache's stochastic multi-queue.

use crate::{Model, Reference, take};

/// The levels from the lowest, each from its oldest page, as the kernel's list heads have it.
pub(crate) struct Levels {
    pub(crate) levels: Vec<Vec<u32>>,
    /// The pages whose hit bit is set.
    pub(crate) bits: Vec<u32>,
    pub(crate) capacity: usize,
    pub(crate) period: usize,
    pub(crate) references: usize,
}

impl Levels {
    pub(crate) fn new(capacity: usize, levels: usize, period: f64) -> Self {
        let period = (capacity as f64 * period).ceil() as usize;
        Self { levels: vec![Vec::new(); levels], bits: Vec::new(), capacity, period, references: 0 }
    }

    fn redistribute(&mut self) {
        let (len, levels) = (self.levels.concat().len(), self.levels.len());
        for level in 0..levels - 1 {
            let target = if level < len % levels { len / levels + 1 } else { len / levels };
            while self.levels[level].len() < target {
                let above = self.levels[level + 1..].iter_mut().find(|above| !above.is_empty()).unwrap();
                let page = above.remove(0);
                self.levels[level].push(page);
            }
            while self.levels[level].len() > target {
                let page = self.levels[level].pop().unwrap();
                self.levels[level + 1].insert(0, page);
            }
        }
    }
}

impl Model for Levels {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        if self.references == self.period {
            self.redistribute();
            self.bits.clear();
            self.references = 0;
        }
        self.references += 1;
        let mut evicted = Vec::new();
        if let Some(level) = self.levels.iter().position(|level| level.contains(&page)) {
            if !self.bits.contains(&page) {
                self.bits.push(page);
                take(&mut self.levels[level], page);
                if level + 1 == self.levels.len() {
                    self.levels[level].push(page);
                } else {
                    if !self.levels[level + 1].is_empty() {
                        let oldest = self.levels[level + 1].remove(0);
                        self.levels[level].push(oldest);
                    }
                    self.levels[level + 1].push(page);
                }
            }
        } else {
            if self.levels.concat().len() == self.capacity {
                let victim = self.levels.iter_mut().find(|level| !level.is_empty()).unwrap().remove(0);
                take(&mut self.bits, victim);
                evicted.push(victim);
            }
            self.levels[0].push(page);
        }
        evicted
    }
}
