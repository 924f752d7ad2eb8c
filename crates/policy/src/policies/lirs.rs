//! LIRS: pages are kept by the distance between their last two uses (inter-reference recency), not by the time since the last.
//!
//! S. Jiang and X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to Improve Buffer Cache
//! Performance", SIGMETRICS 2002, section 3; the details after the authors' simulator.
//!
//! ```text
//!   S    top  H  L  h  g  L  H  g  L  bottom      by recency: LIR pages (L), HIR pages (H resident, g ghosts)
//!   Q   front H  h  H  back                       resident HIR pages: the back is the victim
//! ```
//!
//! LIR pages fill all of the memory but a small part, and are no victims. A HIR page that is used while it is in S was used
//! twice within the span of all LIR pages' recencies: it becomes LIR, and the LIR page at the bottom of S becomes HIR. Pruning
//! keeps a LIR page at the bottom of S. Until the LIR pages' share is full, pages are admitted as LIR.
//!
//! Deviations: the paper does not bound the ghosts in S; its simulator does so at 2,500 times the memory, by dropping the
//! oldest, and that is the default of `history`. For a real cache 3 is enough: it costs at most 1.1 points of
//! the hit ratio (cpp at 20 blocks) at all sizes of the reference figures; the pool takes as much of it as fits in a quarter of the
//! cache. As in the simulator, a reference that repeats the one before it changes nothing. In a memory of 2 pages one is for HIR pages; in one of 1 page there are no LIR pages.
//!
//! Refused victims keep their places in Q and the next is offered; when Q is through, the LIR pages from the bottom of S are, which
//! is a walk over its ghosts too: another reason for a small `history` in a real cache. Readahead takes frames as well, more than there are HIR pages. A
//! LIR page's frame that was taken so is not filled by the next page, as in the beginning, but by one that is used twice while in S: else
//! each window of a scan would make its pages LIR.
//! Reference figures: `golden/exact-hits.csv`, column LIRS (the authors' program), equal to the hit.
//! Parameters: `hir`, `history`. Memory: 20 bytes a page.

use crate::drawing::{Drawing, Drawn, ENTRY};
use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    #[default]
    Unknown,
    Lir,
    Hir,
    Ghost,
    /// A ghost that a hit has pruned from S: it means nothing any more, and the caller is told with the next miss.
    Dead,
}

/// LIRS.
#[derive(Debug)]
pub struct Lirs {
    /// LI1. Every LIR page and every ghost is in `s`, the most recently used at the front; a resident HIR page may be.
    /// LI2. The back of `s` is a LIR page, or `s` is empty.
    s: List,
    status: Nodes<Status>,
    /// LI3. Exactly the resident HIR pages.
    q: List,
    /// LI4. Exactly the ghosts, in the order in which they were evicted; with the dead ones at most `history` times the capacity.
    ghosts: List,
    dead: List,
    /// The links of `q`, `ghosts` and `dead`.
    links: Nodes<()>,
    /// LI5. The number of LIR pages, with the frames that they have lent at most their share of the capacity.
    lir: u32,
    /// Frames of LIR pages that an eviction has taken. Only pages that prove to be LIR fill them again.
    lent: u32,
    capacity: u32,
    hir_share: f64,
    history: u32,
    /// The page referenced last.
    last: Option<u32>,
}

impl Policy for Lirs {
    const INFO: Info = Info {
        name: "lirs",
        title: "LIRS: low inter-reference recency set",
        paper: "S. Jiang and X. Zhang, LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy, SIGMETRICS 2002",
        parameters: &[
            Parameter {
                name: "hir",
                help: "the share of the memory for resident HIR pages, at least 2 pages",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.01",
            },
            Parameter {
                name: "history",
                help: "the most ghosts, in multiples of the capacity",
                kind: Kind::Integer { least: 1, most: 2500 },
                default: "2500",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 2500,
        bytes_per_page: 20,
        history: Some("history"),
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self {
            s: List::new(),
            status: Nodes::new(setup.pages),
            q: List::new(),
            ghosts: List::new(),
            dead: List::new(),
            links: Nodes::new(setup.pages),
            lir: 0,
            lent: 0,
            capacity: setup.capacity,
            hir_share: setup.settings.real("hir"),
            history: setup.settings.integer("history") as u32,
            last: None,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.lir + self.q.len()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts.len() + self.dead.len()
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.status[page], Status::Lir | Status::Hir)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.status.prefetch_value(page);
        self.status.prefetch_links(page);
        self.links.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        if self.last.replace(page) == Some(page) {
            return;
        }
        if self.status[page] == Status::Lir {
            self.s.move_to_front(&mut self.status, page);
        } else if self.status.is_linked(page) {
            self.q.remove(&mut self.links, page);
            self.turn_lir(page);
        } else {
            self.s.push_front(&mut self.status, page);
            self.q.move_to_front(&mut self.links, page);
        }
        self.prune();
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        if self.len() == self.capacity {
            self.free_a_frame(caller)?;
        }
        let was_ghost = self.status[page] == Status::Ghost;
        match self.status[page] {
            Status::Ghost => self.ghosts.remove(&mut self.links, page),
            Status::Dead => self.dead.remove(&mut self.links, page),
            _ => {}
        }
        if was_ghost || self.lir + self.lent < self.lir_target() {
            self.turn_lir(page);
        } else {
            self.status[page] = Status::Hir;
            self.s.push_front(&mut self.status, page);
            self.q.push_front(&mut self.links, page);
        }
        self.last = Some(page);
        self.prune();
        self.forget_ghosts(caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.free_a_frame(caller)?;
        self.forget_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, caller: &mut C) {
        match self.status[page] {
            Status::Unknown => return,
            Status::Lir => self.lir -= 1,
            Status::Hir => self.q.remove(&mut self.links, page),
            Status::Ghost => self.ghosts.remove(&mut self.links, page),
            Status::Dead => self.dead.remove(&mut self.links, page),
        }
        if self.status.is_linked(page) {
            self.s.remove(&mut self.status, page);
        }
        self.status[page] = Status::Unknown;
        self.last = self.last.filter(|&last| last != page);
        self.prune();
        self.forget_ghosts(caller);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        while self.lir > self.lir_target() {
            self.demote();
        }
        self.lent = self.lent.min(self.lir_target() - self.lir);
        self.forget_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.status.reserve(pages);
        self.links.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("LIR pages", f64::from(self.lir));
        show("resident HIR pages", f64::from(self.q.len()));
        show("ghosts", f64::from(self.ghosts()));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |page| match self.status[page] {
            Status::Lir => Drawn::resident(page).state("LIR"),
            Status::Hir => Drawn::again(page).state("HIR"),
            _ => Drawn::ghost(page).state("HIR"),
        };
        drawing.row("S", ["top", "bottom"], self.s.front_to_back(&self.status).map(drawn));
        let resident = |page| Drawn::resident(page).state("HIR");
        drawing.row("Q", ENTRY, self.q.front_to_back(&self.links).map(resident));
        drawing.row("pruned ghosts", ENTRY, self.dead.front_to_back(&self.links).map(Drawn::ghost));
    }

    fn bytes(&self) -> usize {
        self.status.bytes() + self.links.bytes()
    }

    fn check_invariants(&self) {
        self.s.check(&self.status);
        self.q.check(&self.links);
        self.ghosts.check(&self.links);
        self.dead.check(&self.links);
        let count = |status| self.s.back_to_front(&self.status).filter(|&page| self.status[page] == status).count();
        assert_eq!(count(Status::Lir), self.lir as usize); // LI1, LI5
        assert_eq!(count(Status::Ghost), self.ghosts.len() as usize); // LI1, LI4
        assert!(self.s.back().is_none_or(|page| self.status[page] == Status::Lir)); // LI2
        assert!(self.q.back_to_front(&self.links).all(|page| self.status[page] == Status::Hir)); // LI3
        assert!(self.ghosts.back_to_front(&self.links).all(|page| self.status[page] == Status::Ghost)); // LI4
        assert!(self.dead.back_to_front(&self.links).all(|page| self.status[page] == Status::Dead)); // LI4
        assert!(u64::from(self.ghosts()) <= u64::from(self.history) * u64::from(self.capacity)); // LI4
        assert!(self.lir + self.lent <= self.lir_target() && self.len() <= self.capacity); // LI5
    }
}

impl Lirs {
    /// The LIR pages' share of the memory.
    fn lir_target(&self) -> u32 {
        let hir = (self.hir_share * f64::from(self.capacity)) as u32;
        self.capacity - hir.clamp(2.min(self.capacity.div_ceil(2)), self.capacity)
    }

    /// Makes a page LIR, at the top of S, and another one HIR if there are too many then.
    fn turn_lir(&mut self, page: u32) {
        if self.status.is_linked(page) {
            self.s.remove(&mut self.status, page);
        }
        self.s.push_front(&mut self.status, page);
        self.status[page] = Status::Lir;
        self.lir += 1;
        if self.lir > self.lir_target() {
            self.prune();
            self.demote();
        }
        self.lent = self.lent.min(self.lir_target() - self.lir);
    }

    /// The LIR page at the bottom of S becomes HIR: it leaves S and enters Q.
    fn demote(&mut self) {
        let page = self.s.back().expect("there is a LIR page, and one is at the bottom");
        self.s.remove(&mut self.status, page);
        self.status[page] = Status::Hir;
        self.lir -= 1;
        self.q.push_front(&mut self.links, page);
        self.prune();
    }

    /// Takes HIR pages from the bottom of S until there is a LIR page.
    fn prune(&mut self) {
        while let Some(page) = self.s.back().filter(|&page| self.status[page] != Status::Lir) {
            self.s.remove(&mut self.status, page);
            if self.status[page] == Status::Ghost {
                self.status[page] = Status::Dead;
                self.ghosts.remove(&mut self.links, page);
                self.dead.push_front(&mut self.links, page);
            }
        }
    }

    /// Evicts the resident HIR page at the back of Q; the ghosts may be one too many then.
    fn free_a_frame<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let Ok(page) = offer(self.q.back_to_front(&self.links), caller) else {
            return self.evict_lir(caller);
        };
        self.q.remove(&mut self.links, page);
        if self.status.is_linked(page) {
            self.status[page] = Status::Ghost;
            self.ghosts.push_front(&mut self.links, page);
        } else {
            self.status[page] = Status::Unknown;
            caller.forget(page);
        }
        Ok(())
    }

    /// The last resort when there is no HIR page that may go.
    fn evict_lir<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let lir = self.s.back_to_front(&self.status).filter(|&page| self.status[page] == Status::Lir);
        let page = offer(lir, caller)?;
        self.s.remove(&mut self.status, page);
        self.status[page] = Status::Unknown;
        self.lir -= 1;
        self.lent += 1;
        self.prune();
        caller.forget(page);
        Ok(())
    }

    /// Forgets the ghosts that are dead or too many.
    fn forget_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while let Some(page) = self.dead.back() {
            self.dead.remove(&mut self.links, page);
            self.status[page] = Status::Unknown;
            caller.forget(page);
        }
        while u64::from(self.ghosts.len()) > u64::from(self.history) * u64::from(self.capacity) {
            let page = self.ghosts.back().expect("there are ghosts");
            self.ghosts.remove(&mut self.links, page);
            self.s.remove(&mut self.status, page);
            self.status[page] = Status::Unknown;
            caller.forget(page);
        }
    }
}
