//! A stack algorithm at many sizes: one run gives the hits of all.

use super::Stretch;
use super::outcome::{Counts, RunOutcome};
use super::run::Run;
use crate::curve::{Distances, Lru, Opt, Stack};
use crate::size::room_for;
use forebay_policy::{self as policies, Policy, Spec};
use std::time::Instant;

/// From this many sizes on, one pass of LRU's stack takes less time than a replay at each; for OPT it is another number, since each size
/// asked makes its stack slower.
const ENOUGH_FOR_LRU: usize = 8;
const ENOUGH_FOR_OPT: usize = 16;

/// Whether this many sizes of a policy are better had in one pass.
pub(crate) fn pays(spec: &Spec, sizes: usize) -> bool {
    match spec.info.name {
        name if name == policies::Lru::INFO.name => sizes >= ENOUGH_FOR_LRU,
        name if name == policies::Opt::INFO.name => sizes >= ENOUGH_FOR_OPT,
        _ => false,
    }
}

/// Starts a run that gives the outcomes at all these sizes, on page numbers below `pages`, of a policy for which that [`pays`].
pub(crate) fn start<'a>(spec: &'a Spec, sizes: &'a [u32], warmup: u64, pages: u32) -> Box<dyn Run + 'a> {
    let start = Instant::now();
    if spec.info.name == policies::Lru::INFO.name {
        return Box::new(OnePass::new(spec, sizes, warmup, pages, Lru::new(pages), start));
    }
    // A cache of all pages is as good as any larger one.
    let mut rising: Vec<u32> = sizes.iter().map(|&size| size.min(pages)).collect();
    rising.sort_unstable();
    rising.dedup();
    Box::new(OnePass::new(spec, sizes, warmup, pages, Opt::at(pages, rising), start))
}

struct OnePass<'a, S> {
    spec: &'a Spec,
    sizes: &'a [u32],
    stack: S,
    /// Those of the references counted.
    distances: Distances,
    /// Page numbers are below this.
    room: u32,
    pages: u32,
    warmup: u64,
    references: u64,
    /// By size, the hits of the warm-up.
    warm_hits: Vec<u64>,
    seconds: f64,
}

impl<'a, S: Stack> OnePass<'a, S> {
    fn new(spec: &'a Spec, sizes: &'a [u32], warmup: u64, pages: u32, stack: S, start: Instant) -> Self {
        Self {
            spec,
            sizes,
            stack,
            distances: Distances::new(pages),
            room: pages,
            pages,
            warmup,
            references: 0,
            warm_hits: vec![0; sizes.len()],
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    /// The policy's state at the end, where nothing is used again.
    fn state(&self, size: u32) -> Vec<(&'static str, f64)> {
        let resident = f64::from(size.min(self.pages));
        if self.spec.needs_future() { vec![("never again", resident)] } else { Vec::new() }
    }
}

impl<S: Stack + Send> Run for OnePass<'_, S> {
    fn replay(&mut self, stretch: &Stretch<'_>, progress: &dyn Fn(u64) -> bool) -> bool {
        let start = Instant::now();
        self.pages = stretch.pages;
        if stretch.pages > self.room {
            self.room = room_for(stretch.pages);
            self.stack.reserve(self.room);
            self.distances.reserve(self.room);
        }
        let length = stretch.references.len();
        let warm = self.warmup.saturating_sub(stretch.start).min(length as u64) as usize;
        let (warming, counted) = stretch.references.split_at(warm);
        if !self.distances.add(&mut self.stack, warming, progress) {
            return false;
        }
        if warm > 0 && stretch.start + warm as u64 == self.warmup {
            self.warm_hits = self.distances.hits(self.sizes);
            self.distances = Distances::new(self.room);
        }
        if !self.distances.add(&mut self.stack, counted, progress) {
            return false;
        }
        self.references += length as u64;
        self.seconds += start.elapsed().as_secs_f64();
        true
    }

    fn outcomes(self: Box<Self>, compulsory_misses: (u64, u64)) -> Vec<RunOutcome> {
        let after = self.references.saturating_sub(self.warmup);
        let mut hits = self.distances.hits(self.sizes);
        let mut warm_hits = self.warm_hits.clone();
        if after == 0 {
            // The warm-up is not over, or has just ended.
            warm_hits.iter_mut().zip(&mut hits).for_each(|(warm, hits)| *warm += std::mem::take(hits));
        }
        let one = |((&pages, warm_hits), hits): ((&u32, u64), u64)| RunOutcome {
            policy: self.spec.label.clone(),
            off_line: self.spec.needs_future(),
            pages,
            total: Counts::new(self.references, warm_hits + hits, compulsory_misses.0),
            counted: Counts::new(after, hits, compulsory_misses.1),
            // All sizes together took the time of the pass.
            seconds: self.seconds / self.sizes.len() as f64,
            // What the policy would take.
            bytes: self.spec.info.bytes_per_page * self.pages as usize,
            state: self.state(pages),
            ..RunOutcome::default()
        };
        self.sizes.iter().zip(warm_hits).zip(hits).map(one).collect()
    }
}
