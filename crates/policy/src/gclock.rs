//! GCLOCK: CLOCK with a counter for each page in place of the bit. The hand counts it down, and the victim is the first page
//! that it meets at zero.
//!
//! A. J. Smith, "Sequentiality and Prefetching in Database Systems", ACM TODS 3(3), 1978; V. F. Nicola, A. Dan and D. M.
//! Dias, "Analysis of the Generalized Gclock Buffer Replacement Scheme for Database Transaction Processing", SIGMETRICS
//! 1992. PostgreSQL's buffer manager runs it with the defaults here: a page is admitted at 1, a hit adds 1 up to 5.
//!
//! The circle is kept as in `clock.rs`. With `initial=0:max=1` this is CLOCK, to the hit.
//!
//! Reference figures: those of CLOCK at `initial=0:max=1`. Deviations: none.
//! Parameters: `initial`, `max`. Memory: 12 bytes a page (two links, the counter).

use crate::list::{List, Nodes};
use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// Generalized CLOCK.
#[derive(Debug)]
pub struct Gclock {
    /// G1. In `circle` if and only if resident, the hand at the back. The value is the counter, at most `max`.
    nodes: Nodes<u8>,
    circle: List,
    capacity: u32,
    initial: u8,
    max: u8,
}

impl Policy for Gclock {
    const INFO: Info = Info {
        name: "gclock",
        title: "generalized CLOCK, a counter for each page",
        paper: "V. F. Nicola, A. Dan and D. M. Dias, Analysis of the Generalized Clock Buffer Replacement Scheme, SIGMETRICS 1992",
        parameters: &[
            Parameter {
                name: "initial",
                help: "the counter of a page just admitted",
                kind: Kind::Integer { least: 0, most: 255 },
                default: "1",
            },
            Parameter {
                name: "max",
                help: "the most that hits raise the counter to",
                kind: Kind::Integer { least: 1, most: 255 },
                default: "5",
            },
        ],
        uses: Uses::PAGE,
        off_line: false,
        ghosts: 0,
        bytes_per_page: 12,
    };

    fn new(setup: &Setup) -> Self {
        let max = setup.settings.integer("max") as u8;
        let initial = (setup.settings.integer("initial") as u8).min(max);
        Self { nodes: Nodes::new(setup.pages), circle: List::new(), capacity: setup.capacity, initial, max }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.circle.len()
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
        let counter = &mut self.nodes[reference.page];
        *counter = (counter.saturating_add(1)).min(self.max);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.circle.len() == self.capacity {
            self.evict(caller)?;
        }
        self.circle.push_front(&mut self.nodes, reference.page);
        self.nodes[reference.page] = self.initial;
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        // After `max` rounds every counter is zero, so one round more offers every page.
        for _ in 0..(u64::from(self.max) + 1) * u64::from(self.circle.len()) {
            let page = self.circle.back().expect("the circle is not empty");
            if self.nodes[page] == 0 && caller.evict(page) {
                self.circle.remove(&mut self.nodes, page);
                caller.forget(page);
                return Ok(());
            }
            self.nodes[page] = self.nodes[page].saturating_sub(1);
            self.circle.move_to_front(&mut self.nodes, page);
        }
        Err(AllRefused)
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes.is_linked(page) {
            self.circle.remove(&mut self.nodes, page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    fn check_invariants(&self) {
        self.circle.check(&self.nodes); // G1
        assert!(self.circle.back_to_front(&self.nodes).all(|page| self.nodes[page] <= self.max)); // G1
        assert!(self.len() <= self.capacity);
    }
}
