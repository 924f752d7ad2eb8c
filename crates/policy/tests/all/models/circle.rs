//! CLOCK and GCLOCK.

use crate::models::{Model, Reference};

/// A circle of frames with a hand, each frame with a counter; CLOCK has counters of one bit.
pub(crate) struct Circle {
    pub(crate) frames: Vec<(u32, u64)>,
    pub(crate) hand: usize,
    pub(crate) capacity: usize,
    pub(crate) initial: u64,
    pub(crate) max: u64,
}

impl Model for Circle {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        if let Some(frame) = self.frames.iter_mut().find(|frame| frame.0 == page) {
            frame.1 = (frame.1 + 1).min(self.max);
            return Vec::new();
        }
        if self.frames.len() < self.capacity {
            self.frames.push((page, self.initial));
            return Vec::new();
        }
        while self.frames[self.hand].1 > 0 {
            self.frames[self.hand].1 -= 1;
            self.hand = (self.hand + 1) % self.capacity;
        }
        let victim = std::mem::replace(&mut self.frames[self.hand], (page, self.initial)).0;
        self.hand = (self.hand + 1) % self.capacity;
        vec![victim]
    }
}
