//! Writers that wait: until fewer pages are dirty, and until a volume that has just failed may be tried again.

use crate::core::memory::Memory;
use crate::error::Error;
use crate::objects::volume::{Resting, Volume};
use crate::pool::Shared;
use crate::sync::{Ordering, lock};
use crate::writeback::Cleaned;
use std::sync::Arc;
use std::time::Duration;

/// Times that a writer looks again while too many pages are dirty and all of them held.
const LOOKS: u32 = 100;

/// How long it waits at a time to be woken by a page that has been written back.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a volume is not to be tried now.
pub(crate) fn just_failed(volume: &Volume) -> Option<Error> {
    matches!(volume.resting_from(), Resting::For(..)).then(|| volume.failed_since(0)).flatten()
}

impl<M: Memory> Shared<M> {
    /// Waits until fewer pages are dirty than may be. If that cannot be had because of pages that are held, perhaps by this thread, or of
    /// another volume that fails or hangs, the writer goes on as soon as the dirty pages of its own volume are written.
    pub(crate) fn throttle(&self, volume: &Arc<Volume>) -> Result<(), Error> {
        let mut looks = 0;
        while self.is_at_dirty_limit() {
            self.wait_while_resting(volume)?;
            let seen = self.progress.seen();
            match self.clean_some(Some(volume)) {
                Ok(Cleaned::Some) => looks = 0,
                Ok(Cleaned::ByOthers) => self.progress.wait(seen, PAUSE),
                Ok(Cleaned::Nothing) if looks < LOOKS => {
                    looks += 1;
                    self.progress.wait(seen, PAUSE);
                }
                result @ (Ok(Cleaned::Nothing | Cleaned::Hanging) | Err(_)) => {
                    // One attempt is enough.
                    return match (volume.resting_from(), result) {
                        (Resting::For(..), Err(error)) => Err(error),
                        _ => self.write_some(volume, &lock(&volume.writing)).map(drop),
                    };
                }
            }
        }
        Ok(())
    }

    /// Where a writeback of the volume has just failed: waits until it may be tried again. Of all who wait one tries, and the others have its error.
    fn wait_while_resting(&self, volume: &Volume) -> Result<(), Error> {
        let mut before = None;
        loop {
            let seen = self.progress.seen();
            let resting = volume.resting_from();
            if let Some(error) = before.and_then(|failures| volume.failed_since(failures)) {
                return Err(error);
            }
            let Resting::For(left, failures) = resting else { return Ok(()) };
            if !self.is_at_dirty_limit() {
                return Ok(());
            }
            before.get_or_insert(failures);
            self.progress.wait(seen, left);
        }
    }

    /// Storage has been given space back, or somebody asks: what could not be written is tried again at once.
    pub(crate) fn try_again(&self) {
        let failing: Vec<u32> = lock(&self.writing).iter().copied().collect();
        if failing.is_empty() {
            return;
        }
        failing.into_iter().filter_map(|object| lock(&self.volumes).get(object)).for_each(|volume| volume.try_again());
        self.progress.make();
        self.queue.wake_writer();
    }

    /// Whether no page may become dirty before another is written.
    pub(crate) fn is_at_dirty_limit(&self) -> bool {
        self.dirty.load(Ordering::Relaxed) >= self.dirty_limit()
    }
}
