//! What is asked of a comparison: `comparison::Asked`.

use super::error::{ParseError, Question};
use crate::input::sample::Sample;
use crate::input::trace::Dimensions;
use crate::readahead::Readahead;
use crate::replay::watch::By;
use crate::size::Size;
use forebay_model::presets::Named;
use forebay_policy::Spec;
use forebay_policy::managers::Rules;
use std::str::FromStr;
use std::sync::Arc;

/// The sizes of whoever names none, in percent of the footprint.
pub const USUAL_SIZES: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];

/// What is asked of every trace.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The policies, each once.
    pub specs: Vec<Spec>,
    /// The cache sizes.
    pub sizes: Vec<Size>,
    /// References at the start that are not counted.
    pub warmup: Warmup,
    /// The device whose costs are told.
    pub device: Option<Named>,
    /// What the program takes of its own for each reference, in milliseconds, while the device goes on.
    pub think_ms: f64,
    /// What is read ahead; by default what the recording's own cache read ahead, where the trace says it.
    pub readahead: Option<Readahead>,
    /// Policies learn of uses at the end of epochs, as of memory that is steered.
    pub epochs: bool,
    /// Split hits and misses by temporal distance.
    pub by_distance: bool,
    /// Split hits and misses by owner or by file.
    pub by: Option<By>,
    /// Take each policy's state this many times along the trace.
    pub states: u32,
    /// Replay what misses in this cache instead of the trace.
    pub behind: Option<FirstLevel>,
    /// Estimate the hits from this share of the pages.
    pub sample: Option<Sample>,
    /// The managers of the policy `lru-sp`; hits and misses are split by owner then, unless by file.
    pub managers: Option<Arc<Rules>>,
    /// Whether the trace is also replayed in the kernel's own page cache; by default those of front ends are.
    pub kernel: Option<bool>,
    /// No size above this one, and this one.
    pub at_most: Option<Size>,
    /// The share of the references that is to hit, with the least memory.
    pub reach: Option<f64>,
    /// The bytes of a page; by default the trace's own.
    pub page_size: Option<u64>,
    /// Threads to run on; 0: one for each core.
    pub threads: usize,
}

/// References at the start that warm the caches and are not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// This many.
    References(u64),
    /// Percent of the trace.
    Percent(f64),
}

impl Default for Warmup {
    fn default() -> Self {
        Self::References(0)
    }
}

impl FromStr for Warmup {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
                percent.map(Self::Percent).ok_or(ParseError::WarmUp)
            }
            None => text.parse().map(Self::References).map_err(|_| ParseError::WarmUp),
        }
    }
}

impl Warmup {
    pub(super) fn references(self, trace: &Dimensions) -> Result<u64, Question> {
        let references = match self {
            Self::References(references) => references,
            Self::Percent(percent) => (trace.references as f64 * percent / 100.0) as u64,
        };
        let (name, all) = (&trace.name, trace.references);
        if references < all { Ok(references) } else { Err(Question::WarmUp(references, name.clone(), all)) }
    }
}

/// A cache in front of those that are compared.
#[derive(Clone, Debug)]
pub struct FirstLevel {
    /// Its policy.
    pub spec: Spec,
    /// Its size.
    pub size: Size,
}

impl FromStr for FirstLevel {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (policy, size) = text.split_once('@').ok_or(ParseError::FirstLevel)?;
        let spec = Spec::parse(policy).map_err(ParseError::Policy)?;
        if spec.needs_future() {
            return Err(ParseError::FirstLevelForeseen(policy.to_owned()));
        }
        Ok(Self { spec, size: size.parse()? })
    }
}
