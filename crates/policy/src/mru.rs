//! MRU: when the cache is full, the page that was used last is the victim (fetch and discard).
//!
//! P. J. Denning, "The Working Set Model for Program Behavior", CACM 11(5), 1968, and E. G. Coffman and P. J. Denning,
//! "Operating Systems Theory", 1973, as cited by MQ (USENIX 2001, section 2.1); right for a loop larger than the cache.
//!
//! One list in the order of last use; the front is the victim. A refused victim keeps its place, and the next one towards
//! the back is offered.
//!
//! Reference figures: `golden/exact-hits.csv`, column MRU, equal to the hit.
//! Deviations: none. Parameters: none. Memory: 8 bytes a page (two links).

use crate::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// Most recently used.
#[derive(Debug)]
pub struct Mru {
    /// M1. In `recency` if and only if resident, the most recently used at the front.
    nodes: Nodes<()>,
    recency: List,
    capacity: u32,
}

impl Policy for Mru {
    const INFO: Info = Info {
        name: "mru",
        title: "most recently used",
        paper: "E. G. Coffman and P. J. Denning, Operating Systems Theory, 1973",
        parameters: &[],
        uses: Uses::PAGE,
        off_line: false,
        ghosts: 0,
        bytes_per_page: 8,
    };

    fn new(setup: &Setup) -> Self {
        Self { nodes: Nodes::new(setup.pages), recency: List::new(), capacity: setup.capacity }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.recency.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.recency.move_to_front(&mut self.nodes, reference.page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.recency.len() == self.capacity {
            self.evict(caller)?;
        }
        self.recency.push_front(&mut self.nodes, reference.page);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.recency.front_to_back(&self.nodes), caller)?;
        self.recency.remove(&mut self.nodes, victim);
        caller.forget(victim);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes.is_linked(page) {
            self.recency.remove(&mut self.nodes, page);
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
        self.recency.check(&self.nodes); // M1
        assert!(self.len() <= self.capacity);
    }
}
