//! 2Q: a page is kept for long only if it is used again after it has left a short queue of newcomers.
//!
//! T. Johnson and D. Shasha, "2Q: A Low Overhead High Performance Buffer Management Replacement Algorithm", VLDB 1994,
//! section 3, the full version.
//!
//! ```text
//!   A1in   front  c  c  c  back   resident, FIFO; a use within it is correlated with the first and changes nothing
//!   A1out  front  g  g  g  back   ghosts of A1in, FIFO: a use of one admits the page to Am
//!   Am     front  h  h  h  back   resident, LRU
//! ```
//!
//! While A1in is longer than Kin its back is the victim and becomes a ghost; else the back of Am is, and is forgotten. Kin is a
//! quarter of the memory and Kout half, as the authors suggest.
//!
//! Refused victims keep their places and the next is offered; when one queue is through, the other's pages are.
//!
//! Deviations: Kin is at least 1 page, and if Am is empty A1in gives the victim. Frames that a caller has taken for pages read ahead count as
//! A1in's, which is where these pages will enter.
//! Reference figures: none outside; tested against a plain model. Parameters: `in`, `out`. Memory: 9 bytes a page.

use crate::drawing::{Drawing, Drawn, ENTRY, RECENCY};
use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Unknown,
    A1in,
    A1out,
    Am,
}

/// 2Q, the full version.
#[derive(Debug)]
pub struct TwoQueue {
    /// TQ1. A page is in the list that its place names; the one that entered or was used last is at the front.
    places: Nodes<Place>,
    a1_in: List,
    /// TQ2. At most `k_out` pages.
    a1_out: List,
    a_m: List,
    capacity: u32,
    in_share: f64,
    out_share: f64,
}

impl Policy for TwoQueue {
    const INFO: Info = Info {
        name: "2q",
        title: "2Q, full version",
        paper: "T. Johnson and D. Shasha, 2Q: A Low Overhead High Performance Buffer Management Replacement Algorithm, VLDB 1994",
        parameters: &[
            Parameter {
                name: "in",
                help: "Kin: the share of the memory for pages used once",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.25",
            },
            Parameter {
                name: "out",
                help: "Kout: the most ghosts, in multiples of the capacity",
                kind: Kind::Real { least: 0.0, most: 4.0 },
                default: "0.5",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 4,
        bytes_per_page: 9,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self {
            places: Nodes::new(setup.pages),
            a1_in: List::new(),
            a1_out: List::new(),
            a_m: List::new(),
            capacity: setup.capacity,
            in_share: setup.settings.real("in"),
            out_share: setup.settings.real("out"),
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.a1_in.len() + self.a_m.len()
    }

    fn ghosts(&self) -> u32 {
        self.a1_out.len()
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.places[page], Place::A1in | Place::Am)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.places.prefetch_value(page);
        self.places.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        if self.places[reference.page] == Place::Am {
            self.a_m.move_to_front(&mut self.places, reference.page);
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        let was_ghost = self.places[page] == Place::A1out;
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        if was_ghost {
            if self.places[page] == Place::A1out {
                self.a1_out.remove(&mut self.places, page);
            }
            self.enter(page, Place::Am);
        } else {
            self.enter(page, Place::A1in);
        }
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let newcomers = self.a1_in.back_to_front(&self.places);
        let others = self.a_m.back_to_front(&self.places);
        let taken = self.capacity - self.len();
        let victim = if self.a1_in.len() + taken > self.k_in() {
            offer(newcomers.chain(others), caller)?
        } else {
            offer(others.chain(newcomers), caller)?
        };
        if self.places[victim] == Place::A1in {
            self.a1_in.remove(&mut self.places, victim);
            self.enter(victim, Place::A1out);
            self.limit_ghosts(caller);
        } else {
            self.remove(victim, caller);
            caller.forget(victim);
        }
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        match self.places[page] {
            Place::Unknown => return,
            Place::A1in => self.a1_in.remove(&mut self.places, page),
            Place::A1out => self.a1_out.remove(&mut self.places, page),
            Place::Am => self.a_m.remove(&mut self.places, page),
        }
        self.places[page] = Place::Unknown;
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.places.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("A1in", f64::from(self.a1_in.len()));
        show("A1out", f64::from(self.a1_out.len()));
        show("Am", f64::from(self.a_m.len()));
    }

    fn draw(&self, drawing: &mut Drawing) {
        drawing.row("A1in", ENTRY, self.a1_in.front_to_back(&self.places).map(Drawn::resident));
        drawing.row("A1out", ENTRY, self.a1_out.front_to_back(&self.places).map(Drawn::ghost));
        drawing.row("Am", RECENCY, self.a_m.front_to_back(&self.places).map(Drawn::resident));
    }

    fn bytes(&self) -> usize {
        self.places.bytes()
    }

    fn check_invariants(&self) {
        for (list, place) in [(&self.a1_in, Place::A1in), (&self.a1_out, Place::A1out), (&self.a_m, Place::Am)] {
            list.check(&self.places);
            assert!(list.back_to_front(&self.places).all(|page| self.places[page] == place)); // TQ1
        }
        assert!(self.a1_out.len() <= self.k_out()); // TQ2
        assert!(self.len() <= self.capacity);
    }
}

impl TwoQueue {
    fn k_in(&self) -> u32 {
        ((self.in_share * f64::from(self.capacity)) as u32).max(1)
    }

    fn k_out(&self) -> u32 {
        (self.out_share * f64::from(self.capacity)) as u32
    }

    fn enter(&mut self, page: u32, place: Place) {
        let list = match place {
            Place::A1in => &mut self.a1_in,
            Place::A1out => &mut self.a1_out,
            Place::Am => &mut self.a_m,
            Place::Unknown => unreachable!("a page enters a list"),
        };
        list.push_front(&mut self.places, page);
        self.places[page] = place;
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while self.a1_out.len() > self.k_out() {
            let page = self.a1_out.back().expect("there are ghosts");
            self.remove(page, caller);
            caller.forget(page);
        }
    }
}
