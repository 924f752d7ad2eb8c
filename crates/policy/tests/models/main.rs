//! Every policy against a plain model: the textbook's words on a `Vec`, with no thought of speed.

mod circle;
mod counts;
mod drawn;
mod foreseen;
mod hot_and_cold;
mod managed;
mod queue;

use circle::Circle;
use counts::Counts;
use drawn::Drawn;
use foreseen::Foreseen;
use hot_and_cold::HotAndCold;
use managed::Managed;
use queue::Queue;

use forebay_policy::registry::{self, POLICIES};
use forebay_policy::{Caller, Future, Place, Policy, Reference, Spec, Visitor};
use proptest::prelude::*;
use std::sync::Arc;

const PAGES: u32 = 20;

/// Policies at other settings than their defaults.
const VARIANTS: &[&str] = &[
    "gclock:initial=3:max=4",
    "lfu:ageing=2.5",
    "lru-sp:manager=mru",
    "lru-sp:manager=access-once",
    "lru-sp:manager=lru-k",
    "lru-sp:manager=mru:swapping=off",
    "lru-sp:manager=mru:place-holders=off",
];

/// A cache as a textbook tells it.
trait Model {
    /// One reference; `now` counts them from 0. Returns the pages evicted.
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32>;
}

/// Takes a page out of a list, if it is there.
fn take(pages: &mut Vec<u32>, page: u32) -> bool {
    let place = pages.iter().position(|&other| other == page);
    place.map(|place| pages.remove(place)).is_some()
}

fn model(name: &str, capacity: usize, references: &[Reference]) -> Box<dyn Model> {
    let pages = Vec::new();
    let queue = |by_use, newest| Box::new(Queue { pages: Vec::new(), capacity, by_use, newest });
    let circle = |initial, max| Box::new(Circle { frames: Vec::new(), hand: 0, capacity, initial, max });
    let foreseen =
        |farthest| Box::new(Foreseen { pages: Vec::new(), capacity, references: pages_of(references), farthest });
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
        "lru-sp" | "lru-sp:manager=mru" | "lru-sp:manager=access-once" | "lru-sp:manager=lru-k" => {
            Box::new(Managed::new(name, capacity))
        }
        "lru-sp:manager=mru:swapping=off" | "lru-sp:manager=mru:place-holders=off" => {
            Box::new(Managed::new(name, capacity))
        }
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
    references: &'a [Reference],
}

impl Visitor for Compare<'_> {
    type Output = ();

    fn visit<P: Policy>(self) {
        let mut setup = self.spec.setup(self.capacity, PAGES);
        if self.spec.needs_future() {
            setup.future = Some(Arc::new(Future::new(Arc::new(pages_of(self.references)), PAGES)));
        }
        let mut policy = P::new(&setup);
        let mut model = model(&self.spec.label, self.capacity as usize, self.references);
        let (mut hits, mut model_hits) = (0, 0);
        let mut resident: Vec<u32> = Vec::new();
        for (now, reference) in self.references.iter().enumerate() {
            let page = reference.page;
            let mut victims = Victims::default();
            if policy.contains(page) {
                policy.hit(reference);
                hits += 1;
            } else {
                policy.miss(reference, &mut victims).unwrap();
            }
            let evicted = model.reference(reference, now);
            model_hits += usize::from(resident.contains(&page));
            resident.retain(|page| !evicted.contains(page));
            if !resident.contains(&page) {
                resident.push(page);
            }
            if !self.spec.needs_future() {
                // Off-line, any page that is never used again may be the victim: there, the hits alone must agree.
                assert_eq!(victims.0, evicted, "{} at reference {now} to page {page}", self.spec.label);
            }
            assert_eq!(hits, model_hits, "{} at reference {now} to page {page}", self.spec.label);
        }
    }
}

/// Mixes of skewed, looping and scanning references by several owners to several objects, so that every branch of a policy is
/// taken.
fn references() -> impl Strategy<Value = Vec<Reference>> {
    let skewed = prop::collection::vec((0u32..PAGES, 0u32..PAGES).prop_map(|(a, b)| a.min(b)), 1..80);
    let looping =
        (0u32..10, 2u32..10, 1u32..60).prop_map(|(start, len, n)| (0..n).map(|i| start + i % len).collect::<Vec<_>>());
    let part = (0u32..3, prop_oneof![skewed, looping]).prop_map(|(owner, pages)| {
        let place = |page| Place { object: page / 10, block: u64::from(page % 10) };
        pages.into_iter().map(move |page| Reference { owner, place: place(page), ..Reference::of(page) }).collect()
    });
    prop::collection::vec(part, 1..8).prop_map(|parts: Vec<Vec<Reference>>| parts.concat())
}

fn pages_of(references: &[Reference]) -> Vec<u32> {
    references.iter().map(|reference| reference.page).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 200 } else { 1000 }))]

    #[test]
    fn every_policy_agrees_with_its_plain_model(capacity in 1u32..12, references in references()) {
        let variants = VARIANTS.iter().map(|text| Spec::parse(text).unwrap());
        for spec in POLICIES.iter().map(|info| Spec::new(info)).chain(variants) {
            registry::visit(spec.info.name, Compare { spec: &spec, capacity, references: &references }).unwrap();
        }
    }
}
