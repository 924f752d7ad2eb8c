//! FBR.

use crate::models::{Model, Reference};

/// The LRU stack as pages with counts, the most recently used first; sections are positions in it.
pub(crate) struct Sections {
    pub(crate) stack: Vec<(u32, u64)>,
    pub(crate) capacity: usize,
    pub(crate) new: f64,
    pub(crate) old: f64,
    pub(crate) c_max: u64,
    pub(crate) a_max: f64,
    /// The counts of the last pages evicted, and the most of them.
    pub(crate) ghosts: Vec<(u32, u64)>,
    pub(crate) history: usize,
}

impl Sections {
    fn age(&mut self) {
        while self.stack.iter().map(|entry| entry.1).sum::<u64>() as f64 > self.a_max * self.stack.len() as f64 {
            for entry in &mut self.stack {
                entry.1 = entry.1.div_ceil(2);
            }
        }
    }
}

impl Model for Sections {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        let old_begins = self.capacity - ((self.old * self.capacity as f64).floor() as usize).max(1);
        let new_ends = ((self.new * self.capacity as f64).floor() as usize).min(old_begins);
        if let Some(position) = self.stack.iter().position(|entry| entry.0 == page) {
            let (_, count) = self.stack.remove(position);
            self.stack.insert(0, (page, if position < new_ends { count } else { count + 1 }));
        } else {
            if self.stack.len() == self.capacity {
                let told_apart = |count: u64| if count > self.c_max { u64::MAX } else { count };
                let old = (old_begins..self.capacity).rev();
                let victim = old.min_by_key(|&position| told_apart(self.stack[position].1)).unwrap();
                let victim = self.stack.remove(victim);
                evicted.push(victim.0);
                self.age();
                self.ghosts.push(victim);
                self.ghosts.drain(..self.ghosts.len().saturating_sub(self.history));
            }
            let ghost = self.ghosts.iter().position(|ghost| ghost.0 == page);
            let count = ghost.map_or(0, |place| self.ghosts.remove(place).1);
            self.stack.insert(0, (page, count + 1));
        }
        self.age();
        evicted
    }
}
