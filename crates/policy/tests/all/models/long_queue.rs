//! EELRU.

use crate::models::{Model, Reference};

/// The LRU queue, the most recently used page first, with whether it is resident.
pub(crate) struct LongQueue {
    queue: Vec<(u32, bool)>,
    capacity: usize,
    early: Vec<usize>,
    late: Vec<usize>,
    /// The segments by their last positions, counted from 1, with the references to them.
    references: Vec<(usize, u64)>,
    counted: usize,
}

impl LongQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        let points = |parts: &[f64]| parts.iter().map(|part| (part * capacity as f64) as usize).collect::<Vec<_>>();
        let mut early = points(&[1.0 / 32.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 3.0 / 4.0]);
        let mut late = points(&[9.0 / 8.0, 5.0 / 4.0, 3.0 / 2.0, 7.0 / 4.0, 2.0, 5.0 / 2.0]);
        early.retain(|&point| point > 0);
        early.dedup();
        late.retain(|&point| point > capacity);
        late.dedup();
        let ends = early.iter().chain([&capacity]).chain(&late);
        let references = ends.map(|&end| (end, 0)).collect();
        Self { queue: Vec::new(), capacity, early, late, references, counted: 0 }
    }

    fn count(&mut self, position: usize) {
        let segment = self.references.iter().position(|&(end, _)| position <= end);
        if let Some(segment) = segment.filter(|&segment| segment > 0) {
            self.references[segment].1 += 1;
            self.counted += 1;
            if self.counted.is_multiple_of(self.capacity) {
                self.references.iter_mut().for_each(|segment| segment.1 /= 2);
            }
        }
    }

    fn between(&self, from: usize, to: usize) -> u64 {
        self.references.iter().filter(|&&(end, _)| from < end && end <= to).map(|segment| segment.1).sum()
    }

    /// The index of the victim in the queue.
    fn victim(&self) -> usize {
        let mut best = (0.0, 0, 0);
        for &e in &self.early {
            for &l in &self.late {
                let (total, early) = (self.between(e, l), self.between(e, self.capacity));
                let benefit = total as f64 * (self.capacity - e) as f64 / (l - e) as f64 - early as f64;
                if benefit > best.0 {
                    best = (benefit, e, l);
                }
            }
        }
        let (benefit, e, l) = best;
        let least_recent = self.queue.iter().rposition(|page| page.1).unwrap();
        if benefit == 0.0 || least_recent + 1 > l {
            return least_recent;
        }
        (e - 1..self.queue.len()).find(|&index| self.queue[index].1).unwrap_or(least_recent)
    }
}

impl Model for LongQueue {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        let known = self.queue.iter().position(|entry| entry.0 == page);
        if let Some(index) = known {
            self.count(index + 1);
        }
        let hit = known.is_some_and(|index| self.queue[index].1);
        if !hit && self.queue.iter().filter(|entry| entry.1).count() == self.capacity {
            let victim = self.victim();
            self.queue[victim].1 = false;
            evicted.push(self.queue[victim].0);
        }
        self.queue.retain(|entry| entry.0 != page);
        self.queue.insert(0, (page, true));
        let limit = self.capacity * 5 / 2;
        let mut position = 0;
        self.queue.retain(|entry| {
            position += 1;
            entry.1 || position <= limit
        });
        evicted
    }
}
