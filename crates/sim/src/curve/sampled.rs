//! Curves estimated from a sample of the pages.
//!
//! SHARDS (Waldspurger et al., FAST 2015): the stack distances of a sample of rate R, divided by R, are those of the trace. A few
//! hot pages make the sample hold more or fewer references than its share; SHARDS_adj adds the difference to the hits of
//! the smallest cache. Miniature simulation (C. Waldspurger, T. Saemundsson, I. Ahmad and N. Park, "Cache Modeling and Optimization
//! using Miniature Simulations", USENIX ATC 2017): any policy replays the sample with R times the pages; the difference is
//! added to the hits there too.

use super::lru::Lru;
use super::ratios::Curve;
use super::stack::{Distances, Stack};
use crate::input::sample::mix;
use crate::input::trace::Trace;

/// Slices of a sample whose curves are compared.
const SLICES: u64 = 4;

/// Of which trace a trace is a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The share of the pages that were taken.
    pub rate: f64,
    /// The references of the whole trace.
    pub whole: u64,
}

impl Sampling {
    /// The references that the sample would hold if all pages were alike.
    fn expected(&self) -> f64 {
        self.rate * self.whole as f64
    }

    /// The size of a miniature of a cache of this many pages; `None` if not even one page is left.
    pub fn miniature(&self, pages: u32) -> Option<u32> {
        let scaled = (f64::from(pages) * self.rate).round() as u32;
        (scaled > 0).then_some(scaled)
    }
}

/// LRU's curve by SHARDS, with its adjustment.
pub fn shards(sample: &Trace, sampling: Sampling, progress: &dyn Fn(u64) -> bool) -> Option<Curve> {
    let distances = Distances::count(&mut Lru::new(sample.pages), &sample.references, sample.pages, progress)?;
    let expected = sampling.expected();
    Some(Curve::scaled(&distances, 1.0 / sampling.rate, expected, expected - sample.len() as f64))
}

/// How far the sample's curve may be off, told by the sample alone: it is cut by hash into four slices, and the standard
/// error of the mean of their curves is given, averaged over these sizes.
pub fn lru_spread(sample: &Trace, sampling: Sampling, sizes: &[u32]) -> f64 {
    let rate = sampling.rate / SLICES as f64;
    let expected = rate * sampling.whole as f64;
    let slices: Vec<Curve> = (0..SLICES)
        .map(|slice| {
            let taken = |page: &u32| mix(u64::from(*page)) % SLICES == slice;
            let references: Vec<u32> = sample.references.iter().copied().filter(taken).collect();
            let distances = Distances::count(&mut Lru::new(sample.pages), &references, sample.pages, &|_| true);
            let added = expected - references.len() as f64;
            Curve::scaled(&distances.expect("nothing stops it"), 1.0 / rate, expected, added)
        })
        .collect();
    let error = |&size: &u32| {
        let ratios = slices.iter().map(|curve| curve.miss_ratio(size));
        let mean = ratios.clone().sum::<f64>() / SLICES as f64;
        let variance = ratios.map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (SLICES - 1) as f64;
        (variance / SLICES as f64).sqrt()
    };
    sizes.iter().map(error).sum::<f64>() / sizes.len() as f64
}

/// A policy's curve by miniature simulation: `replayed` holds sizes of the whole cache, rising, and the hits of their miniatures.
pub fn miniature(sample: &Trace, sampling: Sampling, replayed: &[(u32, u64)]) -> Curve {
    let expected = sampling.expected();
    let added = expected - sample.len() as f64;
    Curve::through(expected, replayed.iter().map(|&(size, hits)| (size, hits as f64 + added)).collect())
}
