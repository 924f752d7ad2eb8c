//! Linux's active and inactive list, in the kernel 2.4 and today.

use crate::models::{Model, Reference, take};
use std::collections::BTreeMap;

/// The two lists from tail to head, and the pages whose referenced bit is set.
pub(crate) struct TwoLists {
    active: Vec<u32>,
    inactive: Vec<u32>,
    referenced: Vec<u32>,
    /// The fraction of a page by which the last refill fell short.
    short: f64,
    capacity: usize,
    ratio: f64,
    file: bool,
}

impl TwoLists {
    pub(crate) fn new(capacity: usize, ratio: f64, file: bool) -> Self {
        let (active, inactive, referenced) = (Vec::new(), Vec::new(), Vec::new());
        Self { active, inactive, referenced, short: 0.0, capacity, ratio, file }
    }

    /// `mark_page_accessed`.
    fn accessed(&mut self, page: u32) {
        let referenced = self.referenced.contains(&page);
        if self.inactive.contains(&page) && referenced {
            take(&mut self.referenced, page);
            take(&mut self.inactive, page);
            self.active.push(page);
        } else if !referenced {
            self.referenced.push(page);
        }
    }

    fn refill_inactive(&mut self, mut pages: usize) {
        while pages > 0 && !self.active.is_empty() {
            let page = self.active.remove(0);
            if take(&mut self.referenced, page) {
                self.active.push(page);
            } else {
                self.inactive.push(page);
                if self.file {
                    self.referenced.push(page);
                }
                pages -= 1;
            }
        }
    }

    fn shrink_caches(&mut self) -> u32 {
        let due = self.short + self.active.len() as f64 / (self.ratio * (self.inactive.len() as f64 + 1.0));
        self.short = due - due.floor();
        self.refill_inactive(due.floor() as usize);
        loop {
            if self.inactive.is_empty() {
                self.refill_inactive(1);
            }
            let page = self.inactive.remove(0);
            if take(&mut self.referenced, page) && !self.file {
                self.active.push(page);
            } else {
                return page;
            }
        }
    }
}

impl Model for TwoLists {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if self.active.contains(&page) || self.inactive.contains(&page) {
            if self.file {
                self.accessed(page);
            } else if !self.referenced.contains(&page) {
                self.referenced.push(page);
            }
            return evicted;
        }
        if self.active.len() + self.inactive.len() == self.capacity {
            evicted.push(self.shrink_caches());
        }
        self.inactive.push(page);
        if self.file {
            self.accessed(page);
        }
        evicted
    }
}

/// Today's lists from tail to head.
pub(crate) struct Today {
    active: Vec<u32>,
    inactive: Vec<u32>,
    /// Pages whose bit the kernel has set, and those whose bit the hardware has set.
    referenced: Vec<u32>,
    young: Vec<u32>,
    /// All pages that were ever evicted, with the age at that time.
    shadows: BTreeMap<u32, u64>,
    age: u64,
    refaulted: bool,
    /// Pages evicted so far.
    evicted: u64,
    deactivates: bool,
    /// The fraction of an active page that is still to be looked at.
    short: f64,
    capacity: usize,
    file: bool,
}

impl Today {
    pub(crate) fn new(capacity: usize, file: bool) -> Self {
        let [active, inactive, referenced, young] = [const { Vec::new() }; 4];
        let (shadows, evicted, short) = (BTreeMap::new(), 0, 0.0);
        Self {
            active,
            inactive,
            referenced,
            young,
            shadows,
            age: 0,
            refaulted: false,
            evicted,
            deactivates: false,
            short,
            capacity,
            file,
        }
    }

    fn accessed(&mut self, page: u32) {
        let bits = if self.file { &mut self.referenced } else { &mut self.young };
        if !bits.contains(&page) {
            bits.push(page);
        } else if self.file && take(&mut self.inactive, page) {
            take(&mut self.referenced, page);
            self.active.push(page);
            self.age += 1;
        }
    }

    fn shrink(&mut self) -> u32 {
        if self.evicted.is_multiple_of(32) {
            self.deactivates = self.refaulted || self.inactive.len() < self.active.len();
            self.refaulted = false;
        }
        self.evicted += 1;
        loop {
            let mut due = 0;
            if self.deactivates {
                self.short += self.active.len() as f64 / self.inactive.len().max(1) as f64;
                due = self.short as usize;
                self.short -= due as f64;
            }
            if self.inactive.is_empty() {
                due = due.max(1);
            }
            let due = due.min(self.active.len());
            self.young.retain(|page| !self.active[..due].contains(page));
            self.inactive.extend(self.active.drain(..due));
            let page = self.inactive.remove(0);
            if !take(&mut self.young, page) {
                take(&mut self.referenced, page);
                self.shadows.insert(page, self.age);
                self.age += 1;
                return page;
            }
            if self.referenced.contains(&page) {
                self.active.push(page);
                self.age += 1;
            } else {
                self.referenced.push(page);
                self.inactive.push(page);
            }
        }
    }
}

impl Model for Today {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if self.active.contains(&page) || self.inactive.contains(&page) {
            self.accessed(page);
            return evicted;
        }
        if self.active.len() + self.inactive.len() == self.capacity {
            evicted.push(self.shrink());
        }
        if self.shadows.remove(&page).is_some_and(|age| self.age - age <= self.active.len() as u64) {
            self.active.push(page);
            self.age += 1;
            self.refaulted = true;
        } else {
            self.inactive.push(page);
        }
        self.accessed(page);
        evicted
    }
}
