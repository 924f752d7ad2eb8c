//! Every policy against a plain model: the textbook's words on a `Vec`, with no thought of speed.

mod adaptive;
mod circle;
mod counts;
mod drawn;
mod dual;
mod dual_in_linux;
mod foreseen;
mod histories;
mod hot_and_cold;
mod linux;
mod long_queue;
mod managed;
mod multi_queue;
mod partitions;
mod queue;
mod recency_sets;
mod runs;
mod s3_fifo;
mod sections;
mod sieve;
mod smq;
mod two_queue;
mod w_tinylfu;
mod weights;

use adaptive::Adaptive;
use circle::Circle;
use counts::Counts;
use drawn::Drawn;
use dual::Dual;
use dual_in_linux::DualInLinux;
use foreseen::Foreseen;
use histories::Histories;
use hot_and_cold::HotAndCold;
use linux::{Today, TwoLists};
use long_queue::LongQueue;
use managed::Managed;
use multi_queue::{MultiQueue, TriedLives};
use partitions::Partitions;
use queue::Queue;
use recency_sets::RecencySets;
use runs::Runs;
use s3_fifo::ThreeQueues;
use sections::Sections;
use sieve::Sifted;
use smq::Levels;
use two_queue::ThreeLists;
use w_tinylfu::Admitted;
use weights::Weights;

use forebay_basis::{DeviceCost, Place};
use forebay_policy::registry::{self, POLICIES};
use forebay_policy::{Caller, Future, Policy, Reference, Spec, Visitor};
use proptest::prelude::*;
use std::sync::Arc;

const PAGES: u32 = 20;

/// What policies know of the device with `cost=device`: after every few references a new request of a user begins, which has no part in the one before.
const DEVICE: DeviceCost = DeviceCost { request: 6.0, behind: 5.0, page: 1.5 };
const REQUEST: usize = 3;

/// Policies at other settings than their defaults.
const VARIANTS: &[&str] = &[
    "gclock:initial=3:max=4",
    "lfu:ageing=2.5",
    "lfu:history=2",
    "lfu:ageing=2.5:history=1",
    "lirs:history=1",
    "lru-k:k=1",
    "lru-k:k=3:correlated=3:history=1",
    "2q:in=0.6:out=2",
    "mq:queues=3:lifetime=4:out=1",
    "mq:lifetime=11:out=1",
    "mq:queues=3:out=1",
    "mq:density=off",
    "s3-fifo:small=0.5:ghost=0.5:threshold=1",
    "s3-fifo:small=0.3:ghost=0:threshold=3",
    "linux:ratio=0.5",
    "linux:access=process",
    "linux:ratio=5:access=process",
    "linux:kernel=6",
    "linux:kernel=6:access=process",
    "clock-pro:least=5",
    "clock-pro:warm-up=cold",
    "clock-pro:least=1:new-test=off",
    "clock-pro:recovery=off",
    "w-tinylfu:window=0.3",
    "w-tinylfu:window=1",
    "w-tinylfu:adaptive=on",
    "smq:levels=3:period=2:sentinel=1",
    "smq:levels=1:period=0.5",
    "smq:levels=5:sentinel=0",
    "fbr:new=0.4:old=0.4:c-max=2:a-max=2",
    "fbr:new=0:old=1:c-max=1000:a-max=1000000",
    "fbr:new=1:old=0",
    "fbr:new=0.2:old=0.6:history=2",
    "lrfu:lambda=0",
    "lrfu:lambda=0.05",
    "lrfu:lambda=0.2:period=3",
    "lrfu:lambda=1",
    "lrfu:lambda=0.05:history=2",
    "lrfu:lambda=0.2:period=3:history=1",
    "seq:length=1:distance=1:misses=1:sequences=1",
    "seq:length=3:distance=2:misses=2:sequences=3",
    "ubm:run=3:gap=2",
    "ubm:other=lfu:run=2:gap=3",
    "ubm:other=lru-2:run=3:gap=1",
    "ubm:other=lrfu:run=1:gap=2",
    "ubm:gap=1:sequential=first:curve=fitted:ended=keeps:in-use=leaves",
    "dulo:correlation=20%:bank=50%:longest=3",
    "dulo:correlation=0:bank=30%",
    "dulo:correlation=75%",
    "dulo:cost=device",
    "dulo:correlation=0:bank=30%:cost=device",
    "dulo:base=linux",
    "dulo:base=linux:correlation=50%:bank=20%",
    "dulo:base=linux:access=process",
    "dulo:base=linux:correlation=30%:bank=40%:access=process",
    "lru-sp:manager=mru",
    "lru-sp:manager=access-once",
    "lru-sp:manager=lru-k",
    "lru-sp:manager=mru:swapping=off",
    "lru-sp:manager=mru:place-holders=off",
    "lru-sp:manager=mru:sharing=0",
    "lru-sp:manager=lru-k:sharing=3",
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
    let sections = |new, old, c_max, a_max, history: usize| {
        let (stack, ghosts) = (Vec::new(), Vec::new());
        Box::new(Sections { stack, capacity, new, old, c_max, a_max, ghosts, history: history * capacity })
    };
    let weights = |lambda, period, history: usize| {
        let (pages, ghosts) = (Vec::new(), Vec::new());
        Box::new(Weights { pages, capacity, lambda, period, ghosts, history: history * capacity })
    };
    match name {
        "lru" => queue(true, false),
        "fifo" => queue(false, false),
        "mru" => queue(true, true),
        "clock" => circle(0, 1),
        "gclock" => circle(1, 5),
        "gclock:initial=3:max=4" => circle(3, 4),
        "lfu" => Box::new(Counts::new(capacity, 0.0, 0)),
        "lfu:ageing=2.5" => Box::new(Counts::new(capacity, 2.5, 0)),
        "lfu:history=2" => Box::new(Counts::new(capacity, 0.0, 2)),
        "lfu:ageing=2.5:history=1" => Box::new(Counts::new(capacity, 2.5, 1)),
        "fbr" => sections(0.25, 0.6, 10, 4.0, 0),
        "fbr:new=0.2:old=0.6:history=2" => sections(0.2, 0.6, 10, 4.0, 2),
        "fbr:new=0.4:old=0.4:c-max=2:a-max=2" => sections(0.4, 0.4, 2, 2.0, 0),
        "fbr:new=0:old=1:c-max=1000:a-max=1000000" => Box::new(Counts::new(capacity, 0.0, 0)),
        "fbr:new=1:old=0" => queue(true, false),
        "lrfu" => weights(0.001, 0, 0),
        "lrfu:lambda=0" => weights(0.0, 0, 0),
        "lrfu:lambda=0.05" => weights(0.05, 0, 0),
        "lrfu:lambda=0.05:history=2" => weights(0.05, 0, 2),
        "lrfu:lambda=0.2:period=3" => weights(0.2, 3, 0),
        "lrfu:lambda=0.2:period=3:history=1" => weights(0.2, 3, 1),
        "lrfu:lambda=1" => weights(1.0, 0, 0),
        "seq" => Box::new(Runs::new(capacity, 20, 20, 5, 64)),
        "seq:length=1:distance=1:misses=1:sequences=1" => Box::new(Runs::new(capacity, 1, 1, 1, 1)),
        "seq:length=3:distance=2:misses=2:sequences=3" => Box::new(Runs::new(capacity, 3, 2, 2, 3)),
        "eelru" => Box::new(LongQueue::new(capacity)),
        "random" => Box::new(Drawn { pages, capacity, state: 1 }),
        "opt" => foreseen(true),
        "worst" => foreseen(false),
        "dulo" => Box::new(Dual::adaptive(capacity)),
        "dulo:base=linux" => Box::new(DualInLinux::new(capacity, true)),
        "dulo:base=linux:correlation=50%:bank=20%" => Box::new(DualInLinux::divided(capacity, 50.0, 20.0, true)),
        "dulo:base=linux:access=process" => Box::new(DualInLinux::new(capacity, false)),
        "dulo:base=linux:correlation=30%:bank=40%:access=process" => {
            Box::new(DualInLinux::divided(capacity, 30.0, 40.0, false))
        }
        "dulo:cost=device" => Box::new(Dual::adaptive(capacity).by_device()),
        "dulo:correlation=0:bank=30%:cost=device" => Box::new(Dual::new(capacity, 0.0, 30.0, 128).by_device()),
        "dulo:correlation=75%" => Box::new(Dual::new(capacity, 75.0, 5.0, 128)),
        "dulo:correlation=20%:bank=50%:longest=3" => Box::new(Dual::new(capacity, 20.0, 50.0, 3)),
        "dulo:correlation=0:bank=30%" => Box::new(Dual::new(capacity, 0.0, 30.0, 128)),
        "clock-pro" => Box::new(HotAndCold::new(capacity, 2, true, true)),
        "clock-pro:least=5" => Box::new(HotAndCold::new(capacity, 5, true, true)),
        "clock-pro:warm-up=cold" => Box::new(HotAndCold::new(capacity, 2, false, true)),
        "clock-pro:least=1:new-test=off" => Box::new(HotAndCold::new(capacity, 1, true, false)),
        "clock-pro:recovery=off" => Box::new(HotAndCold::without_recovery(capacity)),
        "lru-k" => Box::new(Histories::new(capacity, 2, 0, 4)),
        "lru-k:k=1" => queue(true, false),
        "lru-k:k=3:correlated=3:history=1" => Box::new(Histories::new(capacity, 3, 3, 1)),
        "2q" => Box::new(ThreeLists::new(capacity, 0.25, 0.5)),
        "2q:in=0.6:out=2" => Box::new(ThreeLists::new(capacity, 0.6, 2.0)),
        "arc" => Box::new(Adaptive::new(false, capacity)),
        "car" => Box::new(Adaptive::new(true, capacity)),
        "mq" => Box::new(TriedLives::new(capacity, 8, 4, true)),
        "mq:queues=3:out=1" => Box::new(TriedLives::new(capacity, 3, 1, true)),
        "mq:density=off" => Box::new(TriedLives::new(capacity, 8, 4, false)),
        "mq:lifetime=11:out=1" => Box::new(MultiQueue::new(capacity, 8, 11, 1)),
        "mq:queues=3:lifetime=4:out=1" => Box::new(MultiQueue::new(capacity, 3, 4, 1)),
        "lirs" => Box::new(RecencySets::new(capacity, 2500)),
        "lirs:history=1" => Box::new(RecencySets::new(capacity, 1)),
        "sieve" => Box::new(Sifted { queue: Vec::new(), hand: 0, capacity }),
        "s3-fifo" => Box::new(ThreeQueues::new(capacity, 0.1, 0.9, 2)),
        "s3-fifo:small=0.5:ghost=0.5:threshold=1" => Box::new(ThreeQueues::new(capacity, 0.5, 0.5, 1)),
        "s3-fifo:small=0.3:ghost=0:threshold=3" => Box::new(ThreeQueues::new(capacity, 0.3, 0.0, 3)),
        "linux" => Box::new(TwoLists::new(capacity, 2.0, true)),
        "linux:ratio=0.5" => Box::new(TwoLists::new(capacity, 0.5, true)),
        "linux:access=process" => Box::new(TwoLists::new(capacity, 2.0, false)),
        "linux:ratio=5:access=process" => Box::new(TwoLists::new(capacity, 5.0, false)),
        "linux:kernel=6" => Box::new(Today::new(capacity, true)),
        "linux:kernel=6:access=process" => Box::new(Today::new(capacity, false)),
        "w-tinylfu" => Box::new(Admitted::new(capacity, 0.01, false)),
        "w-tinylfu:window=0.3" => Box::new(Admitted::new(capacity, 0.3, false)),
        "w-tinylfu:window=1" => queue(true, false),
        "w-tinylfu:adaptive=on" => Box::new(Admitted::new(capacity, 0.01, true)),
        "smq" => Box::new(Levels::new(capacity, 64, 1.0, 6)),
        "smq:levels=3:period=2:sentinel=1" => Box::new(Levels::new(capacity, 3, 2.0, 1)),
        "smq:levels=1:period=0.5" => Box::new(Levels::new(capacity, 1, 0.5, 6)),
        "smq:levels=5:sentinel=0" => Box::new(Levels::new(capacity, 5, 1.0, 0)),
        "ubm" => Box::new(Partitions::new(capacity, "lru", 8, 8)),
        "ubm:run=3:gap=2" => Box::new(Partitions::new(capacity, "lru", 3, 2)),
        "ubm:other=lfu:run=2:gap=3" => Box::new(Partitions::new(capacity, "lfu", 2, 3)),
        "ubm:other=lru-2:run=3:gap=1" => Box::new(Partitions::new(capacity, "lru-2", 3, 1)),
        "ubm:other=lrfu:run=1:gap=2" => Box::new(Partitions::new(capacity, "lrfu", 1, 2)),
        "ubm:gap=1:sequential=first:curve=fitted:ended=keeps:in-use=leaves" => Box::new(Partitions::literal(capacity)),
        "lru-sp" | "lru-sp:manager=mru" | "lru-sp:manager=access-once" | "lru-sp:manager=lru-k" => {
            Box::new(Managed::new(name, capacity))
        }
        "lru-sp:manager=mru:swapping=off" | "lru-sp:manager=mru:place-holders=off" => {
            Box::new(Managed::new(name, capacity))
        }
        "lru-sp:manager=mru:sharing=0" | "lru-sp:manager=lru-k:sharing=3" => Box::new(Managed::new(name, capacity)),
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
    pages: u32,
    references: &'a [Reference],
}

impl Visitor for Compare<'_> {
    type Output = ();

    fn visit<P: Policy>(self) {
        let mut setup = self.spec.setup(self.capacity, self.pages);
        if self.spec.needs_future() {
            setup.future = Some(Arc::new(Future::new(Arc::new(pages_of(self.references)), self.pages)));
        }
        setup.device = self.spec.label.contains("cost=device").then_some(DEVICE);
        let mut policy = P::new(&setup);
        let mut model = model(&self.spec.label, self.capacity as usize, self.references);
        let (mut hits, mut model_hits) = (0, 0);
        let mut resident: Vec<u32> = Vec::new();
        for (now, reference) in self.references.iter().enumerate() {
            let page = reference.page;
            let mut victims = Victims::default();
            if now.is_multiple_of(REQUEST) {
                policy.begin_request();
            }
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

/// Loops longer than the ghosts are remembered, scans, and skewed references between.
fn phases() -> impl Strategy<Value = Vec<Reference>> {
    let skewed = prop::collection::vec((0u32..40, 0u32..40).prop_map(|(a, b)| a.min(b)), 1..200);
    let looping =
        (0u32..60, 10u32..90, 1u32..600).prop_map(|(start, len, n)| (0..n).map(|i| start + i % len).collect());
    let beside = (0u32..60, 40u32..90, 1u32..600)
        .prop_map(|(start, len, n)| (0..n).map(|i| if i % 3 == 0 { i / 3 % 9 } else { start + i % len }).collect());
    let parts = prop::collection::vec(prop_oneof![skewed, looping, beside], 1..8);
    parts.prop_map(|parts: Vec<Vec<u32>>| parts.concat().into_iter().map(Reference::of).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 200 } else { 1000 }))]

    #[test]
    fn every_policy_agrees_with_its_plain_model(capacity in 1u32..12, references in references()) {
        let variants = VARIANTS.iter().map(|text| Spec::parse(text).unwrap());
        for spec in POLICIES.iter().map(|info| Spec::new(info)).chain(variants) {
            registry::visit(spec.info.name, Compare { spec: &spec, capacity, pages: PAGES, references: &references }).unwrap();
        }
    }

    #[test]
    fn clock_pro_agrees_with_its_plain_model_where_it_has_several_witnesses(capacity in 8u32..48, references in phases()) {
        let spec = Spec::parse("clock-pro").unwrap();
        let compare = Compare { spec: &spec, capacity, pages: 150, references: &references };
        registry::visit(spec.info.name, compare).unwrap();
    }
}
