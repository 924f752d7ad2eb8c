//! RANDOM.

use crate::models::{Model, Reference};

/// Any resident page, drawn by the same sequence of numbers.
pub(crate) struct Drawn {
    pub(crate) pages: Vec<u32>,
    pub(crate) capacity: usize,
    pub(crate) state: u64,
}

impl Model for Drawn {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        if !self.pages.contains(&page) {
            if self.pages.len() == self.capacity {
                self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^= z >> 31;
                let drawn = (u128::from(z) * self.capacity as u128) >> 64;
                evicted.push(self.pages.swap_remove(drawn as usize));
            }
            self.pages.push(page);
        }
        evicted
    }
}
