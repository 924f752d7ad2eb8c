//! DULO in Linux's inactive list.

use crate::models::dual::Dual;
use crate::models::{Model, Reference, take};
use forebay_basis::Place;

/// The inactive list is DULO's stack, of any length; the active one stands tail first.
pub(crate) struct DualInLinux {
    dual: Dual,
    active: Vec<u32>,
    section: usize,
    /// The fraction of an active page that is still to be demoted.
    due: f64,
    /// Whether pages are of files; of processes, if not.
    file: bool,
    /// Pages that have been evicted once, and so lie in swap space.
    swapped: Vec<Place>,
}

impl DualInLinux {
    /// With the paper's sizes.
    pub(crate) fn new(capacity: usize, file: bool) -> Self {
        let mut dual = Dual::new(capacity, 0.0, 0.0, 128);
        let section = (capacity as f64 / 8.0).round() as usize;
        dual.bank_max = ((section as f64 / 16.0).round() as usize).min(capacity / 2).max(1);
        Self::of(dual, section, file)
    }

    /// With a buffer and a bank in percent of the capacity.
    pub(crate) fn divided(capacity: usize, correlation: f64, bank: f64, file: bool) -> Self {
        let dual = Dual::new(capacity, correlation, bank, 128);
        let section = capacity - dual.correlation_max;
        Self::of(dual, section, file)
    }

    fn of(dual: Dual, section: usize, file: bool) -> Self {
        Self { dual, active: Vec::new(), section, due: 0.0, file, swapped: Vec::new() }
    }

    fn inactive(&self) -> usize {
        let evictable: usize = self.dual.eviction.iter().map(|sequence| sequence.2.len()).sum();
        self.dual.correlation.len() + self.dual.bank.len() + evictable
    }

    /// Whether the page was in the inactive list, which it leaves.
    fn take_inactive(&mut self, page: u32) -> bool {
        let Dual { correlation, bank, eviction, .. } = &mut self.dual;
        let taken = take(correlation, page) || take(bank, page) || eviction.iter_mut().any(|of| take(&mut of.2, page));
        eviction.retain(|sequence| !sequence.2.is_empty());
        taken
    }

    /// A page comes to the head of the inactive list. What the eviction section lacks goes there, up to 64 pages.
    fn enter(&mut self, page: u32) {
        self.dual.correlation.push(page);
        let lacking =
            self.inactive().min(self.section) as isize - (self.inactive() - self.dual.correlation.len()) as isize;
        for _ in 0..lacking.clamp(0, 64) {
            let bottom = self.dual.correlation.remove(0);
            self.dual.bank.push(bottom);
            if self.dual.bank.len() == self.dual.bank_max {
                self.dual.refill();
            }
        }
    }

    fn deactivate(&mut self) {
        while !self.active.is_empty() {
            let page = self.active.remove(0);
            if !take(&mut self.dual.young, page) {
                return self.enter(page);
            }
            self.active.push(page);
        }
    }

    fn evict(&mut self) -> u32 {
        let inactive = self.inactive();
        self.due += self.active.len() as f64 / (2.0 * (inactive + 1) as f64);
        let lacking = (2 * self.section).saturating_sub(inactive).min(64);
        let demoted = (self.due as usize).max(lacking).min(self.active.len());
        self.due = self.due.fract();
        (0..demoted).for_each(|_| self.deactivate());
        loop {
            if self.inactive() == 0 {
                self.deactivate();
            }
            if self.dual.eviction.is_empty() {
                if self.dual.bank.is_empty() {
                    let bottom = self.dual.correlation.remove(0);
                    self.dual.bank.push(bottom);
                }
                self.dual.refill();
            }
            let (h, page) = (self.dual.eviction[0].0, self.dual.eviction[0].2[0]);
            self.take_inactive(page);
            if !take(&mut self.dual.young, page) {
                self.dual.inflation = h;
                return page;
            }
            self.active.push(page);
        }
    }
}

impl Model for DualInLinux {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let Reference { page, place, .. } = *reference;
        let is_active = self.active.contains(&page);
        if self.file && self.take_inactive(page) {
            self.active.push(page);
            return Vec::new();
        }
        if is_active || self.dual.resident().contains(&page) {
            if !self.dual.young.contains(&page) {
                self.dual.young.push(page);
            }
            return Vec::new();
        }
        let mut evicted = Vec::new();
        if self.inactive() + self.active.len() == self.dual.capacity {
            let victim = self.evict();
            let place = self.dual.place(victim);
            self.swapped.push(place);
            evicted.push(victim);
        }
        if self.file || self.swapped.contains(&place) {
            self.dual.fetched.push(place);
        }
        self.dual.know(page, place);
        self.enter(page);
        evicted
    }
}
