//! FIFO: the page that was admitted first is the victim, however it has been used since.
//!
//! L. A. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5(2), 1966.
//!
//! One list in the order of admission; a hit changes nothing. A refused victim keeps its place, and the next one is
//! offered.
//!
//! Reference figures: `golden/exact-hits.csv`, column FIFO, equal to the hit.
//! Deviations: none. Parameters: none. Memory: 8 bytes a page (two links).

use crate::drawing::{Drawing, Drawn, ENTRY};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// First in, first out.
#[derive(Debug)]
pub struct Fifo {
    /// FI1. In `admitted` if and only if resident, the latest at the front.
    nodes: Nodes<()>,
    admitted: List,
    capacity: u32,
}

impl Policy for Fifo {
    const INFO: Info = Info {
        name: "fifo",
        title: "first in, first out",
        paper: "L. A. Belady, A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 5(2), 1966",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 8,
        hit_sets_bit: true,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self { nodes: Nodes::new(setup.pages), admitted: List::new(), capacity: setup.capacity }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.admitted.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_links(page);
    }

    fn awaits_use(&self, _: u32) -> bool {
        false
    }

    fn hit(&mut self, _: &Reference) {}

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.admitted.len() == self.capacity {
            self.evict(caller)?;
        }
        self.admitted.push_front(&mut self.nodes, reference.page);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.admitted.back_to_front(&self.nodes), caller)?;
        self.admitted.remove(&mut self.nodes, victim);
        caller.forget(victim);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes.is_linked(page) {
            self.admitted.remove(&mut self.nodes, page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn draw(&self, drawing: &mut Drawing) {
        drawing.row("queue", ENTRY, self.admitted.front_to_back(&self.nodes).map(Drawn::resident));
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    fn check_invariants(&self) {
        self.admitted.check(&self.nodes); // FI1
        assert!(self.len() <= self.capacity);
    }
}
