//! LRFU: every use of a page counts, the less the longer ago it was; the page with the smallest sum is the victim.
//! The rate of that decay, λ, makes it anything between LFU (0) and LRU (1).
//!
//! D. Lee, J. Choi, J.-H. Kim, S. H. Noh, S. L. Min, Y. Cho and C. S. Kim, "On the Existence of a Spectrum of
//! Policies that Subsumes the Least Recently Used (LRU) and Least Frequently Used (LFU) Policies", SIGMETRICS 1999;
//! "LRFU", IEEE Transactions on Computers 50(12), 2001.
//!
//! A page's combined recency and frequency at time t is the sum, over its uses at t_i, of F(t - t_i) with F(x) =
//! (1/2)^(λx); a reference is a unit of time. By F(x + y) = F(x) F(y) the sum up to the last use suffices: a use
//! after the gap δ makes it F(0) + F(δ) × the former sum. As all sums decay alike, their order changes only where a
//! page is used, and a heap keeps it, the victim at its root.
//!
//! The heap's order is that of `log2(sum at last use) + λ × time of last use`: the sum as it would weigh at time 0,
//! in a logarithm, so that it neither over- nor underflows however long the run: after 2^44 references, half a million
//! a second for a year, an f64 still tells 4 millionths apart there (at λ = 1, 4 thousandths). Pages that are equal leave
//! in the order of last use, so λ = 0 is LFU and λ = 1 is LRU, victim by victim.
//!
//! Correlated references: a use within `period` references of the page's last one replaces that one and adds nothing,
//! so that a burst counts as its last use. The sum of the uses before the last one is kept apart for that.
//!
//! Refused victims are set aside behind the heap while the next one is offered, and go back into it afterwards.
//!
//! Deviations: one heap holds all pages; the papers keep those whose sum can no longer pass that of a page just used
//! in a linked list beside it, which is faster for large λ and evicts the same pages. Sums are forgotten with the
//! page, or kept with `history`, as MQ's authors gave it to LRFU for fairness: the last pages evicted are ghosts with their sums, FIFO, and
//! the use that brings one back is added to its sum, whatever the `period`. Default λ: 0.001, commonly quoted as a good value; the paper was not at hand to check it. The best one
//! depends on trace and size: on sprite it is 0.001 to 0.003, on OLTP 0.0003 with 1,000 pages (38.6 % hits, 34.9 at
//! the default) and 0.0001 from 2,000 on.
//!
//! Reference figures: `lfu` at λ = 0 and `lru` at λ = 1, victim by victim; none of the paper's, whose traces are not
//! published. Parameters: `lambda`, `period`, `history`. Memory: 4 bytes a page (its slot), and 40 a frame (page, two
//! sums, time of last use, the heap's links); with a history 8 more a frame, and 24 a ghost. A reference takes O(log n).

use crate::drawing::{Drawing, Drawn, ENTRY, WORTH};
use crate::parameters::{Kind, Parameter};
use crate::parts::heap::Heap;
use crate::parts::list::{List, Nodes};
use crate::parts::slots::PageSlots;
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// How a page is ranked, the least first: the sum of its uses as it would weigh at time 0, in a logarithm to base 2; and the
/// time of the last of them.
type Rank = (f64, u64);

/// Least recently and frequently used.
#[derive(Debug)]
pub struct Lrfu {
    /// LF1. Exactly the resident pages and the ghosts have one.
    slots: PageSlots,
    /// LF2. By slot, exactly those of the resident pages.
    ranks: Heap<Rank>,
    /// LF3. By slot, the sum without the last use; of a ghost, with it.
    earlier: Vec<f64>,
    /// LF4. By slot, if there is a history: at most `history` times the capacity, the one evicted last at the front.
    links: Nodes<()>,
    ghosts: List,
    now: u64,
    lambda: f64,
    period: u64,
    history: u32,
    capacity: u32,
}

impl Policy for Lrfu {
    const INFO: Info = Info {
        name: "lrfu",
        title: "least recently and frequently used",
        paper: "D. Lee et al., On the Existence of a Spectrum of Policies that Subsumes LRU and LFU, SIGMETRICS 1999; IEEE TC 50(12), 2001",
        parameters: &[
            Parameter {
                name: "lambda",
                help: "how fast a use loses its weight: halved in 1/lambda references; 0: LFU, 1: LRU",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.001",
            },
            Parameter {
                name: "period",
                help: "a use within this many references of the page's last use takes its place instead of adding to it; 0: never",
                kind: Kind::Integer { least: 0, most: u64::MAX },
                default: "0",
            },
            Parameter {
                name: "history",
                help: "the most ghosts whose sums are kept, in multiples of the capacity",
                kind: Kind::Integer { least: 0, most: 100 },
                default: "0",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 100,
        bytes_per_page: 52,
        history: Some("history"),
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let mut lrfu = Self {
            slots: PageSlots::new(0, 0),
            ranks: Heap::new(0, 0),
            earlier: Vec::new(),
            links: Nodes::new(0),
            ghosts: List::new(),
            now: 0,
            lambda: setup.settings.real("lambda"),
            period: setup.settings.integer("period"),
            history: setup.settings.integer("history") as u32,
            capacity: setup.capacity,
        };
        lrfu.reserve(setup.pages);
        lrfu
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.ranks.len()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.slots.of(page).is_some_and(|slot| self.ranks.contains(slot))
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.slots.prefetch(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.now += 1;
        let slot = self.slots.of(reference.page).expect("a hit is of a resident page");
        let (sum, last) = self.ranks.key(slot);
        if self.now - last > self.period {
            self.earlier[slot as usize] = sum;
        }
        self.use_now(slot);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        self.now += 1;
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        let slot = match self.slots.of(reference.page) {
            Some(ghost) => {
                self.ghosts.remove(&mut self.links, ghost);
                ghost
            }
            None => {
                let slot = self.slots.give(reference.page);
                self.earlier[slot as usize] = f64::NEG_INFINITY;
                slot
            }
        };
        self.use_now(slot);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let ((sum, _), victim) = self.ranks.offer_with_key(&mut self.slots.offered(caller))?;
        if self.history == 0 {
            caller.forget(self.slots.take_back(victim));
            return Ok(());
        }
        self.earlier[victim as usize] = sum;
        self.ghosts.push_front(&mut self.links, victim);
        self.limit_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if let Some(slot) = self.slots.of(page) {
            if self.ranks.contains(slot) {
                self.ranks.remove(slot);
            } else {
                self.ghosts.remove(&mut self.links, slot);
            }
            self.slots.take_back(slot);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.limit_ghosts(caller);
        self.reserve(self.slots.pages());
    }

    fn reserve(&mut self, pages: u32) {
        self.slots.reserve(pages, u64::from(self.capacity) + self.most_ghosts());
        if self.history > 0 {
            self.links.reserve(self.slots.end());
        }
        self.ranks.reserve(self.slots.end());
        self.ranks.reserve_places(self.capacity);
        self.earlier.resize(self.slots.end() as usize, f64::NEG_INFINITY);
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |((sum, _), slot)| Drawn::resident(self.slots.page(slot)).number("rank", sum);
        drawing.row("queue by rank", WORTH, self.ranks.sorted().into_iter().rev().map(drawn));
        if self.history > 0 {
            let drawn = |slot| Drawn::ghost(self.slots.page(slot)).number("rank", self.earlier[slot as usize]);
            drawing.row("history", ENTRY, self.ghosts.front_to_back(&self.links).map(drawn));
        }
    }

    fn bytes(&self) -> usize {
        self.slots.bytes() + self.ranks.bytes() + self.links.bytes() + self.earlier.capacity() * size_of::<f64>()
    }

    fn check_invariants(&self) {
        self.slots.check(self.len() + self.ghosts.len()); // LF1
        self.ghosts.check(&self.links);
        assert!(u64::from(self.ghosts.len()) <= self.most_ghosts()); // LF4
        self.ranks.check(); // LF2
        assert!(self.len() <= self.capacity);
    }
}

impl Lrfu {
    fn most_ghosts(&self) -> u64 {
        u64::from(self.history) * u64::from(self.capacity)
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while u64::from(self.ghosts.len()) > self.most_ghosts() {
            let slot = self.ghosts.back().expect("there are ghosts");
            self.ghosts.remove(&mut self.links, slot);
            caller.forget(self.slots.take_back(slot));
        }
    }

    /// Adds a use now to those before.
    fn use_now(&mut self, slot: u32) {
        let weight = self.lambda * self.now as f64;
        let sum = weight + (1.0 + (self.earlier[slot as usize] - weight).exp2()).log2();
        self.ranks.set(slot, (sum, self.now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Settings;
    use crate::parts::long_run;
    use crate::{Lfu, Lru};

    struct Victims(Vec<u32>);

    impl Caller for Victims {
        fn evict(&mut self, page: u32) -> bool {
            self.0.push(page);
            true
        }

        fn forget(&mut self, _: u32) {}
    }

    const PAGES: u32 = 300;

    fn make<P: Policy>(capacity: u32, given: &[(&str, &str)]) -> P {
        let settings = Settings::parse(P::INFO.parameters, given.iter().copied()).unwrap();
        P::new(&Setup::new(capacity, PAGES, settings))
    }

    /// Hits and victims of skewed references.
    fn run<P: Policy>(mut policy: P) -> (u32, Vec<u32>) {
        let (mut state, mut hits, mut victims) = (1u64, 0, Victims(Vec::new()));
        for _ in 0..20_000 {
            let mut draw = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32 % PAGES
            };
            let reference = Reference::of(draw().min(draw()).min(draw()));
            if policy.contains(reference.page) {
                policy.hit(&reference);
                hits += 1;
            } else {
                policy.miss(&reference, &mut victims).unwrap();
            }
        }
        (hits, victims.0)
    }

    #[test]
    fn is_lfu_without_decay_and_lru_when_a_use_outweighs_all_before_it() {
        for capacity in [1, 7, 60] {
            assert_eq!(run(make::<Lrfu>(capacity, &[("lambda", "0")])), run(make::<Lfu>(capacity, &[])));
            assert_eq!(run(make::<Lrfu>(capacity, &[("lambda", "1")])), run(make::<Lru>(capacity, &[])));
        }
    }

    #[test]
    fn is_between_them_otherwise() {
        let (hits, victims) = run(make::<Lrfu>(60, &[("lambda", "0.01")]));
        assert_ne!(victims, run(make::<Lfu>(60, &[])).1);
        assert!(hits > run(make::<Lru>(60, &[])).0);
    }

    #[test]
    fn bears_billions_of_references() {
        let mut lrfu = make::<Lrfu>(60, &[("lambda", "1")]);
        lrfu.now = 1 << 40;
        assert_eq!(run(lrfu), run(make::<Lru>(60, &[])));
    }

    #[test]
    fn sums_are_told_apart_after_a_year() {
        long_run::is_as_the_first::<Lrfu>("lrfu", &[|lrfu| lrfu.now = 1 << 32, |lrfu| lrfu.now = 1 << 44]);
    }
}
