//! The ends of all curves: what a trace costs with next to no cache, and with a cache of everything. They are runs of their own, so that
//! what is compared between them does not move them.

use super::outcome::RunOutcome;
use super::sweep::Sweep;
use super::watch::Watch;
use crate::readahead::Readahead;
use forebay_policy::{Lru, Policy, Spec};
use std::sync::LazyLock;

/// What a trace costs at both ends of all curves.
#[derive(Clone, Debug)]
pub struct Ends {
    /// With a cache of one page, for which nothing is read ahead.
    pub without: RunOutcome,
    /// With a cache of all pages, which is the same under every policy.
    pub with_all: RunOutcome,
}

/// One page, and more than any trace has.
pub(super) const SIZES: [u32; 2] = [1, u32::MAX];

/// The policy of both runs.
pub(super) static LRU: LazyLock<Spec> = LazyLock::new(|| Spec::new(&Lru::INFO));

impl Ends {
    /// The runs over a trace of this many pages that is held, each with what is watched.
    pub(crate) fn runs(pages: u32, warmup: usize, threads: usize, watch: &Watch) -> [(Sweep, Watch); 2] {
        let sweep = |pages| Sweep { specs: vec![LRU.clone()], sizes: vec![pages], warmup, threads };
        let costs =
            |readahead| Watch { device: watch.device.clone(), think_ms: watch.think_ms, readahead, ..Watch::default() };
        [(sweep(1), costs(Readahead::default())), (sweep(pages), costs(watch.readahead.clone()))]
    }
}
