//! Writing libCacheSim's oracleGeneral: 24-byte records of seconds, object, size, and the next request of the object (-1: none).
//!
//! Each page is an object, numbered densely by first use, of the page's size. The next request is known only at the end, so
//! the records go to an uncompressed spool beside the output and are completed backwards, a stretch at a time: memory is
//! bounded by distinct pages, not by references. Times that exceed 32 bits of seconds are told from the first request on.

use super::Writer;
use super::numbered::Numbered;
use super::sink::Sink;
use crate::error::{Error, Result};
use crate::names::Names;
use crate::request::Request;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};

const RECORD: usize = 24;
/// Records completed at once.
const STRETCH: u64 = 1 << 16;
const NEVER: i64 = -1;

pub(super) struct OracleGeneral {
    file: String,
    spool: BufWriter<File>,
    sink: Sink,
    pages: Numbered,
    records: u64,
    start: Option<u64>,
}

impl OracleGeneral {
    /// `spool` is an empty file open for reading and writing.
    pub(super) fn new(file: &str, spool: File, sink: Sink, pages: Numbered) -> Self {
        Self { file: file.to_owned(), spool: BufWriter::new(spool), sink, pages, records: 0, start: None }
    }

    fn complete(mut self) -> std::io::Result<Sink> {
        self.spool.flush()?;
        let mut spool = self.spool.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let mut next_of: Vec<i64> = Vec::new();
        let mut stretch = Vec::new();
        let mut end = self.records;
        while end > 0 {
            let start = end.saturating_sub(STRETCH);
            stretch.resize((end - start) as usize * RECORD, 0);
            spool.seek(SeekFrom::Start(start * RECORD as u64))?;
            spool.read_exact(&mut stretch)?;
            for (index, record) in stretch.chunks_exact_mut(RECORD).enumerate().rev() {
                let page = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes")) as usize;
                if page >= next_of.len() {
                    next_of.resize(page + 1, NEVER);
                }
                let next = std::mem::replace(&mut next_of[page], (start + index as u64) as i64);
                record[16..24].copy_from_slice(&next.to_le_bytes());
            }
            spool.seek(SeekFrom::Start(start * RECORD as u64))?;
            spool.write_all(&stretch)?;
            end = start;
        }
        spool.seek(SeekFrom::Start(0))?;
        std::io::copy(&mut spool, &mut self.sink)?;
        Ok(self.sink)
    }
}

impl Writer for OracleGeneral {
    fn write(&mut self, request: &Request, _: &Names) -> Result<()> {
        let seconds = request.time / 1_000_000_000;
        let start = *self.start.get_or_insert(if seconds > u64::from(u32::MAX) { seconds } else { 0 });
        let time = u32::try_from(seconds.saturating_sub(start)).unwrap_or(u32::MAX);
        let size = self.pages.page_size() as u32;
        let (spool, records, file) = (&mut self.spool, &mut self.records, &self.file);
        self.pages.each(request, |page| {
            let mut record = [0; RECORD];
            record[0..4].copy_from_slice(&time.to_le_bytes());
            record[4..12].copy_from_slice(&page.to_le_bytes());
            record[12..16].copy_from_slice(&size.to_le_bytes());
            record[16..24].copy_from_slice(&NEVER.to_le_bytes());
            *records += 1;
            spool.write_all(&record).map_err(|error| Error::io(file, "writing", error))
        })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let file = self.file.clone();
        self.complete().map_err(|error| Error::io(file, "writing", error))?.finish()
    }
}
