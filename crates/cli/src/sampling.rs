//! A share of a trace's pages instead of all.

use crate::failure::Failure;
use crate::input::How;
use crate::output::grouped;
use crate::progress::Progress;
use forebay_sim::curve::{self, Sampling};
use forebay_sim::{Counts, Extent, Keep, Outcome, Sample, SampledReader, Trace};
use forebay_trace::Reader;
use std::io::{self, Write};

/// The sample of a trace.
pub(crate) struct Sampled {
    pub(crate) trace: Trace,
    pub(crate) sampling: Sampling,
    /// The whole trace; its footprint is an estimate.
    pub(crate) whole: Extent,
}

impl Sampled {
    pub(crate) fn load(
        name: &str,
        reader: &mut dyn Reader,
        how: &How,
        keep: Keep,
        sample: Sample,
    ) -> Result<Self, Failure> {
        let mut reader = SampledReader::new(name, reader, how.page_size, sample)?;
        let reading = Progress::new(format!("sampling {name}"), None);
        let loaded = Trace::load(name, &mut reader, None, keep, &mut |done| reading.set(done));
        reading.finish();
        let (references, rate) = (reader.whole(), sample.rate);
        if references > 0 && reader.taken() == 0 {
            return Err(Failure::Usage(format!(
                "a sampling rate of {}% takes no page of {name}: take a higher one",
                100.0 * rate
            )));
        }
        let trace = loaded?;
        let pages = (f64::from(trace.pages) / rate).round() as u32;
        let whole = Extent { name: name.to_owned(), references, pages, page_size: trace.page_size };
        Ok(Self { trace, sampling: Sampling { rate, whole: references }, whole })
    }

    /// The pages of a miniature of a cache of so many.
    pub(crate) fn miniature(&self, pages: u32) -> Result<u32, Failure> {
        self.sampling.miniature(pages).ok_or_else(|| Failure::Usage(too_small(pages)))
    }

    /// What a cache of so many pages would make of the whole trace, if its miniature gave this.
    pub(crate) fn estimate(&self, miniature: Outcome, pages: u32) -> Outcome {
        let Extent { references, pages: footprint, .. } = self.whole;
        let curve = curve::miniature(&self.trace, self.sampling, &[(pages, miniature.total.hits)]);
        let misses = (curve.miss_ratio(pages) * references as f64).round() as u64;
        let compulsory_misses = u64::from(footprint).min(misses);
        let counts = Counts { references, hits: references - misses, misses, compulsory_misses };
        Outcome { pages, total: counts, counted: counts, ..miniature }
    }
}

/// Says from how many pages, and what share of all, figures are estimated.
pub(crate) fn print(rate: f64, pages: u32, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "estimated from {} sampled pages, {:.3} % of all", grouped(u64::from(pages)), 100.0 * rate)
}

/// Why a cache cannot be simulated in miniature.
fn too_small(pages: u32) -> String {
    format!(
        "at this sampling rate not one page is left of a cache of {pages} pages: take a higher rate or a larger cache"
    )
}
