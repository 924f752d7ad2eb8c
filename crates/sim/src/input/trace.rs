//! A trace in memory, its pages numbered once for all policies and sizes.

use super::ingest::{Chunk, Keep, LoadTimes, ingest};
use super::places::Places;
use super::requests::Requests;
use crate::words::{counted, significant};
use forebay_basis::show_bytes;
use forebay_trace::{Circumstances, Error, Names, Origin, Reader, Result};
use std::sync::Arc;

/// References read between two reports of progress.
const STRIDE: usize = 1 << 16;

/// What is wrong with a trace of no references.
pub(crate) const NO_REFERENCES: &str = "has no references: there is nothing to replay";

/// The references of a trace.
#[derive(Debug)]
pub struct Trace {
    /// What the trace is called in tables.
    pub name: String,
    /// The page of each reference. Pages are numbered from 0 in the order of their first use, so a reference is the first to
    /// its page if and only if its number is larger than all before it.
    pub references: Arc<Vec<u32>>,
    /// How many distinct pages there are: the footprint.
    pub pages: u32,
    /// The bytes of a page.
    pub page_size: u64,
    /// Where the page size comes from.
    pub page_size_origin: Origin,
    /// Where each page is, if kept.
    pub places: Places,
    /// The requests that the references came from, if kept.
    pub requests: Requests,
    /// The names of owners and objects.
    pub names: Names,
    /// How it was recorded, where it says so.
    pub circumstances: Option<Circumstances>,
    /// What reading it took.
    pub times: LoadTimes,
}

/// How much there is of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// What the trace is called in tables.
    pub name: String,
    /// How many references there are.
    pub references: u64,
    /// How many distinct pages there are: the footprint.
    pub pages: u32,
    /// The bytes of a page.
    pub page_size: u64,
    /// Where the page size comes from.
    pub page_size_origin: Origin,
}

impl Dimensions {
    /// In words; `about` stands before a footprint that is an estimate.
    pub fn in_words(&self, about: &str) -> String {
        let (references, pages) = (counted(self.references, "reference"), counted(self.pages.into(), "page"));
        let [page, footprint] = [1, u64::from(self.pages)].map(|pages| show_bytes(pages * self.page_size));
        match self.page_size_origin {
            Origin::Objects => format!("{references} to {about}{}", counted(self.pages.into(), "object")),
            Origin::Requests => {
                format!("{references} to {about}{pages} ({footprint}); {page} pages, from the requests")
            }
            _ => format!("{references} to {about}{pages} of {page} ({footprint})"),
        }
    }

    /// A cache's size in bytes.
    pub fn bytes(&self, pages: u32) -> u64 {
        u64::from(pages) * self.page_size
    }

    /// The same for a person: of objects their number, as their sizes are not known.
    pub fn bytes_in_words(&self, pages: u32) -> String {
        match self.page_size_origin {
            Origin::Objects => counted(pages.into(), "object"),
            _ => show_bytes(self.bytes(pages)),
        }
    }

    /// Whether its pages are objects, which have no size in bytes.
    pub fn has_objects(&self) -> bool {
        self.page_size_origin == Origin::Objects
    }

    /// A cache's size as a share of the footprint; what a larger cache has beyond the footprint stays empty.
    pub fn share_in_words(&self, pages: u32) -> String {
        match pages > self.pages {
            true => ">100%".to_owned(),
            false if pages == self.pages => "100%".to_owned(),
            false => format!("{}%", significant(self.share(pages))),
        }
    }

    /// A cache's size as a share of the footprint, in percent.
    pub fn share(&self, pages: u32) -> f64 {
        100.0 * f64::from(pages) / f64::from(self.pages.max(1))
    }

    /// A cache's size: bytes, pages and share of the footprint.
    pub fn size_in_words(&self, pages: u32) -> String {
        let (bytes, share) = (self.bytes_in_words(pages), self.share_in_words(pages));
        if self.has_objects() {
            return format!("{bytes} ({share} of the footprint)");
        }
        format!("{bytes} ({}, {share} of the footprint)", counted(pages.into(), "page"))
    }
}

impl Trace {
    /// Reads a whole trace. `progress` is told the number of references so far, now and then.
    ///
    /// # Errors
    /// What is wrong with the trace, or that it is too large to be numbered.
    pub fn load(
        name: &str,
        reader: &mut dyn Reader,
        page_size: Option<u64>,
        keep: Keep,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let circumstances = reader.circumstances().cloned();
        let ((chunk, places, page_size), names, times) = ingest(name, reader, page_size, keep, |ingest| {
            let mut chunk = Chunk::default();
            while ingest.fill(chunk.references.len() + STRIDE, &mut chunk)? {
                progress(chunk.references.len() as u64);
            }
            let places =
                if keep.places { std::mem::take(&mut ingest.numbering).into_places() } else { Places::default() };
            Ok((chunk, places, ingest.page_size()))
        })?;
        let Chunk { references, requests, pages } = chunk;
        if references.is_empty() {
            return Err(Error::new(name, NO_REFERENCES));
        }
        let name = name.to_owned();
        let (page_size, page_size_origin) = (page_size.bytes, page_size.origin);
        Ok(Self {
            name,
            references: Arc::new(references),
            pages,
            page_size,
            page_size_origin,
            places,
            requests,
            names,
            circumstances,
            times,
        })
    }

    /// How many references there are.
    pub fn len(&self) -> usize {
        self.references.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.references.is_empty()
    }

    /// Whether this much of it was kept.
    pub fn has(&self, keep: Keep) -> bool {
        (!keep.places || !self.places.is_empty()) && (!keep.requests || !self.requests.first.is_empty())
    }

    /// The bytes of memory that it takes, the names of owners and objects apart.
    pub fn bytes(&self) -> usize {
        size_of_val(self.references.as_slice()) + self.places.bytes() + self.requests.bytes()
    }

    /// What there is of it.
    pub fn dimensions(&self) -> Dimensions {
        let Self { pages, page_size, page_size_origin, .. } = *self;
        Dimensions { name: self.name.clone(), references: self.len() as u64, pages, page_size, page_size_origin }
    }

    /// How many pages are used for the first time after the first `warmup` references.
    pub fn compulsory_misses(&self, warmup: usize) -> u64 {
        let before = self.references[..warmup].iter().max().map_or(0, |&page| page + 1);
        u64::from(self.pages - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trace::{Input, Options};

    fn load(text: &'static str, page_size: Option<u64>) -> Trace {
        let input = Input::from_bytes("test", text).unwrap();
        let (_, mut reader) = forebay_trace::reader::read(input, &Options::default()).unwrap();
        Trace::load("test", reader.as_mut(), page_size, Keep { places: true, requests: true }, &mut |_| {}).unwrap()
    }

    #[test]
    fn requests_become_references_that_remember_them() {
        // Blocks 10 to 12, then 11, then 10 and 11, of 512 bytes; a request of no blocks refers to nothing.
        let trace = load("10 3 0 0\n11 1 0 1\n5 0 0 2\n10 2 0 3\n", None);
        assert_eq!(*trace.references, [0, 1, 2, 1, 0, 1]);
        assert_eq!((trace.pages, trace.page_size), (3, 512));
        assert_eq!(trace.places.iter().map(|place| place.block).collect::<Vec<_>>(), [10, 11, 12]);
        assert_eq!(trace.requests.first, [0, 3, 4]);
        assert_eq!([0, 1, 3, 6].map(|warmup| trace.compulsory_misses(warmup)), [3, 2, 0, 0]);
    }

    #[test]
    fn blocks_are_joined_to_larger_pages() {
        let trace = load("7 2 0 0\n9 1 0 1\n16 1 0 2\n", Some(4096));
        assert_eq!(*trace.references, [0, 1, 1, 2]);
    }
}
