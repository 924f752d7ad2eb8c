//! A policy whose type is forgotten: one virtual call for a miss or for a batch of hits.

use crate::core::judge::Judge;
use forebay_policy::registry::{self, Visitor};
use forebay_policy::{AllRefused, Control, Policy, Reference, Setup, Spec, Uncontrolled};
use std::ops::Range;

/// A hit that the policy has not been told of.
#[derive(Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) reference: Reference,
    /// The page was read ahead, and this is its first use.
    pub(crate) first_use: bool,
}

/// What the pool asks of a policy.
pub(crate) trait Replacement: Send {
    fn capacity(&self) -> u32;
    fn len(&self) -> u32;
    fn ghosts(&self) -> u32;
    fn hits(&mut self, hits: &[Hit]);
    fn miss(&mut self, reference: &Reference, judge: &mut Judge<'_>) -> Result<(), AllRefused>;
    fn evicted_above(&mut self, reference: &Reference, hits: u32);
    fn remove(&mut self, page: u32, judge: &mut Judge<'_>);
    fn discard(&mut self, object: u32, blocks: Range<u64>);
    fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled>;
    fn resize(&mut self, capacity: u32, judge: &mut Judge<'_>) -> Result<(), AllRefused>;
    fn reserve(&mut self, pages: u32);
    fn state(&self) -> Vec<(&'static str, f64)>;
    fn bytes(&self) -> usize;
    fn check_invariants(&self);
}

impl<P: Policy> Replacement for P {
    fn capacity(&self) -> u32 {
        Policy::capacity(self)
    }

    fn len(&self) -> u32 {
        Policy::len(self)
    }

    fn ghosts(&self) -> u32 {
        Policy::ghosts(self)
    }

    fn hits(&mut self, hits: &[Hit]) {
        for hit in hits {
            // It may have been evicted since, by another thread's miss.
            if !Policy::contains(self, hit.reference.page) {
                continue;
            }
            if hit.first_use {
                self.first_use(&hit.reference);
            } else {
                self.hit(&hit.reference);
            }
        }
    }

    fn miss(&mut self, reference: &Reference, judge: &mut Judge<'_>) -> Result<(), AllRefused> {
        Policy::miss(self, reference, judge)
    }

    fn evicted_above(&mut self, reference: &Reference, hits: u32) {
        Policy::evicted_above(self, reference, hits);
    }

    fn remove(&mut self, page: u32, judge: &mut Judge<'_>) {
        Policy::remove(self, page, judge);
    }

    fn discard(&mut self, object: u32, blocks: Range<u64>) {
        Policy::discard(self, object, blocks);
    }

    fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled> {
        Policy::control(self, control)
    }

    fn resize(&mut self, capacity: u32, judge: &mut Judge<'_>) -> Result<(), AllRefused> {
        Policy::resize(self, capacity, judge)
    }

    fn reserve(&mut self, pages: u32) {
        Policy::reserve(self, pages);
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        let mut state = Vec::new();
        Policy::state(self, &mut |name, value| state.push((name, value)));
        state
    }

    fn bytes(&self) -> usize {
        Policy::bytes(self)
    }

    fn check_invariants(&self) {
        Policy::check_invariants(self);
    }
}

/// The policy that the user named, for a cache of `setup`.
pub(crate) fn build(spec: &Spec, setup: &Setup) -> Box<dyn Replacement> {
    struct Build<'a>(&'a Setup);
    impl Visitor for Build<'_> {
        type Output = Box<dyn Replacement>;

        fn visit<P: Policy>(self) -> Box<dyn Replacement> {
            Box::new(P::new(self.0))
        }
    }
    registry::visit(spec.info.name, Build(setup)).expect("the policy is in the registry")
}

/// Whether a hit of that policy does nothing but set a bit.
pub(crate) fn hit_sets_bit(spec: &Spec) -> bool {
    struct Sets;
    impl Visitor for Sets {
        type Output = bool;

        fn visit<P: Policy>(self) -> bool {
            P::HIT_SETS_BIT
        }
    }
    registry::visit(spec.info.name, Sets).expect("the policy is in the registry")
}
