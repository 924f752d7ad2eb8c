//! CLOCK-Pro.

use crate::models::{Model, Reference, take};
use std::collections::HashMap;

/// CLOCK-Pro on `Vec`s, end first: the clock from HAND_hot to the list head, the witnesses, and the resident cold pages from HAND_cold.
#[derive(Default)]
pub(crate) struct HotAndCold {
    clock: Vec<u32>,
    cold: Vec<u32>,
    hot: Vec<u32>,
    in_test: Vec<u32>,
    bits: Vec<u32>,
    cold_target: usize,
    least_cold: usize,
    warming_up: bool,
    new_tests: bool,
    capacity: usize,
    most_witnesses: usize,
    witnesses: Vec<u32>,
    stride: usize,
    skipped: usize,
    expected: Option<u32>,
    group: usize,
    ended: usize,
    /// When each page entered the list head, when the looks were, and which of them has cleared the bit of a hot page.
    entered: HashMap<u32, usize>,
    looks: Vec<usize>,
    seen: HashMap<u32, usize>,
    now: usize,
}

impl HotAndCold {
    pub(crate) fn new(capacity: usize, least_cold: usize, warming_up: bool, new_tests: bool) -> Self {
        let least_cold = least_cold.min(capacity);
        let most_witnesses = capacity / 8;
        Self { capacity, cold_target: least_cold, least_cold, warming_up, new_tests, most_witnesses, ..Self::default() }
    }

    /// The paper's literal rules.
    pub(crate) fn without_recovery(capacity: usize) -> Self {
        Self { most_witnesses: 0, ..Self::new(capacity, 2, true, true) }
    }

    fn enter(&mut self, page: u32) {
        self.clock.push(page);
        self.entered.insert(page, self.now);
        self.now += 1;
    }

    fn turn_hot(&mut self, page: u32) {
        take(&mut self.clock, page);
        take(&mut self.in_test, page);
        take(&mut self.bits, page);
        self.enter(page);
        self.hot.push(page);
    }

    fn test_succeeds(&mut self, page: u32) {
        self.cold_target = (self.cold_target + 1).min(self.capacity);
        self.turn_hot(page);
    }

    fn end_test(&mut self, page: u32) {
        take(&mut self.clock, page);
        take(&mut self.in_test, page);
        self.cold_target = if self.bits.contains(&page) {
            (self.cold_target + 1).min(self.capacity)
        } else {
            (self.cold_target - 1).max(self.least_cold)
        };
    }

    fn stop_at_hot(&mut self) {
        if self.hot.is_empty() {
            return;
        }
        while !self.hot.contains(&self.clock[0]) {
            self.end_test(self.clock[0]);
        }
        while self.witnesses.first().is_some_and(|witness| self.entered[witness] < self.entered[&self.clock[0]]) {
            self.drop_witness(0);
        }
    }

    fn spare(&mut self, page: u32) {
        take(&mut self.clock, page);
        take(&mut self.bits, page);
        self.seen.remove(&page);
        self.enter(page);
    }

    fn turn_cold(&mut self, page: u32) {
        take(&mut self.clock, page);
        take(&mut self.hot, page);
        self.seen.remove(&page);
        self.cold.push(page);
    }

    fn demote(&mut self) {
        while !self.hot.is_empty() {
            let page = self.clock[0];
            let used = self.bits.contains(&page) || self.seen.contains_key(&page);
            if used {
                self.spare(page)
            } else {
                self.turn_cold(page)
            }
            self.stop_at_hot();
            if !used {
                break;
            }
        }
    }

    fn run_hand_hot(&mut self) {
        self.stop_at_hot();
        if self.hot.len() > self.capacity - self.cold_target {
            self.demote();
        }
    }

    fn drop_witness(&mut self, at: usize) {
        let page = self.witnesses.remove(at);
        if self.expected == Some(page) {
            self.expected = self.witnesses.get(at).copied();
        }
    }

    fn thin(&mut self) {
        let mut at = 0;
        while at < self.witnesses.len() {
            self.drop_witness(at);
            at += 1;
        }
        self.stride *= 2;
    }

    fn limit_ghosts(&mut self) {
        while self.in_test.iter().filter(|page| !self.cold.contains(page)).count() + self.most_witnesses > self.capacity
        {
            let oldest = self.clock.iter().copied().find(|page| self.in_test.contains(page)).unwrap();
            self.end_test(oldest);
            if self.cold.contains(&oldest) || self.most_witnesses == 0 {
                continue;
            }
            self.ended += 1;
            if self.witnesses.is_empty() {
                self.stride = 1;
            }
            self.skipped += 1;
            if self.skipped >= self.stride {
                self.skipped = 0;
                self.witnesses.push(oldest);
                if self.witnesses.len() > self.most_witnesses {
                    self.thin();
                }
            }
        }
        if self.ended > self.capacity / 2 {
            self.ended = 0;
            for &page in &self.hot {
                if take(&mut self.bits, page) {
                    self.seen.insert(page, self.looks.len());
                }
            }
            self.looks.push(self.now);
        }
    }

    /// Whether a hot page may have been used after that time. Looks before the last 16 are taken for the first of these.
    fn used_after(&self, page: u32, since: usize) -> bool {
        let known = self.looks.len().saturating_sub(16);
        self.bits.contains(&page) || self.seen.get(&page).is_some_and(|&look| self.looks[look.max(known)] > since)
    }

    fn witness_used(&mut self, page: u32) -> bool {
        let in_order = self.expected.unwrap_or(self.witnesses[0]) == page;
        self.expected = Some(page);
        self.drop_witness(self.witnesses.iter().position(|&witness| witness == page).unwrap());
        let wanted = if in_order { self.stride.min(self.hot.len() / 16).max(1) } else { 1 };
        while let Some(tail) = self.clock.iter().copied().find(|page| self.hot.contains(page)) {
            if self.hot.len() + wanted <= self.capacity - self.cold_target || self.entered[&tail] > self.entered[&page]
            {
                break;
            }
            if self.used_after(tail, self.entered[&page]) { self.spare(tail) } else { self.turn_cold(tail) }
        }
        self.stop_at_hot();
        let room = (self.capacity - self.cold_target).saturating_sub(self.hot.len()).min(wanted);
        if in_order {
            self.group = room.saturating_sub(1);
        }
        room > 0
    }

    fn evict(&mut self) -> u32 {
        if self.cold.is_empty() {
            self.demote();
        }
        loop {
            let page = self.cold.remove(0);
            let in_test = self.in_test.contains(&page);
            if !take(&mut self.bits, page) {
                self.limit_ghosts();
                return page;
            }
            if in_test {
                self.test_succeeds(page);
                self.run_hand_hot();
            } else {
                self.cold.push(page);
                if self.new_tests {
                    self.in_test.push(page);
                    self.enter(page);
                }
            }
        }
    }
}

impl Model for HotAndCold {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if self.hot.contains(&page) || self.cold.contains(&page) {
            if !self.bits.contains(&page) {
                self.bits.push(page);
            }
            return evicted;
        }
        if self.hot.len() + self.cold.len() == self.capacity {
            self.warming_up = false;
            evicted.push(self.evict());
        }
        let wanted_hot = self.warming_up || self.group > 0;
        self.group = self.group.saturating_sub(1);
        if self.in_test.contains(&page) {
            self.test_succeeds(page);
        } else if self.witnesses.contains(&page) && self.witness_used(page)
            || wanted_hot && self.hot.len() < self.capacity - self.cold_target
        {
            self.turn_hot(page);
        } else {
            self.warming_up = false;
            self.enter(page);
            self.in_test.push(page);
            self.cold.push(page);
        }
        self.run_hand_hot();
        evicted
    }
}
