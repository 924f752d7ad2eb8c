//! The requests of a span of time alone.

use crate::error::{Error, Result};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use std::ops::Range;

const SECOND: f64 = 1e9;

/// A reader that passes over the requests before and after a span of time.
pub struct During {
    trace: String,
    reader: Box<dyn Reader>,
    /// In nanoseconds after the first request.
    span: Range<u64>,
    first: Option<u64>,
    /// When the latest request so far came, in nanoseconds after the first.
    latest: u64,
    taken: bool,
}

impl During {
    /// What `reader` reads of the trace called `trace`, from `span`, in nanoseconds after the trace's first request. Times may go back.
    pub fn new(trace: &str, reader: Box<dyn Reader>, span: Range<u64>) -> Self {
        Self { trace: trace.to_owned(), reader, span, first: None, latest: 0, taken: false }
    }

    /// That no request is left, with the times that there are.
    fn nothing(&self) -> Error {
        let Range { start, end } = self.span;
        let seconds = |nanoseconds: u64| nanoseconds as f64 / SECOND;
        let asked = match end {
            u64::MAX => format!("from {} s on", seconds(start)),
            end => format!("from {} s to {} s", seconds(start), seconds(end)),
        };
        let there = match self.latest {
            0 => "it has no times".to_owned(),
            latest => format!("its last comes {} s after its first", seconds(latest)),
        };
        Error::new(&self.trace, format!("no request is {asked}; {there}"))
    }
}

impl Reader for During {
    fn unit(&self) -> Unit {
        self.reader.unit()
    }

    fn source(&self) -> Option<&dyn Reader> {
        Some(self.reader.as_ref())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        while let Some(request) = self.reader.next(names)? {
            let first = *self.first.get_or_insert(request.time);
            // What comes first in the trace, though its time is earlier than that of the first request, is at the start.
            let time = request.time.saturating_sub(first);
            self.latest = self.latest.max(time);
            if self.span.contains(&time) {
                self.taken = true;
                return Ok(Some(request));
            }
        }
        if self.first.is_some() && !self.taken { Err(self.nothing()) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, Options};

    fn blocks(span: Range<u64>) -> Result<Vec<u64>> {
        let text = "time,offset\n5,1\n6,2\n8,3\n5.5,4\n7,5\n";
        let options = Options {
            columns: crate::formats::csv::Columns::parse("time=time,offset=offset").unwrap(),
            ..Options::default()
        };
        let (_, reader) = crate::reader::read(Input::from_bytes("test", text)?, &options)?;
        let (mut during, mut names, mut blocks) = (During::new("test", reader, span), Names::new(), Vec::new());
        while let Some(request) = during.next(&mut names)? {
            blocks.push(request.offset);
        }
        Ok(blocks)
    }

    #[test]
    fn requests_are_taken_by_their_time_after_the_first() {
        const S: u64 = 1_000_000_000;
        assert_eq!(blocks(0..u64::MAX).unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(blocks(S / 2..2 * S).unwrap(), [2, 4]);
        assert_eq!(blocks(2 * S..u64::MAX).unwrap(), [3, 5]);
        let error = blocks(9 * S..10 * S).unwrap_err().to_string();
        assert_eq!(error, "test: no request is from 9 s to 10 s; its last comes 3 s after its first");
    }
}
