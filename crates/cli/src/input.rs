//! Naming a trace on the command line, and opening it.

use crate::failure::Failure;
use clap::Args;
use forebay_basis::parse_bytes;
use forebay_policy::managers::Rules;
use forebay_policy::{LruSp, Policy, Spec};
pub(crate) use forebay_sim::SAMPLE;
use forebay_sim::{Opening, Size};
use forebay_trace::formats::csv::Columns;
use forebay_trace::{Error, Format, Options, Pattern, Reader, Warn};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// How to read a trace.
#[derive(Args, Clone, Default)]
pub(crate) struct How {
    /// The trace's format, where content and name do not tell; `forebay formats` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) trace_format: Option<String>,
    /// Which columns of a CSV or of JSON lines mean what, by name or by number: `time=ts,offset_hex=addr,length=#4`; `operation=-` for none
    #[arg(long, value_name = "MEANING=COLUMN,…", value_parser = Columns::parse)]
    pub(crate) columns: Option<Columns>,
    /// Page size; by default the one that the trace was recorded with, its own block, or what its requests show, from 4 to 64 KiB
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
    /// The same for the reader of traces.
    fn opening(&self) -> Opening {
        let options = Options { format: self.trace_format.clone(), columns: self.columns.clone().unwrap_or_default() };
        let (page_size, owners, files) = (self.page_size, self.owners.clone(), self.files.clone());
        Opening { options, page_size, owners, files, during: None }
    }

    /// Checks what clap cannot, before any file is opened.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.opening().check().map_err(Failure::Usage)
    }

    /// Opens the trace called `name`: a file, `-`, a synthetic trace, or the embedded sample; or the part of it that is asked.
    pub(crate) fn open(&self, name: &str) -> forebay_trace::Result<(&'static Format, Box<dyn Reader>)> {
        if !Path::new(name).exists() && Spec::parse(name).is_ok() {
            let message = "is no file; policies have commas between them and no space: -p lru,arc";
            return Err(Error::new(name, message).mistyped());
        }
        let warn: Warn = Arc::new(|message| eprintln!("forebay: {message}"));
        self.opening().open(name, &warn)
    }

    /// The same without its format.
    pub(crate) fn read(&self, name: &str) -> forebay_trace::Result<Box<dyn Reader>> {
        Ok(self.open(name)?.1)
    }
}

/// Says so where sizes were perhaps meant as one number.
pub(crate) fn doubt(sizes: &[Size]) {
    if let Some(doubt) = forebay_sim::size::doubt(sizes) {
        eprintln!("forebay: {doubt}");
    }
}

/// More threads than this only wait for each other.
const MOST_THREADS: usize = 256;

/// Reads a number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (0..=MOST_THREADS).contains(threads));
    threads.ok_or_else(|| format!("write a number from 0, one thread for each core, to {MOST_THREADS}"))
}

/// What one word of `--policies` names.
#[derive(Clone, Debug)]
pub(crate) struct Chosen(pub(crate) Vec<Spec>);

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            text if text.eq_ignore_ascii_case("all") => Ok(Self(Spec::all())),
            text => Spec::parse(text).map(|spec| Self(vec![spec])),
        }
    }
}

/// The managers of the file, if one is given and a policy asked is for them.
pub(crate) fn managers(path: Option<&Path>, specs: &[Spec]) -> Result<Option<Rules>, Failure> {
    let Some(path) = path else { return Ok(None) };
    if !specs.iter().any(Rules::are_for) {
        let name = LruSp::INFO.name;
        return Err(Failure::Usage(format!("--managers is for {name}, which is not among the policies asked")));
    }
    Ok(Some(Rules::read(path)?))
}
