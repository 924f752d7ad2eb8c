//! Naming a trace on the command line, and opening it.

use crate::cut::UpToCut;
use crate::failure::Failure;
use clap::Args;
use forebay_policy::managers::Rules;
use forebay_policy::{LruSp, Policy, Spec};
use forebay_sim::size::{parse_bytes, show_bytes};
use forebay_sim::study::error::Question;
use forebay_trace::formats::csv::Columns;
use forebay_trace::{Format, Input, Only, Options, Pattern, Reader};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Mutex;

/// What the embedded sample is called.
pub(crate) const SAMPLE: &str = "sample";
const SAMPLE_FILE: &[u8] = include_bytes!("../../../samples/sample.parquet");

/// A page that is no larger needs no warning: most systems cache by it, however short their requests.
const USUAL_PAGE: u64 = 4096;

/// How to read a trace.
#[derive(Args, Clone, Default)]
pub(crate) struct How {
    /// The trace's format, where content and name do not tell; `forebay formats` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) trace_format: Option<String>,
    /// Which columns of a CSV mean what, by header name or by number: `time=ts,offset=addr,length=#4`
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
    /// Checks what clap cannot, before any file is opened.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(name) = &self.trace_format
            && forebay_trace::formats::named(name).is_none()
        {
            return Err(Failure::Usage(forebay_trace::formats::unknown(name)));
        }
        forebay_trace::Paging::new(forebay_trace::Unit::Bytes, self.page_size).map_err(Question::PageSize)?;
        Ok(())
    }

    /// Opens the trace called `name`: a file, `-`, a synthetic trace, or the embedded sample; or the part of it that is asked.
    pub(crate) fn open(&self, name: &str) -> forebay_trace::Result<(&'static Format, Box<dyn Reader>)> {
        let (format, reader) = self.open_whole(name)?;
        self.warn_of_large_pages(name, reader.as_ref());
        if self.owners.is_empty() && self.files.is_empty() {
            return Ok((format, reader));
        }
        Ok((format, Box::new(Only::new(name, reader, &self.owners, &self.files))))
    }

    /// Warns, once of each trace, of pages that most requests do not fill: those that they share hit by themselves.
    fn warn_of_large_pages(&self, name: &str, reader: &dyn Reader) {
        static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let usual = reader.median_request().map(|median| USUAL_PAGE.max(1 << median.max(1).ilog2()));
        let (Some(asked), Some(usual)) = (self.page_size, usual) else { return };
        if asked > usual && WARNED.lock().is_ok_and(|mut warned| warned.insert(name.to_owned())) {
            let [asked, usual] = [asked, usual].map(show_bytes);
            eprintln!(
                "forebay: {name}: most requests are shorter than --page-size {asked}, and hit what others fetched: \
                 leave it out, or take {usual}"
            );
        }
    }

    /// The same without its format.
    pub(crate) fn read(&self, name: &str) -> forebay_trace::Result<Box<dyn Reader>> {
        Ok(self.open(name)?.1)
    }

    fn open_whole(&self, name: &str) -> forebay_trace::Result<(&'static Format, Box<dyn Reader>)> {
        let options = Options { format: self.trace_format.clone(), columns: self.columns.clone().unwrap_or_default() };
        if name == SAMPLE && !Path::new(name).exists() {
            let input = Input::from_bytes(SAMPLE, SAMPLE_FILE)?;
            return forebay_trace::reader::read(input, &Options::default());
        }
        let (format, reader) = forebay_trace::open(Path::new(name), &options)?;
        Ok((format, Box::new(UpToCut::new(reader))))
    }
}

/// More threads than this only wait for each other.
const MOST_THREADS: usize = 256;

/// Reads a number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (0..=MOST_THREADS).contains(threads));
    threads.ok_or_else(|| format!("write a number from 0, one thread for each core, to {MOST_THREADS}"))
}

/// The policies, each once.
pub(crate) fn each_once(specs: impl Iterator<Item = Spec>) -> Vec<Spec> {
    let mut labels = HashSet::new();
    specs.filter(|spec| labels.insert(spec.label.clone())).collect()
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
