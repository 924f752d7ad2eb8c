//! CLOCK: LRU at the price of a bit. A hit sets the page's reference bit; the hand spares a page whose bit is set, once.
//!
//! F. J. Corbato, "A Paging Experiment with the Multics System", MIT Project MAC Report MAC-M-384, 1968.
//!
//! The pages stand in a circle; the hand clears set bits until it meets a clear one, whose page is the victim. The new page
//! takes the victim's place with its bit clear, and the hand stops behind it. Here the circle is a list cut open at the
//! hand: the hand stands at the back, and what it passes goes to the front. The hand passes a refused victim too.
//!
//! Reference figures: `golden/exact-hits.csv`, column CLOCK, equal to the hit; CLOCK-Pro's Table 2, USENIX 2005.
//! Deviations: none. Parameters: none. Memory: 12 bytes a page (two links, the bit).

use crate::list::{List, Nodes};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// CLOCK with one reference bit.
#[derive(Debug)]
pub struct Clock {
    /// C1. In `circle` if and only if resident, the hand at the back. The value is the reference bit.
    nodes: Nodes<bool>,
    circle: List,
    capacity: u32,
}

impl Policy for Clock {
    const INFO: Info = Info {
        name: "clock",
        title: "CLOCK, one reference bit",
        paper: "F. J. Corbato, A Paging Experiment with the Multics System, MIT Project MAC Report MAC-M-384, 1968",
        parameters: &[],
        uses: Uses::PAGE,
        off_line: false,
        ghosts: 0,
        bytes_per_page: 12,
    };

    fn new(setup: &Setup) -> Self {
        Self { nodes: Nodes::new(setup.pages), circle: List::new(), capacity: setup.capacity }
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
        self.nodes[reference.page] = true;
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.circle.len() == self.capacity {
            self.evict(caller)?;
        }
        self.circle.push_front(&mut self.nodes, reference.page);
        self.nodes[reference.page] = false;
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        // Twice around: bits are cleared in the first round, so in the second every page is offered.
        for _ in 0..2 * self.circle.len() {
            let page = self.circle.back().expect("the circle is not empty");
            if !self.nodes[page] && caller.evict(page) {
                self.circle.remove(&mut self.nodes, page);
                caller.forget(page);
                return Ok(());
            }
            self.nodes[page] = false;
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
        self.circle.check(&self.nodes); // C1
        assert!(self.len() <= self.capacity);
    }
}
