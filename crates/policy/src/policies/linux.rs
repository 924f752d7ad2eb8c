//! Linux: an inactive list that sifts and an active list that keeps, as in the kernel 2.4.
//!
//! M. Gorman, "Understanding the Linux Virtual Memory Manager", Prentice Hall 2004, chapter 10; `mm/vmscan.c` and
//! `mm/swap.c` of the late 2.4 kernels. S. Jiang et al. describe it likewise in section 4.1 of the DULO paper, ACM TOS
//! 3(2), 2007.
//!
//! ```text
//!                     .---- used: mark_page_accessed ----.
//!                     |                                  v
//!   new page --> inactive_list --> victim            active_list, a clock of its own
//!                     ^                                  |
//!                     '-- not used: refill_inactive -----'
//! ```
//!
//! A new page enters the head of the inactive list, whose tail is the victim. How a page becomes active depends on
//! `access`:
//!
//! - `file`: pages are read and written by system calls, and the kernel sees each use. `mark_page_accessed` sets a
//!   page's referenced bit, and makes an inactive page active whose bit is set already. On the inactive list it always
//!   is, set by the read that brought the page in or by `refill_inactive`: so the next use makes the page active, with
//!   its bit clear.
//! - `process`: pages are mapped, and the hardware sets the bit. Only at the tail of the inactive list is it seen: then
//!   the page becomes active, its second chance.
//!
//! A page that is read ahead enters like any other, but with its bit clear: its first use changes nothing else.
//!
//! For each victim `refill_inactive` takes `active / (ratio * (inactive + 1))` pages from the tail of the active list
//! to the head of the inactive one, sparing pages whose bit is set: these return to the head with the bit clear. At the
//! default ratio of 2 the active list tends to two thirds of the memory, the kernel's aim; the less the inactive list
//! holds, the faster it is refilled.
//!
//! Where this departs from the kernel:
//!
//! - The kernel frees 32 pages at a time and rounds the pages to refill down. Here one page is freed, and the fractions
//!   add up.
//! - The first use of a mapped page, the fault itself, does not set its bit: otherwise every new page would get a
//!   second chance.
//! - 2.6 demotes a page with its bit clear, so that it takes two uses to become active again: not here.
//! - One zone, no process scanning, no dirty pages: the caller refuses these.
//!
//! Refused victims go to the head of the inactive list, as in `shrink_cache`. When all of it is refused, the active
//! pages are offered from the tail, and keep their places.
//!
//! Reference figures: none outside; tested against a plain model. Parameters: `ratio`, `access`.
//! Memory: 10 bytes a page (two links, list and bit).

use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    active: bool,
    referenced: bool,
}

/// Linux's two lists.
#[derive(Debug)]
pub struct Linux {
    /// LX1. A resident page is in the list that its flags say, the head at the front.
    nodes: Nodes<Flags>,
    active: List,
    inactive: List,
    /// LX2. The part of a page that is still to be refilled, below 1.
    refill: f64,
    ratio: f64,
    /// Whether uses are system calls, which the kernel sees, and not accesses to mapped memory.
    by_calls: bool,
    /// Pages looked at from the tails of the lists, and misses.
    steps: u64,
    faults: u64,
    capacity: u32,
}

impl Policy for Linux {
    const INFO: Info = Info {
        name: "linux",
        title: "Linux's active and inactive list",
        paper: "M. Gorman, Understanding the Linux Virtual Memory Manager, 2004",
        parameters: &[
            Parameter {
                name: "ratio",
                help: "the active list tends to this many times the inactive one",
                kind: Kind::Real { least: 0.01, most: 1e6 },
                default: "2",
            },
            Parameter {
                name: "access",
                help: "what a use is: a system call on a file, or an access of a process to mapped memory",
                kind: Kind::Choice(&["file", "process"]),
                default: "file",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 10,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self {
            nodes: Nodes::new(setup.pages),
            active: List::new(),
            inactive: List::new(),
            refill: 0.0,
            ratio: setup.settings.real("ratio"),
            by_calls: setup.settings.choice("access") == "file",
            steps: 0,
            faults: 0,
            capacity: setup.capacity,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.active.len() + self.inactive.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        if self.by_calls && !self.nodes[page].active {
            self.activate(page);
        } else {
            self.nodes[page].referenced = true;
        }
    }

    /// A first use after readahead changes nothing, though it is awaited.
    fn awaits_use(&self, page: u32) -> bool {
        let Flags { active, referenced } = self.nodes[page];
        !referenced || self.by_calls && !active
    }

    /// Pages read ahead enter the inactive list, as in the kernel.
    fn ranks_readahead(&self) -> bool {
        true
    }

    /// The kernel's readahead sets no bit, and this use sets the one that the read of a missing page would have set.
    fn first_use<C: Caller>(&mut self, _: &Reference, _: &mut C) {}

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        self.faults += 1;
        self.nodes[reference.page] = Flags::default();
        self.inactive.push_front(&mut self.nodes, reference.page);
        Ok(())
    }

    /// `shrink_caches` for one page: `refill_inactive` and `shrink_cache`.
    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let due = self.refill + f64::from(self.active.len()) / (self.ratio * f64::from(self.inactive.len() + 1));
        self.refill = due.fract();
        for _ in 0..(due as u32).min(self.active.len()) {
            self.deactivate_one(caller);
        }
        // Each page of the inactive list is made active, or offered once.
        let mut refused = 0;
        loop {
            if self.inactive.is_empty() && !self.active.is_empty() {
                self.deactivate_one(caller);
            }
            if refused == self.inactive.len() {
                break;
            }
            let page = self.inactive.back().expect("there are more inactive pages than refused ones");
            self.steps += 1;
            if self.nodes[page].referenced {
                self.activate(page);
                caller.await_use(page);
            } else if caller.evict(page) {
                self.leave(page);
                caller.forget(page);
                return Ok(());
            } else {
                self.inactive.move_to_front(&mut self.nodes, page);
                refused += 1;
            }
        }
        let victim = offer(self.active.back_to_front(&self.nodes), caller)?;
        self.leave(victim);
        caller.forget(victim);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes.is_linked(page) {
            self.leave(page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("active", f64::from(self.active.len()));
        show("inactive", f64::from(self.inactive.len()));
        show("hand steps a fault", self.steps as f64 / self.faults.max(1) as f64);
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    fn check_invariants(&self) {
        for (list, active) in [(&self.active, true), (&self.inactive, false)] {
            list.check(&self.nodes);
            assert!(list.back_to_front(&self.nodes).all(|page| self.nodes[page].active == active)); // LX1
        }
        assert!((0.0..1.0).contains(&self.refill)); // LX2
        assert!(self.len() <= self.capacity);
    }
}

impl Linux {
    fn leave(&mut self, page: u32) {
        let list = if self.nodes[page].active { &mut self.active } else { &mut self.inactive };
        list.remove(&mut self.nodes, page);
    }

    fn activate(&mut self, page: u32) {
        self.inactive.remove(&mut self.nodes, page);
        self.nodes[page] = Flags { active: true, referenced: false };
        self.active.push_front(&mut self.nodes, page);
    }

    /// `refill_inactive` for one page.
    fn deactivate_one<C: Caller>(&mut self, caller: &mut C) {
        loop {
            let page = self.active.back().expect("the active list is not empty");
            self.steps += 1;
            self.active.remove(&mut self.nodes, page);
            if !std::mem::take(&mut self.nodes[page].referenced) {
                self.nodes[page].active = false;
                return self.inactive.push_front(&mut self.nodes, page);
            }
            caller.await_use(page);
            self.active.push_front(&mut self.nodes, page);
        }
    }
}
