//! 2Q.

use crate::models::{Model, Reference, take};

/// 2Q on three `Vec`s, the page that entered or was used last at the end.
#[derive(Default)]
pub(crate) struct ThreeLists {
    a1_in: Vec<u32>,
    a1_out: Vec<u32>,
    a_m: Vec<u32>,
    k_in: usize,
    k_out: usize,
    capacity: usize,
}

impl ThreeLists {
    pub(crate) fn new(capacity: usize, in_share: f64, out_share: f64) -> Self {
        let share = |share: f64| (share * capacity as f64) as usize;
        Self { k_in: share(in_share).max(1), k_out: share(out_share), capacity, ..Self::default() }
    }

    /// The authors' `reclaimfor`.
    fn reclaim(&mut self) -> Vec<u32> {
        if self.a1_in.len() + self.a_m.len() < self.capacity {
            return Vec::new();
        }
        if self.a1_in.len() > self.k_in || self.a_m.is_empty() {
            let victim = self.a1_in.remove(0);
            self.a1_out.push(victim);
            if self.a1_out.len() > self.k_out {
                self.a1_out.remove(0);
            }
            return vec![victim];
        }
        vec![self.a_m.remove(0)]
    }
}

impl Model for ThreeLists {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        if take(&mut self.a_m, page) {
            self.a_m.push(page);
            return Vec::new();
        }
        if self.a1_in.contains(&page) {
            return Vec::new();
        }
        let was_out = self.a1_out.contains(&page);
        let evicted = self.reclaim();
        take(&mut self.a1_out, page);
        if was_out {
            self.a_m.push(page)
        } else {
            self.a1_in.push(page)
        }
        evicted
    }
}
