//! The uses of files, recorded: by whom, of which file.

use crate::record::Recorder;
use forebay_basis::Operation;
use forebay_kernel::Users;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes uses to a recorder, under the names that a mount's recordings have.
pub(crate) struct Uses {
    recorder: Arc<Recorder>,
    /// Uses that were recorded so far, and the most that are.
    seen: Arc<AtomicU64>,
    limit: u64,
}

impl Uses {
    /// At most `limit` uses.
    pub(crate) fn new(recorder: Arc<Recorder>, limit: u64) -> Self {
        Self { recorder, seen: Arc::default(), limit }
    }

    /// How many uses were recorded so far.
    pub(crate) fn seen(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.seen)
    }
}

impl Users for Uses {
    fn wants(&self) -> bool {
        self.recorder.records() && self.seen.load(Ordering::Relaxed) < self.limit
    }

    fn file(&self, path: &str) -> u32 {
        self.recorder.number(path)
    }

    fn owner(&self, name: &str) -> u32 {
        self.recorder.number(name)
    }

    fn reference(&self, file: (u32, u64), owner: &dyn Fn() -> u32, (offset, length): (u64, u64), operation: Operation) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.recorder.record_of(owner, || file, offset, length, operation);
    }
}
