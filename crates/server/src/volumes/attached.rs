//! A volume behind its cache, from when it is attached to when it is closed.
//!
//! ```text
//!              leave            the last client has left          made durable
//!   Serving ----------> Leaving -----------------------> Closing -------------> Closed
//!      ^                   |
//!      +-------------------+  return_to_service
//! ```
//!
//! While clients of a volume that leaves stay, it is flushed as each of them goes. A thread of its own closes it, so that a device
//! that hangs keeps nobody else waiting.

use crate::cache::Cache;
use crate::error::Error;
use crate::volumes::volume::{VolumeLimits, VolumeOptions};
use forebay_pool::Volume;
use forebay_pool::device::{Device, Limited};
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long to wait before a volume that could not be made durable is tried again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// How often a flush looks whether a close under way has failed.
const LOOK: Duration = Duration::from_millis(20);

/// A volume behind a cache.
pub(crate) struct Attached {
    pub(crate) options: VolumeOptions,
    pub(crate) cache: Arc<Cache>,
    pub(crate) volume: Arc<Volume>,
    device: Weak<Limited<Arc<dyn Device>>>,
    limits: Mutex<VolumeLimits>,
    life: Mutex<Life>,
    changed: Condvar,
}

struct Life {
    phase: Phase,
    uses: usize,
    /// How many uses have ended.
    ended: u64,
    /// A thread waits to close it.
    watched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    Leaving,
    Closing,
    Closed,
}

impl Attached {
    pub(crate) fn new(
        options: VolumeOptions,
        cache: Arc<Cache>,
        volume: Arc<Volume>,
        device: &Arc<Limited<Arc<dyn Device>>>,
    ) -> Self {
        let life = Life { phase: Phase::Serving, uses: 0, ended: 0, watched: false };
        let (device, limits) = (Arc::downgrade(device), Mutex::new(options.limits()));
        Self { options, cache, volume, device, limits, life: Mutex::new(life), changed: Condvar::new() }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its device, which is closed when nothing holds it any more.
    pub(crate) fn device(&self) -> Weak<Limited<Arc<dyn Device>>> {
        Weak::clone(&self.device)
    }

    /// The limits in force.
    pub(crate) fn limits(&self) -> VolumeLimits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts these limits in place of those before.
    pub(crate) fn set_limits(&self, limits: VolumeLimits) -> Result<(), Error> {
        self.change_limits(|before| *before = limits).map(drop)
    }

    /// Changes limits; those in force from then on.
    pub(crate) fn change_limits(&self, change: impl FnOnce(&mut VolumeLimits)) -> Result<VolumeLimits, Error> {
        let mut before = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut limits = *before;
        change(&mut limits);
        if before.rate_limits() != limits.rate_limits()
            && let Some(device) = self.device.upgrade()
        {
            let wrong = |error: io::Error| Error::Usage(error.to_string()).of_volume(&self.options.name);
            device.set_limits(limits.rate_limits()).map_err(wrong)?;
        }
        if *before != limits {
            tracing::info!("volume {}: {limits}", self.options.name);
        }
        *before = limits;
        Ok(limits)
    }

    /// Closes it when the last use has ended, and calls `closed` then. Until then it can return to service.
    pub(crate) fn leave(self: &Arc<Self>, closed: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let mut life = self.life();
        life.phase = Phase::Leaving;
        self.changed.notify_all();
        // A thread may not have noticed yet that it had returned.
        if std::mem::replace(&mut life.watched, true) {
            return;
        }
        drop(life);
        let attached = Arc::clone(self);
        let close = move || {
            if attached.wait_unused() {
                attached.close();
                closed(&attached);
            }
        };
        let thread = std::thread::Builder::new().name("close".to_owned()).spawn(close);
        if let Err(error) = thread {
            self.life().watched = false;
            tracing::error!("volume {}: no thread to close it: {error}; it is closed at the end", self.options.name);
        }
    }

    /// Takes it back from those that leave, with its pages and its device, unless it is being closed already.
    pub(crate) fn return_to_service(&self) -> bool {
        let mut life = self.life();
        let leaves = life.phase == Phase::Leaving;
        if leaves {
            life.phase = Phase::Serving;
            self.changed.notify_all();
        }
        leaves
    }

    /// Flushes whenever a use has ended, until there are none. `false`: it has returned to service.
    fn wait_unused(&self) -> bool {
        loop {
            let seen = {
                let mut life = self.life();
                if life.phase == Phase::Serving {
                    life.watched = false;
                    return false;
                }
                if life.uses == 0 {
                    life.phase = Phase::Closing;
                    return true;
                }
                life.ended
            };
            if let Err(error) = self.make_durable() {
                tracing::error!("{error}; it is tried again");
            }
            let stays = |life: &mut Life| life.phase == Phase::Leaving && life.uses > 0 && life.ended == seen;
            drop(self.changed.wait_while(self.life(), stays).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Makes it durable, however often that must be tried, and gives its pages and its device back.
    fn close(&self) {
        let mut pause = PAUSES.0;
        while let Err(error) = self.cache.pool.detach(&self.volume) {
            tracing::error!("{error}; it is tried again until the server ends");
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        self.life().phase = Phase::Closed;
        self.changed.notify_all();
        tracing::info!("volume {}: closed", self.options.name);
    }

    /// Makes durable what was written to it. While it is being closed, waits for that: it has nothing left to write then.
    pub(crate) fn make_durable(&self) -> Result<(), forebay_pool::Error> {
        loop {
            match self.cache.pool.flush_volume(&self.volume) {
                Err(forebay_pool::Error::Detached { .. }) => {}
                flushed => return flushed,
            }
            let open = |life: &mut Life| life.phase != Phase::Closed;
            let waited = self.changed.wait_timeout_while(self.life(), LOOK, open);
            if waited.unwrap_or_else(PoisonError::into_inner).0.phase == Phase::Closed {
                return Ok(());
            }
        }
    }
}

/// A use of a volume: by its export, or by a client's thread.
pub(crate) struct Use(Arc<Attached>);

impl Use {
    pub(crate) fn new(attached: &Arc<Attached>) -> Self {
        attached.life().uses += 1;
        Self(Arc::clone(attached))
    }

    pub(crate) fn attached(&self) -> &Arc<Attached> {
        &self.0
    }
}

impl Clone for Use {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Deref for Use {
    type Target = Attached;

    fn deref(&self) -> &Attached {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut life = self.0.life();
        life.uses -= 1;
        life.ended += 1;
        drop(life);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServiceOptions;
    use crate::volumes::options::Options;
    use forebay_pool::Durability;

    #[test]
    fn what_is_flushed_while_it_is_closed_is_durable_and_no_error() {
        let service = ServiceOptions { cache: Some("1MiB".parse().unwrap()), ..ServiceOptions::default() };
        let options = Options { service, ..Options::default() };
        let cache = Arc::new(options.shared_cache().unwrap());
        for round in 0..300 {
            let attached = options.attach(&"a=memory:1MiB".parse().unwrap(), Some(&cache), None, None).unwrap();
            let handle = cache.pool.handle().unwrap();
            handle.write_at(&attached.volume, 0, &[1; 65_536], Durability::Flush).unwrap();
            attached.leave(|_| {});
            while attached.life().phase != Phase::Closed {
                attached.make_durable().unwrap_or_else(|error| panic!("round {round}: {error}"));
            }
            attached.make_durable().unwrap();
        }
    }
}
