//! dm-cache's stochastic multi-queue.

use crate::models::{Model, Reference, take};

/// The levels from the lowest, each from its oldest page, as the kernel's list heads have it.
#[derive(Default)]
pub(crate) struct Levels {
    levels: Vec<Vec<u32>>,
    /// The pages whose hit bit is set.
    bits: Vec<u32>,
    /// The pages with no sentinel behind them, and with one; those with two are aged.
    young: Vec<u32>,
    middle: Vec<u32>,
    capacity: usize,
    period: usize,
    references: usize,
    periods: usize,
    /// Periods between two sentinels.
    sentinel: usize,
}

impl Levels {
    pub(crate) fn new(capacity: usize, levels: usize, period: f64, sentinel: usize) -> Self {
        let period = (capacity as f64 * period).ceil() as usize;
        Self { levels: vec![Vec::new(); levels], capacity, period, sentinel, ..Self::default() }
    }

    fn leave(&mut self, page: u32) {
        for pages in self.levels.iter_mut().chain([&mut self.young, &mut self.middle]) {
            take(pages, page);
        }
    }

    fn push_tail(&mut self, page: u32, level: usize) {
        self.leave(page);
        self.levels[level].push(page);
        self.young.push(page);
    }

    fn push_head(&mut self, page: u32, level: usize) {
        self.leave(page);
        self.levels[level].insert(0, page);
    }

    fn end_period(&mut self) {
        self.references = 0;
        self.bits.clear();
        self.periods += 1;
        if self.sentinel > 0 && self.periods.is_multiple_of(self.sentinel) {
            self.middle = std::mem::take(&mut self.young);
        }
        let (len, levels) = (self.levels.concat().len(), self.levels.len());
        for level in 0..levels - 1 {
            let target = if level < len % levels { len / levels + 1 } else { len / levels };
            while self.levels[level].len() < target {
                let page = *self.levels[level + 1..].concat().first().unwrap();
                self.push_tail(page, level);
            }
            while self.levels[level].len() > target {
                let page = *self.levels[level].last().unwrap();
                self.push_head(page, level + 1);
            }
        }
    }

    fn hit(&mut self, page: u32, level: usize) {
        if self.bits.contains(&page) {
            return;
        }
        self.bits.push(page);
        if level + 1 < self.levels.len() {
            if let Some(&oldest) = self.levels[level + 1].first() {
                self.push_head(oldest, level);
            }
            self.push_tail(page, level + 1);
        } else {
            self.push_tail(page, level);
        }
    }

    fn evict(&mut self) -> u32 {
        let all = self.levels.concat();
        let protected = |page| self.sentinel > 0 && (self.young.contains(page) || self.middle.contains(page));
        let aged = all.iter().find(|&page| !protected(page));
        let victim = *aged.unwrap_or(&all[0]);
        self.leave(victim);
        take(&mut self.bits, victim);
        victim
    }
}

impl Model for Levels {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        if self.references == self.period {
            self.end_period();
        }
        self.references += 1;
        let mut evicted = Vec::new();
        if let Some(level) = self.levels.iter().position(|level| level.contains(&page)) {
            self.hit(page, level);
        } else {
            if self.levels.concat().len() == self.capacity {
                evicted.push(self.evict());
            }
            self.push_tail(page, 0);
        }
        evicted
    }
}
