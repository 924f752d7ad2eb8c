//! The way of a trace into memory: requests, read ahead, become chunks of numbered references.

use super::ahead::{Batches, Read, read_ahead};
use super::numbering::Numbering;
use super::requests::Requests;
use forebay_basis::Place;
use forebay_trace::{Error, Names, PageSize, Paging, Reader, Request, Result};
use std::time::{Duration, Instant};

/// Places numbered at once; they stay in the first-level cache.
const PLACES: usize = 512;

/// What is kept of a trace besides its references.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// The places of pages: at most 13.5 bytes for each distinct page.
    pub places: bool,
    /// Owner and operation of the requests: 9 bytes for each.
    pub requests: bool,
}

/// Where the time of loading went.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadTimes {
    /// Decompressing and parsing, on a thread of its own.
    pub reading: Duration,
    /// Cutting requests into pages and numbering these, at the same time.
    pub numbering: Duration,
}

/// Consecutive references of a trace.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// The page of each.
    pub(crate) references: Vec<u32>,
    /// The requests that they came from, if kept. No request is in two chunks.
    pub(crate) requests: Requests,
    /// The distinct pages of the trace up to its end.
    pub(crate) pages: u32,
}

impl Chunk {
    pub(crate) fn clear(&mut self) {
        self.references.clear();
        self.requests.clear();
    }
}

/// A trace being read and numbered.
pub(crate) struct Ingest<'a> {
    name: &'a str,
    paging: Paging,
    keep: Keep,
    batches: Batches,
    batch: Vec<Request>,
    /// The requests of the batch that are done with.
    done: usize,
    places: Vec<Place>,
    pub(crate) numbering: Numbering,
    /// The time of numbering.
    time: Duration,
}

/// Reads and numbers a trace while `consume` takes its chunks.
///
/// # Errors
/// What is wrong with the page size, or what `consume` answers.
pub(crate) fn ingest<T>(
    name: &str,
    reader: &mut dyn Reader,
    page_size: Option<u64>,
    keep: Keep,
    consume: impl FnOnce(&mut Ingest<'_>) -> Result<T>,
) -> Result<(T, Names, LoadTimes)> {
    let paging = Paging::of(reader, page_size).map_err(|message| Error::new(name, message))?;
    let (consumed, Read { names, time: reading }) = read_ahead(reader, |batches| {
        let (batch, places, numbering) = (Vec::new(), Vec::with_capacity(PLACES), Numbering::default());
        let mut ingest =
            Ingest { name, paging, keep, batches, batch, done: 0, places, numbering, time: Duration::ZERO };
        consume(&mut ingest).map(|consumed| (consumed, ingest.time))
    });
    let (consumed, numbering) = consumed?;
    Ok((consumed, names, LoadTimes { reading, numbering }))
}

impl Ingest<'_> {
    /// The share of the trace that is read, where that is known.
    pub(crate) fn share(&self) -> Option<f64> {
        self.batches.share
    }

    pub(crate) fn page_size(&self) -> PageSize {
        PageSize { bytes: self.paging.page_size(), origin: self.paging.origin() }
    }

    /// Appends references to `chunk` until there are `most`, or more if the last request has more; `false` once the trace has
    /// ended.
    ///
    /// # Errors
    /// What is wrong with the trace, or that it has more pages than there are numbers.
    pub(crate) fn fill(&mut self, most: usize, chunk: &mut Chunk) -> Result<bool> {
        while chunk.references.len() < most {
            if self.done == self.batch.len() {
                self.done = 0;
                if !self.batches.next(&mut self.batch)? {
                    self.batch.clear();
                    return Ok(false);
                }
            }
            let start = Instant::now();
            self.number(most, chunk)?;
            self.time += start.elapsed();
            chunk.pages = self.numbering.pages();
        }
        Ok(true)
    }

    /// Numbers the rest of the batch, or as much of it as is wanted.
    fn number(&mut self, most: usize, chunk: &mut Chunk) -> Result<()> {
        let Self { name, paging, keep, batch, done, places, numbering, .. } = self;
        let name = *name;
        let mut number = |places: &mut Vec<Place>, chunk: &mut Chunk| {
            let numbered = numbering.number(places, &mut chunk.references);
            places.clear();
            numbered.map_err(|_| Error::new(name, "has more than 2^32 - 3 distinct pages: take larger pages"))?;
            if u32::try_from(chunk.references.len()).is_err() { Err(Error::new(name, TOO_LONG)) } else { Ok(()) }
        };
        for request in &batch[*done..] {
            let blocks = paging.checked_pages(request).map_err(|message| Error::new(name, message))?;
            *done += 1;
            if keep.requests && !blocks.is_empty() {
                let first = (chunk.references.len() + places.len()) as u32;
                chunk.requests.push(first, request.owner, request.operation);
            }
            for block in blocks {
                places.push(Place { object: request.object, block });
                if places.len() == PLACES {
                    number(places, chunk)?;
                }
            }
            if chunk.references.len() + places.len() >= most {
                break;
            }
        }
        number(places, chunk)
    }
}

const TOO_LONG: &str = "has more than 2^32 references, too many to be held: ask for sizes in pages or bytes \
                        and for no policy that knows the future, and it need not be held";
