//! Naming a trace, and opening it: a file, standard input, a synthetic trace, the embedded sample, or a part of one.

use forebay_basis::show_bytes;
use forebay_trace::{
    During, Format, Input, Only, Options, Paging, Pattern, Reader, Result, Unit, UpToCut, Warn, formats, reader,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

/// What the embedded sample is called.
pub const SAMPLE: &str = "sample";
/// By a link within the crate: a crate that is packed has no more than its own folder.
const SAMPLE_FILE: &[u8] = include_bytes!("../../sample.parquet");

/// A page that is no larger needs no warning: most systems cache by it, however short their requests.
const USUAL_PAGE: u64 = 4096;

/// How to read a trace, and which part of it.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Its format and columns, where content and name do not tell.
    pub options: Options,
    /// The bytes of a page; by default the trace's own.
    pub page_size: Option<u64>,
    /// Only the requests of owners that match one of these; none: of all.
    pub owners: Vec<Pattern>,
    /// Only the requests to files or volumes that match one of these; none: to all.
    pub files: Vec<Pattern>,
    /// Only the requests of this span, in nanoseconds after the first one.
    pub during: Option<Range<u64>>,
}

impl Opening {
    /// Checks what is wrong whatever the trace.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> std::result::Result<(), String> {
        if let Some(name) = &self.options.format
            && formats::named(name).is_none()
        {
            return Err(formats::unknown(name));
        }
        Paging::new(Unit::Bytes, self.page_size).map(drop)
    }

    /// Opens the trace called `name`: a file, `-`, a synthetic trace, or the embedded sample; or the part of it that is asked.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open(&self, name: &str, warn: &Warn) -> Result<(&'static Format, Box<dyn Reader>)> {
        let (format, reader) = self.open_whole(name, warn)?;
        Ok((format, self.part(name, reader, warn)))
    }

    /// The part that is asked of a trace that is open already.
    pub fn part(&self, name: &str, mut reader: Box<dyn Reader>, warn: &Warn) -> Box<dyn Reader> {
        self.warn_of_large_pages(name, reader.as_ref(), warn);
        if let Some(span) = &self.during {
            reader = Box::new(During::new(name, reader, span.clone()));
        }
        if !self.owners.is_empty() || !self.files.is_empty() {
            reader = Box::new(Only::new(name, reader, &self.owners, &self.files));
        }
        reader
    }

    /// Warns, once of each trace, of pages that most requests do not fill: those that they share hit by themselves.
    fn warn_of_large_pages(&self, name: &str, reader: &dyn Reader, warn: &Warn) {
        static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let usual = reader.median_request().map(|median| USUAL_PAGE.max(1 << median.max(1).ilog2()));
        let (Some(asked), Some(usual)) = (self.page_size, usual) else { return };
        if asked > usual && WARNED.lock().is_ok_and(|mut warned| warned.insert(name.to_owned())) {
            let [asked, usual] = [asked, usual].map(show_bytes);
            warn(&format!(
                "{name}: most requests are shorter than --page-size {asked}, and hit what others fetched: \
                 leave it out, or take {usual}"
            ));
        }
    }

    fn open_whole(&self, name: &str, warn: &Warn) -> Result<(&'static Format, Box<dyn Reader>)> {
        if name == SAMPLE && !Path::new(name).exists() {
            let read = || reader::read(Input::from_bytes(SAMPLE, SAMPLE_FILE)?, &Options::default());
            let (format, whole) = read()?;
            return Ok((format, reader::measured(whole, read()?.1)));
        }
        let (format, reader) = forebay_trace::open(Path::new(name), &self.options)?;
        Ok((format, Box::new(UpToCut::new(reader, warn.clone()))))
    }
}
