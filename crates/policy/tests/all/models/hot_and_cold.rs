//! CLOCK-Pro.

use crate::models::{Model, Reference, take};

/// CLOCK-Pro on two `Vec`s, end first: the clock from HAND_hot to the list head, and the resident cold pages from HAND_cold.
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
}

impl HotAndCold {
    pub(crate) fn new(capacity: usize, least_cold: usize, warming_up: bool, new_tests: bool) -> Self {
        let least_cold = least_cold.min(capacity);
        Self { capacity, cold_target: least_cold, least_cold, warming_up, new_tests, ..Self::default() }
    }

    fn turn_hot(&mut self, page: u32) {
        take(&mut self.clock, page);
        take(&mut self.in_test, page);
        take(&mut self.bits, page);
        self.clock.push(page);
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
        while !self.hot.is_empty() && !self.hot.contains(&self.clock[0]) {
            self.end_test(self.clock[0]);
        }
    }

    fn demote(&mut self) {
        while !self.hot.is_empty() {
            let page = self.clock.remove(0);
            if take(&mut self.bits, page) {
                self.clock.push(page);
                self.stop_at_hot();
            } else {
                take(&mut self.hot, page);
                self.cold.push(page);
                self.stop_at_hot();
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

    fn evict(&mut self) -> u32 {
        if self.cold.is_empty() {
            self.demote();
        }
        loop {
            let page = self.cold.remove(0);
            let in_test = self.in_test.contains(&page);
            if !take(&mut self.bits, page) {
                let ghosts = |model: &Self| model.in_test.iter().filter(|page| !model.cold.contains(page)).count();
                while ghosts(self) > self.capacity {
                    let oldest = self.clock.iter().copied().find(|page| self.in_test.contains(page)).unwrap();
                    self.end_test(oldest);
                }
                return page;
            }
            if in_test {
                self.test_succeeds(page);
                self.run_hand_hot();
            } else {
                self.cold.push(page);
                if self.new_tests {
                    self.in_test.push(page);
                    self.clock.push(page);
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
        if self.in_test.contains(&page) {
            self.test_succeeds(page);
        } else if self.warming_up && self.hot.len() < self.capacity - self.cold_target {
            self.turn_hot(page);
        } else {
            self.warming_up = false;
            self.clock.push(page);
            self.in_test.push(page);
            self.cold.push(page);
        }
        self.run_hand_hot();
        evicted
    }
}
