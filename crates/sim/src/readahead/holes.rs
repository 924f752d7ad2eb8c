//! Page numbers for blocks that the trace never refers to, given out when one is read ahead, taken back when the policy forgets it.
//!
//! ```text
//! blocks    10      11   12   13   14      15
//!           page 4  -    hole -    hole    page 9
//! after[4] ---------------^-----------^           a list in the order of the blocks
//! ```
//!
//! A hole is found from the page before it, without hashing. Memory: 4 bytes a page, 24 for each hole that is known at once.

use super::successors::NONE;
use forebay_policy::prefetch::prefetch;

#[derive(Clone, Copy, Debug)]
struct Hole {
    block: u64,
    /// The holes before and behind it in its list; before the first one stands the page, as one that is not in use has the next.
    before: u32,
    behind: u32,
    /// RH1. It stays in its list although the policy does not know it: it is about to be read.
    pending: bool,
}

/// The holes that a policy knows, and their numbers, above those of the trace's pages.
#[derive(Debug)]
pub(super) struct Holes {
    /// By page, the first known hole behind it.
    after: Vec<u32>,
    holes: Vec<Hole>,
    unused: u32,
}

/// A place in a list: the page or hole that it is behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind(u32);

impl Holes {
    /// Numbers below `pages` are those of the trace's pages.
    pub(super) fn new(pages: u32) -> Self {
        Self { after: vec![NONE; pages as usize], holes: Vec::new(), unused: NONE }
    }

    /// All numbers are below this.
    pub(super) fn end(&self) -> u32 {
        self.first() + self.holes.len() as u32
    }

    fn first(&self) -> u32 {
        self.after.len() as u32
    }

    fn hole(&mut self, number: u32) -> &mut Hole {
        let first = self.first();
        &mut self.holes[(number - first) as usize]
    }

    fn behind(&self, at: u32) -> u32 {
        if at < self.first() { self.after[at as usize] } else { self.holes[(at - self.first()) as usize].behind }
    }

    /// Holes behind the page will be looked for soon.
    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        prefetch(&self.after, page as usize);
    }

    /// The known hole at a block, looked for from `behind` on, which is then moved to right before the block.
    pub(super) fn find(&self, behind: &mut Behind, block: u64) -> Option<u32> {
        loop {
            let next = self.behind(behind.0);
            if next == NONE {
                return None;
            }
            match self.holes[(next - self.first()) as usize].block {
                known if known < block => behind.0 = next,
                known => return (known == block).then_some(next),
            }
        }
    }

    /// The number of a hole that was not found, and is about to be read.
    pub(super) fn add(&mut self, behind: Behind, block: u64) -> u32 {
        let Behind(before) = behind;
        let after = self.behind(before);
        let hole = Hole { block, before, behind: after, pending: true };
        let number = if self.unused == NONE {
            self.holes.push(hole);
            self.end() - 1
        } else {
            let number = self.unused;
            self.unused = self.hole(number).before;
            *self.hole(number) = hole;
            number
        };
        self.link(before, number);
        if after != NONE {
            self.hole(after).before = number;
        }
        number
    }

    fn link(&mut self, before: u32, behind: u32) {
        if before < self.first() {
            self.after[before as usize] = behind;
        } else {
            self.hole(before).behind = behind;
        }
    }

    /// Whether a page, if it is a hole, is about to be read: it stays though the policy forgets it.
    pub(super) fn set_pending(&mut self, page: u32, pending: bool) {
        if page >= self.first() {
            self.hole(page).pending = pending;
        }
    }

    /// The policy forgets a page: if it is a hole, its number may be given to another.
    pub(super) fn forget(&mut self, page: u32) {
        if page < self.first() || self.hole(page).pending {
            return;
        }
        let Hole { before, behind, .. } = *self.hole(page);
        self.link(before, behind);
        if behind != NONE {
            self.hole(behind).before = before;
        }
        self.hole(page).before = self.unused;
        self.unused = page;
    }
}

impl Behind {
    /// Behind a page of the trace, or a hole that is known.
    pub(super) fn page(page: u32) -> Self {
        Self(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(holes: &Holes, page: u32, blocks: std::ops::Range<u64>) -> Vec<(u64, u32)> {
        let mut behind = Behind::page(page);
        blocks.filter_map(|block| holes.find(&mut behind, block).map(|number| (block, number))).collect()
    }

    #[test]
    fn a_hole_keeps_its_number_until_it_is_forgotten() {
        let mut holes = Holes::new(10);
        for (page, block) in [(4, 14), (4, 12), (9, 20), (4, 13)] {
            let mut behind = Behind::page(page);
            assert_eq!(holes.find(&mut behind, block), None);
            let number = holes.add(behind, block);
            holes.set_pending(number, false);
        }
        assert_eq!(known(&holes, 4, 11..16), [(12, 11), (13, 13), (14, 10)]);
        for page in [3, 13, 11] {
            holes.forget(page);
        }
        assert_eq!((known(&holes, 4, 11..16), known(&holes, 9, 15..30)), (vec![(14, 10)], vec![(20, 12)]));
        // The number given back last is given out first. What is about to be read keeps its own.
        let number = holes.add(Behind::page(9), 17);
        holes.forget(number);
        assert_eq!((known(&holes, 9, 15..30), holes.end()), (vec![(17, 11), (20, 12)], 14));
    }
}
