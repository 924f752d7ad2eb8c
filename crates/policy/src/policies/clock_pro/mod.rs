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
//!   hot          H           H           H           H   <---  HAND_hot
//!   tests            c   g       c   g       c   g       <---  HAND_test   the oldest test
//!   cold         c   c   r   c   c   r   c               <---  HAND_cold   resident cold pages
//! ```
//!
//! The one clock is kept, as in the authors' kernel (section 5.2.1), as a list for each group that a hand looks for: `hot` the hot
//! pages, HAND_hot at its back; `tests` the pages in test, HAND_test at its back; `cold` the resident cold pages, HAND_cold at its
//! back. So no hand walks over pages that are not its own, and "moves to the list head" is a move to the front. Where pages of
//! `hot` and `tests` stand to each other is told by when they entered the list head. A cold page whose test is over is in `cold`
//! alone: only HAND_cold still asks for it.
//!
//! What the paper leaves open, or says in two ways (figures: `papers/clock-pro/README.md`, *What the decisions cost*).
//! `papers/clock-pro/decisions.toml` shows each with its alternatives:
//!
//! - Until the hot pages fill their share for the first time, pages are admitted hot, as in LIRS and in the authors' later program.
//!   Section 4.3 has every faulted page cold, which cannot be meant of a memory that fills: without hot pages a loop over more than
//!   twice the memory never hits, and Figure 2 has CLOCK-Pro near OPT on such loops. The price is hits on the vSCSI trace in a large
//!   memory. `warm-up=cold` is section 4.3's.
//! - `m_c` starts at the least that it may be, 1 % of the memory and 2 pages at least: LIRS's allocation, which section 5.1.1 compares
//!   it with, and the program's band. Without the 1 % it falls to 2 pages wherever most pages come once, and pages that are used twice at
//!   short distance are lost between (`least=2`). A least of 1 page brings the smallest memories nearer to Table 1, and larger ones
//!   farther from it.
//! - A resident page may be found used only when HAND_hot or HAND_test ends its test. It was "accessed during its test period" (section 4.4),
//!   so `m_c` grows; the page stays cold, since only HAND_cold turns cold pages hot (section 4.3). With `m_c` left as it is sprite
//!   has fewer hits, and gnuplot fewer faults.
//! - A resident cold page that is used after its test period starts a new one at the list head. (The paper: "no status change", and
//!   nothing of a test; without one the page cannot become hot while it is resident. `new-test=off` starts none: fewer hits on vSCSI,
//!   more on cpp.)
//! - HAND_hot runs once at a fault, and once for a page that HAND_cold turns hot, and only while there are more hot pages
//!   than `m - m_c`: so a changed `m_c` is realised at the pace of the faults ("by temporally adjusting the moving speeds").
//! - Ghosts are limited to `m`; HAND_test ends the oldest test, of a resident page or a ghost, until they are.
//!
//! One rule is not the paper's. HAND_hot moves only when a test succeeds, and the limit of the ghosts ends each test of a loop over more than
//! `m + m_c` pages: once hot pages are there that are used no more, such a loop never hits. So an eighth of the ghosts' places is for
//! witnesses of the tests that the limit has ended (`recovery.rs`). `recovery=off` is the paper's rules alone. With witnesses such a loop has nearly
//! LIRS's hits after another working set (figures: `papers/clock-pro/README.md`, *After another working set*). A loop of few laps, as cs
//! and gli, still loses hits there: a lap must come twice before it is known to come again. The price is hits on P6 and vSCSI.
//! To drop hot pages before there is a witness, when most have been idle for long by their own measure, was tried: cs and gli gain, but
//! vSCSI loses hits, and a scan of an eighth of the memory drops what is in use.
//!
//! Refused victims: HAND_cold passes them. When all cold pages are refused, the hot ones are offered in HAND_hot's order,
//! without changing their status.
//!
//! Reference figures: the paper's Tables 1 and 2, and the authors' later C program, both in `golden/README.md`. How near they are, and
//! CLOCK-Pro beside CLOCK: `papers/clock-pro/README.md`.
//! Parameters: the paper has none; these show what the decisions are for. Memory: 23 bytes a page.

mod drawing;
mod recovery;

use crate::drawing::Drawing;
use crate::parameters::{Kind, Parameter, Part};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use recovery::{LOOKS, Witnesses};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Hot,
    /// Resident, its test over.
    Cold,
    /// Resident and cold, in test.
    Tested,
    /// In test, not resident.
    Ghost,
    /// A ghost that the limit has taken out of test, and that may speak for its group.
    Witness,
}

#[derive(Clone, Copy, Debug, Default)]
struct Status {
    state: State,
    referenced: bool,
    /// Of a hot page: the last look but how many cleared its bit, from 1, if HAND_hot has not passed it since. Else 0.
    seen: u8,
}

impl Status {
    fn new(state: State) -> Self {
        Self { state, ..Self::default() }
    }

    fn in_test(self) -> bool {
        matches!(self.state, State::Tested | State::Ghost)
    }
}

/// CLOCK-Pro.
#[derive(Debug)]
pub struct ClockPro {
    /// CP1. In `hot` if and only if hot, in `tests` if and only if in test.
    hot: List,
    tests: List,
    status: Nodes<Status>,
    /// CP2. Both lists and the witnesses are in the order of when their pages entered; none in test, and no witness, entered before the hot page at
    /// HAND_hot.
    entered: Vec<u32>,
    /// When the next page enters.
    now: u32,
    /// CP3. In `cold` if and only if resident and not hot. HAND_cold is the back.
    cold: List,
    cold_links: Nodes<()>,
    /// CP4. How many pages in test are not resident.
    ghosts: u32,
    /// CP5. `hot` and `cold` hold at most `capacity` pages; ghosts are at most as many, less the most witnesses.
    /// CP6. `m_c`, the allocation of resident cold pages, between `least_cold` and the capacity.
    cold_target: u32,
    least_cold: u32,
    least_part: Part,
    page_size: u64,
    /// Whether hot pages have not filled their share yet, and pages are admitted hot until they have.
    warming_up: bool,
    /// Whether a page that is used after its test starts another.
    new_tests: bool,
    /// Whether there are witnesses.
    recovery: bool,
    witnesses: Witnesses,
    /// At how many misses from now on a new page is admitted hot, since a witness speaks for it.
    group: u32,
    /// How many tests the limit of the ghosts has ended since the last look, and when the last looks were, the last one first.
    ended: u32,
    looks: [u32; LOOKS],
    /// Pages that a hand has looked at, and misses.
    steps: u64,
    faults: u64,
    capacity: u32,
}

impl Policy for ClockPro {
    const INFO: Info = Info {
        name: "clock-pro",
        title: "CLOCK-Pro: hot and cold pages by reuse distance",
        paper: "S. Jiang, F. Chen and X. Zhang, CLOCK-Pro: An Effective Improvement of the CLOCK Replacement, USENIX 2005",
        parameters: &[
            Parameter {
                name: "least",
                help: "the least share of the cache for cold pages; a percentage is at least 2 pages",
                kind: Kind::Part,
                default: "1%",
            },
            Parameter {
                name: "warm-up",
                help: "how pages are admitted until hot ones fill their share",
                kind: Kind::Choice(&["hot", "cold"]),
                default: "hot",
            },
            Parameter {
                name: "new-test",
                help: "a cold page used after its test starts another",
                kind: Kind::Choice(&["on", "off"]),
                default: "on",
            },
            Parameter {
                name: "recovery",
                help: "whether witnesses of tests that the limit of the ghosts ended bring new pages in",
                kind: Kind::Choice(&["on", "off"]),
                default: "on",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 1,
        bytes_per_page: 23,
        hit_sets_bit: true,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let least_part = setup.settings.part("least");
        let least_cold = least_cold(least_part, setup.capacity, setup.page_size);
        Self {
            hot: List::new(),
            tests: List::new(),
            status: Nodes::new(setup.pages),
            entered: vec![0; setup.pages as usize],
            now: 0,
            cold: List::new(),
            cold_links: Nodes::new(setup.pages),
            ghosts: 0,
            cold_target: least_cold,
            least_cold,
            least_part,
            page_size: setup.page_size,
            warming_up: setup.settings.choice("warm-up") == "hot",
            new_tests: setup.settings.choice("new-test") == "on",
            recovery: setup.settings.choice("recovery") == "on",
            witnesses: Witnesses::new(),
            group: 0,
            ended: 0,
            looks: [0; LOOKS],
            steps: 0,
            faults: 0,
            capacity: setup.capacity,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.hot.len() + self.cold.len()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts + self.witnesses.list.len()
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.status[page].state, State::Hot | State::Cold | State::Tested)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.status.prefetch_value(page);
        self.status.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.status[reference.page].referenced = true;
    }

    fn awaits_use(&self, page: u32) -> bool {
        !self.status[page].referenced
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        self.faults += 1;
        let wanted_hot = self.warming_up || self.group > 0;
        self.group = self.group.saturating_sub(1);
        let Status { state, .. } = self.status[page];
        match state {
            // Still a ghost after the hands have moved: its test succeeds.
            State::Ghost => {
                self.ghosts -= 1;
                self.tests.remove(&mut self.status, page);
                self.test_succeeds();
                self.admit_hot(page);
            }
            State::Witness if self.witness_used(page, caller) => self.admit_hot(page),
            _ if wanted_hot && self.hot.len() < self.hot_target() => self.admit_hot(page),
            _ => {
                self.warming_up = false;
                self.status[page] = Status::default();
                self.start_test(page);
                self.cold.push_front(&mut self.cold_links, page);
            }
        }
        self.run_hand_hot(caller);
        Ok(())
    }

    /// HAND_cold (section 4.3).
    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.warming_up = false;
        if self.cold.is_empty() && !self.hot.is_empty() {
            self.demote(caller);
        }
        // Refusals since a page last changed its place otherwise: once that is a whole round, all cold pages are refused.
        let mut refused = 0;
        while refused < self.cold.len() {
            let page = self.cold.back().expect("there are more cold pages than refused ones");
            let in_test = self.status[page].in_test();
            self.steps += 1;
            if self.status[page].referenced {
                refused = 0;
                self.status[page].referenced = false;
                caller.await_use(page);
                if in_test {
                    self.cold.remove(&mut self.cold_links, page);
                    self.tests.remove(&mut self.status, page);
                    self.test_succeeds();
                    self.admit_hot(page);
                    self.run_hand_hot(caller);
                } else {
                    self.cold.move_to_front(&mut self.cold_links, page);
                    if self.new_tests {
                        self.start_test(page);
                    }
                }
            } else if caller.evict(page) {
                self.cold.remove(&mut self.cold_links, page);
                if in_test {
                    self.status[page].state = State::Ghost;
                    self.ghosts += 1;
                    self.limit_ghosts(caller);
                } else {
                    self.status[page] = Status::default();
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
        match self.status[page].state {
            State::Hot => self.hot.remove(&mut self.status, page),
            State::Cold | State::Tested => self.cold.remove(&mut self.cold_links, page),
            State::Ghost => self.ghosts -= 1,
            State::Witness => self.witnesses.remove(&mut self.status, page),
            State::Unknown => {}
        }
        if self.status[page].in_test() {
            self.tests.remove(&mut self.status, page);
        }
        self.status[page] = Status::default();
        self.stop_at_hot(caller);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.least_cold = least_cold(self.least_part, capacity, self.page_size);
        self.cold_target = self.cold_target.clamp(self.least_cold, capacity);
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.status.reserve(pages);
        self.cold_links.reserve(pages);
        self.entered.resize(self.entered.len().max(pages as usize), 0);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("hot", f64::from(self.hot.len()));
        show("cold", f64::from(self.cold.len()));
        show("cold target", f64::from(self.cold_target));
        show("ghosts", f64::from(self.ghosts));
        show("witnesses", f64::from(self.witnesses.list.len()));
        show("hand steps a fault", self.steps as f64 / self.faults.max(1) as f64);
    }

    fn draw(&self, drawing: &mut Drawing) {
        drawing::draw(self, drawing);
    }

    fn bytes(&self) -> usize {
        self.status.bytes() + self.cold_links.bytes() + self.entered.capacity() * size_of::<u32>()
    }

    fn check_invariants(&self) {
        self.hot.check(&self.status);
        self.tests.check(&self.status);
        self.cold.check(&self.cold_links);
        self.witnesses.check(&self.status);
        assert!(self.hot.back_to_front(&self.status).all(|page| self.status[page].state == State::Hot)); // CP1
        assert!(self.tests.back_to_front(&self.status).all(|page| self.status[page].in_test())); // CP1
        let entered = |page: u32| self.entered[page as usize];
        let oldest_hot = self.hot.back().map(entered);
        assert!(self.hot.back_to_front(&self.status).map(entered).is_sorted()); // CP2
        for list in [&self.tests, &self.witnesses.list] {
            assert!(list.back_to_front(&self.status).map(entered).is_sorted()); // CP2
            assert!(list.back().is_none_or(|oldest| oldest_hot.is_none_or(|hot| hot < entered(oldest)))); // CP2
        }
        let ghosts = self.tests.back_to_front(&self.status).filter(|&page| self.status[page].state == State::Ghost);
        assert_eq!(ghosts.count(), self.ghosts as usize); // CP4
        for page in self.cold.back_to_front(&self.cold_links) {
            let status = self.status[page];
            assert!(matches!(status.state, State::Cold | State::Tested)); // CP1, CP3
            assert_eq!(status.in_test(), self.status.is_linked(page)); // CP1
        }
        assert!(self.len() <= self.capacity && self.ghosts + self.most_witnesses() <= self.capacity); // CP5
        assert!(self.witnesses.list.len() <= self.most_witnesses()); // CP5, CR1
        assert!((self.least_cold..=self.capacity).contains(&self.cold_target)); // CP6
    }
}

/// The least allocation of cold pages.
fn least_cold(part: Part, capacity: u32, page_size: u64) -> u32 {
    let least = if matches!(part, Part::Percent(_)) { 2 } else { 1 };
    part.pages(capacity, page_size).max(least).min(capacity)
}

impl ClockPro {
    /// `m_h`, the allocation of hot pages.
    fn hot_target(&self) -> u32 {
        self.capacity - self.cold_target
    }

    fn test_succeeds(&mut self) {
        self.cold_target = (self.cold_target + 1).min(self.capacity);
    }

    fn admit_hot(&mut self, page: u32) {
        self.status[page] = Status::new(State::Hot);
        self.enter(page);
        self.hot.push_front(&mut self.status, page);
    }

    fn start_test(&mut self, page: u32) {
        self.status[page].state = State::Tested;
        self.enter(page);
        self.tests.push_front(&mut self.status, page);
    }

    /// The page is at the list head now.
    fn enter(&mut self, page: u32) {
        if self.now == u32::MAX {
            self.enter_anew();
        }
        self.entered[page as usize] = self.now;
        self.now += 1;
    }

    /// Counts from 0 again, with all pages in the order in which they entered, and looks between the same pages.
    fn enter_anew(&mut self) {
        let lists = [&self.hot, &self.tests, &self.witnesses.list];
        let mut pages: Vec<u32> = lists.into_iter().flat_map(|list| list.back_to_front(&self.status)).collect();
        pages.sort_unstable_by_key(|&page| self.entered[page as usize]);
        for look in &mut self.looks {
            *look = pages.partition_point(|&page| self.entered[page as usize] < *look) as u32;
        }
        self.now = 0;
        for page in pages {
            self.entered[page as usize] = self.now;
            self.now += 1;
        }
    }

    /// Runs HAND_hot for one page if there are more hot pages than their allocation.
    fn run_hand_hot<C: Caller>(&mut self, caller: &mut C) {
        self.stop_at_hot(caller);
        if self.hot.len() > self.hot_target() {
            self.demote(caller);
        }
    }

    /// HAND_hot: turns the hot page with the largest recency cold, sparing those used since it last passed.
    fn demote<C: Caller>(&mut self, caller: &mut C) {
        while let Some(page) = self.hot.back() {
            self.steps += 1;
            if self.status[page].referenced || self.status[page].seen > 0 {
                self.spare(page, caller);
                self.stop_at_hot(caller);
            } else {
                self.turn_cold(page);
                return self.stop_at_hot(caller);
            }
        }
    }

    /// HAND_hot passes a hot page that was used.
    fn spare<C: Caller>(&mut self, page: u32, caller: &mut C) {
        let status = &mut self.status[page];
        status.seen = 0;
        if std::mem::take(&mut status.referenced) {
            caller.await_use(page);
        }
        self.hot.move_to_front(&mut self.status, page);
        self.enter(page);
    }

    fn turn_cold(&mut self, page: u32) {
        self.hot.remove(&mut self.status, page);
        self.status[page] = Status::new(State::Cold);
        self.cold.push_front(&mut self.cold_links, page);
    }

    /// HAND_hot has moved on to a hot page: ends the tests of the cold pages that it passed.
    fn stop_at_hot<C: Caller>(&mut self, caller: &mut C) {
        let Some(hot) = self.hot.back().map(|page| self.entered[page as usize]) else { return };
        while let Some(page) = self.tests.back().filter(|&page| self.entered[page as usize] <= hot) {
            if !self.end_test(page) {
                caller.forget(page);
            }
        }
        while let Some(page) = self.witnesses.list.back().filter(|&page| self.entered[page as usize] <= hot) {
            self.witnesses.remove(&mut self.status, page);
            caller.forget(page);
        }
    }

    /// The test of a cold page is over: in vain, if it was not used. Returns whether the page is resident; if not, it is unknown now.
    fn end_test(&mut self, page: u32) -> bool {
        self.steps += 1;
        self.tests.remove(&mut self.status, page);
        let Status { state, referenced, .. } = self.status[page];
        if referenced {
            self.test_succeeds();
        } else {
            self.cold_target = (self.cold_target - 1).max(self.least_cold);
        }
        let resident = state == State::Tested;
        self.ghosts -= u32::from(!resident);
        self.status[page] = Status { referenced, ..Status::new(if resident { State::Cold } else { State::Unknown }) };
        resident
    }

    /// The last resort when every cold page is refused.
    fn evict_hot<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.hot.back_to_front(&self.status), caller)?;
        self.remove(victim, caller);
        caller.forget(victim);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
