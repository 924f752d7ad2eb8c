//! Text formats with a request a line, or none.

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
