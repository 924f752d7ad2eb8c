//! Writing CSV with named columns, which `formats/csv` reads back.
//!
//! The place is `offset` and `length` in bytes, `block` and `blocks` of 512 bytes, or `page`; times are `time_ns`.

use super::Writer;
use super::sink::Sink;
use crate::error::{Error, Result};
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::spelling::printable;
use std::borrow::Cow;

pub(super) struct Csv {
    file: String,
    rows: csv::Writer<Sink>,
    unit: Unit,
}

impl Csv {
    pub(super) fn create(file: &str, sink: Sink, unit: Unit) -> Result<Self> {
        let mut csv = Self { file: file.to_owned(), rows: csv::Writer::from_writer(sink), unit };
        let place: &[&str] = match unit {
            Unit::Blocks(512) => &["block", "blocks"],
            Unit::Bytes | Unit::Blocks(_) => &["offset", "length"],
            Unit::Pages => &["page"],
        };
        let header = ["time_ns", "owner", "object"].iter().chain(place).chain(&["operation"]);
        let written = csv.rows.write_record(header);
        csv.check(written)?;
        Ok(csv)
    }

    /// Completes what was written to a pipe or a terminal, which cannot be made durable.
    pub(super) fn finish_open(mut self) -> Result<()> {
        self.rows.flush().map_err(|error| Error::io(self.file, "writing", error))
    }

    fn check(&self, result: std::result::Result<(), csv::Error>) -> Result<()> {
        result.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => Error::io(&self.file, "writing", error),
            kind => Error::new(&self.file, format!("writing failed: {kind:?}")),
        })
    }

    fn row(&mut self, request: &Request, names: &Names, place: &[u64]) -> Result<()> {
        let operation = request.operation.word();
        let (owner, object) = (names.owner_name(request.owner), names.object_name(request.object));
        let (owner, object) = (in_one_line(owner), in_one_line(object));
        let time = request.time.to_string();
        let place = place.iter().map(u64::to_string).collect::<Vec<_>>();
        let fields = [&*time, &*owner, &*object].into_iter().chain(place.iter().map(String::as_str)).chain([operation]);
        let written = self.rows.write_record(fields);
        self.check(written)
    }
}

/// A name as a row can hold it: one with a line break is written with `\n`, and other control characters likewise.
fn in_one_line(name: &str) -> Cow<'_, str> {
    if name.contains(['\n', '\r']) { printable(name).into() } else { name.into() }
}

impl Writer for Csv {
    fn write(&mut self, request: &Request, names: &Names) -> Result<()> {
        let Request { offset, length, .. } = *request;
        match self.unit {
            Unit::Bytes | Unit::Blocks(512) => self.row(request, names, &[offset, length]),
            Unit::Blocks(size) => {
                let bytes = |blocks: u64| {
                    blocks
                        .checked_mul(u64::from(size))
                        .ok_or_else(|| Error::new(&self.file, "an offset in bytes exceeds 2^64"))
                };
                let place = [bytes(offset)?, bytes(length)?];
                self.row(request, names, &place)
            }
            // A row holds one page.
            Unit::Pages => {
                (offset..offset.saturating_add(length)).try_for_each(|page| self.row(request, names, &[page]))
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Self { file, rows, .. } = *self;
        rows.into_inner().map_err(|error| Error::io(file, "writing", error.into_error()))?.finish()
    }
}
