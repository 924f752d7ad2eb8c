//! What a trace holds, in figures.

use crate::circumstances::Circumstances;
use crate::error::{Error, Result};
use crate::names::Names;
use crate::pages::{Origin, Paging};
use crate::reader::Reader;
use crate::request::Unit;
use foldhash::fast::RandomState;
use forebay_basis::Operation;
use hashbrown::HashMap;
use std::hash::Hash;

/// What a trace holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Requests.
    pub requests: u64,
    /// References to pages that they make.
    pub references: u64,
    /// Distinct pages.
    pub pages: u64,
    /// The bytes of a page.
    pub page_size: u64,
    /// Distinct objects.
    pub objects: u64,
    /// Distinct owners.
    pub owners: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that write.
    pub writes: u64,
    /// Requests that read ahead.
    pub readaheads: u64,
    /// Nanoseconds from the earliest request to the latest; none in a trace without times.
    pub span: Option<u64>,
    /// Where the page size comes from.
    pub page_size_origin: Origin,
    /// How it was recorded, where it says so.
    pub recorded: Option<Circumstances>,
    /// The most common lengths of requests in bytes, and how many have each; none in a trace of opaque pages.
    pub request_sizes: Vec<(u64, u64)>,
    /// The files or volumes with the most pages.
    pub largest_objects: Vec<Part>,
    /// The owners with the most references.
    pub busiest_owners: Vec<Part>,
}

/// What a file or an owner has of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its name; empty if the trace names none.
    pub name: String,
    /// References to pages.
    pub references: u64,
    /// Distinct pages; of an owner unknown.
    pub pages: Option<u64>,
}

/// This many sizes, files and owners are kept.
const MOST: usize = 5;

impl Summary {
    /// Reads a whole trace; memory is bounded by its distinct pages. `progress` is told the number of references so far.
    ///
    /// # Errors
    /// What is wrong with the trace.
    pub fn of(
        name: &str,
        reader: &mut dyn Reader,
        page_size: Option<u64>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let paging = Paging::of(reader, page_size).map_err(|message| Error::new(name, message))?;
        let unit = reader.unit();
        let mut summary = Self { recorded: reader.circumstances().cloned(), ..Self::empty(&paging) };
        let mut sizes = Tally::default();
        let mut names = Names::new();
        let mut pages = Pages::default();
        let (mut owners, mut objects, mut of_objects) = (Tally::default(), Tally::default(), Tally::default());
        let mut times: Option<(u64, u64)> = None;
        let (mut batch, mut more) = (Vec::new(), true);
        while more {
            batch.clear();
            more = reader.fill(&mut names, 4096, &mut batch)?;
            for request in &batch {
                summary.requests += 1;
                match request.operation {
                    Operation::Read | Operation::RandomRead | Operation::SequentialRead => summary.reads += 1,
                    Operation::Write => summary.writes += 1,
                    Operation::Readahead => summary.readaheads += 1,
                }
                sizes.add(request.length, 1);
                let (earliest, latest) = times.unwrap_or((request.time, request.time));
                times = Some((earliest.min(request.time), latest.max(request.time)));
                let blocks = paging.checked_pages(request).map_err(|message| Error::new(name, message))?;
                let references = blocks.end - blocks.start;
                summary.references += references;
                owners.add(request.owner, references);
                objects.add(request.object, references);
                let new = blocks.filter(|&block| pages.insert(request.object, block)).count();
                of_objects.add(request.object, new as u64);
            }
            progress(summary.references);
        }
        let [owners, objects] = [owners, objects].map(Tally::counts);
        let of_objects: HashMap<u32, u64, RandomState> = of_objects.counts().into_iter().collect();
        summary.pages = of_objects.values().sum();
        summary.owners = owners.len() as u64;
        summary.objects = objects.len() as u64;
        // A trace without times has 0 throughout.
        let unit_size = match unit {
            Unit::Pages => None,
            Unit::Blocks(size) => Some(u64::from(size)),
            Unit::Bytes => Some(1),
        };
        let in_bytes = |(length, count): (u64, u64)| Some((length.saturating_mul(unit_size?), count));
        summary.request_sizes = most(sizes.counts().into_iter().filter_map(in_bytes), |&(size, count)| (count, size));
        let object = |(object, references)| Part {
            name: names.object_name(object).to_owned(),
            references,
            pages: Some(of_objects[&object]),
        };
        summary.largest_objects = most(objects.into_iter().map(object), |part| (part.pages, part.references));
        let owner = |(owner, references)| Part { name: names.owner_name(owner).to_owned(), references, pages: None };
        summary.busiest_owners = most(owners.into_iter().map(owner), |part| part.references);
        summary.span = times.filter(|&(_, latest)| latest > 0).map(|(earliest, latest)| latest - earliest);
        Ok(summary)
    }

    fn empty(paging: &Paging) -> Self {
        Self {
            requests: 0,
            references: 0,
            pages: 0,
            page_size: paging.page_size(),
            objects: 0,
            owners: 0,
            reads: 0,
            writes: 0,
            readaheads: 0,
            span: None,
            page_size_origin: paging.origin(),
            recorded: None,
            request_sizes: Vec::new(),
            largest_objects: Vec::new(),
            busiest_owners: Vec::new(),
        }
    }
}

/// Counts by key. Most requests are of the same file, owner and length as the one before, and are counted without a look at the table.
#[derive(Default)]
struct Tally<K> {
    counts: HashMap<K, u64, RandomState>,
    last: Option<(K, u64)>,
}

impl<K: Copy + Ord + Hash> Tally<K> {
    fn add(&mut self, key: K, count: u64) {
        match &mut self.last {
            Some((last, sum)) if *last == key => *sum += count,
            last => {
                if let Some((last, sum)) = last.replace((key, count)) {
                    *self.counts.entry(last).or_default() += sum;
                }
            }
        }
    }

    /// In the order of the keys.
    fn counts(mut self) -> Vec<(K, u64)> {
        if let Some((last, sum)) = self.last {
            *self.counts.entry(last).or_default() += sum;
        }
        let mut counts: Vec<(K, u64)> = self.counts.into_iter().collect();
        counts.sort_unstable();
        counts
    }
}

/// Pages that were seen: a bit each, 64 neighbours together. A trace of dense blocks fits a processor's cache; of hashed keys, each takes 24 bytes.
#[derive(Default)]
struct Pages(HashMap<(u32, u64), u64, RandomState>);

impl Pages {
    /// Whether the page is new.
    fn insert(&mut self, object: u32, block: u64) -> bool {
        let word = self.0.entry((object, block / 64)).or_default();
        let before = *word;
        *word |= 1 << (block % 64);
        *word != before
    }
}

/// Those with the largest keys, which come first.
fn most<T, K: Ord>(all: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_by_key(|of| std::cmp::Reverse(key(of)));
    all.truncate(MOST);
    all
}
