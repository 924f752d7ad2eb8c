//! A trace that is not quite whole, read with a warning: its last line or record is cut, as a recorder leaves it that is killed, or its
//! reader has skipped what makes no sense.

use crate::error::Result;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use std::sync::Arc;

/// Who is warned of what is odd and stops nothing.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// A reader that ends where its file is cut, and says once at the end what was skipped.
pub struct UpToCut {
    reader: Box<dyn Reader>,
    warn: Warn,
    any: bool,
    ended: bool,
}

impl UpToCut {
    /// What `reader` reads, up to where its file is cut.
    pub fn new(reader: Box<dyn Reader>, warn: Warn) -> Self {
        Self { reader, warn, any: false, ended: false }
    }
}

impl Reader for UpToCut {
    fn unit(&self) -> Unit {
        self.reader.unit()
    }

    fn source(&self) -> Option<&dyn Reader> {
        Some(self.reader.as_ref())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        let next = self.reader.next(names);
        self.any |= matches!(next, Ok(Some(_)));
        let next = self.up_to_cut(next, None)?;
        self.warn_at_end(next.is_none());
        Ok(next)
    }

    fn fill(&mut self, names: &mut Names, most: usize, batch: &mut Vec<Request>) -> Result<bool> {
        let filled = self.reader.fill(names, most, batch);
        self.any |= !batch.is_empty();
        let more = self.up_to_cut(filled, false)?;
        self.warn_at_end(!more);
        Ok(more)
    }
}

impl UpToCut {
    fn warn_at_end(&mut self, ended: bool) {
        if ended
            && !std::mem::replace(&mut self.ended, true)
            && let Some(warning) = self.reader.warning()
        {
            (self.warn)(&warning);
        }
    }

    /// What was read, or `end` where the file is cut behind something.
    fn up_to_cut<T>(&self, read: Result<T>, end: T) -> Result<T> {
        match read {
            Err(error) if self.any && error.is_cut() => {
                (self.warn)(&format!("{error}; all before it is taken"));
                Ok(end)
            }
            read => read,
        }
    }
}
