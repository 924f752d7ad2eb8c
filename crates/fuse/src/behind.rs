//! Files that were handed over to the file system below when programs closed them, and whose bytes are still in its page cache.
//!
//! A file that was made or emptied is the file system's below once it is closed, though not durable: a kill of the mount loses nothing of it. Past
//! the page cache each such file would be a request to the disk, or more, that the program waits for. In the page cache below it is a copy, which
//! is written with others that lie beside it, and not at all if the file is deleted before.
//!
//! ```text
//!   close ---> page cache below ---> disk           all, as soon as there are more bytes than half of `most`
//!                     |
//!                     '--> dropped, once written
//! ```
//!
//! That memory is none of the cache's, so it is bounded: what has no room is written past the page cache. A file of which a write fails then
//! counts as one whose `fsync` has failed, since the system takes such bytes for written.

use crate::descriptors::Descriptors;
use crate::device::LowerFile;
use forebay_pool::device::Device;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The most files that wait, and what part of the descriptors they are that a mount may keep: each keeps one.
const MOST_FILES: usize = 256;
const OF_DESCRIPTORS: usize = 8;

/// Bytes of a page in the page cache.
const PAGE: u64 = 4096;

/// How long who closes a file waits for room. Then it is written past the page cache. A slow disk takes a second for what is behind.
const PATIENCE: Duration = Duration::from_secs(2);

/// A file that is behind.
struct Late {
    file: Weak<LowerFile>,
    descriptors: Arc<Descriptors>,
    bytes: u64,
}

impl Late {
    fn is_of(&self, file: &Arc<LowerFile>) -> bool {
        std::ptr::eq(self.file.as_ptr(), Arc::as_ptr(file))
    }
}

#[derive(Default)]
struct Waiting {
    files: Vec<Late>,
    /// Of them all, of those that are being written, and of those that have taken room.
    bytes: u64,
    /// A thread writes.
    writes: bool,
}

/// The files of a mount that are behind.
pub(crate) struct Behind {
    /// The most bytes.
    most: u64,
    /// The most files that wait.
    pub(crate) most_files: usize,
    waiting: Mutex<Waiting>,
    room: Condvar,
}

impl Behind {
    /// For a mount that may keep `descriptors` open. `most`: bytes.
    pub(crate) fn new(most: u64, descriptors: usize) -> Self {
        let most_files = (descriptors / OF_DESCRIPTORS).min(MOST_FILES);
        Self { most, most_files, waiting: Mutex::default(), room: Condvar::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves room for bytes in the page cache. Waits a while for it; `false`: there is none.
    pub(crate) fn take_room(&self, bytes: u64) -> bool {
        if bytes > self.most / 2 {
            return false;
        }
        let full = |waiting: &mut Waiting| waiting.writes && waiting.bytes + bytes > self.most;
        let waited = self.room.wait_timeout_while(self.waiting(), PATIENCE, full);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        let fits = waiting.bytes + bytes <= self.most && waiting.files.len() < self.most_files;
        waiting.bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Bytes for which there is room are in the page cache.
    pub(crate) fn add(&self, file: &Arc<LowerFile>, descriptors: Arc<Descriptors>, bytes: u64) {
        let mut waiting = self.waiting();
        let Some(late) = waiting.files.iter_mut().find(|late| late.is_of(file)) else {
            return waiting.files.push(Late { file: Arc::downgrade(file), descriptors, bytes });
        };
        // Some are the same pages.
        let both = (late.bytes + bytes).min(file.len().next_multiple_of(PAGE).max(late.bytes));
        let twice = late.bytes + bytes - both;
        (late.descriptors, late.bytes) = (descriptors, both);
        waiting.bytes -= twice;
    }

    /// Whether somebody is to [write](Self::write), who then must.
    pub(crate) fn is_due(&self) -> bool {
        let mut waiting = self.waiting();
        let due = !waiting.writes && (waiting.bytes > self.most / 2 || waiting.files.len() >= self.most_files / 2);
        waiting.writes |= due;
        due
    }

    /// Nothing came of bytes for which there was room.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.waiting().bytes -= bytes;
        self.room.notify_all();
    }

    /// Writes all that is behind now. The requests of all are made before one is waited for, so that what lies together is written together.
    pub(crate) fn write(&self) {
        let files = std::mem::take(&mut self.waiting().files);
        files.iter().for_each(|late| late.descriptors.begin_writing());
        for late in &files {
            match late.file.upgrade() {
                Some(file) => file.finish_writing(&late.descriptors),
                None => {
                    if let Err(error) = late.descriptors.finish_writing() {
                        tracing::error!("a file that is known no more has lost what was written to it: {error}");
                    }
                }
            }
            late.descriptors.drop_behind();
            self.give_back(late.bytes);
        }
        self.waiting().writes = false;
        self.room.notify_all();
    }

    /// A file was deleted: none of it is to be written.
    pub(crate) fn forget(&self, file: &Arc<LowerFile>) {
        let mut waiting = self.waiting();
        let mut left = 0;
        waiting.files.retain(|late| {
            left += if late.is_of(file) { late.bytes } else { 0 };
            !late.is_of(file)
        });
        waiting.bytes -= left;
    }
}
