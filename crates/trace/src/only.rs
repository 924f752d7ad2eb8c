//! The requests of some owners, or to some files, alone.

use crate::error::{Error, Result};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use glob::Pattern;

/// The most names in a message.
const NAMED: usize = 8;

/// A reader that passes over the requests of other owners and to other files.
pub struct Only {
    trace: String,
    reader: Box<dyn Reader>,
    owners: Choice,
    files: Choice,
    taken: bool,
    skipped: bool,
}

/// Patterns of names, and what they say of each that was seen, by its number.
struct Choice {
    patterns: Vec<Pattern>,
    known: Vec<Option<bool>>,
}

impl Only {
    /// What `reader` reads of the trace called `trace`, for owners and files that match a pattern each; no pattern: all.
    pub fn new(trace: &str, reader: Box<dyn Reader>, owners: &[Pattern], files: &[Pattern]) -> Self {
        let choice = |patterns: &[Pattern]| Choice { patterns: patterns.to_vec(), known: Vec::new() };
        let (owners, files) = (choice(owners), choice(files));
        Self { trace: trace.to_owned(), reader, owners, files, taken: false, skipped: false }
    }

    /// That no request is left, with the names that there are.
    fn nothing(&self, names: &Names) -> Error {
        let list = |what: &str, choice: &Choice, all: &[String]| {
            let named: Vec<&str> = all.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let first = named[..named.len().min(NAMED)].join(", ");
            match named.len() {
                _ if choice.patterns.is_empty() => String::new(),
                0 => format!("; it names no {what}"),
                1..=NAMED => format!("; its {what} are {first}"),
                more => format!("; of its {more} {what} the first are {first}"),
            }
        };
        let owners = list("owners", &self.owners, names.owners());
        let files = list("files", &self.files, names.objects());
        Error::new(&self.trace, format!("no request matches --owners and --files{owners}{files}"))
    }
}

impl Choice {
    fn takes(&mut self, number: u32, name: &str) -> bool {
        let number = number as usize;
        if self.known.len() <= number {
            self.known.resize(number + 1, None);
        }
        let patterns = &self.patterns;
        *self.known[number].get_or_insert_with(|| patterns.is_empty() || patterns.iter().any(|of| of.matches(name)))
    }
}

impl Reader for Only {
    fn unit(&self) -> Unit {
        self.reader.unit()
    }

    fn source(&self) -> Option<&dyn Reader> {
        Some(self.reader.as_ref())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        while let Some(request) = self.reader.next(names)? {
            let owner = self.owners.takes(request.owner, names.owner_name(request.owner));
            if owner && self.files.takes(request.object, names.object_name(request.object)) {
                self.taken = true;
                return Ok(Some(request));
            }
            self.skipped = true;
        }
        if self.skipped && !self.taken { Err(self.nothing(names)) } else { Ok(None) }
    }
}
