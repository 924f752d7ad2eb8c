//! Generic CSV with named columns.

use super::Format;
use crate::error::Error;

/// Which columns of a CSV file mean what.
#[derive(Clone, Debug, Default)]
pub struct Columns {}

pub(super) const FORMAT: Format = Format {
    name: "csv",
    title: "CSV with a header that names its columns",
    source: "Forebay, docs/trace-formats.md",
    recognise: |_| false,
    open: |input, _| Err(Error::new(input.file(), "csv")),
    example: b"time,object,offset,length,operation\n0,data.db,8192,4096,read\n",
};
