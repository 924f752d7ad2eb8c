//! Opening a trace, whatever its format.

use crate::circumstances::Circumstances;
use crate::error::{Error, Position, Result};
use crate::formats::{self, Format, csv::Columns};
use crate::input::{Consumed, Input};
use crate::names::Names;
use crate::pages::PageSize;
use crate::request::{Request, Unit};
use crate::shape::{Shape, USUAL};
use crate::synthetic;
use std::path::Path;

/// A trace being read.
pub trait Reader: Send {
    /// What the requests' offsets and lengths count.
    fn unit(&self) -> Unit;

    /// The reader whose requests this one hands on, if it does: what that one says of the trace holds here, too.
    fn source(&self) -> Option<&dyn Reader> {
        None
    }

    /// The size of the pages that the requests are made of, where the trace says it.
    fn page_size(&self) -> Option<PageSize> {
        self.source()?.page_size()
    }

    /// Whether its pages are objects, each of a size of its own, which is not used.
    fn holds_objects(&self) -> bool {
        self.source().is_some_and(|source| source.holds_objects())
    }

    /// How many bytes half of the requests do not exceed, where that is known before they are read.
    fn median_request(&self) -> Option<u64> {
        self.source()?.median_request()
    }

    /// How it was recorded, where the trace says it.
    fn circumstances(&self) -> Option<&Circumstances> {
        self.source()?.circumstances()
    }

    /// The bytes of the program's own blocks, where they are larger than the pages that the trace was recorded with.
    fn larger_blocks(&self) -> Option<u64> {
        self.source()?.larger_blocks()
    }

    /// Whether the trace says how long its objects are. What it has said by a request is in `names` then.
    fn has_lengths(&self) -> bool {
        self.source().is_some_and(|source| source.has_lengths())
    }

    /// The share of the trace that is read so far, from 0 to 1, where its length is known.
    fn share(&self) -> Option<f64> {
        self.source()?.share()
    }

    /// What it has skipped so far because it makes no sense: a sentence for the user, once all is read.
    fn warning(&self) -> Option<String> {
        self.source()?.warning()
    }

    /// The next request; `None` at the end. Owners and objects are numbered in `names`.
    fn next(&mut self, names: &mut Names) -> Result<Option<Request>>;

    /// Appends up to `most` requests to `batch`; `false` once the trace has ended.
    fn fill(&mut self, names: &mut Names, most: usize, batch: &mut Vec<Request>) -> Result<bool> {
        for _ in 0..most {
            match self.next(names)? {
                Some(request) => batch.push(request),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// How to read a trace whose content and name do not say it all.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format's name, where it is not to be recognised.
    pub format: Option<String>,
    /// Which columns of a table mean what. Where it says so, a trace of no other given format is a CSV, JSON lines or Parquet.
    pub columns: Columns,
}

/// Opens a trace file (`-` is standard input) and says which format it is in. A name like `zipf:pages=1000` is no file
/// but a [synthetic] trace.
pub fn open(path: &Path, options: &Options) -> Result<(&'static Format, Box<dyn Reader>)> {
    if let Some(spec) = path.to_str().filter(|name| synthetic::recognise(name)) {
        return Ok((&synthetic::SYNTHETIC, synthetic::open(spec).map_err(Error::mistyped)?));
    }
    let input = Input::open(path).map_err(|error| match path.to_str() {
        Some(name) if !path.exists() => error.with_advice(&synthetic::meant(name)),
        _ => error,
    })?;
    read(input, options)
}

/// Reads an opened trace and says which format it is in.
pub fn read(input: Input, options: &Options) -> Result<(&'static Format, Box<dyn Reader>)> {
    let format = match &options.format {
        Some(name) => formats::named(name).ok_or_else(|| Error::new(input.file(), formats::unknown(name)))?,
        None if !options.columns.is_empty() => formats::of_columns(&input.head()),
        None => formats::recognise(&input.head()).ok_or_else(|| {
            if let Some((format, number, line)) = formats::but_for_a_line(&input.head()) {
                let (name, line) = (format.name, formats::fields::shorten(line));
                let message = format!(
                    "`{line}` makes no sense as {name}, the format of the lines around it: mend it, or take it out"
                );
                return Error::at(input.file(), Position::Line(number), message);
            }
            let advice = formats::json_lines::advice(&input.head())
                .or_else(|| formats::csv::advice(&input.head()))
                .unwrap_or_else(|| "`forebay formats` lists them, and --trace-format names one".to_owned());
            Error::new(input.file(), format!("is in no known trace format; {advice}"))
        })?,
    };
    let consumed = input.consumed();
    let again = input.again();
    let reader = (format.open)(input, options)?;
    // What is wrong with the trace is said when it is read.
    let shape = match reader.unit() {
        Unit::Pages => Ok(Shape::default()),
        _ => again.and_then(|again| (format.open)(again, options)).map(|mut front| Shape::of(front.as_mut())),
    };
    Ok((format, Box::new(Measured { reader, consumed, shape: shape.unwrap_or_default() })))
}

/// What `reader` reads of a trace that is no file, with what the requests are like that `front` reads of the same.
pub fn measured(reader: Box<dyn Reader>, mut front: Box<dyn Reader>) -> Box<dyn Reader> {
    let shape = Shape::of(front.as_mut());
    Box::new(Measured { reader, consumed: Consumed::default(), shape })
}

/// A reader of a file, which tells how much of it is read, and what its requests are like.
struct Measured {
    reader: Box<dyn Reader>,
    consumed: Consumed,
    shape: Shape,
}

impl Reader for Measured {
    fn unit(&self) -> Unit {
        self.reader.unit()
    }

    fn page_size(&self) -> Option<PageSize> {
        self.reader.page_size().or(self.shape.page_size)
    }

    fn median_request(&self) -> Option<u64> {
        self.shape.median_request
    }

    fn holds_objects(&self) -> bool {
        self.reader.holds_objects()
    }

    fn circumstances(&self) -> Option<&Circumstances> {
        self.reader.circumstances()
    }

    fn larger_blocks(&self) -> Option<u64> {
        let (recorded, shown) = (self.reader.page_size()?, self.shape.page_size?);
        (shown.bytes > recorded.bytes.max(USUAL)).then_some(shown.bytes)
    }

    fn has_lengths(&self) -> bool {
        self.reader.has_lengths()
    }

    fn warning(&self) -> Option<String> {
        self.reader.warning()
    }

    fn share(&self) -> Option<f64> {
        self.reader.share().or_else(|| self.consumed.share())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        self.reader.next(names)
    }

    fn fill(&mut self, names: &mut Names, most: usize, batch: &mut Vec<Request>) -> Result<bool> {
        self.reader.fill(names, most, batch)
    }
}
