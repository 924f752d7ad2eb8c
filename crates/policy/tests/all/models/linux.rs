//! Linux's active and inactive list.

use crate::models::{Model, Reference, take};

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
