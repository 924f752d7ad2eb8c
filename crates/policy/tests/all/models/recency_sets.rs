//! LIRS.

use crate::models::{Model, Reference, take};

/// LIRS on two `Vec`s, the most recently used page last: the stack S of all pages, and the queue Q of resident HIR pages.
pub(crate) struct RecencySets {
    s: Vec<u32>,
    q: Vec<u32>,
    lir: Vec<u32>,
    /// In the order of their eviction.
    ghosts: Vec<u32>,
    lir_target: usize,
    most_ghosts: usize,
    capacity: usize,
    last: Option<u32>,
}

impl RecencySets {
    pub(crate) fn new(capacity: usize, history: usize) -> Self {
        let hir = (capacity / 100).max(if capacity < 3 { 1 } else { 2 });
        let (s, q, lir, ghosts) = Default::default();
        Self { s, q, lir, ghosts, lir_target: capacity - hir, most_ghosts: history * capacity, capacity, last: None }
    }

    fn prune(&mut self) {
        while self.s.first().is_some_and(|page| !self.lir.contains(page)) {
            let page = self.s.remove(0);
            take(&mut self.ghosts, page);
        }
    }
}

impl Model for RecencySets {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if self.last.replace(page) == Some(page) {
            return evicted;
        }
        let resident = self.lir.contains(&page) || self.q.contains(&page);
        if !resident && self.lir.len() + self.q.len() == self.capacity {
            let victim = self.q.remove(0);
            evicted.push(victim);
            if self.s.contains(&victim) {
                self.ghosts.push(victim);
            }
        }
        let was_lir = self.lir.contains(&page);
        let was_in_s = take(&mut self.s, page);
        self.s.push(page);
        take(&mut self.q, page);
        take(&mut self.ghosts, page);
        if !was_lir && (was_in_s || !resident && self.lir.len() < self.lir_target) {
            self.lir.push(page);
            self.prune();
            if self.lir.len() > self.lir_target {
                let demoted = self.s.remove(0);
                take(&mut self.lir, demoted);
                self.q.push(demoted);
            }
        } else if !was_lir {
            self.q.push(page);
        }
        self.prune();
        while self.ghosts.len() > self.most_ghosts {
            let forgotten = self.ghosts.remove(0);
            take(&mut self.s, forgotten);
        }
        evicted
    }
}
