//! A policy whose type is forgotten: one virtual call for a reference, or for a batch of hits.

use crate::control::{Control, Uncontrolled};
use crate::policy::{AllRefused, Caller, Policy, Reference, Setup};
use crate::readahead::WithReadahead;
use crate::registry::{Spec, Visitor, visit};
use std::ops::Range;

/// A hit of which the policy is yet to learn.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// Of a page that was resident.
    pub reference: Reference,
    /// The page was read ahead, and this is its first use.
    pub first_use: bool,
}

/// What is asked of a policy behind a pointer: as in [`Policy`], where nothing else is said.
#[expect(missing_docs)]
pub trait AnyPolicy: Send {
    fn capacity(&self) -> u32;
    /// [`Policy::len`].
    fn resident(&self) -> u32;
    fn ghosts(&self) -> u32;
    fn contains(&self, page: u32) -> bool;
    /// Whether the page is resident, and a hit of it would change something.
    fn awaits_use(&self, page: u32) -> bool;
    /// A page is referenced: a hit or a miss, which is the answer.
    ///
    /// # Errors
    /// Those of [`Policy::miss`].
    fn refer(&mut self, reference: &Reference, caller: &mut dyn Caller) -> Result<bool, AllRefused>;
    /// Hits, but for those whose pages have been evicted since. Ghosts may be forgotten at first uses.
    fn hits(&mut self, hits: &[Hit], caller: &mut dyn Caller);
    fn miss(&mut self, reference: &Reference, caller: &mut dyn Caller) -> Result<(), AllRefused>;
    fn evicted_above(&mut self, reference: &Reference, hits: u32);
    fn remove(&mut self, page: u32, caller: &mut dyn Caller);
    fn discard(&mut self, object: u32, blocks: Range<u64>);
    fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled>;
    fn resize(&mut self, capacity: u32, caller: &mut dyn Caller) -> Result<(), AllRefused>;
    fn reserve(&mut self, pages: u32);
    fn state(&self) -> Vec<(&'static str, f64)>;
    fn bytes(&self) -> usize;
    fn check_invariants(&self);
}

impl<P: Policy> AnyPolicy for P {
    fn capacity(&self) -> u32 {
        Policy::capacity(self)
    }

    fn resident(&self) -> u32 {
        Policy::len(self)
    }

    fn ghosts(&self) -> u32 {
        Policy::ghosts(self)
    }

    fn contains(&self, page: u32) -> bool {
        Policy::contains(self, page)
    }

    fn awaits_use(&self, page: u32) -> bool {
        Policy::contains(self, page) && Policy::awaits_use(self, page)
    }

    fn refer(&mut self, reference: &Reference, mut caller: &mut dyn Caller) -> Result<bool, AllRefused> {
        let hit = Policy::contains(self, reference.page);
        if hit && self.waits(reference.page) {
            self.first_use(reference, &mut caller);
        } else if hit {
            self.hit(reference);
        } else {
            Policy::miss(self, reference, &mut caller)?;
        }
        Ok(hit)
    }

    fn hits(&mut self, hits: &[Hit], mut caller: &mut dyn Caller) {
        for hit in hits {
            if !Policy::contains(self, hit.reference.page) {
                continue;
            }
            if hit.first_use || self.waits(hit.reference.page) {
                self.first_use(&hit.reference, &mut caller);
            } else {
                self.hit(&hit.reference);
            }
        }
    }

    fn miss(&mut self, reference: &Reference, mut caller: &mut dyn Caller) -> Result<(), AllRefused> {
        Policy::miss(self, reference, &mut caller)
    }

    fn evicted_above(&mut self, reference: &Reference, hits: u32) {
        Policy::evicted_above(self, reference, hits);
    }

    fn remove(&mut self, page: u32, mut caller: &mut dyn Caller) {
        Policy::remove(self, page, &mut caller);
    }

    fn discard(&mut self, object: u32, blocks: Range<u64>) {
        Policy::discard(self, object, blocks);
    }

    fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled> {
        Policy::control(self, control)
    }

    fn resize(&mut self, capacity: u32, mut caller: &mut dyn Caller) -> Result<(), AllRefused> {
        Policy::resize(self, capacity, &mut caller)
    }

    fn reserve(&mut self, pages: u32) {
        Policy::reserve(self, pages);
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        let mut figures = Vec::new();
        // A sum of nothing is -0, which nobody wants to read.
        Policy::state(self, &mut |name, figure| figures.push((name, figure + 0.0)));
        figures
    }

    fn bytes(&self) -> usize {
        Policy::bytes(self)
    }

    fn check_invariants(&self) {
        Policy::check_invariants(self);
    }
}

impl Caller for &mut dyn Caller {
    fn evict(&mut self, page: u32) -> bool {
        (**self).evict(page)
    }

    fn forget(&mut self, page: u32) {
        (**self).forget(page);
    }

    fn await_use(&mut self, page: u32) {
        (**self).await_use(page);
    }
}

impl Spec {
    /// The policy behind a pointer, for a cache that reads ahead.
    pub fn build(&self, setup: &Setup) -> Box<dyn AnyPolicy> {
        self.built(setup, true)
    }

    /// The policy behind a pointer, for a cache that reads nothing ahead.
    pub fn build_alone(&self, setup: &Setup) -> Box<dyn AnyPolicy> {
        self.built(setup, false)
    }

    fn built(&self, setup: &Setup, reads_ahead: bool) -> Box<dyn AnyPolicy> {
        struct Build<'a>(&'a Setup, bool);
        impl Visitor for Build<'_> {
            type Output = Box<dyn AnyPolicy>;

            fn visit<P: Policy>(self) -> Box<dyn AnyPolicy> {
                Box::new(WithReadahead::<P>::of(self.0, self.1))
            }
        }
        visit(self.info.name, Build(setup, reads_ahead)).expect("the policy is in the registry")
    }
}
