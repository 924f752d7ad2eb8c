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
//! Memory: 80 bytes a page (K times up to 4, LAST, links, heap). A reference takes O(log n).

use crate::heap::Heap;
use crate::list::{List, Nodes, offer};
use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    #[default]
    Unknown,
    /// Resident, in its burst or not looked at since.
    Recent,
    /// Resident, in the heap.
    Ripe,
    Ghost,
}

/// LRU-K.
#[derive(Debug)]
pub struct LruK {
    /// K1. By page, HIST(p, 1..K); 0 stands for never.
    hist: Vec<u64>,
    /// K2. By page, LAST(p), no earlier than HIST(p, 1).
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
                help: "uses within so many references belong to one burst",
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
        off_line: false,
        ghosts: 100,
        bytes_per_page: 80,
    };

    fn new(setup: &Setup) -> Self {
        let k = setup.settings.integer("k") as usize;
        Self {
            hist: vec![0; setup.pages as usize * k],
            last: vec![0; setup.pages as usize],
            status: Nodes::new(setup.pages),
            recent: List::new(),
            ripe: Heap::new(setup.pages, setup.capacity),
            ghosts: List::new(),
            now: 0,
            k,
            correlated: setup.settings.integer("correlated"),
            history: setup.settings.integer("history") as u32,
            capacity: setup.capacity,
        }
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
        matches!(self.status[page], Status::Recent | Status::Ripe)
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        self.now += 1;
        let last = self.last[page as usize];
        if self.now - last > self.correlated {
            let burst = last - self.times(page)[0];
            self.use_now(page, burst);
        }
        self.leave(page);
        self.enter_recent(page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        self.now += 1;
        let known = self.status[page] == Status::Ghost;
        if self.len() == self.capacity {
            self.free_a_frame(caller)?;
        }
        if !known {
            self.times(page).fill(0);
        }
        self.use_now(page, 0);
        self.leave(page);
        self.enter_recent(page);
        self.limit_ghosts(caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.free_a_frame(caller)?;
        self.limit_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.ripe.reserve_places(capacity);
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        if pages as usize > self.last.len() {
            self.hist.resize(pages as usize * self.k, 0);
            self.last.resize(pages as usize, 0);
            self.status.reserve(pages);
            self.ripe.reserve(pages);
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("ghosts", f64::from(self.ghosts.len()));
        let (kth, _) = self.ripe.first().map_or((0, 0), |page| self.ripe.key(page));
        show("largest backward distance", if kth == 0 { 0.0 } else { (self.now - kth) as f64 });
    }

    fn bytes(&self) -> usize {
        let times = (self.hist.capacity() + self.last.capacity()) * size_of::<u64>();
        times + self.status.bytes() + self.ripe.bytes()
    }

    fn check_invariants(&self) {
        self.recent.check(&self.status);
        self.ghosts.check(&self.status);
        self.ripe.check();
        let mut latest = 0;
        for page in self.recent.back_to_front(&self.status) {
            assert_eq!(self.status[page], Status::Recent);
            assert!(self.last[page as usize] > latest); // K3
            latest = self.last[page as usize];
        }
        for page in 0..self.last.len() as u32 {
            assert_eq!(self.status[page] == Status::Ripe, self.ripe.contains(page)); // K4
            let times = &self.hist[page as usize * self.k..][..self.k];
            assert!(times.is_sorted_by(|newer, older| newer >= older)); // K1
            if self.contains(page) {
                assert!(times[0] <= self.last[page as usize] && self.last[page as usize] <= self.now); // K2
            }
        }
        assert!(self.ghosts.back_to_front(&self.status).all(|page| self.status[page] == Status::Ghost)); // K5
        assert!(u64::from(self.ghosts.len()) <= u64::from(self.history) * u64::from(self.capacity)); // K5
        assert!(self.len() <= self.capacity);
    }
}

impl LruK {
    fn times(&mut self, page: u32) -> &mut [u64] {
        &mut self.hist[page as usize * self.k..][..self.k]
    }

    /// A new uncorrelated use, after a burst of the given length.
    fn use_now(&mut self, page: u32, burst: u64) {
        let now = self.now;
        let times = self.times(page);
        times.rotate_right(1);
        for time in &mut times[1..] {
            *time += if *time == 0 { 0 } else { burst };
        }
        times[0] = now;
    }

    fn enter_recent(&mut self, page: u32) {
        self.last[page as usize] = self.now;
        self.recent.push_front(&mut self.status, page);
        self.status[page] = Status::Recent;
    }

    fn leave(&mut self, page: u32) {
        match self.status[page] {
            Status::Unknown => return,
            Status::Recent => self.recent.remove(&mut self.status, page),
            Status::Ripe => self.ripe.remove(page),
            Status::Ghost => self.ghosts.remove(&mut self.status, page),
        }
        self.status[page] = Status::Unknown;
    }

    /// Evicts a page, which becomes a ghost.
    fn free_a_frame<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        while let Some(page) = self.recent.back() {
            if self.now - self.last[page as usize] <= self.correlated {
                break;
            }
            self.leave(page);
            let kth = self.hist[page as usize * self.k + self.k - 1];
            self.ripe.set(page, (kth, self.last[page as usize]));
            self.status[page] = Status::Ripe;
        }
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
        while u64::from(self.ghosts.len()) > u64::from(self.history) * u64::from(self.capacity) {
            let page = self.ghosts.back().expect("there are ghosts");
            self.leave(page);
            caller.forget(page);
        }
    }
}
