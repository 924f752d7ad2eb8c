//! What a run gives.

use crate::readahead::ReadaheadCounts;
use forebay_model::Cost;
use serde::Deserialize;

/// What became of some references.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub references: u64,
    /// Those that found their page resident.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
    /// The misses that no cache could have avoided: first uses of a page.
    pub compulsory_misses: u64,
}

impl Counts {
    pub(crate) fn new(references: u64, hits: u64, compulsory_misses: u64) -> Self {
        Self { references, hits, misses: references - hits, compulsory_misses }
    }

    /// Hits by references.
    pub fn hit_ratio(&self) -> f64 {
        if self.references == 0 { 0.0 } else { self.hits as f64 / self.references as f64 }
    }
}

/// What a run gave. It is read from JSON as a comparison writes it, but for what is split and for states.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RunOutcome {
    /// The policy as the user named it.
    pub policy: String,
    /// Whether it knew the future.
    pub off_line: bool,
    /// The cache's size.
    pub pages: u32,
    /// All references.
    pub total: Counts,
    /// The references after the warm-up.
    pub counted: Counts,
    /// What the misses after the warm-up cost on a device, if that was asked for.
    pub device: Option<Cost>,
    /// What became of the pages read ahead after the warm-up, if any were to be.
    pub readahead: Option<ReadaheadCounts>,
    /// The references after the warm-up by temporal distance, if that was asked for.
    pub by_distance: Option<ByDistance>,
    /// The references after the warm-up by the number of their owner, or of their file, if that was asked for.
    #[serde(skip)]
    pub parts: Vec<PartCounts>,
    /// Which references missed, by their number, if that was asked for.
    #[serde(skip)]
    pub missed: Vec<u32>,
    /// The time of the replay alone.
    pub seconds: f64,
    /// The memory of the policy.
    #[serde(rename = "metadata_bytes")]
    pub bytes: usize,
    /// The policy's state at the end, each figure under its name.
    #[serde(skip)]
    pub state: Vec<(&'static str, f64)>,
    /// The policy's state along the way, if that was asked for.
    #[serde(skip)]
    pub states: Vec<State>,
}

/// A policy's state after some references, each figure under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// How many references there were.
    pub references: u64,
    /// The figures.
    pub figures: Vec<(&'static str, f64)>,
}

/// Hits and misses by the temporal distance of their reference: the number of references since the page was used last. First uses
/// of a page are in neither. An LRU cache of C pages hits whenever the distance is below C (MQ's paper, section 5.3).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct ByDistance {
    /// Hits at distances below the number of pages in the cache.
    pub near_hits: u64,
    /// Misses there.
    pub near_misses: u64,
    /// Hits at that distance and more.
    pub far_hits: u64,
    /// Misses there.
    pub far_misses: u64,
}

impl ByDistance {
    #[inline]
    pub(crate) fn count(&mut self, near: bool, hit: bool) {
        *match (near, hit) {
            (true, true) => &mut self.near_hits,
            (true, false) => &mut self.near_misses,
            (false, true) => &mut self.far_hits,
            (false, false) => &mut self.far_misses,
        } += 1;
    }
}

/// An owner's hits and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounts {
    /// Its references that hit.
    pub hits: u64,
    /// Its references that missed.
    pub misses: u64,
}

impl std::iter::Sum for PartCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, of| Self { hits: sum.hits + of.hits, misses: sum.misses + of.misses })
    }
}
