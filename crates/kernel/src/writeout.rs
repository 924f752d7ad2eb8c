//! Dirty pages are written at the word of a thread of its own: storage that hangs, or is frozen, holds that up, and not the pages of others.

use crate::act;
use crate::error::Error;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Ranges that may wait. What finds no room is asked for again by whoever looks whether its pages have left.
const WAITING: usize = 256;

/// Pages that are written together, if they are dirty: a MiB.
const AROUND: u64 = 256;

/// Ranges of files for the thread. It ends, when nothing hangs, as this is dropped.
pub(crate) struct Writeout(SyncSender<(OwnedFd, Range<u64>)>);

impl Writeout {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn start() -> Result<Self, Error> {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("writeout".to_owned()).spawn(move || start_all(&receiver));
        thread.map_err(|error| Error::System {
            asked: "a thread that has dirty pages written",
            source: Arc::new(error),
        })?;
        Ok(Self(sender))
    }

    /// The writeback of dirty pages of a range is to start soon, and of others around them: the disk takes them together in fewer requests.
    pub(crate) fn ask(&self, file: BorrowedFd<'_>, pages: &Range<u64>) {
        let pages = pages.start / AROUND * AROUND..pages.end.next_multiple_of(AROUND);
        if let Ok(file) = file.try_clone_to_owned() {
            let _ = self.0.try_send((file, pages));
        }
    }
}

fn start_all(ranges: &Receiver<(OwnedFd, Range<u64>)>) {
    for (file, pages) in ranges {
        // Errors of writeback are for whoever has written.
        let _ = act::start_writeback(file.as_fd(), &pages);
    }
}
