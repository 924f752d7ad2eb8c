//! Spatial sampling: of a trace's pages, some, with all references to these.
//!
//! C. A. Waldspurger, N. Park, A. Garthwaite and I. Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015. Whether a page is
//! taken depends on a hash of its place alone, so every reference to it is taken or none. The filter stands between
//! the reader and the trace: pages that are not taken cost no memory.

use forebay_basis::Place;
use forebay_trace::{Error, Names, PageSize, Paging, Reader, Request, Result, Unit};
use std::fmt;
use std::str::FromStr;

/// Which share of the pages is taken, and which of the many such samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The share of the pages: more than 0, at most 1.
    pub rate: f64,
    /// Another seed, another sample.
    pub seed: u64,
}

impl Sample {
    /// Whether the page at this place is taken.
    pub fn takes(&self, place: Place) -> bool {
        (hash(place, self.seed) as f64) < self.rate * 2f64.powi(64)
    }
}

/// The hash of a page's place.
pub(crate) fn hash(place: Place, seed: u64) -> u64 {
    hash_of(place.block, u64::from(place.object), seed)
}

fn hash_of(block: u64, object: u64, seed: u64) -> u64 {
    mix(mix(block ^ seed) ^ object)
}

/// A sample that is cut by hash: slices that have no page in common, each a sample of its own. A page is in the same slice in whichever part of a trace
/// it is, since objects go by their names; where they have none, all slices together are the [`Sample`] of this rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slices {
    /// The share of the pages that all slices have together.
    pub rate: f64,
    /// How many slices there are.
    pub count: u32,
}

impl Slices {
    /// By what an object goes.
    pub fn object(name: &str) -> u64 {
        // FNV-1a: the unnamed one is number 0.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        if name.is_empty() { 0 } else { name.bytes().fold(0xcbf2_9ce4_8422_2325, fold) }
    }

    /// The slice that a page of this object is in, if it is in one.
    pub fn of(&self, block: u64, object: u64) -> Option<u32> {
        let whole = self.rate * 2f64.powi(64);
        let hash = hash_of(block, object, 0) as f64;
        (hash < whole).then(|| ((hash / whole * f64::from(self.count)) as u32).min(self.count - 1))
    }
}

/// The finaliser of SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, OOPSLA 2014): every bit of the input moves every bit of the
/// hash, also for block numbers that run on.
pub(crate) fn mix(number: u64) -> u64 {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// A text that is no rate of a [`Sample`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateError(pub String);

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no sampling rate: write 1% or 0.01, more than 0 and at most 1", self.0)
    }
}

impl std::error::Error for RateError {}

impl FromStr for Sample {
    type Err = RateError;

    /// Reads a rate: `0.01` or `1%`.
    fn from_str(text: &str) -> std::result::Result<Self, RateError> {
        let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
        let rate = number.trim().parse().ok().map(|number: f64| number / unit);
        match rate.filter(|&rate| rate > 0.0 && rate <= 1.0) {
            Some(rate) => Ok(Self { rate, seed: 0 }),
            None => Err(RateError(text.to_owned())),
        }
    }
}

/// A reader of the sampled pages alone.
pub struct SampledReader<'a> {
    reader: &'a mut dyn Reader,
    file: String,
    paging: Paging,
    sample: Sample,
    /// The request at hand: its blocks from `offset` on, `length` of them, are still to be looked at.
    request: Option<Request>,
    whole: u64,
    taken: u64,
}

impl<'a> SampledReader<'a> {
    /// The sample of what `reader` reads from the trace called `name`, in pages of this size.
    ///
    /// # Errors
    /// That this is no page size.
    pub fn new(name: &str, reader: &'a mut dyn Reader, page_size: Option<u64>, sample: Sample) -> Result<Self> {
        let paging = Paging::of(reader, page_size).map_err(|message| Error::new(name, message))?;
        Ok(Self { reader, file: name.to_owned(), paging, sample, request: None, whole: 0, taken: 0 })
    }

    /// How many references there were, taken or not.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// How many were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

impl Reader for SampledReader<'_> {
    /// Blocks that each are a page.
    fn unit(&self) -> Unit {
        Unit::Blocks(self.paging.page_size() as u32)
    }

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { bytes: self.paging.page_size(), origin: self.paging.origin() })
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        loop {
            let Some(request) = &mut self.request else {
                let Some(request) = self.reader.next(names)? else { return Ok(None) };
                let blocks = self.paging.checked_pages(&request).map_err(|message| Error::new(&self.file, message))?;
                self.whole += blocks.end - blocks.start;
                self.request = Some(Request { offset: blocks.start, length: blocks.end - blocks.start, ..request });
                continue;
            };
            // What is not taken at the front goes, then what is taken stays one request.
            let (object, offset) = (request.object, request.offset);
            let takes = |block: u64| self.sample.takes(Place { object, block });
            let start = (offset..offset + request.length).find(|&block| takes(block));
            let Some(start) = start else {
                self.request = None;
                continue;
            };
            let end = (start..offset + request.length).find(|&block| !takes(block)).unwrap_or(offset + request.length);
            let part = Request { offset: start, length: end - start, ..*request };
            (request.offset, request.length) = (end, offset + request.length - end);
            self.taken += part.length;
            return Ok(Some(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ingest::Keep;
    use crate::input::trace::Trace;
    use forebay_trace::{Input, Options};

    #[test]
    fn a_rate_is_a_share_or_percent() {
        assert_eq!("1%".parse(), Ok(Sample { rate: 0.01, seed: 0 }));
        assert_eq!("0.25".parse(), Ok(Sample { rate: 0.25, seed: 0 }));
        for wrong in ["0", "-1%", "101%", "1.5", "x", "", "NaN"] {
            assert!(wrong.parse::<Sample>().unwrap_err().to_string().contains("no sampling rate"), "{wrong}");
        }
    }

    #[test]
    fn slices_are_the_sample_in_parts_of_one_size() {
        let (slices, sample) = (Slices { rate: 0.2, count: 8 }, Sample { rate: 0.2, seed: 0 });
        let mut pages = [0u32; 8];
        for block in 0..100_000 {
            let slice = slices.of(block, Slices::object(""));
            assert_eq!(slice.is_some(), sample.takes(Place { object: 0, block }), "block {block}");
            pages[slice.unwrap_or(0) as usize] += u32::from(slice.is_some());
        }
        assert!(pages.iter().all(|pages| (2_300..2_700).contains(pages)), "about 2,500 each: {pages:?}");
        assert_ne!(Slices::object("a"), Slices::object("b"));
    }

    #[test]
    fn the_sample_is_the_trace_without_the_pages_that_are_not_taken() {
        let text: String =
            (0..4_000u64).map(|time| format!("{} {} 0 {time}\n", mix(time) % 500, mix(time) % 7)).collect();
        let input = || Input::from_bytes("test", text.clone()).unwrap();
        let read = || forebay_trace::reader::read(input(), &Options::default()).unwrap().1;
        let keep = Keep { places: true, requests: true };
        let whole = Trace::load("test", read().as_mut(), None, keep, &mut |_| {}).unwrap();
        let sample = Sample { rate: 0.3, seed: 5 };
        let mut reader = read();
        let mut sampled = SampledReader::new("test", reader.as_mut(), None, sample).unwrap();
        let part = Trace::load("test", &mut sampled, None, keep, &mut |_| {}).unwrap();
        assert_eq!((sampled.whole(), sampled.taken()), (whole.len() as u64, part.len() as u64));
        assert_eq!(part.page_size, whole.page_size);
        let places = |trace: &Trace| -> Vec<_> { trace.references.iter().map(|&page| trace.places.of(page)).collect() };
        let expected: Vec<_> = places(&whole).into_iter().filter(|&place| sample.takes(place)).collect();
        assert_eq!(places(&part), expected);
        assert!((100..200).contains(&part.pages), "about 0.3 of 506: {}", part.pages);
    }
}
