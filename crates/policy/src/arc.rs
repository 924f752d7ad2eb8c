//! ARC: the memory is shared between pages used once and pages used often, at a border that moves with the ghosts that are used.
//!
//! N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, Figure 4.
//!
//! ```text
//!   T1  used once,  resident, LRU      B1  ghosts of T1, LRU      T1 + B1 <= c
//!   T2  used often, resident, LRU      B2  ghosts of T2, LRU      all four <= 2c
//! ```
//!
//! `p` is the target size of T1. A use of a ghost in B1 says that T1 was too small and raises `p`, by |B2| / |B1| or 1 if that
//! is more; a use of one in B2 lowers it likewise. The victim is the back of T1 if that is longer than `p`, else of T2.
//!
//! Deviations: none when no victim is refused and no page removed. The victim's ghost is entered before another one is
//! dropped, which drops the same one. While removals leave frames free, ghosts stay at most c.
//!
//! Refused victims keep their places and the next is offered; when one list is through, the other's pages are.
//! Reference figures: the paper's OLTP table, within 0.02 points. Parameters: none.
//! Memory: 12 bytes a page.

use crate::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// The list that holds a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    None,
    T1,
    T2,
    B1,
    B2,
}

/// Adaptive replacement cache.
#[derive(Debug)]
pub struct AdaptiveReplacement {
    /// A1. A page is in the list that its value names, the one used last at the front.
    pages: Nodes<Within>,
    t1: List,
    t2: List,
    b1: List,
    b2: List,
    /// A2. The target size of T1, from 0 to the capacity.
    p: f64,
    /// A3. T1 and B1 hold at most `capacity` pages, B1 and B2 too.
    capacity: u32,
}

impl Policy for AdaptiveReplacement {
    const INFO: Info = Info {
        name: "arc",
        title: "ARC: adaptive replacement cache",
        paper: "N. Megiddo and D. S. Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003",
        parameters: &[],
        uses: Uses::PAGE,
        off_line: false,
        ghosts: 1,
        bytes_per_page: 12,
    };

    fn new(setup: &Setup) -> Self {
        let [t1, t2, b1, b2] = [List::new(); 4];
        Self { pages: Nodes::new(setup.pages), t1, t2, b1, b2, p: 0.0, capacity: setup.capacity }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.t1.len() + self.t2.len()
    }

    fn ghosts(&self) -> u32 {
        self.b1.len() + self.b2.len()
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.pages[page], Within::T1 | Within::T2)
    }

    fn hit(&mut self, reference: &Reference) {
        if self.pages[reference.page] == Within::T2 {
            self.t2.move_to_front(&mut self.pages, reference.page);
        } else {
            self.t1.remove(&mut self.pages, reference.page);
            self.enter(reference.page, Within::T2);
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        let was = self.pages[page];
        let (b1, b2) = (f64::from(self.b1.len()), f64::from(self.b2.len()));
        let p = match was {
            Within::B1 => (self.p + (b2 / b1).max(1.0)).min(f64::from(self.capacity)),
            Within::B2 => (self.p - (b1 / b2).max(1.0)).max(0.0),
            _ => self.p,
        };
        if self.len() == self.capacity {
            self.replace(p, was == Within::B2, caller)?;
        }
        self.p = p;
        if was == Within::None {
            self.make_room_in_history(caller);
        }
        self.leave(page);
        self.enter(page, if was == Within::None { Within::T1 } else { Within::T2 });
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.replace(self.p, false, caller)?;
        self.limit_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.p = self.p.min(f64::from(capacity));
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.pages.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("p", self.p);
        show("T1", f64::from(self.t1.len()));
        show("T2", f64::from(self.t2.len()));
        show("B1", f64::from(self.b1.len()));
        show("B2", f64::from(self.b2.len()));
    }

    fn bytes(&self) -> usize {
        self.pages.bytes()
    }

    fn check_invariants(&self) {
        let lists = [(&self.t1, Within::T1), (&self.t2, Within::T2), (&self.b1, Within::B1), (&self.b2, Within::B2)];
        for (list, within) in lists {
            list.check(&self.pages);
            assert!(list.back_to_front(&self.pages).all(|page| self.pages[page] == within)); // A1
        }
        assert!((0.0..=f64::from(self.capacity)).contains(&self.p)); // A2
        assert!(self.len() <= self.capacity && self.ghosts() <= self.capacity); // A3
        assert!(self.t1.len() + self.b1.len() <= self.capacity); // A3
    }
}

impl AdaptiveReplacement {
    /// Evicts the least recent page of T1 or T2, which becomes a ghost.
    fn replace<C: Caller>(&mut self, p: f64, for_b2: bool, caller: &mut C) -> Result<(), AllRefused> {
        let t1_len = f64::from(self.t1.len());
        let (t1, t2) = (self.t1.back_to_front(&self.pages), self.t2.back_to_front(&self.pages));
        let page = if t1_len > p || for_b2 && t1_len == p {
            offer(t1.chain(t2), caller)?
        } else {
            offer(t2.chain(t1), caller)?
        };
        let ghost = if self.pages[page] == Within::T1 { Within::B1 } else { Within::B2 };
        self.leave(page);
        self.enter(page, ghost);
        Ok(())
    }

    /// Drops a ghost if the history is full, before a page that was no ghost enters T1.
    fn make_room_in_history<C: Caller>(&mut self, caller: &mut C) {
        if self.t1.len() + self.b1.len() == self.capacity {
            self.drop_ghost(self.b1.back(), caller);
        } else if self.len() + self.ghosts() == 2 * self.capacity {
            self.drop_ghost(self.b2.back(), caller);
        }
        self.limit_ghosts(caller);
    }

    /// Only a resize or a removal lets ghosts become too many.
    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while self.t1.len() + self.b1.len() > self.capacity {
            self.drop_ghost(self.b1.back(), caller);
        }
        while self.ghosts() > self.capacity {
            self.drop_ghost(self.b2.back().or(self.b1.back()), caller);
        }
    }

    fn drop_ghost<C: Caller>(&mut self, page: Option<u32>, caller: &mut C) {
        let page = page.expect("there is a ghost");
        self.leave(page);
        caller.forget(page);
    }

    fn leave(&mut self, page: u32) {
        match self.pages[page] {
            Within::None => return,
            Within::T1 => self.t1.remove(&mut self.pages, page),
            Within::T2 => self.t2.remove(&mut self.pages, page),
            Within::B1 => self.b1.remove(&mut self.pages, page),
            Within::B2 => self.b2.remove(&mut self.pages, page),
        }
        self.pages[page] = Within::None;
    }

    fn enter(&mut self, page: u32, within: Within) {
        let list = match within {
            Within::T1 => &mut self.t1,
            Within::T2 => &mut self.t2,
            Within::B1 => &mut self.b1,
            Within::B2 => &mut self.b2,
            Within::None => unreachable!("a page enters a list"),
        };
        list.push_front(&mut self.pages, page);
        self.pages[page] = within;
    }
}
