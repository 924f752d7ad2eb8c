//! A share of a trace's pages instead of all.

use crate::failure::Failure;
use crate::input::How;
use crate::progress::Progress;
use forebay_sim::curve::Sampling;
use forebay_sim::{Extent, Keep, Sample, SampledReader, Trace};
use forebay_trace::Reader;

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
}

/// Why a cache cannot be simulated in miniature.
pub(crate) fn too_small(pages: u32) -> String {
    format!(
        "at this sampling rate not one page is left of a cache of {pages} pages: take a higher rate or a larger cache"
    )
}
