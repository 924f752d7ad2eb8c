//! Linux: an inactive list that sifts and an active list that keeps, as in the kernel 2.4 (`old.rs`) or in today's (`today.rs`).
//!
//! M. Gorman, "Understanding the Linux Virtual Memory Manager", Prentice Hall 2004, chapter 10; `mm/vmscan.c` and
//! `mm/swap.c` of the late 2.4 kernels. S. Jiang et al. describe it likewise in section 4.1 of the DULO paper, ACM TOS
//! 3(2), 2007. For `kernel=6`: `mm/vmscan.c`, `mm/swap.c` and `mm/workingset.c` of Linux 6.18.
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
//!   page's referenced bit, and makes an inactive page active whose bit is set already.
//! - `process`: pages are mapped, and the hardware sets the bit. Only at the tail of the inactive list is it seen: then
//!   the page becomes active, its second chance.
//!
//! A page that is read ahead enters like any other, but with its bit clear: its first use changes nothing else.
//!
//! Refused victims go to the head of the inactive list, as in `shrink_cache`. When all of it is refused, the active
//! pages are offered from the tail, and keep their places.
//!
//! Reference figures: none outside; tested against plain models. Parameters: `kernel`, `ratio`, `access`.
//! Memory: 11 bytes a page (two links, list and bits), 4 more with `kernel=6`, and 4 more where the caller has folios of several pages.

mod folios;
mod old;
mod today;

use crate::drawing::{Drawing, Drawn, ENTRY, QUEUE};
use crate::parameters::{Kind, Parameter, Settings};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

use old::Refill;
use today::Workingset;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Unknown,
    Inactive,
    Active,
    /// Evicted, and remembered by today's kernel.
    Shadow,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    place: Place,
    referenced: bool,
    /// The hardware's bit, which is another one in today's kernel.
    young: bool,
}

/// What differs between kernels.
#[derive(Debug)]
enum Kernel {
    Old(Refill),
    Today(Workingset),
}

/// Linux's two lists.
#[derive(Debug)]
pub struct Linux {
    /// LX1. A page is in the list that its flags say, the head at the front.
    nodes: Nodes<Flags>,
    active: List,
    inactive: List,
    kernel: Kernel,
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
                name: "kernel",
                help: "which Linux: 2.4, or 6 with its shadow entries and refault distances",
                kind: Kind::Choice(&["2.4", "6"]),
                default: "2.4",
            },
            Parameter {
                name: "ratio",
                help: "with kernel=2.4: the active list tends to this many times the inactive one",
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
        ghosts: 1,
        bytes_per_page: 15,
        awaits_uses: true,
        ..Info::PLAIN
    };

    /// The kernel 2.4 remembers nothing of evicted pages.
    fn most_ghosts(settings: &Settings) -> u32 {
        u32::from(settings.choice("kernel") == "6")
    }

    fn new(setup: &Setup) -> Self {
        Self {
            nodes: Nodes::new(setup.pages),
            active: List::new(),
            inactive: List::new(),
            kernel: match setup.settings.choice("kernel") {
                "6" => Kernel::Today(Workingset::new(setup.pages)),
                _ => Kernel::Old(Refill::new(setup.settings.real("ratio"))),
            },
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

    fn ghosts(&self) -> u32 {
        if let Kernel::Today(workingset) = &self.kernel { workingset.shadows.len() } else { 0 }
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.nodes[page].place, Place::Inactive | Place::Active)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        match self.kernel {
            Kernel::Old(_) => self.use_old(reference.page),
            Kernel::Today(_) => self.use_today(reference.page),
        }
    }

    fn awaits_use(&self, page: u32) -> bool {
        let Flags { place, referenced, young } = self.nodes[page];
        match self.kernel {
            Kernel::Today(_) if !self.by_calls => !young,
            // A first use after readahead changes nothing in 2.4, though it is awaited.
            _ => !referenced || self.by_calls && place == Place::Inactive,
        }
    }

    /// Pages read ahead enter the inactive list, as in the kernel.
    fn ranks_readahead(&self) -> bool {
        true
    }

    /// The kernel's readahead sets no bit, and this use sets the one that the read of a missing page would have set.
    fn first_use<C: Caller>(&mut self, reference: &Reference, _: &mut C) {
        if let Kernel::Today(_) = self.kernel {
            self.use_today(reference.page);
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        self.faults += 1;
        match self.kernel {
            Kernel::Old(_) => self.enter(reference.page, Place::Inactive),
            Kernel::Today(_) => self.admit_today(reference),
        }
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        match self.kernel {
            Kernel::Old(_) => self.evict_old(caller),
            Kernel::Today(_) => self.evict_today(caller),
        }
    }

    #[inline]
    fn joins(&self) -> bool {
        self.by_calls && matches!(self.kernel, Kernel::Today(_))
    }

    fn join(&mut self, pages: &[u32]) {
        if self.joins() {
            self.join_today(pages);
        }
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if let Kernel::Today(workingset) = &mut self.kernel {
            workingset.folios.part(page);
        }
        self.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.forget_shadows(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
        if let Kernel::Today(workingset) = &mut self.kernel {
            workingset.reserve(pages);
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("active", f64::from(self.active.len()));
        show("inactive", f64::from(self.inactive.len()));
        if let Kernel::Today(workingset) = &self.kernel {
            show("shadows", f64::from(workingset.shadows.len()));
        }
        show("hand steps a fault", self.steps as f64 / self.faults.max(1) as f64);
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |page| {
            let Flags { referenced, young, .. } = self.nodes[page];
            Drawn::resident(page).bit("referenced bit", referenced).bit("accessed bit", young)
        };
        drawing.row("active list", QUEUE, self.active.front_to_back(&self.nodes).map(drawn));
        drawing.row("inactive list", QUEUE, self.inactive.front_to_back(&self.nodes).map(drawn));
        if let Kernel::Today(workingset) = &self.kernel {
            drawing.row("shadow entries", ENTRY, workingset.shadows.front_to_back(&self.nodes).map(Drawn::ghost));
        }
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes() + if let Kernel::Today(workingset) = &self.kernel { workingset.bytes() } else { 0 }
    }

    fn check_invariants(&self) {
        let of_shadows = if let Kernel::Today(workingset) = &self.kernel { workingset.shadows } else { List::new() };
        for (list, place) in
            [(&self.active, Place::Active), (&self.inactive, Place::Inactive), (&of_shadows, Place::Shadow)]
        {
            list.check(&self.nodes);
            assert!(list.back_to_front(&self.nodes).all(|page| self.nodes[page].place == place)); // LX1
        }
        if let Kernel::Old(refill) = &self.kernel {
            refill.check();
        }
        if let Kernel::Today(workingset) = &self.kernel {
            workingset.folios.check();
        }
        assert!(self.len() <= self.capacity && self.ghosts() <= self.capacity);
    }
}

impl Linux {
    fn list(&mut self, place: Place) -> &mut List {
        match (place, &mut self.kernel) {
            (Place::Active, _) => &mut self.active,
            (Place::Inactive, _) => &mut self.inactive,
            (Place::Shadow, Kernel::Today(workingset)) => &mut workingset.shadows,
            (Place::Unknown | Place::Shadow, _) => unreachable!("a page of this kernel is in a list"),
        }
    }

    /// Takes a page from its list, if it is in any.
    fn leave(&mut self, page: u32) {
        let place = std::mem::take(&mut self.nodes[page]).place;
        if place != Place::Unknown {
            let mut list = *self.list(place);
            list.remove(&mut self.nodes, page);
            *self.list(place) = list;
        }
    }

    /// Puts a page that is in no list at the head of one, with its bits clear.
    fn enter(&mut self, page: u32, place: Place) {
        self.nodes[page] = Flags { place, ..Flags::default() };
        let mut list = *self.list(place);
        list.push_front(&mut self.nodes, page);
        *self.list(place) = list;
    }

    /// Moves a page to the head of another list, with its bits clear.
    fn transfer(&mut self, page: u32, place: Place) {
        self.leave(page);
        self.enter(page, place);
    }

    /// A use is seen that changes no list.
    fn set_bit(&mut self, page: u32) {
        let Flags { referenced, young, .. } = &mut self.nodes[page];
        *(if self.by_calls { referenced } else { young }) = true;
    }

    /// All inactive pages were refused: offers the active ones.
    fn evict_active<C: Caller>(&mut self, caller: &mut C) -> Result<u32, AllRefused> {
        offer(self.active.back_to_front(&self.nodes), caller)
    }
}
