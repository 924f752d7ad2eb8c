//! Our last change of a file below, by which others' changes are noticed.
//!
//! What others change has another size or other times than our last change left. So each change of ours ends
//! with a look at the file, and while one is under way nothing can be said.

use crate::inode::attributes;
use crate::times::{Seen, Stamp, Written};
use rustix::fd::BorrowedFd;
use rustix::fs::{Statx, Timespec, Timestamps, UTIME_OMIT};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// What is known of the changes of a file below.
pub(crate) struct LastChange {
    state: Mutex<State>,
    /// Shared by those who change the file below, held alone by whoever looks at its times.
    changing: RwLock<()>,
    /// Changes of ours of which `state` does not know yet.
    unsettled: AtomicUsize,
    /// Changes of attributes through the mount that are expected, and those that have ended.
    expected: AtomicUsize,
    ended: AtomicUsize,
    /// Others had changed the file below when we began to, so that its times alone do not show it any more.
    foreign: AtomicBool,
    /// Its last name was taken away through the mount, and nobody has looked at it since: its time of change is another one now.
    unseen: AtomicBool,
}

struct State {
    /// What the file below looked like after our last change.
    seen: Seen,
    written: Option<Written>,
}

/// What a look at the file below finds.
pub(crate) enum Below {
    /// Nobody else has changed it.
    Same,
    /// It cannot be said while we change it ourselves.
    Busy,
    /// Others have; it looks so now.
    Changed(Box<Statx>),
}

/// A change of ours, until `state` knows of it.
struct Unsettled<'c>(&'c AtomicUsize);

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LastChange {
    /// Of a file that is found so.
    pub(crate) fn new(found: &Statx) -> Self {
        Self {
            state: Mutex::new(State { seen: Seen::from(found), written: None }),
            changing: RwLock::new(()),
            unsettled: AtomicUsize::new(0),
            expected: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            foreign: AtomicBool::new(false),
            unseen: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was found as our last change has left it.
    fn is_ours(&self, found: &Statx) -> bool {
        let mut state = self.state();
        let now = Seen::from(found);
        if self.unseen.swap(false, Ordering::SeqCst) {
            state.seen.changed = now.changed;
        }
        state.seen == now
    }

    /// The bytes of the file below after our last change.
    pub(crate) fn size(&self) -> u64 {
        self.state().seen.size
    }

    /// Its user writes to it: that is when it is modified, whenever it is written back.
    pub(crate) fn note_write(&self) {
        let now = Stamp::now();
        self.state().written = Some(Written { modified: now, changed: now });
    }

    /// Its attributes are about to be changed below, through the mount. Whether others have changed the file is seen now, and not any more
    /// then. `found`: how it has just been seen, if it was looked at. An [`end`](Self::end_change) must follow, after the change was [noted](Self::note_change).
    pub(crate) fn expect_change(&self, file: BorrowedFd<'_>, found: Option<&Statx>) {
        let first = self.expected.fetch_add(1, Ordering::SeqCst) == 0;
        let Ok(_alone) = self.changing.try_write() else { return };
        if !first || self.unsettled.load(Ordering::SeqCst) > 0 {
            return;
        }
        // What has just been seen may be older than a change of ours.
        let same = |found: &Statx| self.state().seen == Seen::from(found);
        if !found.is_some_and(same) && attributes(file).is_ok_and(|found| !self.is_ours(&found)) {
            self.foreign.store(true, Ordering::SeqCst);
        }
    }

    /// Its attributes have been changed below, through the mount; how it looks now. `modified`: its time of modification, too.
    pub(crate) fn note_change(&self, file: BorrowedFd<'_>, modified: bool) -> io::Result<Statx> {
        // A change of its bytes that is under way ends with a look of its own. Who looks whether others have changed the file is waited for.
        let alone = match self.unsettled.load(Ordering::SeqCst) {
            0 => Some(self.changing.write().unwrap_or_else(PoisonError::into_inner)),
            _ => self.changing.try_write().ok(),
        };
        let found = attributes(file)?;
        let now = Seen::from(&found);
        let mut state = self.state();
        if let Some(written) = &mut state.written {
            written.changed = written.changed.max(now.changed);
            if modified {
                written.modified = now.modified;
            }
        }
        if alone.is_some() {
            state.seen = now;
            self.unseen.store(false, Ordering::SeqCst);
        }
        Ok(found)
    }

    /// What was expected has come about, or has failed.
    pub(crate) fn end_change(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.expected.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a change of ours is under way.
    fn is_changing(&self) -> bool {
        self.unsettled.load(Ordering::SeqCst) > 0 || self.expected.load(Ordering::SeqCst) > 0
    }

    /// Its last name has been taken away through the mount, and nobody has it open: the next look takes note of that.
    pub(crate) fn note_change_later(&self) {
        self.unseen.store(true, Ordering::SeqCst);
    }

    /// When it was modified and changed, by what is found below.
    pub(crate) fn times(&self, found: &Statx) -> (Stamp, Stamp) {
        let state = self.state();
        let below = Seen::from(found);
        match state.written {
            Some(written) if below.changed == state.seen.changed => (written.modified, written.changed),
            Some(written) => (written.modified, written.changed.max(below.changed)),
            None => (below.modified, below.changed),
        }
    }

    /// Whether others have changed the file below since we last did.
    pub(crate) fn look(&self, attributes: impl FnOnce() -> io::Result<Statx>) -> io::Result<Below> {
        let Ok(_alone) = self.changing.try_write() else { return Ok(Below::Busy) };
        let ended = self.ended.load(Ordering::SeqCst);
        if self.is_changing() {
            return Ok(Below::Busy);
        }
        let found = attributes()?;
        // Attributes are changed beside a look.
        if self.is_changing() || self.ended.load(Ordering::SeqCst) != ended {
            return Ok(Below::Busy);
        }
        let changed = !self.is_ours(&found) || self.foreign.load(Ordering::SeqCst);
        Ok(if changed { Below::Changed(Box::new(found)) } else { Below::Same })
    }

    /// Whether a file that was found so may have been changed by others: a change of ours may be under way, too.
    pub(crate) fn differs(&self, found: &Statx) -> bool {
        self.state().seen != Seen::from(found)
    }

    /// Takes it as it is found below.
    pub(crate) fn accept(&self, found: &Statx) {
        self.foreign.store(false, Ordering::SeqCst);
        self.unseen.store(false, Ordering::SeqCst);
        *self.state() = State { seen: Seen::from(found), written: None };
    }

    /// Makes a change of ours to the file below. `alone`: no other is made meanwhile.
    pub(crate) fn make<T>(
        &self,
        file: BorrowedFd<'_>,
        alone: bool,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let _unsettled = self.begin(file)?;
        let changed = if alone {
            let _alone = self.changing.write().unwrap_or_else(PoisonError::into_inner);
            work()
        } else {
            let _shared = self.changing.read().unwrap_or_else(PoisonError::into_inner);
            work()
        };
        // Also after a failure: a part may have been done.
        let settled = self.settle(file);
        changed.and_then(|changed| settled.map(|()| changed))
    }

    /// A change of ours begins. Whether others have changed the file is seen now, and not any more when it has ended.
    fn begin(&self, file: BorrowedFd<'_>) -> io::Result<Unsettled<'_>> {
        let first = self.unsettled.fetch_add(1, Ordering::SeqCst) == 0;
        let unsettled = Unsettled(&self.unsettled);
        // Beside another change of ours, what is found may be that one's.
        if first
            && let Ok(_alone) = self.changing.try_write()
            && self.unsettled.load(Ordering::SeqCst) == 1
            && self.expected.load(Ordering::SeqCst) == 0
            && !self.is_ours(&attributes(file)?)
        {
            self.foreign.store(true, Ordering::SeqCst);
        }
        Ok(unsettled)
    }

    /// Puts the time of modification right, and takes note of how the file below looks after our change.
    fn settle(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let _alone = self.changing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        if let Some(Written { modified, .. }) = state.written {
            let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
            let modified = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() };
            // Only its owner may: another's file has the time of the writeback.
            let _ = rustix::fs::futimens(file, &Timestamps { last_access: omit, last_modification: modified });
        }
        state.seen = Seen::from(&attributes(file)?);
        self.unseen.store(false, Ordering::SeqCst);
        Ok(())
    }
}
