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

use crate::bounded::bounded;
use crate::cache::Cache;
use crate::error::Error;
use crate::volumes::volume::{VolumeLimits, VolumeOptions};
use forebay_pool::Volume;
use forebay_pool::device::{Device, Limited};
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Its storage is being asked how long it is.
    measuring: AtomicBool,
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
        let measuring = AtomicBool::new(false);
        Self { options, cache, volume, device, limits, measuring, life: Mutex::new(life), changed: Condvar::new() }
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

    /// Notices that its storage has grown or shrunk. Storage that hangs keeps one thread, however often it is asked.
    ///
    /// # Errors
    /// Those of the pool; or there is no answer within `patience`.
    pub(crate) fn measure(self: &Arc<Self>, patience: Duration) -> Result<(), Error> {
        if self.measuring.swap(true, Ordering::SeqCst) {
            return Err(Error::Failed("its storage hangs: it has not said yet how long it is".to_owned()));
        }
        let (before, attached) = (self.volume.len(), Arc::clone(self));
        let length = bounded(
            "asking for its length",
            patience,
            || 0,
            move || {
                let measured = attached.cache.pool.handle().and_then(|handle| handle.measure(&attached.volume));
                attached.measuring.store(false, Ordering::SeqCst);
                Ok(measured?)
            },
        )?;
        if length > before {
            let name = &self.options.name;
            tracing::info!(
                "volume {name}: it has grown from {before} to {length} bytes, for clients that connect from now on"
            );
        }
        Ok(())
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
    use forebay_pool::{Durability, VolumeConfig};
    use std::io::{IoSlice, IoSliceMut};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    /// Storage that does not say how long it is before it gets a word.
    struct Hanging {
        go: Mutex<Receiver<()>>,
        asked: Sender<()>,
    }

    impl Device for Hanging {
        fn len(&self) -> u64 {
            1 << 20
        }

        fn measure(&self) -> io::Result<u64> {
            self.asked.send(()).expect("the test waits");
            self.go.lock().unwrap().recv_timeout(Duration::from_secs(60)).expect("the test lets it go on");
            Ok(2 << 20)
        }

        fn read(&self, _offset: u64, _buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
            Ok(())
        }

        fn write(&self, _offset: u64, _buffers: &[IoSlice<'_>]) -> io::Result<()> {
            Ok(())
        }

        fn trim(&self, _offset: u64, _length: u64) -> io::Result<()> {
            Ok(())
        }

        fn write_zeroes(&self, _offset: u64, _length: u64, _allocate: bool) -> io::Result<()> {
            Ok(())
        }

        fn describe(&self) -> String {
            "hanging".to_owned()
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_asks_hung_storage_for_its_length_gets_an_answer_and_one_thread_waits() {
        let service = ServiceOptions { cache: Some("1MiB".parse().unwrap()), ..ServiceOptions::default() };
        let cache = Arc::new(Options { service, ..Options::default() }.shared_cache().unwrap());
        let ((go, wait), (asked, questions)) = (channel(), channel());
        let device: Arc<dyn Device> = Arc::new(Hanging { go: Mutex::new(wait), asked });
        let options = "a=memory:1MiB".parse::<VolumeOptions>().unwrap();
        let limited = Arc::new(Limited::new(device, options.limits().rate_limits()).unwrap());
        let volume = cache.pool.attach(Arc::clone(&limited) as Arc<dyn Device>, VolumeConfig::new("a"));
        let attached = Arc::new(Attached::new(options, cache, volume, &limited));
        let (moment, long) = (Duration::from_millis(100), Duration::from_secs(60));
        let hangs = attached.measure(moment).unwrap_err().to_string();
        assert!(hangs.contains("its storage hangs"), "{hangs}");
        let again = attached.measure(long).unwrap_err().to_string();
        assert!(again.contains("has not said yet"), "{again}");
        go.send(()).unwrap();
        let begun = Instant::now();
        while attached.measuring.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < long, "waited in vain for the first answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(attached.volume.len(), 2 << 20);
        go.send(()).unwrap();
        attached.measure(long).unwrap();
        assert_eq!(questions.try_iter().count(), 2, "the second one did not ask it");
    }

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
