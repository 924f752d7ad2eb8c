//! What tests of owners and their managers have in common: references by owners, to a cache that refuses no victim.

use forebay_basis::Place;
use forebay_policy::managers::Assignment;
use forebay_policy::{Caller, Policy, Reference, Spec};
use std::sync::Arc;

pub(crate) struct AnyVictim;

impl Caller for AnyVictim {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

/// An owner's use of a page of a file.
pub(crate) fn used(owner: u32, object: u32, page: u32) -> Reference {
    let place = Place { object, block: u64::from(page) };
    Reference { owner, place, ..Reference::of(page) }
}

/// Whether a reference hits.
pub(crate) fn refer(policy: &mut impl Policy, reference: &Reference) -> bool {
    let hit = policy.contains(reference.page);
    if hit {
        policy.hit(reference);
    } else {
        policy.miss(reference, &mut AnyVictim).expect("no victim is refused");
    }
    hit
}

/// A policy with these managers.
pub(crate) fn under(settings: &str, assignment: Assignment) -> Spec {
    Spec { managers: Some(Arc::new(assignment)), ..Spec::parse(settings).expect("a policy") }
}
