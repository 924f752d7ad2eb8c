//! ARC and CAR.

use crate::models::{Model, Reference, take};

/// ARC (Figure 4 of its paper) or CAR (Figure 2 of its) on four `Vec`s, the page that entered last at the end.
#[derive(Default)]
pub(crate) struct Adaptive {
    pub(crate) clocks: bool,
    pub(crate) c: usize,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
    bits: Vec<u32>,
    p: f64,
}

impl Adaptive {
    pub(crate) fn new(clocks: bool, c: usize) -> Self {
        Self { clocks, c, ..Self::default() }
    }

    fn replace(&mut self, in_b2: bool) -> u32 {
        let longer = self.t1.len() as f64 > self.p || in_b2 && self.t1.len() as f64 == self.p;
        let (victim, ghosts) = if !self.t1.is_empty() && longer {
            (self.t1.remove(0), &mut self.b1)
        } else {
            (self.t2.remove(0), &mut self.b2)
        };
        ghosts.push(victim);
        victim
    }

    fn turn_hands(&mut self) -> u32 {
        loop {
            let of_t1 = self.t1.len() as f64 >= self.p.max(1.0);
            let page = if of_t1 { self.t1.remove(0) } else { self.t2.remove(0) };
            if take(&mut self.bits, page) {
                self.t2.push(page);
            } else {
                if of_t1 {
                    self.b1.push(page)
                } else {
                    self.b2.push(page)
                }
                return page;
            }
        }
    }

    fn raise(&mut self) {
        self.p = (self.p + (self.b2.len() as f64 / self.b1.len() as f64).max(1.0)).min(self.c as f64);
    }

    fn lower(&mut self) {
        self.p = (self.p - (self.b1.len() as f64 / self.b2.len() as f64).max(1.0)).max(0.0);
    }

    fn arc(&mut self, page: u32) -> Vec<u32> {
        let full = self.t1.len() + self.t2.len() == self.c;
        let mut evicted = Vec::new();
        if take(&mut self.t1, page) || take(&mut self.t2, page) {
            self.t2.push(page);
        } else if self.b1.contains(&page) {
            self.raise();
            evicted.push(self.replace(false));
            take(&mut self.b1, page);
            self.t2.push(page);
        } else if self.b2.contains(&page) {
            self.lower();
            evicted.push(self.replace(true));
            take(&mut self.b2, page);
            self.t2.push(page);
        } else {
            if self.t1.len() + self.b1.len() == self.c {
                if self.t1.len() < self.c {
                    self.b1.remove(0);
                    evicted.push(self.replace(false));
                } else {
                    evicted.push(self.t1.remove(0));
                }
            } else if full {
                if self.b1.len() + self.b2.len() == self.c {
                    self.b2.remove(0);
                }
                evicted.push(self.replace(false));
            }
            self.t1.push(page);
        }
        evicted
    }

    fn car(&mut self, page: u32) -> Vec<u32> {
        let mut evicted = Vec::new();
        if self.t1.contains(&page) || self.t2.contains(&page) {
            if !self.bits.contains(&page) {
                self.bits.push(page);
            }
            return evicted;
        }
        let (in_b1, in_b2) = (self.b1.contains(&page), self.b2.contains(&page));
        if self.t1.len() + self.t2.len() == self.c {
            evicted.push(self.turn_hands());
            if !in_b1 && !in_b2 {
                if self.t1.len() + self.b1.len() == self.c {
                    self.b1.remove(0);
                } else if self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() == 2 * self.c {
                    self.b2.remove(0);
                }
            }
        }
        if in_b1 {
            self.raise();
            take(&mut self.b1, page);
            self.t2.push(page);
        } else if in_b2 {
            self.lower();
            take(&mut self.b2, page);
            self.t2.push(page);
        } else {
            self.t1.push(page);
        }
        evicted
    }
}

impl Model for Adaptive {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        if self.clocks { self.car(reference.page) } else { self.arc(reference.page) }
    }
}
