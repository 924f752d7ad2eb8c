//! Naming a trace on the command line, and opening it.

use crate::failure::Failure;
use crate::only::Only;
use clap::Args;
use forebay_sim::size::parse_bytes;
use forebay_trace::formats::csv::Columns;
use forebay_trace::{Format, Input, Options, Reader};
use glob::Pattern;
use std::path::Path;

/// What the embedded sample is called.
pub(crate) const SAMPLE: &str = "sample";
const SAMPLE_FILE: &[u8] = include_bytes!("../../../samples/sample.parquet");

/// How to read a trace.
#[derive(Args, Clone, Default)]
pub(crate) struct How {
    /// The trace's format, where content and name do not tell; `forebay formats` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) trace_format: Option<String>,
    /// Which columns of a CSV mean what, by header name or by number: `time=ts,offset=addr,length=#4`
    #[arg(long, value_name = "MEANING=COLUMN,…", value_parser = Columns::parse)]
    pub(crate) columns: Option<Columns>,
    /// Page size; by default 8 KiB for traces in bytes and their own block for traces in blocks
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) page_size: Option<u64>,
    /// Only the requests of these owners, as the trace names them; `*` and `?` stand for any text and character
    #[arg(long, value_name = "PATTERN")]
    pub(crate) owners: Vec<Pattern>,
    /// Only the requests to these files or volumes
    #[arg(long, value_name = "PATTERN")]
    pub(crate) files: Vec<Pattern>,
}

impl How {
    /// Checks what clap cannot, before any file is opened.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(name) = &self.trace_format
            && forebay_trace::formats::named(name).is_none()
        {
            let known: Vec<&str> = forebay_trace::FORMATS.iter().map(|format| format.name).collect();
            return Err(Failure::Usage(format!("there is no trace format `{name}`; there are {}", known.join(", "))));
        }
        forebay_trace::Paging::new(forebay_trace::Unit::Bytes, self.page_size).map_err(Failure::Usage)?;
        Ok(())
    }

    /// Opens the trace called `name`: a file, `-`, a synthetic trace, or the embedded sample; or the part of it that is asked.
    pub(crate) fn open(&self, name: &str) -> Result<(&'static Format, Box<dyn Reader>), Failure> {
        let (format, reader) = self.open_whole(name)?;
        if self.owners.is_empty() && self.files.is_empty() {
            return Ok((format, reader));
        }
        Ok((format, Box::new(Only::new(name, reader, &self.owners, &self.files))))
    }

    fn open_whole(&self, name: &str) -> Result<(&'static Format, Box<dyn Reader>), Failure> {
        let options = Options { format: self.trace_format.clone(), columns: self.columns.clone().unwrap_or_default() };
        if name == SAMPLE && !Path::new(name).exists() {
            let input = Input::from_bytes(SAMPLE, SAMPLE_FILE)?;
            return Ok(forebay_trace::reader::read(input, &Options::default())?);
        }
        Ok(forebay_trace::open(Path::new(name), &options)?)
    }
}
