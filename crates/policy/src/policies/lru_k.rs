//! LRU-K: the page whose K-th last use is the longest ago is the victim, so that one use alone keeps no page.
//!
//! E. J. O'Neil, P. E. O'Neil and G. Weikum, "The LRU-K Page Replacement Algorithm For Database Disk Buffering", SIGMOD 1993,
//! section 2, Figure 2.1.
//!
//! Of each page the times of its last K uncorrelated uses are kept, HIST(p, 1..K), and of its last use of any kind, LAST(p).
//! A use within `correlated` references of the last one belongs to the same burst: it only moves LAST. When the burst is
//! over, the older times are moved forward by its length, as if it had been one moment. Pages with fewer than K uses have
//! an infinite distance and leave first; among equals the one used least recently does. A page in its burst is no victim as
//! long as there is another. Histories outlive their pages as ghosts.
//!
//! Resident pages wait in `recent`, by LAST, until their burst is over, and then in a heap by HIST(p, K).
//!
//! Deviations: the paper keeps a history for a time (200 seconds are suggested); here it is bounded by a number, `history`
//! times the capacity, the first evicted first forgotten, as MQ's authors gave it. A time that never was stays so when a burst
//! moves the others forward. The paper leaves the order among equals to a subsidiary policy: here LRU.
//!
//! Refused victims keep their places and the next is offered, at last those in their burst.
//! Reference figures: none outside; K = 1 equals LRU, and a plain model. Parameters: `k`, `correlated`, `history`.
//! Memory: 4 bytes a page (its slot), 25 and 8 K for each resident page and ghost (page, K times, LAST, links, place in the heap),
//! 24 a frame for the heap: with K = 2 and a tenth of the pages resident 27 bytes a page. A reference takes O(log n).

use crate::drawing::{Drawing, Drawn, ENTRY, RECENCY, WORTH};
use crate::parameters::{Kind, Parameter};
use crate::parts::heap::Heap;
use crate::parts::list::{List, Nodes, offer};
use crate::parts::slots::PageSlots;
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    /// Resident, in its burst or not looked at since.
    #[default]
    Recent,
    /// Resident, in the heap.
    Ripe,
    Ghost,
}

/// LRU-K.
#[derive(Debug)]
pub struct LruK {
    /// Of the resident pages and the ghosts; all that follows is by slot.
    slots: PageSlots,
    /// K1. HIST(p, 1..K); 0 stands for never.
    hist: Vec<u64>,
    /// K2. LAST(p), no earlier than HIST(p, 1).
    last: Vec<u64>,
    status: Nodes<Status>,
    /// K3. In the order of LAST, the latest at the front.
    recent: List,
    /// K4. By HIST(p, K), then LAST(p).
    ripe: Heap<(u64, u64)>,
    /// K5. In the order of eviction, at most `history` times the capacity.
    ghosts: List,
    now: u64,
    k: usize,
    correlated: u64,
    history: u32,
    capacity: u32,
}

impl Policy for LruK {
    const INFO: Info = Info {
        name: "lru-k",
        title: "LRU-K: by the K-th last use",
        paper: "E. J. O'Neil, P. E. O'Neil and G. Weikum, The LRU-K Page Replacement Algorithm For Database Disk Buffering, SIGMOD 1993",
        parameters: &[
            Parameter {
                name: "k",
                help: "which of the last uses counts",
                kind: Kind::Integer { least: 1, most: 4 },
                default: "2",
            },
            Parameter {
                name: "correlated",
                help: "uses within this many references belong to one burst",
                kind: Kind::Integer { least: 0, most: u64::MAX },
                default: "0",
            },
            Parameter {
                name: "history",
                help: "the most ghosts, in multiples of the capacity",
                kind: Kind::Integer { least: 0, most: 100 },
                default: "4",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 100,
        bytes_per_page: 85,
        history: Some("history"),
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let mut lru_k = Self {
            slots: PageSlots::new(0, 0),
            hist: Vec::new(),
            last: Vec::new(),
            status: Nodes::new(0),
            recent: List::new(),
            ripe: Heap::new(0, 0),
            ghosts: List::new(),
            now: 0,
            k: setup.settings.integer("k") as usize,
            correlated: setup.settings.integer("correlated"),
            history: setup.settings.integer("history") as u32,
            capacity: setup.capacity,
        };
        lru_k.reserve(setup.pages);
        lru_k
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.recent.len() + self.ripe.len()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.slots.of(page).is_some_and(|slot| self.status[slot] != Status::Ghost)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.slots.prefetch(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.now += 1;
        let slot = self.slots.of(reference.page).expect("a hit is of a resident page");
        let last = self.last[slot as usize];
        if self.now - last > self.correlated {
            let burst = last - self.times(slot)[0];
            self.use_now(slot, burst);
        }
        if self.status[slot] == Status::Recent {
            self.last[slot as usize] = self.now;
            self.recent.move_to_front(&mut self.status, slot);
        } else {
            self.leave(slot);
            self.enter_recent(slot);
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        self.now += 1;
        if self.len() == self.capacity {
            self.free_a_frame(caller)?;
        }
        let slot = match self.slots.of(reference.page) {
            Some(ghost) => {
                self.leave(ghost);
                ghost
            }
            None => {
                let slot = self.slots.give(reference.page);
                self.times(slot).fill(0);
                slot
            }
        };
        self.use_now(slot, 0);
        self.enter_recent(slot);
        self.limit_ghosts(caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.free_a_frame(caller)?;
        self.limit_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if let Some(slot) = self.slots.of(page) {
            self.leave(slot);
            self.slots.take_back(slot);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.limit_ghosts(caller);
        self.reserve(self.slots.pages());
    }

    fn reserve(&mut self, pages: u32) {
        // A miss makes a ghost and admits its page before a ghost is forgotten.
        self.slots.reserve(pages, u64::from(self.capacity) + self.most_ghosts() + 1);
        let slots = self.slots.end();
        self.hist.resize(slots as usize * self.k, 0);
        self.last.resize(slots as usize, 0);
        self.status.reserve(slots);
        self.ripe.reserve(slots);
        self.ripe.reserve_places(self.capacity);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("ghosts", f64::from(self.ghosts.len()));
        let kth = self.ripe.first().map_or(0, |((kth, _), _)| kth);
        show("largest backward distance", if kth == 0 { 0.0 } else { (self.now - kth) as f64 });
    }

    fn draw(&self, drawing: &mut Drawing) {
        let kth = |slot: u32| self.hist[slot as usize * self.k + self.k - 1] as f64;
        let drawn = |slot| Drawn::resident(self.slots.page(slot)).number("K-th last use", kth(slot));
        drawing.row("recent pages", RECENCY, self.recent.front_to_back(&self.status).map(drawn));
        drawing.row("queue by K-th last use", WORTH, self.ripe.sorted().into_iter().rev().map(|(_, slot)| drawn(slot)));
        let ghost = |slot| Drawn::ghost(self.slots.page(slot)).number("K-th last use", kth(slot));
        drawing.row("history", ENTRY, self.ghosts.front_to_back(&self.status).map(ghost));
    }

    fn bytes(&self) -> usize {
        let times = (self.hist.capacity() + self.last.capacity()) * size_of::<u64>();
        self.slots.bytes() + times + self.status.bytes() + self.ripe.bytes()
    }

    fn check_invariants(&self) {
        self.recent.check(&self.status);
        self.ghosts.check(&self.status);
        self.ripe.check();
        self.slots.check(self.len() + self.ghosts.len());
        let mut latest = 0;
        for slot in self.recent.back_to_front(&self.status) {
            assert_eq!(self.status[slot], Status::Recent);
            assert!(self.last[slot as usize] > latest); // K3
            latest = self.last[slot as usize];
        }
        for slot in (0..self.slots.pages()).filter_map(|page| self.slots.of(page)) {
            assert_eq!(self.status[slot] == Status::Ripe, self.ripe.contains(slot)); // K4
            let times = &self.hist[slot as usize * self.k..][..self.k];
            assert!(times.is_sorted_by(|newer, older| newer >= older)); // K1
            if self.status[slot] != Status::Ghost {
                assert!(times[0] <= self.last[slot as usize] && self.last[slot as usize] <= self.now); // K2
            }
        }
        assert!(self.ghosts.back_to_front(&self.status).all(|slot| self.status[slot] == Status::Ghost)); // K5
        assert!(u64::from(self.ghosts.len()) <= self.most_ghosts()); // K5
        assert!(self.len() <= self.capacity);
    }
}

impl LruK {
    fn most_ghosts(&self) -> u64 {
        u64::from(self.history) * u64::from(self.capacity)
    }

    fn times(&mut self, slot: u32) -> &mut [u64] {
        &mut self.hist[slot as usize * self.k..][..self.k]
    }

    /// A new uncorrelated use, after a burst of the given length.
    fn use_now(&mut self, slot: u32, burst: u64) {
        let now = self.now;
        let times = self.times(slot);
        for newer in (1..times.len()).rev() {
            let time = times[newer - 1];
            times[newer] = time + if time == 0 { 0 } else { burst };
        }
        times[0] = now;
    }

    fn enter_recent(&mut self, slot: u32) {
        self.last[slot as usize] = self.now;
        self.recent.push_front(&mut self.status, slot);
        self.status[slot] = Status::Recent;
    }

    fn leave(&mut self, slot: u32) {
        match self.status[slot] {
            Status::Recent => self.recent.remove(&mut self.status, slot),
            Status::Ripe => self.ripe.remove(slot),
            Status::Ghost => self.ghosts.remove(&mut self.status, slot),
        }
    }

    /// Evicts a page, which becomes a ghost.
    fn free_a_frame<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        while let Some(slot) = self.recent.back() {
            let last = self.last[slot as usize];
            if self.now - last <= self.correlated {
                break;
            }
            self.recent.remove(&mut self.status, slot);
            self.ripe.set(slot, (self.hist[slot as usize * self.k + self.k - 1], last));
            self.status[slot] = Status::Ripe;
        }
        let caller = &mut self.slots.offered(caller);
        let victim = match self.ripe.offer(caller) {
            Ok(victim) => victim,
            Err(AllRefused) => {
                let victim = offer(self.recent.back_to_front(&self.status), caller)?;
                self.recent.remove(&mut self.status, victim);
                victim
            }
        };
        self.ghosts.push_front(&mut self.status, victim);
        self.status[victim] = Status::Ghost;
        Ok(())
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while u64::from(self.ghosts.len()) > self.most_ghosts() {
            let ghost = self.ghosts.back().expect("there are ghosts");
            self.leave(ghost);
            caller.forget(self.slots.take_back(ghost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::long_run;

    #[test]
    fn its_clock_does_not_run_over() {
        long_run::is_as_the_first::<LruK>(
            "lru-k:correlated=3",
            &[|lru_k| lru_k.now = u64::from(u32::MAX) - 9, |lru_k| lru_k.now = 1 << 60],
        );
    }
}
