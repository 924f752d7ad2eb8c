//! LRU: the page that has not been used for the longest time is the victim.
//!
//! R. L. Mattson, J. Gecsei, D. R. Slutz and I. L. Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems
//! Journal 9(2), 1970, where it is the first of the stack algorithms.
//!
//! One list in the order of last use; a hit moves the page to the front, the back is the victim. A refused victim keeps its
//! place, and the next one towards the front is offered.
//!
//! Reference figures: `golden/exact-hits.csv`, column LRU, equal to the hit; ARC's OLTP table, FAST 2003.
//! Deviations: none. Parameters: none. Memory: 8 bytes a page (two links).

use crate::drawing::{Drawing, Drawn, RECENCY};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use std::marker::PhantomData;

/// Least recently used.
pub type Lru = ByRecency<Oldest>;

/// Which end of the list is given up.
pub trait End: Send + 'static {
    /// What is known of the policy.
    const INFO: Info;
    /// Whether the victim is the page used least recently, and not the one used last.
    const OLDEST: bool;
}

/// The end with the page used least recently.
#[derive(Debug)]
pub struct Oldest;

impl End for Oldest {
    const INFO: Info = Info {
        name: "lru",
        title: "least recently used",
        paper: "R. L. Mattson et al., Evaluation Techniques for Storage Hierarchies, IBM Systems Journal 9(2), 1970",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 8,
        ..Info::PLAIN
    };
    const OLDEST: bool = true;
}

/// A policy that chooses its victims at one end of the list by last use.
#[derive(Debug)]
pub struct ByRecency<E> {
    /// LR1. In `recency` if and only if resident, the most recently used at the front.
    nodes: Nodes<()>,
    recency: List,
    capacity: u32,
    end: PhantomData<E>,
}

impl<E: End> Policy for ByRecency<E> {
    const INFO: Info = E::INFO;

    fn new(setup: &Setup) -> Self {
        Self { nodes: Nodes::new(setup.pages), recency: List::new(), capacity: setup.capacity, end: PhantomData }
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
        let victim = if E::OLDEST {
            offer(self.recency.back_to_front(&self.nodes), caller)
        } else {
            offer(self.recency.front_to_back(&self.nodes), caller)
        }?;
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

    fn draw(&self, drawing: &mut Drawing) {
        drawing.row("list", RECENCY, self.recency.front_to_back(&self.nodes).map(Drawn::resident));
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    fn check_invariants(&self) {
        self.recency.check(&self.nodes); // LR1
        assert!(self.len() <= self.capacity);
    }
}
