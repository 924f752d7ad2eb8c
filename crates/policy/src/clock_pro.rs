//! CLOCK-Pro: LIRS's judgement, by reuse distance, at CLOCK's price.
//!
//! S. Jiang, F. Chen and X. Zhang, "CLOCK-Pro: An Effective Improvement of the CLOCK Replacement", USENIX 2005, section 4.
//!
//! Pages are hot or cold. A cold page gets a test period when it is admitted: used again within it, it has a smaller reuse
//! distance than the least recent hot page, and they change places. Only cold pages are victims; one evicted during its test
//! period stays as a ghost until the period ends. The allocation of resident cold pages, `m_c`, grows by one when a test
//! succeeds and shrinks by one when one ends in vain.
//!
//! ```text
//!                list head                                     list tail
//!   clock        H   h   c   H   c'  g   H   c   g   H   <---  HAND_hot     hot pages and pages in test
//!                                    HAND_test (last page in test)
//!   cold         c   c   r   c'  c   r   c             <---  HAND_cold    resident cold pages
//! ```
//!
//! The one clock is kept, as in the authors' kernel (section 5.2.1), as a list for each group that a hand looks for: `clock`
//! holds the hot pages and those in test, HAND_hot at its back; `cold` the resident cold pages, HAND_cold at its back. A cold
//! page whose test is over is in `cold` alone: only HAND_cold still asks for it. So no hand walks over pages that are not its
//! own, and "moves to the list head" is a move to the front.
//!
//! What the paper leaves open, decided by what fits its Tables 1 and 2 and its authors' program best (figures
//! below):
//!
//! - `m_c` starts at 1 % of the memory, at least 2 pages, as LIRS's allocation does, and stays between 2 and the memory.
//! - Until the hot pages fill their share for the first time, pages are admitted hot, as in LIRS.
//! - A resident cold page that is used after its test period starts a new one at the list head. (The paper: "no status
//!   change"; without a new test it could never become hot, and sprite falls up to 2 points below CLOCK.)
//! - HAND_hot runs once at a fault, and once for a page that HAND_cold turns hot, and only while there are more hot pages
//!   than `m - m_c`: so a changed `m_c` is realised at the pace of the faults ("by temporally adjusting the moving speeds").
//! - Ghosts are limited to `m`; HAND_test ends the oldest test, of a resident page or a ghost, until they are.
//!
//! Refused victims: HAND_cold passes them. When all cold pages are refused, the hot ones are offered in HAND_hot's order,
//! without changing their status.
//!
//! Reference figures: the paper's Tables 1 and 2, and the authors' later C program, both in `golden/README.md`; from 50 blocks
//! on no more than 2.5 points below the tables nor 4 above, and within 1 point of CLOCK on sprite. At 20 blocks of cpp 15.5 %:
//! the program gives 17.5, the table 23.9. Parameters: none. Memory: 20 bytes a page.

use crate::circle::Circle;
use crate::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

#[derive(Clone, Copy, Debug, Default)]
struct Status {
    resident: bool,
    hot: bool,
    in_test: bool,
    referenced: bool,
}

/// CLOCK-Pro.
#[derive(Debug)]
pub struct ClockPro {
    /// P1. In `clock` if and only if hot or in test; a page is never both. The list head is behind the hand, HAND_hot.
    /// P2. The page at HAND_hot is hot whenever there is a hot page.
    clock: Circle,
    status: Nodes<Status>,
    /// P3. In `cold` if and only if resident and not hot. HAND_cold is the back.
    cold: List,
    cold_links: Nodes<()>,
    /// P4. No page in test stands from HAND_hot to before HAND_test. `None`: HAND_test is at HAND_hot.
    hand_test: Option<u32>,
    /// P5. `hot + cold.len() <= capacity`, `ghosts <= capacity`.
    hot: u32,
    ghosts: u32,
    /// P6. `m_c`, the allocation of resident cold pages, between `least_cold` and the capacity.
    cold_target: u32,
    /// Whether hot pages have not filled their share yet.
    warming_up: bool,
    capacity: u32,
}

impl Policy for ClockPro {
    const INFO: Info = Info {
        name: "clock-pro",
        title: "CLOCK-Pro: hot and cold pages by reuse distance",
        paper: "S. Jiang, F. Chen and X. Zhang, CLOCK-Pro: An Effective Improvement of the CLOCK Replacement, USENIX 2005",
        parameters: &[],
        uses: Uses::PAGE,
        off_line: false,
        ghosts: 1,
        bytes_per_page: 20,
    };

    fn new(setup: &Setup) -> Self {
        Self {
            clock: Circle::new(),
            status: Nodes::new(setup.pages),
            cold: List::new(),
            cold_links: Nodes::new(setup.pages),
            hand_test: None,
            hot: 0,
            ghosts: 0,
            cold_target: (setup.capacity / 100).max(least_cold(setup.capacity)),
            warming_up: true,
            capacity: setup.capacity,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.hot + self.cold.len()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts
    }

    fn contains(&self, page: u32) -> bool {
        self.status[page].resident
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.status.prefetch_value(page);
        self.status.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.status[reference.page].referenced = true;
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        if self.status[page].in_test {
            // Still a ghost after the hands have moved: its test succeeds.
            self.ghosts -= 1;
            self.leave_clock(page);
            self.cold_target = (self.cold_target + 1).min(self.capacity);
            self.admit_hot(page);
        } else if self.warming_up && self.hot < self.hot_target() {
            self.admit_hot(page);
        } else {
            self.warming_up = false;
            self.status[page] = Status { resident: true, in_test: true, ..Status::default() };
            self.clock.push(&mut self.status, page);
            self.cold.push_front(&mut self.cold_links, page);
        }
        self.run_hand_hot(caller);
        Ok(())
    }

    /// HAND_cold (section 4.3).
    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.warming_up = false;
        if self.cold.is_empty() && self.hot > 0 {
            self.demote(caller);
        }
        // Refusals since a page last changed its place otherwise: once that is a whole round, all cold pages are refused.
        let mut refused = 0;
        while refused < self.cold.len() {
            let page = self.cold.back().expect("there are more cold pages than refused ones");
            let Status { referenced, in_test, .. } = self.status[page];
            if referenced {
                refused = 0;
                self.status[page].referenced = false;
                if in_test {
                    self.cold.remove(&mut self.cold_links, page);
                    self.leave_clock(page);
                    self.cold_target = (self.cold_target + 1).min(self.capacity);
                    self.admit_hot(page);
                    self.run_hand_hot(caller);
                } else {
                    self.cold.move_to_front(&mut self.cold_links, page);
                    self.status[page].in_test = true;
                    self.clock.push(&mut self.status, page);
                }
            } else if caller.evict(page) {
                self.cold.remove(&mut self.cold_links, page);
                self.status[page].resident = false;
                if in_test {
                    self.ghosts += 1;
                    self.limit_ghosts(caller);
                } else {
                    caller.forget(page);
                }
                return Ok(());
            } else {
                self.cold.move_to_front(&mut self.cold_links, page);
                refused += 1;
            }
        }
        self.evict_hot(caller)
    }

    fn remove<C: Caller>(&mut self, page: u32, caller: &mut C) {
        let Status { resident, hot, in_test, .. } = self.status[page];
        match (resident, hot) {
            (true, true) => self.hot -= 1,
            (true, false) => self.cold.remove(&mut self.cold_links, page),
            (false, _) if in_test => self.ghosts -= 1,
            (false, _) => {}
        }
        if hot || in_test {
            self.leave_clock(page);
        }
        self.status[page] = Status::default();
        self.stop_at_hot(caller);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.cold_target = self.cold_target.clamp(least_cold(capacity), capacity);
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.status.reserve(pages);
        self.cold_links.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("hot", f64::from(self.hot));
        show("cold", f64::from(self.cold.len()));
        show("cold target", f64::from(self.cold_target));
        show("ghosts", f64::from(self.ghosts));
    }

    fn bytes(&self) -> usize {
        self.status.bytes() + self.cold_links.bytes()
    }

    fn check_invariants(&self) {
        self.clock.check(&self.status);
        self.cold.check(&self.cold_links);
        let (mut hot, mut ghosts) = (0, 0);
        for page in self.clock.pages(&self.status) {
            let status = self.status[page];
            assert!(status.hot != status.in_test); // P1
            hot += u32::from(status.hot);
            ghosts += u32::from(!status.resident);
        }
        assert_eq!((hot, ghosts), (self.hot, self.ghosts));
        assert!(hot == 0 || self.clock.hand().is_some_and(|page| self.status[page].hot)); // P2
        for page in self.cold.back_to_front(&self.cold_links) {
            let status = self.status[page];
            assert!(status.resident && !status.hot && status.in_test == self.status.is_linked(page)); // P1, P3
        }
        if let Some(hand) = self.hand_test {
            let behind = self.clock.pages(&self.status).take_while(|&page| page != hand);
            assert!(behind.into_iter().all(|page| !self.status[page].in_test)); // P4
        }
        assert!(self.len() <= self.capacity && ghosts <= self.capacity); // P5
        assert!((least_cold(self.capacity)..=self.capacity).contains(&self.cold_target)); // P6
    }
}

/// The least allocation of cold pages.
fn least_cold(capacity: u32) -> u32 {
    capacity.min(2)
}

impl ClockPro {
    /// `m_h`, the allocation of hot pages.
    fn hot_target(&self) -> u32 {
        self.capacity - self.cold_target
    }

    fn admit_hot(&mut self, page: u32) {
        self.status[page] = Status { resident: true, hot: true, ..Status::default() };
        self.clock.push(&mut self.status, page);
        self.hot += 1;
    }

    fn leave_clock(&mut self, page: u32) {
        if self.hand_test == Some(page) {
            self.hand_test = Some(self.status.after(page)).filter(|&next| next != page);
        }
        self.clock.remove(&mut self.status, page);
    }

    /// Runs HAND_hot for one page if there are more hot pages than their allocation.
    fn run_hand_hot<C: Caller>(&mut self, caller: &mut C) {
        self.stop_at_hot(caller);
        if self.hot > self.hot_target() {
            self.demote(caller);
        }
    }

    /// HAND_hot: turns the hot page with the largest recency cold, sparing those used since it last passed.
    fn demote<C: Caller>(&mut self, caller: &mut C) {
        loop {
            let page = self.clock.hand().expect("there is a hot page, and it is at the hand");
            if !self.status[page].referenced {
                self.leave_clock(page);
                self.status[page].hot = false;
                self.hot -= 1;
                self.cold.push_front(&mut self.cold_links, page);
                return self.stop_at_hot(caller);
            }
            self.status[page].referenced = false;
            if self.hand_test == Some(page) {
                self.hand_test = Some(self.status.after(page));
            }
            self.clock.turn(&self.status);
            self.stop_at_hot(caller);
        }
    }

    /// Moves HAND_hot on to a hot page, ending the tests of the cold pages that it passes.
    fn stop_at_hot<C: Caller>(&mut self, caller: &mut C) {
        while self.hot > 0 {
            let page = self.clock.hand().expect("there is a hot page");
            if self.status[page].hot {
                break;
            }
            self.end_test(page, caller);
        }
    }

    /// A cold page passes its test period without being used again.
    fn end_test<C: Caller>(&mut self, page: u32, caller: &mut C) {
        self.leave_clock(page);
        self.status[page].in_test = false;
        self.cold_target = (self.cold_target - 1).max(least_cold(self.capacity));
        if !self.status[page].resident {
            self.ghosts -= 1;
            caller.forget(page);
        }
    }

    /// HAND_test: ends the oldest tests while there are more ghosts than the memory has pages.
    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while self.ghosts > self.capacity {
            let page = self.hand_test.or(self.clock.hand()).expect("there are ghosts");
            if self.status[page].in_test {
                self.hand_test = Some(page);
                self.end_test(page, caller);
            } else {
                self.hand_test = Some(self.status.after(page));
            }
        }
    }

    /// The last resort when every cold page is refused.
    fn evict_hot<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.clock.pages(&self.status).filter(|&page| self.status[page].hot), caller)?;
        self.remove(victim, caller);
        caller.forget(victim);
        Ok(())
    }
}
