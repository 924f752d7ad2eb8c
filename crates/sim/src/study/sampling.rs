//! A share of a trace's pages instead of all.

use super::error::{Error, Question};
use super::monitor::Monitor;
use crate::curve::{self, Sampling};
use crate::input::ingest::Keep;
use crate::input::sample::{Sample, SampledReader};
use crate::input::trace::{Dimensions, Trace};
use crate::replay::outcome::{Counts, RunOutcome};
use crate::words::counted;
use forebay_trace::Reader;

/// Estimates from fewer pages are far off.
const FEW: u32 = 1000;

/// The sample of a trace.
pub(super) struct Sampled {
    pub(super) trace: Trace,
    pub(super) sampling: Sampling,
    /// The whole trace; its footprint is an estimate.
    pub(super) whole: Dimensions,
}

impl Sampled {
    pub(super) fn load(
        name: &str,
        reader: &mut dyn Reader,
        page_size: Option<u64>,
        keep: Keep,
        sample: Sample,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let mut reader = SampledReader::new(name, reader, page_size, sample)?;
        let reading = monitor.begin(format!("sampling {name}"), None, false);
        let loaded = Trace::load(name, &mut reader, None, keep, &mut |done| reading.at(done));
        let (references, rate) = (reader.whole(), sample.rate);
        if references > 0 && reader.taken() == 0 {
            return Err(Question::NoPageSampled(name.to_owned(), rate).into());
        }
        let trace = loaded?;
        warn_of_few(name, trace.pages, rate, "--sample", monitor);
        Ok(Self::of(trace, Sampling { rate, whole: references }))
    }

    /// What is a sample already.
    pub(super) fn of(trace: Trace, sampling: Sampling) -> Self {
        let pages = (f64::from(trace.pages) / sampling.rate).round() as u32;
        let whole = Dimensions { references: sampling.whole, pages, ..trace.dimensions() };
        Self { trace, sampling, whole }
    }

    /// The pages of a miniature of a cache of this many.
    pub(super) fn miniature(&self, pages: u32) -> Result<u32, Error> {
        self.sampling.miniature(pages).ok_or_else(|| Question::NoMiniature(pages).into())
    }

    /// What a cache of this many pages would make of the whole trace, if its miniature gave this.
    pub(super) fn estimate(&self, miniature: RunOutcome, pages: u32) -> RunOutcome {
        let Dimensions { references, pages: footprint, .. } = self.whole;
        let curve = curve::miniature(&self.trace, self.sampling, &[(pages, miniature.total.hits)]);
        let misses = (curve.miss_ratio(pages) * references as f64).round() as u64;
        let compulsory_misses = u64::from(footprint).min(misses);
        let counts = Counts { references, hits: references - misses, misses, compulsory_misses };
        RunOutcome { pages, total: counts, counted: counts, ..miniature }
    }
}

/// Says so where a sample has too few pages, unless they are all that there are.
pub(super) fn warn_of_few(name: &str, pages: u32, rate: f64, option: &str, monitor: &dyn Monitor) {
    if pages < FEW && rate < 1.0 {
        let few = counted(pages.into(), "page");
        monitor
            .warn(&format!("{name}: the sample has {few} only, and estimates may be far off: take a larger {option}"));
    }
}
