//! Objects come and go: their numbers, and what is left of them when they go.
//!
//! A number is given again when nothing knows the object any more: neither the page table nor the policy, which forget its pages as it is
//! detached, nor anybody who holds the [`Volume`].

pub(crate) mod departures;
pub(crate) mod followers;
pub(crate) mod managed;
pub(crate) mod owners;
mod shares;
pub(crate) mod volume;

use crate::config::VolumeConfig;
use crate::core::HELD_MOST;
use crate::core::memory::Memory;
use crate::device::Device;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::{Pool, Shared};
use crate::stats::Together;
use crate::sync::{Mutex, Ordering, lock, yield_now};
use forebay_policy::Control;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// And how long at a time: pins that are given back wake nobody.
const PAUSE: Duration = Duration::from_millis(1);

/// The numbers of objects, and of owners: a volume's number stands for its user where none is named.
#[derive(Default)]
pub(crate) struct ObjectNumbers(Mutex<(Vec<u32>, u32)>);

impl ObjectNumbers {
    pub(crate) fn take(&self) -> u32 {
        let (free, next) = &mut *lock(&self.0);
        free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        })
    }

    /// The object has gone for good.
    pub(crate) fn give(&self, number: u32) {
        lock(&self.0).0.push(number);
    }
}

/// The volumes attached.
#[derive(Default)]
pub(crate) struct Volumes {
    /// By number.
    attached: Vec<Option<Arc<Volume>>>,
    /// Those that are counted by themselves.
    counted: BTreeMap<u32, Arc<Volume>>,
    /// The groups of the others.
    pub(crate) together: Vec<Together>,
    /// Hits and misses of those that were counted by themselves and have been detached.
    pub(crate) past: (u64, u64),
}

impl Volumes {
    pub(crate) fn all(&self) -> Vec<Arc<Volume>> {
        self.attached.iter().flatten().cloned().collect()
    }

    pub(crate) fn counted(&self) -> Vec<Arc<Volume>> {
        self.counted.values().cloned().collect()
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<Volume>> {
        self.attached.get(id as usize)?.clone()
    }

    fn remove(&mut self, id: u32) {
        self.attached[id as usize] = None;
        if let Some(volume) = self.counted.remove(&id) {
            self.past.0 += volume.counters.hits.get();
            self.past.1 += volume.counters.misses.get();
        }
    }
}

impl<M: Memory> Pool<M> {
    /// Puts the pool in front of a device.
    pub fn attach(&self, device: Arc<dyn Device>, config: VolumeConfig) -> Arc<Volume> {
        // Before the lock: a device may have to look.
        let length = device.len();
        let mut volumes = lock(&self.shared.volumes);
        let (id, counted) = (self.shared.numbers.take(), config.together.is_none());
        let counters = config.together.as_ref().map_or_else(Arc::default, |together| Arc::clone(&together.counters));
        let share = config.together.as_ref().and_then(|together| together.share);
        let numbers = Arc::clone(&self.shared.numbers);
        let page_size = self.shared.config.page_size;
        let volume = Arc::new(Volume::new(id, config, device, length, page_size, counters, numbers));
        if volumes.attached.len() <= id as usize {
            volumes.attached.resize(id as usize + 1, None);
        }
        volumes.attached[id as usize] = Some(Arc::clone(&volume));
        if counted {
            volumes.counted.insert(id, Arc::clone(&volume));
        }
        drop(volumes);
        if let Some(share) = share {
            self.shared.replacer().policy.join(id, share);
        }
        volume
    }

    /// A group of volumes that are counted together: those that name it in their [`VolumeConfig`].
    pub fn count_together(&self) -> Together {
        self.together(None)
    }

    /// The same, with this share of the cache, if any.
    pub(crate) fn together(&self, share: Option<u32>) -> Together {
        let together = Together { counters: Arc::default(), share };
        lock(&self.shared.volumes).together.push(together.clone());
        together
    }

    /// Whether pool or policy know any page of a volume: a resident one, a dirty one, or a ghost. To detach a volume without any loses nothing.
    pub fn knows(&self, volume: &Volume) -> bool {
        self.shared.replacer().knows(volume.id)
    }

    /// Makes a volume durable and lets its pages and the pool's hold of its device go. Whoever uses it from now on gets an error.
    ///
    /// # Errors
    /// The device's, [`Error::InUse`]: the volume stays attached, and what could not be written dirty. [`Error::Detached`].
    pub fn detach(&self, volume: &Arc<Volume>) -> Result<(), Error> {
        self.shared.detach(volume, false)
    }

    /// The same for a volume whose contents nobody wants any more, such as a file that was deleted: what is dirty is not written.
    ///
    /// # Errors
    /// [`Error::InUse`], also if its device hangs in a write: it stays attached, with some of its pages. [`Error::Detached`].
    pub fn discard(&self, volume: &Arc<Volume>) -> Result<(), Error> {
        self.shared.detach(volume, true)
    }
}

impl<M: Memory> Shared<M> {
    fn detach(&self, volume: &Arc<Volume>, discard: bool) -> Result<(), Error> {
        if volume.set_detached(true) {
            return Err(volume.detached());
        }
        if let Err(error) = self.empty(volume, discard) {
            volume.set_detached(false);
            return Err(error);
        }
        loop {
            let mut replacer = self.replacer();
            if !replacer.forget_some(&self.core, volume.id) {
                replacer.discard(&self.core, volume.id, &(0..u64::MAX));
                replacer.unset_share(&self.core, volume.id);
                // Most policies know nothing else of it.
                let _ = replacer.control(&self.core, &Control::Forget { object: volume.id });
                break;
            }
            drop(replacer);
            yield_now();
        }
        self.readahead.forget(volume.id);
        lock(&self.writing).remove(&volume.id);
        lock(&self.volumes).remove(volume.id);
        Ok(())
    }

    /// Flushes a volume that gets no more pages, of which most have nothing to write.
    fn make_all_durable(&self, volume: &Volume) -> Result<(), Error> {
        {
            // So that no writeback is under way.
            let _writing = lock(&volume.writing);
            if volume.dirty.load(Ordering::Relaxed) == 0 && !volume.has_failed() {
                volume.counters.device.flushes.add(1);
                let flushed = volume.device.flush();
                return flushed.map_err(|source| volume.failed("flush", 0, volume.len(), source));
            }
        }
        self.flush(volume)
    }

    /// Lets all pages of a volume go that gets no more of them.
    fn empty(&self, volume: &Arc<Volume>, discard: bool) -> Result<(), Error> {
        let mut since = None;
        loop {
            let seen = self.progress.seen();
            if !discard {
                self.make_all_durable(volume)?;
            }
            self.abandon_all(volume.id);
            self.drop_pages_at_hand(volume, &(0..u64::MAX), discard);
            if !self.replacer().has_frames(volume.id) {
                return Ok(());
            }
            if since.get_or_insert_with(Instant::now).elapsed() > HELD_MOST {
                return Err(Error::InUse { volume: volume.name().to_owned() });
            }
            self.progress.wait(seen, PAUSE);
        }
    }
}
