//! A moment at which no byte of any region changes, so that a copy of them is one that a program could have seen.
//!
//! 1. Faults of writes wait from now on, and those whose page is there already end. Those whose page is still read wait when it has come: so a
//!    storage that hangs keeps nobody.
//! 2. All dirty pages are written back. Each is protected first, so the next write to it is a fault, which waits.
//!    A waiting thread makes no later write. So the bytes, once no page is dirty, are those of one moment for each thread: when it began to wait.
//! 3. Storage has all bytes, until this ends.

use crate::error::Error;
use crate::pager::{Pager, Shared};
use crate::signals;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long it waits at a time for pages to be dropped.
const PAUSE: Duration = Duration::from_millis(1);

/// Regions that stay as they are until this is dropped: writes to them wait, reads go on. The thread that drops it must not write to them.
#[must_use]
pub struct Frozen(Arc<Pager>);

impl Drop for Frozen {
    fn drop(&mut self) {
        let waiting = self.0.shared.desk.thaw();
        signals::blocked(|| self.0.shared.space.faults.again(waiting));
    }
}

impl Pager {
    /// Keeps all regions as they are, with all their bytes in storage. Nobody advises [zero](crate::Advice::Zero), holds pages or maps regions meanwhile. Others
    /// may be unmapped.
    ///
    /// # Errors
    /// [`Error::Configuration`] if they are frozen, if faults of writes do not end within `patience`, or if pages are written otherwise meanwhile;
    /// [`Error::Pool`] if a page cannot be written back; [`Error::Forked`].
    pub fn freeze(self: &Arc<Self>, patience: Duration) -> Result<Frozen, Error> {
        self.check_process()?;
        signals::blocked(|| {
            let wrong = |what: String| Err(Error::Configuration(what));
            let Shared { desk, pool, .. } = &*self.shared;
            if !desk.freeze() {
                return wrong("these regions are frozen already".to_owned());
            }
            let frozen = Frozen(Arc::clone(self));
            if !desk.wait_until_unwritten(patience) {
                return wrong(format!("a page was being mapped for a write for {patience:?}"));
            }
            let begin = Instant::now();
            loop {
                for region in self.shared.regions() {
                    match pool.flush_volume(&region.volume) {
                        // It is being unmapped: its pages are about to be dropped.
                        Err(forebay_pool::Error::Detached { .. }) => {}
                        flushed => flushed?,
                    }
                }
                match pool.statistics().dirty {
                    0 => return Ok(frozen),
                    dirty if begin.elapsed() > patience => {
                        return wrong(format!("{dirty} pages are written while regions are frozen"));
                    }
                    _ => std::thread::sleep(PAUSE),
                }
            }
        })
    }
}
