//! Who waits for an answer.

/// A person or program that waits: sees how far the work is, and may stop it.
pub trait Monitor: Sync {
    /// Work on so many references begins, if the number is known. Work that is `stoppable` can tell something when it is stopped.
    fn begin(&self, what: String, references: Option<u64>, stoppable: bool) -> Box<dyn Progress + '_>;

    /// Something is odd, and does not stop the work.
    fn warn(&self, message: &str);
}

/// Work under way; dropped when it is done.
pub trait Progress: Sync {
    /// So many more references are done; `false` stops the work.
    fn add(&self, more: u64) -> bool;

    /// So many references are done in all, which is that share of the whole where it is known; `false` stops the work.
    fn set(&self, done: u64, share: Option<f64>) -> bool;

    /// So many references are done in all, of work that cannot be stopped.
    fn at(&self, done: u64) {
        self.set(done, None);
    }
}
