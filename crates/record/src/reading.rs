//! What becomes of the references between the recorder and the file.

use crate::ending::Event;
use crate::lengths::Lengths;
use forebay_basis::Operation;
use forebay_trace::{Error, Names, Reader, Request, Result, Unit, Warn};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines that make no sense and are left out; with more, the recording ends.
const MOST_BAD_LINES: u64 = 1000;

/// What a recorder writes. It is read to its end even where the file cannot be written: the program would wait otherwise.
#[derive(Clone)]
pub(crate) struct Tap {
    bytes: Arc<Mutex<Box<dyn Read + Send>>>,
    /// A character of every reference: a recorder that fails may write, too.
    mark: u8,
    any: Arc<AtomicBool>,
}

impl Tap {
    pub(crate) fn new(bytes: Box<dyn Read + Send>, mark: u8) -> Self {
        Self { bytes: Arc::new(Mutex::new(bytes)), mark, any: Arc::default() }
    }

    /// Whether anything was recorded.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

impl Read for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).read(buffer)?;
        if !self.any() && buffer[..read].contains(&self.mark) {
            self.any.store(true, Ordering::Relaxed);
        }
        Ok(read)
    }
}

/// The references to be recorded.
pub(crate) struct Recorded {
    reader: Box<dyn Reader>,
    /// What the reader reads.
    tap: Tap,
    /// What offsets are counted from.
    start: u64,
    /// Requests that are still taken.
    left: u64,
    full: Sender<Event>,
    /// For memory: which page an address is on, and the pages referenced last.
    recent: Option<(u64, Recent)>,
    /// For files whose lengths can be asked.
    lengths: Option<Lengths>,
    bad_lines: u64,
    say: Warn,
}

impl Recorded {
    pub(crate) fn new(
        reader: Box<dyn Reader>,
        tap: Tap,
        start: u64,
        (limit, full): (Option<u64>, Sender<Event>),
        memory_page: Option<u64>,
        say: Warn,
    ) -> Self {
        let recent = memory_page.map(|size| (size, Recent::default()));
        let left = limit.unwrap_or(u64::MAX);
        Self { reader, tap, start, left, full, recent, lengths: None, bad_lines: 0, say }
    }

    /// Has the trace say how long files are.
    pub(crate) fn ask_lengths(&mut self) {
        self.lengths = Some(Lengths::default());
    }

    /// The next request that makes sense: a line that does not is no reason to lose all others.
    fn sound(&mut self, names: &mut Names) -> Option<Request> {
        while self.bad_lines < MOST_BAD_LINES {
            match self.reader.next(names) {
                Ok(request) => return request,
                Err(error) => {
                    self.bad_lines += 1;
                    if self.bad_lines == 1 {
                        (self.say)(&format!("{error}; what makes no sense is left out"));
                    }
                }
            }
        }
        None
    }
}

impl Reader for Recorded {
    fn unit(&self) -> Unit {
        self.reader.unit()
    }

    fn source(&self) -> Option<&dyn Reader> {
        Some(self.reader.as_ref())
    }

    fn has_lengths(&self) -> bool {
        self.lengths.is_some()
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        while let Some(mut request) = self.sound(names) {
            request.offset -= self.start;
            let repeats = self.recent.as_mut().is_some_and(|(size, recent)| recent.repeats(&request, *size));
            if repeats || self.left == 0 {
                continue;
            }
            self.left -= 1;
            if self.left == 0 {
                // What ends the recording may have gone, for it is over.
                let _ = self.full.send(Event::Full);
            }
            if let Some(lengths) = &mut self.lengths {
                lengths.note(&request, names);
            }
            return Ok(Some(request));
        }
        // Then there is no file.
        if self.tap.any() { Ok(None) } else { Err(Error::new("recording", "nothing is recorded")) }
    }
}

/// The two pages of memory that were referenced last, the last first, and whether each was written since it came.
#[derive(Default)]
struct Recent([Option<(u64, bool)>; 2]);

impl Recent {
    /// Whether a request adds nothing: nearly all references of a program are to these pages, and hit in any memory.
    fn repeats(&mut self, request: &Request, page_size: u64) -> bool {
        let Request { offset, length, .. } = *request;
        let (first, last) = (offset / page_size, offset.saturating_add(length.saturating_sub(1)) / page_size);
        let writes = request.operation == Operation::Write;
        let known = self.take(first, writes);
        if last != first { self.take(last, writes) && known } else { known }
    }

    /// Whether the page was there, as dirty as it is now.
    fn take(&mut self, page: u64, writes: bool) -> bool {
        let [newest, older] = self.0;
        let known = [newest, older].into_iter().flatten().find(|&(known, _)| known == page);
        let written = writes || known.is_some_and(|(_, written)| written);
        let other = if newest.is_some_and(|(newest, _)| newest == page) { older } else { newest };
        self.0 = [Some((page, written)), other];
        known == Some((page, written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_the_two_last_pages_are_left_out_but_the_first_write_to_each() {
        let mut recent = Recent::default();
        let (read, write) = (Operation::Read, Operation::Write);
        let mut kept = |offset, length, operation| {
            !recent.repeats(&Request { time: 0, owner: 0, object: 0, offset, length, operation }, 10)
        };
        let seen = [
            (5, 1, read),
            (7, 1, read),
            (7, 1, write),
            (8, 1, write),
            (12, 1, read),
            (5, 1, write),
            (25, 1, read),
            (5, 1, read),
            (12, 1, read),
            (5, 8, read),
            (28, 4, read),
        ];
        let seen = seen.map(|(offset, length, operation)| kept(offset, length, operation));
        assert_eq!(seen, [true, false, true, false, true, false, true, false, true, false, true]);
    }
}
