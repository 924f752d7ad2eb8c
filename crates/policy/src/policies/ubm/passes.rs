//! The open passes: found by where they are, so that a reference costs the same however many are open.
//!
//! ```text
//! windows   …| 8 blocks | 8 blocks | 8 blocks |…      as long as `gap`, rounded up to a power of two
//!                  ^ pass     ^ pass ^ reference      what it may continue is in its own window or in the one before
//! ```
//!
//! Passes are chained by window, in a small table of chains. No two are at one block, so a chain is short.

use super::detector::Class;
use crate::parts::list::{List, Nodes};
use crate::policy::Place;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) number: u64,
    /// The block referenced last, and how.
    pub(super) last: Place,
    pub(super) class: Class,
    /// How many blocks it has referenced, counted up to the least of a run.
    pub(super) length: u32,
    /// Infinite where its blocks were not known before.
    pub(super) period: f32,
    /// The page that it referenced last.
    pub(super) page: u32,
    /// Whether it is long enough to be a run.
    proven: bool,
    next: u32,
}

impl Pass {
    pub(super) fn new(number: u64, place: Place, page: u32, length: u32) -> Self {
        let (class, period) = (Class::Other, f32::INFINITY);
        Self { number, last: place, class, length, period, page, proven: false, next: NONE }
    }
}

#[derive(Debug)]
pub(super) struct Passes {
    passes: Vec<Pass>,
    /// UP1. `chains[chain(pass.last)]` leads to each open pass. UP2. No two of them are at one block.
    chains: Vec<u32>,
    shift: u32,
    gap: u64,
    /// UP3. An open pass is in one of these, the one continued last at the front: in `proven` if it is long enough to be a run.
    proven: List,
    unproven: List,
    links: Nodes<u64>,
    /// Places of `passes` that are free, chained by `next`.
    unused: u32,
    open: u32,
    continued: u64,
}

impl Passes {
    pub(super) fn new(open: usize, gap: u64) -> Self {
        Self {
            passes: Vec::with_capacity(open),
            chains: vec![NONE; (2 * open).next_power_of_two()],
            shift: gap.max(1).next_power_of_two().trailing_zeros(),
            gap,
            proven: List::new(),
            unproven: List::new(),
            links: Nodes::new(open as u32),
            unused: NONE,
            open: open as u32,
            continued: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.proven.len() + self.unproven.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.passes.capacity() * size_of::<Pass>() + self.chains.capacity() * size_of::<u32>() + self.links.bytes()
    }

    pub(super) fn get(&mut self, index: u32) -> &mut Pass {
        &mut self.passes[index as usize]
    }

    fn chain(&self, object: u32, window: u64) -> usize {
        // Fibonacci hashing: windows in a row, and objects, lie far apart.
        let key = window.wrapping_add(u64::from(object) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (key >> 32) as usize & (self.chains.len() - 1)
    }

    /// The open pass that a reference belongs to: the one that it is least far ahead of. One that has just been at that very block comes
    /// after them: it may have ended there, as another over the same blocks will.
    pub(super) fn continued_by(&self, place: Place) -> Option<u32> {
        let window = place.block >> self.shift;
        let mut nearest = (u64::MAX, NONE);
        for back in 0..=u64::from(window > 0) {
            let mut at = self.chains[self.chain(place.object, window - back)];
            while at != NONE {
                let pass = &self.passes[at as usize];
                let behind = place.block.wrapping_sub(pass.last.block);
                if pass.last.object == place.object && behind <= self.gap {
                    // 0 becomes the largest.
                    nearest = nearest.min((behind.wrapping_sub(1), at));
                }
                at = pass.next;
            }
        }
        // A pass at the very block has the distance `u64::MAX`, and a number less than none.
        (nearest.1 != NONE).then_some(nearest.1)
    }

    /// Opens a pass. If too many are open, the one continued least recently ends; half of the places are for runs, so that references all
    /// over the place do not end them.
    pub(super) fn open(&mut self, pass: Pass) -> u32 {
        if self.len() == self.open {
            let [proven, unproven] = [self.proven.back(), self.unproven.back()];
            let crowded = 2 * self.unproven.len() > self.open;
            let oldest = [proven.filter(|_| !crowded), unproven].into_iter().flatten().min_by_key(|&at| self.links[at]);
            self.close(oldest.or(proven).expect("passes are open"));
        }
        let index = if self.unused == NONE {
            self.passes.push(pass);
            self.passes.len() as u32 - 1
        } else {
            let index = self.unused;
            self.unused = self.passes[index as usize].next;
            self.passes[index as usize] = pass;
            index
        };
        self.passes[index as usize].proven = false;
        self.unproven.push_front(&mut self.links, index);
        self.links[index] = self.continued;
        self.hang(index, pass.last);
        index
    }

    /// A pass goes on to a block, which may be the one where it is. One that rests there ends.
    pub(super) fn advance(&mut self, index: u32, to: Place, proven: bool) {
        let from = self.passes[index as usize].last;
        if from != to {
            if let Some(resting) = self.at(to) {
                self.close(resting);
            }
            self.unhang(index);
            self.hang(index, to);
        }
        let was = std::mem::replace(&mut self.passes[index as usize].proven, proven);
        let list = if was { &mut self.proven } else { &mut self.unproven };
        if was == proven {
            list.move_to_front(&mut self.links, index);
        } else {
            list.remove(&mut self.links, index);
            let list = if proven { &mut self.proven } else { &mut self.unproven };
            list.push_front(&mut self.links, index);
        }
        self.continued += 1;
        self.links[index] = self.continued;
    }

    fn at(&self, place: Place) -> Option<u32> {
        let mut at = self.chains[self.chain(place.object, place.block >> self.shift)];
        while at != NONE && self.passes[at as usize].last != place {
            at = self.passes[at as usize].next;
        }
        (at != NONE).then_some(at)
    }

    fn close(&mut self, index: u32) {
        self.unhang(index);
        let list = if self.passes[index as usize].proven { &mut self.proven } else { &mut self.unproven };
        list.remove(&mut self.links, index);
        self.passes[index as usize].next = self.unused;
        self.unused = index;
    }

    fn hang(&mut self, index: u32, place: Place) {
        let chain = self.chain(place.object, place.block >> self.shift);
        let pass = &mut self.passes[index as usize];
        pass.last = place;
        pass.next = std::mem::replace(&mut self.chains[chain], index);
    }

    fn unhang(&mut self, index: u32) {
        let Pass { last, next, .. } = self.passes[index as usize];
        let chain = self.chain(last.object, last.block >> self.shift);
        if self.chains[chain] == index {
            self.chains[chain] = next;
            return;
        }
        let mut at = self.chains[chain];
        while self.passes[at as usize].next != index {
            at = self.passes[at as usize].next;
        }
        self.passes[at as usize].next = next;
    }

    pub(super) fn check(&self) {
        self.proven.check(&self.links);
        self.unproven.check(&self.links);
        assert!(self.len() <= self.open);
        for (list, proven) in [(&self.proven, true), (&self.unproven, false)] {
            for index in list.front_to_back(&self.links) {
                let pass = &self.passes[index as usize];
                assert_eq!(pass.proven, proven); // UP3
                assert_eq!(self.at(pass.last), Some(index)); // UP1, UP2
            }
        }
        let chained = self.chains.iter().flat_map(|&first| {
            let pass = |at: u32| (at != NONE).then_some(at);
            std::iter::successors(pass(first), move |&at| pass(self.passes[at as usize].next))
        });
        assert_eq!(chained.count(), self.len() as usize); // UP1
    }
}
