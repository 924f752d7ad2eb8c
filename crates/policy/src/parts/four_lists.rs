//! What ARC and CAR share: pages used once and pages used often, the ghosts of both, and the border between them.
//!
//! ```text
//!   T1  used once,  resident      B1  ghosts of T1, LRU      T1 + B1 <= c
//!   T2  used often, resident      B2  ghosts of T2, LRU      all four <= 2c
//! ```
//!
//! `p` is the target size of T1. A use of a ghost in B1 says that T1 was too small and raises `p`, by |B2| / |B1| or 1 if that
//! is more; a use of one in B2 lowers it likewise. While removals leave frames free, ghosts stay at most c.
//!
//! What makes `p` stand still: T2 is full of pages that are used no more, and new pages come again later than B1 forgets them.
//! `papers/clock-pro/README.md` has the figures, and the mends that were tried.

use crate::drawing::{Drawing, Drawn, RECENCY};
use crate::parts::list::{List, Nodes};
use crate::policy::Caller;

/// The list that holds a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Within {
    #[default]
    None,
    T1,
    T2,
    B1,
    B2,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    pub(crate) within: Within,
    /// The reference bit, where there is one.
    pub(crate) referenced: bool,
}

/// T1, T2, B1, B2 and p.
#[derive(Debug)]
pub(crate) struct FourLists {
    /// FL1. A page is in the list that its status names, the one that entered last at the front.
    pub(crate) pages: Nodes<Status>,
    pub(crate) t1: List,
    pub(crate) t2: List,
    b1: List,
    b2: List,
    /// FL2. The target size of T1, from 0 to the capacity.
    pub(crate) p: f64,
    /// FL3. T1 and B1 hold at most `capacity` pages, B1 and B2 too.
    pub(crate) capacity: u32,
}

impl FourLists {
    pub(crate) fn new(pages: u32, capacity: u32) -> Self {
        let [t1, t2, b1, b2] = [List::new(); 4];
        Self { pages: Nodes::new(pages), t1, t2, b1, b2, p: 0.0, capacity }
    }

    /// How many pages are resident.
    pub(crate) fn len(&self) -> u32 {
        self.t1.len() + self.t2.len()
    }

    pub(crate) fn ghosts(&self) -> u32 {
        self.b1.len() + self.b2.len()
    }

    pub(crate) fn within(&self, page: u32) -> Within {
        self.pages[page].within
    }

    pub(crate) fn is_resident(&self, page: u32) -> bool {
        matches!(self.within(page), Within::T1 | Within::T2)
    }

    /// What `p` becomes when a page of that list is missed.
    pub(crate) fn adapted(&self, was: Within) -> f64 {
        let (b1, b2) = (f64::from(self.b1.len()), f64::from(self.b2.len()));
        match was {
            Within::B1 => (self.p + (b2 / b1).max(1.0)).min(f64::from(self.capacity)),
            Within::B2 => (self.p - (b1 / b2).max(1.0)).max(0.0),
            _ => self.p,
        }
    }

    /// A resident page goes to the front of T2.
    #[inline]
    pub(crate) fn use_again(&mut self, page: u32) {
        if self.within(page) == Within::T2 {
            self.t2.move_to_front(&mut self.pages, page);
        } else {
            self.t1.remove(&mut self.pages, page);
            self.t2.push_front(&mut self.pages, page);
            self.pages[page].within = Within::T2;
        }
    }

    /// Admits a page for which there is room: to T2 if it is a ghost; else to T1, and a ghost is dropped if the history is full.
    pub(crate) fn admit<C: Caller>(&mut self, page: u32, caller: &mut C) {
        if self.within(page) != Within::None {
            return self.move_to(page, Within::T2);
        }
        if self.t1.len() + self.b1.len() == self.capacity {
            self.drop_ghost(self.b1.back(), caller);
        } else if u64::from(self.len()) + u64::from(self.ghosts()) == 2 * u64::from(self.capacity) {
            self.drop_ghost(self.b2.back(), caller);
        }
        self.limit_ghosts(caller);
        self.move_to(page, Within::T1);
    }

    /// A resident page becomes a ghost.
    pub(crate) fn turn_ghost(&mut self, page: u32) {
        self.move_to(page, if self.within(page) == Within::T1 { Within::B1 } else { Within::B2 });
    }

    pub(crate) fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.p = self.p.min(f64::from(capacity));
        self.limit_ghosts(caller);
    }

    /// Only a resize, a removal or an eviction without a miss lets ghosts become too many.
    pub(crate) fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
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

    pub(crate) fn leave(&mut self, page: u32) {
        match self.within(page) {
            Within::None => return,
            Within::T1 => self.t1.remove(&mut self.pages, page),
            Within::T2 => self.t2.remove(&mut self.pages, page),
            Within::B1 => self.b1.remove(&mut self.pages, page),
            Within::B2 => self.b2.remove(&mut self.pages, page),
        }
        self.pages[page] = Status::default();
    }

    /// Moves a page to the front of a list, its bit clear.
    pub(crate) fn move_to(&mut self, page: u32, within: Within) {
        self.leave(page);
        let list = match within {
            Within::T1 => &mut self.t1,
            Within::T2 => &mut self.t2,
            Within::B1 => &mut self.b1,
            Within::B2 => &mut self.b2,
            Within::None => return,
        };
        list.push_front(&mut self.pages, page);
        self.pages[page].within = within;
    }

    pub(crate) fn show(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("p", self.p);
        show("T1", f64::from(self.t1.len()));
        show("T2", f64::from(self.t2.len()));
        show("B1", f64::from(self.b1.len()));
        show("B2", f64::from(self.b2.len()));
    }

    /// T1 and T2 are circles under CAR, whose hands are at their backs.
    pub(crate) fn draw(&self, drawing: &mut Drawing, clocks: bool) {
        for (name, list) in [("T1", &self.t1), ("T2", &self.t2)] {
            let drawn = |page| Drawn::resident(page).bit("reference bit", self.pages[page].referenced);
            if clocks {
                let pages = list.back_to_front(&self.pages).map(drawn);
                drawing.circle(name, ["tail", "head"], pages).hand("hand", list.back());
            } else {
                drawing.row(name, RECENCY, list.front_to_back(&self.pages).map(drawn));
            }
        }
        for (name, list) in [("B1", &self.b1), ("B2", &self.b2)] {
            drawing.row(name, RECENCY, list.front_to_back(&self.pages).map(Drawn::ghost));
        }
        drawing.number("p", self.p);
    }

    /// Recounts the lists.
    pub(crate) fn check(&self) {
        let lists = [(&self.t1, Within::T1), (&self.t2, Within::T2), (&self.b1, Within::B1), (&self.b2, Within::B2)];
        for (list, within) in lists {
            list.check(&self.pages);
            assert!(list.back_to_front(&self.pages).all(|page| self.within(page) == within)); // FL1
        }
        assert!((0.0..=f64::from(self.capacity)).contains(&self.p)); // FL2
        assert!(self.len() <= self.capacity && self.ghosts() <= self.capacity); // FL3
        assert!(self.t1.len() + self.b1.len() <= self.capacity); // FL3
    }
}
