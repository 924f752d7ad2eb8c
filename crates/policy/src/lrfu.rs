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
//! in a logarithm, so that it neither over- nor underflows however long the run. Pages that are equal there leave in
//! the order of last use, so λ = 0 is LFU and λ = 1 is LRU, victim by victim.
//!
//! Correlated references: a use within `period` references of the page's last one replaces that one and adds nothing,
//! so that a burst counts as its last use. The sum of the uses before the last one is kept apart for that.
//!
//! Refused victims are set aside behind the heap while the next one is offered, and go back into it afterwards.
//!
//! Deviations: one heap holds all pages; the papers keep those whose sum can no longer pass that of a page just used
//! in a linked list beside it, which is faster for large λ and evicts the same pages. Sums are forgotten with the
//! page. Default λ: 0.001, commonly quoted as a good value; the paper was not at hand to check it. The best one
//! depends on trace and size: on sprite it is 0.001 to 0.003, on OLTP 0.0003 with 1,000 pages (38.6 % hits, 34.9 at
//! the default) and 0.0001 from 2,000 on.
//!
//! Reference figures: `lfu` at λ = 0 and `lru` at λ = 1, victim by victim; none of the paper's, whose traces are not
//! published. Parameters: `lambda`, `period`. Memory: 36 bytes a page (two sums, time of last use, place in the heap;
//! the heap's entry). A reference takes O(log n).

use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// In a page's place: it is not resident.
const NOWHERE: u32 = u32::MAX;

/// The uses of a page, as they would weigh at time 0, in logarithms to base 2.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// All of them.
    sum: f64,
    /// Those before the last.
    earlier: f64,
    last: u64,
    /// In the heap.
    place: u32,
}

const UNUSED: Use = Use { sum: 0.0, earlier: 0.0, last: 0, place: NOWHERE };

/// Least recently and frequently used.
#[derive(Debug)]
pub struct Lrfu {
    /// U1. A resident page's place is where `heap` holds it; any other page's is `NOWHERE`.
    pages: Vec<Use>,
    /// U2. No page goes before the one at half its place.
    heap: Vec<u32>,
    /// U3. Pages of the heap up to here are in its order; all are, but for refused victims during an eviction.
    ordered: usize,
    now: u64,
    lambda: f64,
    period: u64,
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
                help: "a use within so many references of the page's last one replaces it; 0: none does",
                kind: Kind::Integer { least: 0, most: u64::MAX },
                default: "0",
            },
        ],
        uses: Uses::PAGE,
        off_line: false,
        ghosts: 0,
        bytes_per_page: 36,
    };

    fn new(setup: &Setup) -> Self {
        let mut lrfu = Self {
            pages: Vec::new(),
            heap: Vec::with_capacity(setup.capacity.min(setup.pages) as usize),
            ordered: 0,
            now: 0,
            lambda: setup.settings.real("lambda"),
            period: setup.settings.integer("period"),
            capacity: setup.capacity,
        };
        lrfu.reserve(setup.pages);
        lrfu
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.heap.len() as u32
    }

    fn contains(&self, page: u32) -> bool {
        self.pages[page as usize].place != NOWHERE
    }

    fn hit(&mut self, reference: &Reference) {
        self.now += 1;
        let Use { sum, earlier, last, place } = self.pages[reference.page as usize];
        let earlier = if self.now - last <= self.period { earlier } else { sum };
        self.pages[reference.page as usize] = Use { place, ..self.used_now(earlier) };
        self.sink(place as usize);
        self.rise(place as usize);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        self.now += 1;
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        self.pages[reference.page as usize] = self.used_now(f64::NEG_INFINITY);
        self.heap.push(reference.page);
        self.take_in();
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let mut result = Err(AllRefused);
        while result.is_err() && self.ordered > 0 {
            let page = self.heap[0];
            self.set_aside(0);
            if caller.evict(page) {
                self.drop_aside(self.ordered);
                caller.forget(page);
                result = Ok(());
            }
        }
        while self.ordered < self.heap.len() {
            self.take_in();
        }
        result
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.contains(page) {
            self.set_aside(self.pages[page as usize].place as usize);
            self.drop_aside(self.ordered);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
        self.heap.reserve_exact((capacity as usize).min(self.pages.len()).saturating_sub(self.heap.len()));
    }

    fn reserve(&mut self, pages: u32) {
        if pages as usize > self.pages.len() {
            self.pages.resize(pages as usize, UNUSED);
        }
    }

    fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Use>() + self.heap.capacity() * size_of::<u32>()
    }

    fn check_invariants(&self) {
        assert!(self.heap.iter().enumerate().all(|(place, &page)| self.pages[page as usize].place == place as u32)); // U1
        assert_eq!(self.pages.iter().filter(|page| page.place != NOWHERE).count(), self.heap.len()); // U1
        assert!((1..self.heap.len()).all(|place| !self.before(place, (place - 1) / 2))); // U2
        assert_eq!(self.ordered, self.heap.len()); // U3
        assert!(self.len() <= self.capacity);
    }
}

impl Lrfu {
    /// A page used now, its earlier uses weighing as given.
    fn used_now(&self, earlier: f64) -> Use {
        let weight = self.lambda * self.now as f64;
        let sum = weight + (1.0 + (earlier - weight).exp2()).log2();
        Use { sum, earlier, last: self.now, place: NOWHERE }
    }

    /// Whether the page at `place` is evicted before the one at `other`.
    fn before(&self, place: usize, other: usize) -> bool {
        let order = |place: usize| {
            let Use { sum, last, .. } = self.pages[self.heap[place] as usize];
            (sum, last)
        };
        order(place) < order(other)
    }

    fn swap(&mut self, place: usize, other: usize) {
        self.heap.swap(place, other);
        self.pages[self.heap[place] as usize].place = place as u32;
        self.pages[self.heap[other] as usize].place = other as u32;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.before(place, (place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let first = if right < self.ordered && self.before(right, left) { right } else { left };
            if first >= self.ordered || !self.before(first, place) {
                break;
            }
            self.swap(first, place);
            place = first;
        }
    }

    /// Takes the page behind the ordered ones into the order.
    fn take_in(&mut self) {
        let place = self.ordered;
        self.pages[self.heap[place] as usize].place = place as u32;
        self.ordered += 1;
        self.rise(place);
    }

    /// Puts a page of the order behind it.
    fn set_aside(&mut self, place: usize) {
        self.ordered -= 1;
        self.swap(place, self.ordered);
        if place < self.ordered {
            self.sink(place);
            self.rise(place);
        }
    }

    /// Drops a page that is set aside.
    fn drop_aside(&mut self, place: usize) {
        self.swap(place, self.heap.len() - 1);
        let page = self.heap.pop().expect("the heap is not empty");
        self.pages[page as usize].place = NOWHERE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Settings;
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
}
