//! The uses of files, recorded: by whom, of which file.

use crate::record::Recorder;
use forebay_basis::Operation;
use forebay_kernel::Users;
use std::sync::Arc;

/// Writes uses to a recorder, under the names that a mount's recordings have.
pub(crate) struct Recorded(pub(crate) Arc<Recorder>);

impl Users for Recorded {
    fn wants(&self) -> bool {
        self.0.records()
    }

    fn file(&self, path: &str) -> u32 {
        self.0.number(path)
    }

    fn owner(&self, name: &str) -> u32 {
        self.0.number(name)
    }

    fn reference(&self, file: (u32, u64), owner: &dyn Fn() -> u32, (offset, length): (u64, u64), operation: Operation) {
        self.0.record_of(owner, file, offset, length, operation);
    }
}
