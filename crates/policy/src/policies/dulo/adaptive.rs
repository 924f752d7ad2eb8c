//! How large the correlation buffer is to be: LRU of the same size runs beside the cache, on page numbers alone, and the seeks of both
//! are counted.
//!
//! ```text
//! our seek, LRU hits or reads on    -->  lost: the eviction section shrinks
//! LRU's seek, we hit or read on     -->  won:  it grows, the faster the more it has won
//! both seek for a block known       -->  it grows a little if it has won: a larger one may win more
//! ```
//!
//! With a section of nothing the cache is LRU, with a large one DULO orders much of the stack. A fixed size is wrong somewhere: where a
//! loop just fits into LRU each sequence that goes early is missed, one fetch after the other, and nothing is won. So the section starts small
//! and grows by what it earns. While it has lost more than it has won a loss counts three times. The price: where a small section wins nothing, a large
//! one is not tried.
//!
//! A seek is a miss whose block does not follow the one fetched before it. The pages that LRU holds and the cache does not are ghosts.

use crate::parts::list::{List, Nodes};
use crate::policy::Caller;
use forebay_basis::Place;

/// The least of the eviction section, as a share of the cache and in pages: with less there would be nothing to win or to lose.
const LEAST: f64 = 0.02;
const LEAST_PAGES: u32 = 16;
/// The most: a buffer of 5 % still takes the hits that follow at once.
const MOST: f64 = 0.95;
/// What one seek changes.
const STEP: f64 = 0.019;
/// How many times a loss counts while more has been lost than won.
const LOSS: f64 = 3.0;
/// What a seek changes that both made for a block fetched before, with each percent that has been saved.
const DRIFT: f64 = 0.01;
/// With each percent of LRU's seeks that has been saved, steps become as much longer, up to this many percent.
const MOST_GAIN: f64 = 3.0;
/// The number of LRU's seeks at which counts are halved.
const MEMORY: u32 = 1 << 16;
/// How many ghosts are forgotten at an eviction: a hit makes one at most, which then waits.
const FORGOTTEN: usize = 2;

/// Where a disk's arm is.
#[derive(Clone, Copy, Debug)]
struct Arm {
    behind: Place,
}

impl Arm {
    const PARKED: Self = Self { behind: Place { object: u32::MAX, block: u64::MAX } };

    /// Fetches a block, and says whether that takes a seek.
    fn fetch(&mut self, place: Place) -> bool {
        let seek = self.behind != place;
        self.behind = Place { block: place.block.wrapping_add(1), ..place };
        seek
    }
}

#[derive(Debug)]
pub(super) struct Adaptive {
    /// DA1. A page in `recency` is held by LRU; one in `waiting`, whose value is set, is a ghost that nobody holds and that is to be forgotten.
    nodes: Nodes<bool>,
    /// DA2. At most `capacity`.
    recency: List,
    waiting: List,
    /// DA3. How many pages of the lists are not resident: at most `capacity`.
    ghosts: u32,
    capacity: u32,
    ours: Arm,
    theirs: Arm,
    /// LRU's seeks, and how many fewer we have made.
    seeks: u32,
    won: i32,
    /// DA4. The eviction section, with the bank, as a share of the cache: from `LEAST` to `MOST`.
    share: f64,
}

impl Adaptive {
    pub(super) fn new(pages: u32, capacity: u32) -> Self {
        Self {
            nodes: Nodes::new(pages),
            recency: List::new(),
            waiting: List::new(),
            ghosts: 0,
            capacity,
            ours: Arm::PARKED,
            theirs: Arm::PARKED,
            seeks: 0,
            won: 0,
            share: LEAST,
        }
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    pub(super) fn prefetch(&self, page: u32) {
        self.nodes.prefetch_links(page);
    }

    pub(super) fn ghosts(&self) -> u32 {
        self.ghosts
    }

    /// By how many percent our seeks are fewer than LRU's.
    pub(super) fn gain(&self) -> f64 {
        100.0 * f64::from(self.won) / f64::from(self.seeks.max(1))
    }

    /// The pages of the correlation buffer.
    pub(super) fn buffer(&self) -> u32 {
        let least = LEAST_PAGES.min(self.capacity / 2).max(1);
        self.capacity - ((f64::from(self.capacity) * self.share) as u32).max(least)
    }

    /// A page is referenced: one that hits, or one that is going to be admitted, whose block has been fetched before or not. `at`: where that lies.
    pub(super) fn reference(
        &mut self,
        page: u32,
        at: impl FnOnce() -> Place,
        (hit, again): (bool, bool),
        resident: impl Fn(u32) -> bool,
    ) {
        let linked = self.nodes.is_linked(page);
        self.ghosts -= u32::from(linked && !hit);
        let held = linked && !self.nodes[page];
        if held {
            self.recency.move_to_front(&mut self.nodes, page);
        } else {
            if linked {
                self.nodes[page] = false;
                self.waiting.remove(&mut self.nodes, page);
            }
            if self.recency.len() == self.capacity {
                let last = self.recency.back().expect("a full list has a page");
                self.recency.remove(&mut self.nodes, last);
                if !resident(last) {
                    self.nodes[last] = true;
                    self.waiting.push_front(&mut self.nodes, last);
                }
            }
            self.recency.push_front(&mut self.nodes, page);
        }
        if hit && held {
            return;
        }
        let at = at();
        let ours = !hit && self.ours.fetch(at);
        let theirs = !held && self.theirs.fetch(at);
        // They are halved only where something is learnt, which may never be.
        self.seeks = self.seeks.saturating_add(u32::from(theirs));
        match (ours, theirs) {
            (false, true) => self.learn(1),
            (true, false) => self.learn(-1),
            (true, true) if again => self.share = (self.share + DRIFT * self.gain().clamp(0.0, MOST_GAIN)).min(MOST),
            _ => {}
        }
    }

    /// A seek more or less than LRU's.
    fn learn(&mut self, won: i32) {
        if self.seeks >= MEMORY {
            (self.seeks, self.won) = (self.seeks / 2, self.won / 2);
        }
        self.won = self.won.saturating_add(won);
        let times = if won < 0 && self.won < 0 { -LOSS } else { f64::from(won) };
        let step = STEP * (1.0 + self.gain().clamp(0.0, MOST_GAIN));
        self.share = (self.share + times * step).clamp(LEAST, MOST);
    }

    /// A page has been evicted. `true`: it is a ghost now.
    pub(super) fn evicted(&mut self, page: u32) -> bool {
        let known = self.nodes.is_linked(page);
        self.ghosts += u32::from(known);
        known
    }

    /// Ghosts that nobody holds are forgotten, as many as an eviction may make and one more.
    pub(super) fn forget<C: Caller>(&mut self, caller: &mut C) {
        for _ in 0..FORGOTTEN {
            let Some(page) = self.waiting.back() else { return };
            self.drop(page);
            self.ghosts -= 1;
            caller.forget(page);
        }
    }

    /// The caller drops a page.
    pub(super) fn remove(&mut self, page: u32, resident: bool) {
        if self.nodes.is_linked(page) {
            self.drop(page);
            self.ghosts -= u32::from(!resident);
        }
    }

    fn drop(&mut self, page: u32) {
        let list = if std::mem::take(&mut self.nodes[page]) { &mut self.waiting } else { &mut self.recency };
        list.remove(&mut self.nodes, page);
    }

    /// LRU is of this size now.
    pub(super) fn set_capacity<C: Caller>(&mut self, capacity: u32, resident: impl Fn(u32) -> bool, caller: &mut C) {
        self.capacity = capacity;
        while !self.waiting.is_empty() {
            self.forget(caller);
        }
        while self.recency.len() > capacity {
            let last = self.recency.back().expect("it is longer than that");
            self.drop(last);
            if !resident(last) {
                self.ghosts -= 1;
                caller.forget(last);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    pub(super) fn check(&self, resident: impl Fn(u32) -> bool) {
        self.recency.check(&self.nodes);
        self.waiting.check(&self.nodes);
        assert!(self.recency.back_to_front(&self.nodes).all(|page| !self.nodes[page])); // DA1
        assert!(self.waiting.back_to_front(&self.nodes).all(|page| self.nodes[page] && !resident(page))); // DA1
        assert!(self.recency.len() <= self.capacity); // DA2
        let ghosts = self.recency.back_to_front(&self.nodes).filter(|&page| !resident(page)).count();
        assert_eq!(ghosts as u32 + self.waiting.len(), self.ghosts); // DA3
        assert!(self.ghosts <= self.capacity); // DA3
        assert!((LEAST..=MOST).contains(&self.share)); // DA4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeks_that_teach_nothing_are_counted_for_ever() {
        let mut adaptive = Adaptive::new(8, 4);
        (adaptive.seeks, adaptive.won) = (u32::MAX, i32::MIN);
        let mut miss = |page: u32, block| {
            adaptive.reference(page, || Place { object: 0, block }, (false, false), |_| false);
            adaptive.evicted(page);
            (adaptive.seeks, adaptive.won)
        };
        // Both seek.
        assert_eq!(miss(0, 100), (u32::MAX, i32::MIN));
        // LRU holds the page: a seek more than it makes.
        assert_eq!(miss(0, 300), (u32::MAX / 2, i32::MIN / 2 - 1));
    }
}
