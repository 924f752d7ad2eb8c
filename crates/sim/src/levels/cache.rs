//! One cache of a hierarchy: a policy, whatever its type, and what the cache knows of its pages besides.

use super::analysis::Analyst;
use forebay_policy::{AnyPolicy, Caller, Reference, Setup, Spec};

/// What a policy evicts.
struct Evicted<'a>(&'a mut Vec<u32>);

impl Caller for Evicted<'_> {
    fn evict(&mut self, page: u32) -> bool {
        self.0.push(page);
        true
    }

    fn forget(&mut self, _: u32) {}
}

/// A cache of a level.
pub(super) struct Cache {
    policy: Box<dyn AnyPolicy>,
    /// By page. LC1. Only resident pages are dirty.
    dirty: Vec<bool>,
    /// The pages that became dirty since the last flush, some of them clean again by now; none if nothing is flushed.
    written: Vec<u32>,
    flushed: bool,
    /// The hits of each resident page since it came, if the cache below is told.
    hits: Vec<u32>,
    analyst: Option<Analyst>,
}

/// What a cache of a level is asked to keep besides its pages.
#[derive(Clone, Copy)]
pub(super) struct Notes {
    pub(super) flushed: bool,
    pub(super) hits: bool,
    pub(super) analyze: bool,
}

impl Cache {
    pub(super) fn new(spec: &Spec, setup: &Setup, notes: Notes) -> Self {
        let pages = setup.pages;
        Self {
            policy: spec.build_alone(setup),
            dirty: vec![false; pages as usize],
            written: Vec::new(),
            flushed: notes.flushed,
            hits: vec![0; if notes.hits { pages as usize } else { 0 }],
            analyst: notes.analyze.then(|| Analyst::new(pages)),
        }
    }

    /// A reference to the cache: as [`admit`](Cache::admit), and counted.
    pub(super) fn refer(&mut self, reference: &Reference, evicted: &mut Vec<u32>) -> bool {
        if let Some(analyst) = &mut self.analyst {
            analyst.refer(reference.page);
        }
        let hit = self.admit(reference, evicted);
        if let (true, Some(hits)) = (hit, self.hits.get_mut(reference.page as usize)) {
            *hits = hits.saturating_add(1);
        }
        hit
    }

    /// The page is resident afterwards; what makes room for it is added to `evicted`. Whether it was so before.
    pub(super) fn admit(&mut self, reference: &Reference, evicted: &mut Vec<u32>) -> bool {
        self.policy.refer(reference, &mut Evicted(evicted)).expect("no victim is refused")
    }

    /// A reference to the cache whose page leaves it, or passes by: whether it was resident, and dirty.
    pub(super) fn refer_and_take(&mut self, page: u32) -> (bool, bool) {
        if let Some(analyst) = &mut self.analyst {
            analyst.refer(page);
        }
        self.take(page)
    }

    /// The page leaves the cache: whether it was resident, and dirty.
    pub(super) fn take(&mut self, page: u32) -> (bool, bool) {
        let resident = self.policy.contains(page);
        if resident {
            self.policy.remove(page, &mut Evicted(&mut Vec::new()));
        }
        (resident, self.clean(page))
    }

    /// A cache above has evicted a page after this many hits there.
    pub(super) fn hint(&mut self, reference: &Reference, hits: u32) {
        self.policy.evicted_above(reference, hits);
    }

    /// The page, which is resident, has content that is not below.
    pub(super) fn soil(&mut self, page: u32) {
        let was = std::mem::replace(&mut self.dirty[page as usize], true);
        if self.flushed && !was {
            self.written.push(page);
        }
    }

    /// The page is not dirty any more; whether it was.
    pub(super) fn clean(&mut self, page: u32) -> bool {
        std::mem::replace(&mut self.dirty[page as usize], false)
    }

    /// The page is not resident any more: its hits.
    pub(super) fn take_hits(&mut self, page: u32) -> u32 {
        self.hits.get_mut(page as usize).map_or(0, std::mem::take)
    }

    /// All dirty pages become clean; which they were.
    pub(super) fn flush(&mut self) -> Vec<u32> {
        let mut written = std::mem::take(&mut self.written);
        written.retain(|&page| self.clean(page));
        written
    }

    pub(super) fn analyst(&self) -> Option<&Analyst> {
        self.analyst.as_ref()
    }
}

#[cfg(test)]
impl Cache {
    pub(super) fn contains(&self, page: u32) -> bool {
        self.policy.contains(page)
    }

    pub(super) fn dirty_pages(&self) -> impl Iterator<Item = u32> {
        (0..self.dirty.len() as u32).filter(|&page| self.dirty[page as usize])
    }

    pub(super) fn check(&self) {
        self.policy.check_invariants();
        assert!(self.dirty_pages().all(|page| self.contains(page))); // LC1
    }
}
