//! S3-FIFO: three FIFO queues, of which the small one sifts out the pages that are used once.
//!
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue and K. V. Rashmi, "FIFO Queues are All You Need for Cache Eviction", SOSP 2023,
//! Algorithm 1.
//!
//! ```text
//!   new page --> s, small (10 %) --used often enough--> m, main (90 %): used pages go around, freq falling by one
//!                     |                                        ^
//!                     '--otherwise: evicted--> g, ghosts ------' missed while there
//! ```
//!
//! `freq` counts the hits of a resident page, 3 at most. A victim is sought in `s` when it holds its share of the cache
//! or more, else in `m`. In `s`, from the tail: a page with `freq` of `threshold` or more moves to `m`, its count
//! cleared; another one is evicted and stays as a ghost in `g`, which has room for nearly as many pages as `m`. In `m`,
//! from the tail: a page with `freq` above 0 goes back to the head, its count less one; another one is evicted for
//! good.
//!
//! Where the paper is silent or contradicts the contract:
//!
//! - A share is rounded down, but is at least one page of `s`, as in the authors' simulator.
//! - When a page that moves to `m` makes it exceed its share, the victim is taken from `m` (the algorithm's "if M is
//!   full"), and with that there is room: the algorithm's loop would go on to evict a second page, from `s`.
//! - Frames that a caller has taken for pages read ahead count as the small queue's, which is where these pages will enter.
//! - Whether the missed page is a ghost is asked after the eviction, as the algorithm is written: it may drop that
//!   ghost.
//!
//! Refused victims: in `s` they keep their place, in `m` they go to the head like CLOCK's. When a queue has nothing
//! else, the other is tried.
//!
//! Reference figures: libCacheSim's S3FIFOv0, the paper's version: equal at 42 of 65 caches on ten traces, and within 0.8 points at all. Its
//! S3FIFO is a later variant, which fills the main queue first: on a loop it hits up to 26.7 points more, and 17 less. Caffeine, which lets `s` give
//! a page after `m` has given one, as lines 26 to 29 of the algorithm say: equal at 55, at most 1.3 points more (`docs/differences.md`). Parameters:
//! `small` and `ghost`, shares of the cache; `threshold`.
//! Memory: 10 bytes a page (two links, queue and count).

use crate::drawing::{Drawing, Drawn, QUEUE};
use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// The most hits that are counted.
const MOST: u8 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Queue {
    #[default]
    None,
    Small,
    Main,
    Ghost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Status {
    queue: Queue,
    freq: u8,
}

/// S3-FIFO.
#[derive(Debug)]
pub struct S3Fifo {
    /// SF1. A page is in the queue that its status names, and `freq` is at most `MOST`. The head is the front.
    nodes: Nodes<Status>,
    s: List,
    m: List,
    /// SF2. No longer than `most_ghosts`.
    g: List,
    small: f64,
    ghost: f64,
    threshold: u8,
    capacity: u32,
}

impl Policy for S3Fifo {
    const INFO: Info = Info {
        name: "s3-fifo",
        title: "S3-FIFO: small, main and ghost queue",
        paper: "J. Yang et al., FIFO Queues are All You Need for Cache Eviction, SOSP 2023",
        parameters: &[
            Parameter {
                name: "small",
                help: "share of the cache for the small queue",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.1",
            },
            Parameter {
                name: "ghost",
                help: "most ghosts, as a share of the cache",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.9",
            },
            Parameter {
                name: "threshold",
                help: "hits in the small queue that bring a page into the main queue",
                kind: Kind::Integer { least: 1, most: MOST as u64 },
                default: "2",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 1,
        bytes_per_page: 10,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self {
            nodes: Nodes::new(setup.pages),
            s: List::new(),
            m: List::new(),
            g: List::new(),
            small: setup.settings.real("small"),
            ghost: setup.settings.real("ghost"),
            threshold: setup.settings.integer("threshold") as u8,
            capacity: setup.capacity,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.s.len() + self.m.len()
    }

    fn ghosts(&self) -> u32 {
        self.g.len()
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.nodes[page].queue, Queue::Small | Queue::Main)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let freq = &mut self.nodes[reference.page].freq;
        *freq = (*freq + 1).min(MOST);
    }

    fn awaits_use(&self, page: u32) -> bool {
        self.nodes[page].freq < MOST
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        let queue = if self.nodes[page].queue == Queue::Ghost { Queue::Main } else { Queue::Small };
        self.leave(page);
        self.enter(page, queue);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let taken = self.capacity - self.len();
        if self.s.len() + taken < self.share_of_small() && self.evict_main(caller).is_ok() {
            return Ok(());
        }
        // Also after the main queue's refusal: what the small one moved there has not been offered yet.
        self.evict_small(caller).or_else(|AllRefused| self.evict_main(caller))
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("small", f64::from(self.s.len()));
        show("main", f64::from(self.m.len()));
        show("ghosts", f64::from(self.g.len()));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |page| Drawn::resident(page).number("count", self.nodes[page].freq);
        drawing.row("small queue", QUEUE, self.s.front_to_back(&self.nodes).map(drawn));
        drawing.row("main queue", QUEUE, self.m.front_to_back(&self.nodes).map(drawn));
        drawing.row("ghost queue", QUEUE, self.g.front_to_back(&self.nodes).map(Drawn::ghost));
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    fn check_invariants(&self) {
        for (list, queue) in [(&self.s, Queue::Small), (&self.m, Queue::Main), (&self.g, Queue::Ghost)] {
            list.check(&self.nodes);
            for page in list.front_to_back(&self.nodes) {
                assert!(self.nodes[page].queue == queue && self.nodes[page].freq <= MOST); // SF1
            }
        }
        assert!(self.g.len() <= self.most_ghosts()); // SF2
        assert!(self.len() <= self.capacity);
    }
}

impl S3Fifo {
    fn share_of_small(&self) -> u32 {
        ((f64::from(self.capacity) * self.small) as u32).max(1)
    }

    fn most_ghosts(&self) -> u32 {
        (f64::from(self.capacity) * self.ghost) as u32
    }

    /// Takes the page out of its queue, if it is in one.
    fn leave(&mut self, page: u32) {
        let Status { queue, .. } = std::mem::take(&mut self.nodes[page]);
        match queue {
            Queue::None => {}
            Queue::Small => self.s.remove(&mut self.nodes, page),
            Queue::Main => self.m.remove(&mut self.nodes, page),
            Queue::Ghost => self.g.remove(&mut self.nodes, page),
        }
    }

    /// Puts the page at the head of a queue, its count cleared.
    fn enter(&mut self, page: u32, queue: Queue) {
        self.nodes[page] = Status { queue, freq: 0 };
        match queue {
            Queue::None => {}
            Queue::Small => self.s.push_front(&mut self.nodes, page),
            Queue::Main => self.m.push_front(&mut self.nodes, page),
            Queue::Ghost => self.g.push_front(&mut self.nodes, page),
        }
    }

    /// EVICTS.
    fn evict_small<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let mut next = self.s.back();
        let mut main_refused = false;
        while let Some(page) = next {
            next = self.nodes.towards_front(page);
            if self.nodes[page].freq >= self.threshold {
                self.leave(page);
                self.enter(page, Queue::Main);
                caller.await_use(page);
                // Once all of the main queue is refused it is not offered again for each page that moves there.
                if !main_refused && self.m.len() > self.capacity - self.share_of_small() {
                    if self.evict_main(caller).is_ok() {
                        return Ok(());
                    }
                    main_refused = true;
                }
            } else if caller.evict(page) {
                self.leave(page);
                self.enter(page, Queue::Ghost);
                self.limit_ghosts(caller);
                return Ok(());
            }
        }
        Err(AllRefused)
    }

    /// EVICTM.
    fn evict_main<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        // Refusals since a count was above 0, which none is after `MOST` rounds: a whole round of them is all pages.
        let mut refused = 0;
        while refused < self.m.len() {
            let page = self.m.back().expect("there are more pages than refused ones");
            if self.nodes[page].freq > 0 {
                self.nodes[page].freq -= 1;
                caller.await_use(page);
                refused = 0;
            } else if caller.evict(page) {
                self.leave(page);
                caller.forget(page);
                return Ok(());
            } else {
                refused += 1;
            }
            self.m.move_to_front(&mut self.nodes, page);
        }
        Err(AllRefused)
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while self.g.len() > self.most_ghosts() {
            let page = self.g.back().expect("there are ghosts");
            self.leave(page);
            caller.forget(page);
        }
    }
}
