//! The first requests of a trace alone: what comes behind them is not read.

use forebay_trace::{Names, Reader, Request, Result, Unit};

/// A reader that ends after some requests.
pub(crate) struct First {
    reader: Box<dyn Reader>,
    left: u64,
}

impl First {
    pub(crate) fn new(reader: Box<dyn Reader>, requests: u64) -> Self {
        Self { reader, left: requests }
    }
}

impl Reader for First {
    fn unit(&self) -> Unit {
        self.reader.unit()
    }

    fn source(&self) -> Option<&dyn Reader> {
        Some(self.reader.as_ref())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.reader.next(names)
    }
}
