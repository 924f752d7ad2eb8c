//! SIEVE: a FIFO queue whose hand spares the pages used since it last passed, and leaves them where they are.
//!
//! Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson and K. V. Rashmi, "SIEVE is Simpler than LRU: an Efficient Turn-Key Eviction
//! Algorithm for Web Caches", NSDI 2024, Algorithm 1.
//!
//! ```text
//!   head = front   n  n  v  v  .  v  .  v   back = tail       v: visited
//!                           <-- hand
//! ```
//!
//! Pages enter at the head and never move. A hit sets the page's visited bit. The hand goes from the tail to the head
//! and on from the tail again; it clears set bits until it meets a clear one, whose page is the victim. Unlike CLOCK's,
//! its hand does not carry the spared pages to the head: new pages stand together there, and are sifted out quickly if
//! they are not used. The hand passes a refused victim, which keeps its place.
//!
//! Reference figures: libCacheSim's Sieve, equal to the miss (`tests/outside_readers.py`).
//! Deviations: none. Parameters: none. Memory: 9 bytes a page (two links, the bit).

use crate::drawing::{Drawing, Drawn, QUEUE};
use crate::parts::list::{List, Nodes};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// SIEVE.
#[derive(Debug)]
pub struct Sieve {
    /// V1. A page in the queue, which is in the order of admission with the head at the front, has its visited bit as value; any
    /// other has none.
    nodes: Nodes<Option<bool>>,
    queue: List,
    /// V2. Where the hand stands, a resident page. `None`: at the tail.
    hand: Option<u32>,
    capacity: u32,
}

impl Policy for Sieve {
    const INFO: Info = Info {
        name: "sieve",
        title: "SIEVE: a FIFO queue with a hand that leaves used pages in place",
        paper: "Y. Zhang et al., SIEVE is Simpler than LRU, NSDI 2024",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 9,
        hit_sets_bit: true,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self { nodes: Nodes::new(setup.pages), queue: List::new(), hand: None, capacity: setup.capacity }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.queue.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes[page].is_some()
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.nodes[reference.page] = Some(true);
    }

    fn awaits_use(&self, page: u32) -> bool {
        self.nodes[page] == Some(false)
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.queue.len() == self.capacity {
            self.evict(caller)?;
        }
        self.queue.push_front(&mut self.nodes, reference.page);
        self.nodes[reference.page] = Some(false);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        // Twice around: bits are cleared in the first round, so in the second every page is offered.
        for _ in 0..2 * u64::from(self.queue.len()) {
            let page = self.hand.or(self.queue.back()).expect("the queue is not empty");
            let spared = self.nodes[page].replace(false) == Some(true);
            self.hand = self.nodes.towards_front(page);
            if let Some(next) = self.hand {
                self.nodes.prefetch_value(next);
                self.nodes.prefetch_links(next);
            }
            if spared {
                caller.await_use(page);
            } else if caller.evict(page) {
                self.nodes[page] = None;
                self.queue.remove(&mut self.nodes, page);
                caller.forget(page);
                return Ok(());
            }
        }
        Err(AllRefused)
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes[page].take().is_some() {
            if self.hand == Some(page) {
                self.hand = self.nodes.towards_front(page);
            }
            self.queue.remove(&mut self.nodes, page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |page| Drawn::resident(page).bit("visited bit", self.nodes[page] == Some(true));
        drawing
            .row("queue", QUEUE, self.queue.front_to_back(&self.nodes).map(drawn))
            .hand("hand", self.hand.or(self.queue.back()));
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    fn check_invariants(&self) {
        self.queue.check(&self.nodes);
        assert!(self.queue.back_to_front(&self.nodes).all(|page| self.nodes[page].is_some())); // V1
        assert_eq!(self.nodes.values().filter(|bit| bit.is_some()).count(), self.len() as usize); // V1
        assert!(self.hand.is_none_or(|page| self.nodes[page].is_some())); // V2
        assert!(self.len() <= self.capacity);
    }
}
