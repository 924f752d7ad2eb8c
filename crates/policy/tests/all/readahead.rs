//! A page read ahead is no use: with readahead a policy decides, page for page, as without it, if the same frames are taken from it by `evict` at the
//! same moments.

use crate::contract::specs;
use forebay_basis::{Operation, Place};
use forebay_policy::readahead::WithReadahead;
use forebay_policy::{Caller, Policy, Reference, Spec, Visitor, registry};
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGES: u32 = 40;

/// A cache that refuses no victim.
#[derive(Default)]
struct Frames {
    resident: BTreeSet<u32>,
    evicted: Vec<u32>,
}

impl Caller for Frames {
    fn evict(&mut self, page: u32) -> bool {
        self.evicted.push(page);
        assert!(self.resident.remove(&page), "page {page} is offered but not resident");
        true
    }

    fn forget(&mut self, page: u32) {
        assert!(!self.resident.contains(&page), "page {page} is forgotten but resident");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Use(u32),
    /// This many pages from one on are read ahead.
    ReadAhead(u32, u32),
    Evict,
    Remove(u32),
    Resize(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = || prop_oneof![2 => 0..PAGES, 1 => 0u32..6];
    let step = prop_oneof![
        12 => page().prop_map(Step::Use),
        3 => (page(), 1u32..8).prop_map(|(page, length)| Step::ReadAhead(page, length)),
        1 => Just(Step::Evict),
        1 => page().prop_map(Step::Remove),
        1 => (1u32..14).prop_map(Step::Resize),
    ];
    prop::collection::vec(step, 1..300)
}

fn used(page: u32) -> Reference {
    Reference {
        page,
        owner: page % 3,
        place: Place { object: page / 20, block: u64::from(page % 20) },
        ..Reference::default()
    }
}

fn state<P: Policy>(policy: &P) -> Vec<(&'static str, f64)> {
    let mut state = Vec::new();
    policy.state(&mut |name, figure| state.push((name, figure)));
    state.retain(|(name, _)| *name != "waiting");
    state
}

/// A policy with readahead, and its twin without.
struct Pair<P> {
    with: WithReadahead<P>,
    frames: Frames,
    twin: P,
    frames_of_twin: Frames,
}

impl<P: Policy> Pair<P> {
    /// Takes from the twin, by `evict`, what has just been taken from the policy.
    fn take(&mut self) {
        for page in self.frames.evicted.drain(..) {
            if self.frames_of_twin.resident.contains(&page) {
                self.twin.evict(&mut self.frames_of_twin).expect("no victim is refused");
                assert_eq!(self.frames_of_twin.evicted.pop(), Some(page));
            }
        }
    }

    fn use_page(&mut self, page: u32) {
        let Self { with, frames, twin, .. } = self;
        let reference = used(page);
        if with.waits(page) {
            with.first_use(&reference, frames);
            assert!(frames.evicted.is_empty(), "a first use evicts nothing");
        } else if with.contains(page) {
            with.hit(&reference);
            return twin.hit(&reference);
        } else {
            with.miss(&reference, frames).expect("no victim is refused");
            frames.resident.insert(page);
        }
        if twin.len() < twin.capacity() {
            self.take();
        }
        let Self { frames, twin, frames_of_twin, .. } = self;
        twin.miss(&reference, frames_of_twin).expect("no victim is refused");
        frames_of_twin.resident.insert(page);
        assert_eq!(std::mem::take(&mut frames_of_twin.evicted), std::mem::take(&mut frames.evicted));
    }

    fn read_ahead(&mut self, pages: std::ops::Range<u32>) {
        for page in pages {
            if self.with.contains(page) {
                continue;
            }
            let reference = Reference { operation: Operation::Readahead, ..used(page) };
            if self.with.miss(&reference, &mut self.frames).is_err() {
                break;
            }
            assert!(self.with.waits(page));
            self.frames.resident.insert(page);
            self.take();
        }
        self.take();
    }

    fn check(&self) {
        self.with.check_invariants();
        let admitted = self.frames.resident.iter().filter(|&&page| !self.with.waits(page));
        assert!(admitted.eq(&self.frames_of_twin.resident));
        assert!((0..PAGES).all(|page| self.with.contains(page) == self.frames.resident.contains(&page)));
        let waiting = self.with.len() - self.twin.len();
        assert!(self.with.len() <= self.with.capacity() && waiting <= self.with.capacity());
        assert_eq!(state(&self.with), state(&self.twin));
    }
}

struct Run<'a> {
    spec: &'a Spec,
    capacity: u32,
    steps: &'a [Step],
}

impl Visitor for Run<'_> {
    /// How many pages were used that had been read ahead.
    type Output = u32;

    fn visit<P: Policy>(self) -> u32 {
        let setup = self.spec.setup(self.capacity, PAGES + 8);
        let (with, twin) = (WithReadahead::<P>::new(&setup), P::new(&setup));
        if twin.ranks_readahead() {
            return 0;
        }
        let mut pair = Pair { with, frames: Frames::default(), twin, frames_of_twin: Frames::default() };
        let mut first_uses = 0;
        for step in self.steps {
            match *step {
                Step::Use(page) => {
                    first_uses += u32::from(pair.with.waits(page));
                    pair.use_page(page);
                }
                Step::ReadAhead(page, length) => pair.read_ahead(page..page + length),
                Step::Evict => {
                    let _ = pair.with.evict(&mut pair.frames);
                    pair.take();
                }
                Step::Remove(page) => {
                    pair.with.remove(page, &mut pair.frames);
                    pair.twin.remove(page, &mut pair.frames_of_twin);
                    pair.frames.resident.remove(&page);
                    pair.frames_of_twin.resident.remove(&page);
                }
                Step::Resize(capacity) => {
                    pair.with.resize(capacity, &mut pair.frames).expect("no victim is refused");
                    pair.take();
                    pair.twin.resize(capacity, &mut pair.frames_of_twin).expect("no victim is refused");
                }
            }
            pair.check();
        }
        first_uses
    }
}

fn on_line() -> impl Iterator<Item = Spec> {
    specs().into_iter().filter(|spec| !spec.needs_future())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 100 } else { 400 }))]

    #[test]
    fn with_readahead_a_policy_decides_as_without_it(capacity in 1u32..14, steps in steps()) {
        for spec in on_line() {
            registry::visit(spec.info.name, Run { spec: &spec, capacity, steps: &steps }).expect("the policy is in the registry");
        }
    }
}

#[test]
fn a_scan_read_ahead_is_used_page_for_page() {
    let window = |start| [Step::ReadAhead(start, 4)].into_iter().chain((start..start + 4).map(Step::Use));
    let steps: Vec<Step> = (0..8).flat_map(|part| window(4 * part)).collect();
    for spec in on_line() {
        let uses = registry::visit(spec.info.name, Run { spec: &spec, capacity: 8, steps: &steps });
        let ranks = ["linux", "dulo"].contains(&spec.info.name);
        assert_eq!(uses, Some(if ranks { 0 } else { 32 }), "{}", spec.label);
    }
}

/// Of 8 pages 4 may wait once the cache is full.
#[test]
fn windows_in_use_stay_and_the_one_unused_the_longest_leaves_with_its_farthest_page_first() {
    let spec = Spec::parse("lru").expect("a policy");
    let mut pair = Pair::<forebay_policy::Lru> {
        with: WithReadahead::new(&spec.setup(8, PAGES)),
        frames: Frames::default(),
        twin: Policy::new(&spec.setup(8, PAGES)),
        frames_of_twin: Frames::default(),
    };
    let waiting = |pair: &Pair<_>| (0..PAGES).filter(|&page| pair.with.waits(page)).collect::<Vec<_>>();
    pair.use_page(0);
    pair.read_ahead(10..12);
    pair.use_page(1);
    pair.read_ahead(20..25);
    assert_eq!(waiting(&pair), [10, 11, 20, 21, 22, 23], "four frames were free, and the window is cut short");
    pair.use_page(20);
    (2..4).for_each(|page| pair.use_page(page));
    pair.read_ahead(24..26);
    assert_eq!(waiting(&pair), [10, 11, 21, 22, 23], "the first window was unused for eight admissions");
    // Nine are more than the cache has pages.
    (4..6).for_each(|page| pair.use_page(page));
    assert_eq!(waiting(&pair), [21, 22, 23], "11 and then 10 have left, and no page of the policy's");
}
