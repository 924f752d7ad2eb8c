//! What a trace holds, in figures.

use crate::error::{Error, Result};
use crate::names::Names;
use crate::pages::Paging;
use crate::reader::Reader;
use crate::request::Operation;
use foldhash::fast::RandomState;
use hashbrown::HashSet;

/// What a trace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

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
        let paging = Paging::new(reader.unit(), page_size).map_err(|message| Error::new(name, message))?;
        let mut summary = Self { page_size: paging.page_size(), ..Self::default() };
        let mut names = Names::new();
        let mut pages: HashSet<(u32, u64), RandomState> = HashSet::default();
        let mut owners: HashSet<u32, RandomState> = HashSet::default();
        let mut objects: HashSet<u32, RandomState> = HashSet::default();
        let mut times: Option<(u64, u64)> = None;
        let (mut batch, mut more) = (Vec::new(), true);
        while more {
            batch.clear();
            more = reader.fill(&mut names, 4096, &mut batch)?;
            for request in &batch {
                summary.requests += 1;
                match request.operation {
                    Operation::Read => summary.reads += 1,
                    Operation::Write => summary.writes += 1,
                    Operation::Readahead => summary.readaheads += 1,
                }
                owners.insert(request.owner);
                objects.insert(request.object);
                let (earliest, latest) = times.unwrap_or((request.time, request.time));
                times = Some((earliest.min(request.time), latest.max(request.time)));
                for block in paging.checked_pages(request).map_err(|message| Error::new(name, message))? {
                    summary.references += 1;
                    pages.insert((request.object, block));
                }
            }
            progress(summary.references);
        }
        summary.pages = pages.len() as u64;
        summary.owners = owners.len() as u64;
        summary.objects = objects.len() as u64;
        // A trace without times has 0 throughout.
        summary.span = times.filter(|&(_, latest)| latest > 0).map(|(earliest, latest)| latest - earliest);
        Ok(summary)
    }
}
