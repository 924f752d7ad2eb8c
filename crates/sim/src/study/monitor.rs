//! Who waits for an answer.

use forebay_trace::{Names, Reader, Request, Unit};
use std::sync::atomic::{AtomicBool, Ordering};

/// A person or program that waits: sees how far the work is, and may stop it.
pub trait Monitor: Sync {
    /// Work on this many references begins, if the number is known. Work that is `stoppable` can tell something when it is stopped.
    fn begin(&self, what: String, references: Option<u64>, stoppable: bool) -> Box<dyn Progress + '_>;

    /// Something is odd, and does not stop the work.
    fn warn(&self, message: &str);
}

/// Work under way; dropped when it is done.
pub trait Progress: Sync {
    /// This many more references are done; `false` stops the work.
    fn add(&self, more: u64) -> bool;

    /// This many references are done in all, which is that share of the whole where it is known; `false` stops the work.
    fn set(&self, done: u64, share: Option<f64>) -> bool;

    /// This many references are done in all, of work that cannot be stopped.
    fn at(&self, done: u64) {
        self.set(done, None);
    }
}

/// A reader that fails once somebody asks to stop.
pub(super) struct UntilStopped<'a> {
    pub(super) name: &'a str,
    pub(super) reader: &'a mut dyn Reader,
    pub(super) stopped: &'a AtomicBool,
}

impl UntilStopped<'_> {
    fn goes_on(&self) -> forebay_trace::Result<()> {
        if self.stopped.load(Ordering::Relaxed) { Err(forebay_trace::Error::new(self.name, "stopped")) } else { Ok(()) }
    }
}

impl Reader for UntilStopped<'_> {
    fn unit(&self) -> Unit {
        self.reader.unit()
    }

    fn source(&self) -> Option<&dyn Reader> {
        Some(&*self.reader)
    }

    fn next(&mut self, names: &mut Names) -> forebay_trace::Result<Option<Request>> {
        self.goes_on()?;
        self.reader.next(names)
    }

    fn fill(&mut self, names: &mut Names, most: usize, batch: &mut Vec<Request>) -> forebay_trace::Result<bool> {
        self.goes_on()?;
        self.reader.fill(names, most, batch)
    }
}
