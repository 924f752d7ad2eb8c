//! For tests: a policy whose clocks stand where months of references bring them decides as one that has just been made.

use crate::policy::{AllRefused, Caller, Policy, Reference};
use crate::registry::Spec;
use forebay_basis::Place;

/// The victims so far; every fifth offer is refused.
#[derive(Default)]
struct Victims {
    offers: u32,
    evicted: Vec<u32>,
}

impl Caller for Victims {
    fn evict(&mut self, page: u32) -> bool {
        self.offers += 1;
        let accepted = !self.offers.is_multiple_of(5);
        if accepted {
            self.evicted.push(page);
        }
        accepted
    }

    fn forget(&mut self, _: u32) {}
}

/// Compares the run of a policy as it is made with one from each of these states, hit by hit and victim by victim.
pub(crate) fn is_as_the_first<P: Policy>(spec: &str, months_later: &[fn(&mut P)]) {
    let (hits, victims) = run::<P>(spec, |_| {});
    assert!(hits.contains(&true) && hits.contains(&false) && !victims.is_empty());
    for (index, later) in months_later.iter().enumerate() {
        // Too long to be shown: so `assert!`.
        assert!(run(spec, later) == (hits.clone(), victims.clone()), "{spec} from state {index}");
    }
}

/// Skewed references, a loop over one file and a long one over another.
fn run<P: Policy>(spec: &str, set_clocks: impl Fn(&mut P)) -> (Vec<bool>, Vec<u32>) {
    let spec = Spec::parse(spec).expect("a policy of the registry");
    let mut policy = P::new(&spec.setup(24, 200));
    set_clocks(&mut policy);
    let mut victims = Victims::default();
    let mut hits = Vec::new();
    for time in 0..6_000u32 {
        let page = match time % 3 {
            0 => time * time % 97 % 40,
            1 => 40 + time / 3 % 30,
            _ => 70 + time / 3 % 130,
        };
        let place = Place { object: page / 40, block: u64::from(page) };
        let reference = Reference { place, ..Reference::of(page) };
        hits.push(policy.contains(page));
        if policy.contains(page) {
            policy.hit(&reference);
        } else if policy.miss(&reference, &mut victims) == Err(AllRefused) {
            victims.evicted.push(u32::MAX);
        }
        if time % 16 == 0 {
            policy.check_invariants();
        }
    }
    (hits, victims.evicted)
}
