//! Text formats with a request a line, or none, or several.

use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};

/// A reader of such a format. `request` parses the line read last, which is not empty; `None` if it moves no data.
pub(super) fn by_line<F>(lines: Lines, unit: Unit, request: F) -> Box<dyn Reader>
where
    F: FnMut(&Lines, &mut Names) -> Result<Option<Request>> + Send + 'static,
{
    Box::new(ByLine { lines, unit, request })
}

struct ByLine<F> {
    lines: Lines,
    unit: Unit,
    request: F,
}

impl<F: FnMut(&Lines, &mut Names) -> Result<Option<Request>> + Send> Reader for ByLine<F> {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        while self.lines.next_content()?.is_some() {
            if let Some(request) = (self.request)(&self.lines, names)? {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }
}

/// A reader of a format with several requests a line. `requests` appends those of the line read last, which is not empty.
pub(super) fn several_by_line<F>(lines: Lines, unit: Unit, requests: F) -> Box<dyn Reader>
where
    F: FnMut(&Lines, &mut Vec<Request>) -> Result<()> + Send + 'static,
{
    Box::new(SeveralByLine { lines, unit, requests, line: Vec::new(), next: 0 })
}

struct SeveralByLine<F> {
    lines: Lines,
    unit: Unit,
    requests: F,
    /// Those of the line read last, and how many of them have been handed out.
    line: Vec<Request>,
    next: usize,
}

impl<F: FnMut(&Lines, &mut Vec<Request>) -> Result<()> + Send> Reader for SeveralByLine<F> {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn next(&mut self, _: &mut Names) -> Result<Option<Request>> {
        while self.next == self.line.len() {
            self.line.clear();
            self.next = 0;
            if self.lines.next_content()?.is_none() {
                return Ok(None);
            }
            (self.requests)(&self.lines, &mut self.line)?;
        }
        self.next += 1;
        Ok(Some(self.line[self.next - 1]))
    }
}
