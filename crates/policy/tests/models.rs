//! Every policy against a plain model: the textbook's words on a `Vec`, with no thought of speed.

use forebay_policy::registry::{self, POLICIES};
use forebay_policy::{Caller, Future, Policy, Reference, Setup, Spec, Visitor};
use proptest::prelude::*;
use std::sync::Arc;

const PAGES: u32 = 20;

/// A cache as a textbook tells it.
trait Model {
    /// One reference; `now` counts them from 0. Returns the pages evicted.
    fn reference(&mut self, page: u32, now: usize) -> Vec<u32>;
}

/// Policies that order the resident pages in a queue: the first is the victim.
struct Queue {
    pages: Vec<u32>,
    capacity: usize,
    /// A hit moves its page to the end.
    by_use: bool,
    /// The victim is the last and not the first.
    newest: bool,
}

impl Model for Queue {
    fn reference(&mut self, page: u32, _: usize) -> Vec<u32> {
        let mut evicted = Vec::new();
        if let Some(place) = self.pages.iter().position(|&other| other == page) {
            if self.by_use {
                self.pages.remove(place);
                self.pages.push(page);
            }
        } else {
            if self.pages.len() == self.capacity {
                evicted.push(self.pages.remove(if self.newest { self.capacity - 1 } else { 0 }));
            }
            self.pages.push(page);
        }
        evicted
    }
}

/// A circle of frames with a hand, each frame with a counter; CLOCK has counters of one bit.
struct Circle {
    frames: Vec<(u32, u64)>,
    hand: usize,
    capacity: usize,
    initial: u64,
    max: u64,
}

impl Model for Circle {
    fn reference(&mut self, page: u32, _: usize) -> Vec<u32> {
        if let Some(frame) = self.frames.iter_mut().find(|frame| frame.0 == page) {
            frame.1 = (frame.1 + 1).min(self.max);
            return Vec::new();
        }
        if self.frames.len() < self.capacity {
            self.frames.push((page, self.initial));
            return Vec::new();
        }
        while self.frames[self.hand].1 > 0 {
            self.frames[self.hand].1 -= 1;
            self.hand = (self.hand + 1) % self.capacity;
        }
        let victim = std::mem::replace(&mut self.frames[self.hand], (page, self.initial)).0;
        self.hand = (self.hand + 1) % self.capacity;
        vec![victim]
    }
}

/// Pages with counts and times of last use.
struct Counts {
    pages: Vec<(u32, u64, usize)>,
    capacity: usize,
    ageing: f64,
}

impl Model for Counts {
    fn reference(&mut self, page: u32, now: usize) -> Vec<u32> {
        let mut evicted = Vec::new();
        if let Some(place) = self.pages.iter().position(|other| other.0 == page) {
            let (_, count, _) = self.pages.remove(place);
            self.pages.push((page, count + 1, now));
            let sum: u64 = self.pages.iter().map(|page| page.1).sum();
            if self.ageing > 0.0 && sum as f64 > self.ageing * self.pages.len() as f64 {
                // Pages that become equal keep the order of their counts, the lower one first to go.
                self.pages.sort_by_key(|&(_, count, time)| (count, time));
                for (time, entry) in self.pages.iter_mut().enumerate() {
                    // Times below every later reference, so that those used after the ageing count as more recent.
                    *entry = (entry.0, entry.1.div_ceil(2), time);
                }
            }
        } else {
            if self.pages.len() == self.capacity {
                let victim = self.pages.iter().copied().min_by_key(|&(_, count, time)| (count, time)).unwrap();
                self.pages.retain(|other| other.0 != victim.0);
                evicted.push(victim.0);
            }
            self.pages.push((page, 1, now));
        }
        evicted
    }
}

/// Pages with their next use, found by looking through the references.
struct Foreseen {
    pages: Vec<u32>,
    capacity: usize,
    references: Vec<u32>,
    farthest: bool,
}

impl Foreseen {
    fn next_use(&self, page: u32, now: usize) -> usize {
        let later = self.references[now..].iter().position(|&other| other == page);
        later.map_or(usize::MAX, |distance| now + distance)
    }
}

impl Model for Foreseen {
    fn reference(&mut self, page: u32, now: usize) -> Vec<u32> {
        let mut evicted = Vec::new();
        if !self.pages.contains(&page) {
            if self.pages.len() == self.capacity {
                // Among pages never used again any may go: which one changes no hit.
                let uses = self.pages.iter().map(|&page| (self.next_use(page, now), page));
                let victim = if self.farthest { uses.max() } else { uses.min() }.unwrap().1;
                self.pages.retain(|&other| other != victim);
                evicted.push(victim);
            }
            self.pages.push(page);
        }
        evicted
    }
}

/// CLOCK-Pro on two `Vec`s, end first: the clock from HAND_hot to the list head, and the resident cold pages from HAND_cold.
#[derive(Default)]
struct HotAndCold {
    clock: Vec<u32>,
    cold: Vec<u32>,
    hot: Vec<u32>,
    in_test: Vec<u32>,
    bits: Vec<u32>,
    cold_target: usize,
    warming_up: bool,
    capacity: usize,
}

fn take(pages: &mut Vec<u32>, page: u32) -> bool {
    let place = pages.iter().position(|&other| other == page);
    place.map(|place| pages.remove(place)).is_some()
}

impl HotAndCold {
    fn new(capacity: usize) -> Self {
        let cold_target = (capacity / 100).max(capacity.min(2));
        Self { capacity, cold_target, warming_up: true, ..Self::default() }
    }

    fn turn_hot(&mut self, page: u32) {
        take(&mut self.clock, page);
        take(&mut self.in_test, page);
        take(&mut self.bits, page);
        self.clock.push(page);
        self.hot.push(page);
    }

    fn test_succeeds(&mut self, page: u32) {
        self.cold_target = (self.cold_target + 1).min(self.capacity);
        self.turn_hot(page);
    }

    fn end_test(&mut self, page: u32) {
        take(&mut self.clock, page);
        take(&mut self.in_test, page);
        self.cold_target = (self.cold_target - 1).max(self.capacity.min(2));
    }

    fn stop_at_hot(&mut self) {
        while !self.hot.is_empty() && !self.hot.contains(&self.clock[0]) {
            self.end_test(self.clock[0]);
        }
    }

    fn demote(&mut self) {
        while !self.hot.is_empty() {
            let page = self.clock.remove(0);
            if take(&mut self.bits, page) {
                self.clock.push(page);
                self.stop_at_hot();
            } else {
                take(&mut self.hot, page);
                self.cold.push(page);
                self.stop_at_hot();
                break;
            }
        }
    }

    fn run_hand_hot(&mut self) {
        self.stop_at_hot();
        if self.hot.len() > self.capacity - self.cold_target {
            self.demote();
        }
    }

    fn evict(&mut self) -> u32 {
        if self.cold.is_empty() {
            self.demote();
        }
        loop {
            let page = self.cold.remove(0);
            let in_test = self.in_test.contains(&page);
            if !take(&mut self.bits, page) {
                let ghosts = |model: &Self| model.in_test.iter().filter(|page| !model.cold.contains(page)).count();
                while ghosts(self) > self.capacity {
                    let oldest = self.clock.iter().copied().find(|page| self.in_test.contains(page)).unwrap();
                    self.end_test(oldest);
                }
                return page;
            }
            if in_test {
                self.test_succeeds(page);
                self.run_hand_hot();
            } else {
                self.cold.push(page);
                self.in_test.push(page);
                self.clock.push(page);
            }
        }
    }
}

impl Model for HotAndCold {
    fn reference(&mut self, page: u32, _: usize) -> Vec<u32> {
        let mut evicted = Vec::new();
        if self.hot.contains(&page) || self.cold.contains(&page) {
            if !self.bits.contains(&page) {
                self.bits.push(page);
            }
            return evicted;
        }
        if self.hot.len() + self.cold.len() == self.capacity {
            self.warming_up = false;
            evicted.push(self.evict());
        }
        if self.in_test.contains(&page) {
            self.test_succeeds(page);
        } else if self.warming_up && self.hot.len() < self.capacity - self.cold_target {
            self.turn_hot(page);
        } else {
            self.warming_up = false;
            self.clock.push(page);
            self.in_test.push(page);
            self.cold.push(page);
        }
        self.run_hand_hot();
        evicted
    }
}

/// Any resident page, drawn by the same sequence of numbers.
struct Drawn {
    pages: Vec<u32>,
    capacity: usize,
    state: u64,
}

impl Model for Drawn {
    fn reference(&mut self, page: u32, _: usize) -> Vec<u32> {
        let mut evicted = Vec::new();
        if !self.pages.contains(&page) {
            if self.pages.len() == self.capacity {
                self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^= z >> 31;
                let drawn = (u128::from(z) * self.capacity as u128) >> 64;
                evicted.push(self.pages.swap_remove(drawn as usize));
            }
            self.pages.push(page);
        }
        evicted
    }
}

fn model(name: &str, capacity: usize, references: &[u32]) -> Box<dyn Model> {
    let pages = Vec::new();
    let queue = |by_use, newest| Box::new(Queue { pages: Vec::new(), capacity, by_use, newest });
    let circle = |initial, max| Box::new(Circle { frames: Vec::new(), hand: 0, capacity, initial, max });
    let foreseen =
        |farthest| Box::new(Foreseen { pages: Vec::new(), capacity, references: references.to_vec(), farthest });
    match name {
        "lru" => queue(true, false),
        "fifo" => queue(false, false),
        "mru" => queue(true, true),
        "clock" => circle(0, 1),
        "gclock" => circle(1, 5),
        "gclock:initial=3:max=4" => circle(3, 4),
        "lfu" => Box::new(Counts { pages: Vec::new(), capacity, ageing: 0.0 }),
        "lfu:ageing=2.5" => Box::new(Counts { pages: Vec::new(), capacity, ageing: 2.5 }),
        "random" => Box::new(Drawn { pages, capacity, state: 1 }),
        "opt" => foreseen(true),
        "worst" => foreseen(false),
        "clock-pro" => Box::new(HotAndCold::new(capacity)),
        other => panic!("`{other}` has no plain model: write one here"),
    }
}

#[derive(Default)]
struct Victims(Vec<u32>);

impl Caller for Victims {
    fn evict(&mut self, page: u32) -> bool {
        self.0.push(page);
        true
    }

    fn forget(&mut self, _: u32) {}
}

struct Compare<'a> {
    spec: &'a Spec,
    capacity: u32,
    references: &'a [u32],
}

impl Visitor for Compare<'_> {
    type Output = ();

    fn visit<P: Policy>(self) {
        let mut setup = Setup::new(self.capacity, PAGES, self.spec.settings.clone());
        if P::INFO.off_line {
            setup.future = Some(Arc::new(Future::new(Arc::new(self.references.to_vec()), PAGES)));
        }
        let mut policy = P::new(&setup);
        let mut model = model(&self.spec.label, self.capacity as usize, self.references);
        let (mut hits, mut model_hits) = (0, 0);
        let mut resident: Vec<u32> = Vec::new();
        for (now, &page) in self.references.iter().enumerate() {
            let mut victims = Victims::default();
            if policy.contains(page) {
                policy.hit(&Reference::of(page));
                hits += 1;
            } else {
                policy.miss(&Reference::of(page), &mut victims).unwrap();
            }
            let evicted = model.reference(page, now);
            model_hits += usize::from(resident.contains(&page));
            resident.retain(|page| !evicted.contains(page));
            if !resident.contains(&page) {
                resident.push(page);
            }
            if !P::INFO.off_line {
                // Off-line, any page that is never used again may be the victim: there, the hits alone must agree.
                assert_eq!(victims.0, evicted, "{} at reference {now} to page {page}", self.spec.label);
            }
            assert_eq!(hits, model_hits, "{} at reference {now} to page {page}", self.spec.label);
        }
    }
}

/// Mixes of skewed, looping and scanning references, so that every branch of a policy is taken.
fn references() -> impl Strategy<Value = Vec<u32>> {
    let skewed = prop::collection::vec((0u32..PAGES, 0u32..PAGES).prop_map(|(a, b)| a.min(b)), 1..80);
    let looping =
        (0u32..10, 2u32..10, 1u32..60).prop_map(|(start, len, n)| (0..n).map(|i| start + i % len).collect::<Vec<_>>());
    prop::collection::vec(prop_oneof![skewed, looping], 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 200 } else { 1000 }))]

    #[test]
    fn every_policy_agrees_with_its_plain_model(capacity in 1u32..12, references in references()) {
        let variants = ["gclock:initial=3:max=4", "lfu:ageing=2.5"].map(|text| Spec::parse(text).unwrap());
        for spec in POLICIES.iter().map(|info| Spec::new(info)).chain(variants) {
            registry::visit(spec.info.name, Compare { spec: &spec, capacity, references: &references }).unwrap();
        }
    }
}
