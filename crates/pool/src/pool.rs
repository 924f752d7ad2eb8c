//! The pool: what its parts share, and its life from first volume to last flush.

use crate::access::handle::Handle;
use crate::config::Config;
use crate::core::Core;
use crate::core::HELD_MOST;
use crate::core::frames::Frames;
use crate::core::memory::Memory;
use crate::core::numbers::Numbers;
use crate::core::page::Pages;
use crate::core::progress::Progress;
use crate::core::replacer::Replacer;
use crate::core::shares::Shares;
use crate::core::slots::{MOST_HANDLES, Slots};
use crate::core::table::Table;
use crate::core::waiters::Waiters;
use crate::error::Error;
use crate::objects::departures::Listeners;
use crate::objects::owners::Owners;
use crate::objects::volume::Volume;
use crate::objects::{ObjectNumbers, Volumes};
use crate::readahead::Readahead;
use crate::stats::{Statistics, VolumeStatistics};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::writeback::Cleaned;
use crate::writeback::background;
use crate::writeback::copies::Copies;
use crate::writeback::dirty::DirtyPages;
use crate::writeback::limits::least_frames;
use forebay_basis::show_bytes;
use forebay_figures::{Histogram, Tally, Total};
use forebay_policy::Setup;
use std::collections::BTreeSet;
use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long it waits at a time: for pins that are given back it is not woken.
const PAUSE: Duration = Duration::from_millis(1);

/// How long a pool that is dropped, and was not closed, waits for its devices.
const LAST_ATTEMPT: Duration = Duration::from_secs(60);

/// A buffer pool: frames of memory in front of devices.
///
/// Dropping it stops its threads after a last attempt to write everything back, which takes a minute at most; whether that succeeded
/// is told by [`close`](Pool::close) and [`flush_within`](Pool::flush_within) alone.
pub struct Pool<M: Memory = Frames> {
    pub(crate) shared: Arc<Shared<M>>,
    closed: bool,
}

/// What handles and background threads work on.
pub(crate) struct Shared<M> {
    pub(crate) config: Config,
    /// Where pages' bytes are, for those who have no time for a call through a pointer.
    pub(crate) memory: Arc<M>,
    pub(crate) core: Core,
    pub(crate) replacer: Mutex<Replacer>,
    pub(crate) volumes: Mutex<Volumes>,
    pub(crate) numbers: Arc<ObjectNumbers>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) listeners: Listeners,
    pub(crate) progress: Progress,
    pub(crate) readahead: Readahead,
    pub(crate) dirty_pages: Mutex<DirtyPages>,
    pub(crate) copies: Copies,
    /// Objects with writebacks under way, and those whose last one failed.
    pub(crate) writing: Mutex<BTreeSet<u32>>,
    /// Whether a hit does nothing but set a bit, in this policy.
    pub(crate) hit_sets_bit: bool,
    /// The frames there are.
    pub(crate) frames: AtomicU32,
    /// How often a change of the capacity has begun: only the last one goes on.
    resizes: AtomicU32,
    /// The share of the frames that may be dirty, as the bits of an `f64`.
    pub(crate) dirty_share: AtomicU64,
    /// Background writeback begins at this share of it.
    pub(crate) background: f64,
    /// How long a page may be dirty, in nanoseconds.
    dirty_age: AtomicU64,
    /// Pages that are dirty or in writeback; those that are both count twice. So the limit holds though a writeback may fail.
    pub(crate) dirty: AtomicU64,
    /// Pages that are being loaded, and writes to devices that hold pages.
    pub(crate) transfers: AtomicU64,
    pub(crate) rescued: Total,
    pub(crate) hit_time: Histogram,
    pub(crate) miss_time: Histogram,
    pub(crate) queue: Arc<background::Queue>,
}

impl Pool {
    /// A pool without volumes.
    ///
    /// # Errors
    /// [`Error::Configuration`], [`Error::Memory`].
    pub fn new(config: Config) -> Result<Self, Error> {
        config.check()?;
        let memory = Frames::new(config.most_frames(), config.page_size as usize, config.huge_pages)
            .map_err(|source| Error::Memory { bytes: config.most_capacity, source: Arc::new(source) })?;
        Self::with_memory(config, Arc::new(memory))
    }
}

impl<M: Memory> Pool<M> {
    /// A pool without volumes whose pages' bytes lie in `memory`, which has `config.most_capacity` bytes of frames.
    ///
    /// # Errors
    /// [`Error::Configuration`], [`Error::Memory`].
    pub fn with_memory(mut config: Config, memory: Arc<M>) -> Result<Self, Error> {
        config.check()?;
        if memory.page_size() != config.page_size as usize {
            return Err(Error::Configuration(format!(
                "pages of {} bytes in a memory whose pages have {}: give both the same",
                config.page_size,
                memory.page_size()
            )));
        }
        let fitting = config.policy_that_fits();
        let asked = std::mem::replace(&mut config.policy, fitting);
        if asked.label != config.policy.label {
            tracing::warn!(
                "a cache of {} bytes has no room for the history of {}: it runs {}, whose metadata is at most a quarter of that",
                config.capacity,
                asked.label,
                config.policy.label
            );
        }
        let frames = config.frames() as u32;
        let numbers = Numbers::of(&config);
        let setup = Setup {
            page_size: u64::from(config.page_size),
            ..config.policy.setup(frames - config.laundry, numbers.most(frames))
        };
        let copied = config.most_copied_pages();
        let copies = Copies::new(copied, config.page_size as usize).map_err(|source| {
            let bytes = u64::from(copied) * u64::from(config.page_size);
            Error::Memory { bytes, source: Arc::new(source) }
        })?;
        let policy = Shares::new(&config.policy, &setup);
        let awaits_uses = memory.awaits_uses() && config.policy.info.awaits_uses;
        let shared = Arc::new(Shared {
            core: Core {
                memory: Arc::clone(&memory) as Arc<dyn Memory>,
                pages: Pages::new(numbers.most(config.most_frames())),
                table: Table::new(numbers.most(frames)),
                slots: Slots::new(MOST_HANDLES),
                waiters: Waiters::new(),
                laundered: AtomicU32::new(0),
            },
            memory,
            replacer: Mutex::new(Replacer::new(policy, frames, config.laundry, numbers, awaits_uses)),
            volumes: Mutex::default(),
            numbers: Arc::default(),
            owners: Arc::default(),
            listeners: Listeners::default(),
            progress: Progress::default(),
            readahead: Readahead::default(),
            dirty_pages: Mutex::default(),
            copies,
            writing: Mutex::default(),
            hit_sets_bit: config.policy.info.hit_sets_bit,
            frames: AtomicU32::new(frames),
            resizes: AtomicU32::new(0),
            dirty_share: AtomicU64::new(config.dirty_limit.to_bits()),
            background: config.background,
            dirty_age: AtomicU64::new(nanoseconds(config.dirty_age)),
            dirty: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
            rescued: Total::default(),
            hit_time: Histogram::default(),
            miss_time: Histogram::default(),
            queue: Arc::default(),
            config,
        });
        let pool = Self { shared, closed: false };
        pool.shared.start_threads()?;
        Ok(pool)
    }

    /// Lets the clean pages of a volume go, but for those in use, and returns how many have gone.
    pub fn drop_clean(&self, volume: &Arc<Volume>) -> u64 {
        self.shared.drop_pages_at_hand(volume, &(0..volume.blocks()), false)
    }

    /// Changes the share of the frames that may be dirty before writers wait.
    ///
    /// # Errors
    /// [`Error::Configuration`] if it is not above 0 and at most 1.
    pub fn set_dirty_limit(&self, share: f64) -> Result<(), Error> {
        Config { dirty_limit: share, ..self.shared.config.clone() }.check()?;
        self.shared.dirty_share.store(share.to_bits(), Ordering::Relaxed);
        self.shared.queue.wake_writer();
        Ok(())
    }

    /// The share of the frames that may be dirty before writers wait.
    pub fn dirty_limit(&self) -> f64 {
        f64::from_bits(self.shared.dirty_share.load(Ordering::Relaxed))
    }

    /// Changes how long a page may be dirty before it is written back.
    pub fn set_dirty_age(&self, age: Duration) {
        self.shared.dirty_age.store(nanoseconds(age), Ordering::Relaxed);
        self.shared.queue.wake_writer();
    }

    /// How long a page may be dirty before it is written back.
    pub fn dirty_age(&self) -> Duration {
        self.shared.dirty_age()
    }

    /// Makes durable all that was written to a volume before.
    ///
    /// # Errors
    /// As for [`Handle::flush`].
    pub fn flush_volume(&self, volume: &Arc<Volume>) -> Result<(), Error> {
        volume.check_attached()?;
        self.shared.flush(volume)
    }

    /// Writes a volume's dirty pages back, without making them durable.
    ///
    /// # Errors
    /// [`Error::Device`], which the next flush reports, too.
    pub fn write_back(&self, volume: &Arc<Volume>) -> Result<(), Error> {
        volume.check_attached()?;
        self.shared.write_ranges(volume, from_ref(&(0..u64::MAX)))
    }

    /// Makes durable what was written to these ranges of a volume's bytes before. It shares the work with all who ask for a flush of
    /// the volume meanwhile, and their errors.
    ///
    /// # Errors
    /// [`Error::Device`]: what failed stays dirty, and is written again later. For a range from the first byte to the last or beyond
    /// also what [`flush_volume`](Pool::flush_volume) tells.
    pub fn commit(&self, volume: &Arc<Volume>, ranges: &[Range<u64>]) -> Result<(), Error> {
        volume.check_attached()?;
        self.shared.commit(volume, ranges)
    }

    /// A way into the pool for one thread at a time.
    ///
    /// # Errors
    /// [`Error::TooManyHandles`].
    pub fn handle(&self) -> Result<Handle<M>, Error> {
        Handle::new(&self.shared)
    }

    /// The bytes of all frames.
    pub fn capacity(&self) -> u64 {
        self.shared.frames() * u64::from(self.shared.config.page_size)
    }

    /// Changes the capacity, in bytes; the laundry keeps its frames. A later call takes the place of one that is under way.
    ///
    /// # Errors
    /// [`Error::Configuration`] if it is above the most or leaves nothing beside the laundry; [`Error::Superseded`] if a later call has
    /// taken its place; [`Error::AllPinned`] or the device's error if too many pages are held or cannot be written: the capacity is then
    /// as near to what was asked as could be while a 16th of it is left to clean pages.
    pub fn resize(&self, capacity: u64) -> Result<(), Error> {
        let config = Config { capacity, ..self.shared.config.clone() };
        config.check()?;
        let frames = config.frames() as u32;
        let least = self.shared.replacer().policy.least() + config.laundry;
        if frames < least {
            return Err(Error::Configuration(format!(
                "a cache of {} is too small for its volumes' shares, which need {} KiB",
                show_bytes(capacity),
                (u64::from(least) * u64::from(config.page_size)) >> 10
            )));
        }
        let turn = self.shared.resizes.fetch_add(1, Ordering::SeqCst) + 1;
        let mut stuck = None;
        self.shared.try_again();
        loop {
            let seen = self.shared.progress.seen();
            let resized = {
                let mut replacer = self.shared.replacer();
                if self.shared.resizes.load(Ordering::SeqCst) != turn {
                    return Err(Error::Superseded);
                }
                // As pages become clean it comes nearer.
                let dirty = u32::try_from(self.shared.dirty.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
                let target = frames.max(least_frames(dirty).min(replacer.frame_limit()));
                let resized = replacer.resize(&self.shared.core, target) && target == frames;
                self.shared.frames.store(replacer.frame_limit(), Ordering::Relaxed);
                resized
            };
            if resized {
                return Ok(());
            }
            match self.shared.clean_some(None)? {
                Cleaned::Some => stuck = None,
                Cleaned::ByOthers => {}
                Cleaned::Nothing | Cleaned::Hanging => {
                    if stuck.get_or_insert_with(Instant::now).elapsed() > HELD_MOST {
                        return Err(self.shared.unwritten());
                    }
                }
            }
            self.shared.progress.wait(seen, PAUSE);
        }
    }

    /// Stops the pool's threads and flushes all volumes.
    ///
    /// # Errors
    /// As of [`flush`](Pool::flush): what could not be written is lost with the pool.
    pub fn close(mut self) -> Result<(), Error> {
        self.closed = true;
        self.shared.stop_threads(Duration::MAX);
        self.flush()
    }

    /// Recounts the whole state, for tests. No handle is in use meanwhile.
    ///
    /// # Panics
    /// If an invariant is broken.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let shared = &*self.shared;
        let volumes = lock(&shared.volumes).all();
        let _writing: Vec<_> = volumes.iter().map(|volume| lock(&volume.writing)).collect();
        shared.replacer().check_invariants(&shared.core);
        let dirty = lock(&shared.dirty_pages);
        for (object, (block, number)) in dirty.all() {
            let page = shared.core.pages.get(number);
            assert!(page.is(object, block) && page.state().dirty(), "a page among the dirty ones is dirty");
        }
        let counted: u64 = volumes.iter().map(|volume| volume.dirty.load(Ordering::SeqCst)).sum();
        assert_eq!(counted, dirty.len(), "the dirty pages are counted by volume");
        assert_eq!(shared.dirty.load(Ordering::SeqCst), dirty.len(), "the dirty pages are counted");
        assert_eq!(shared.transfers.load(Ordering::SeqCst), 0, "no transfer is under way");
    }

    /// Whether pages that streams are expected to read have yet to be read from their devices.
    #[doc(hidden)]
    pub fn is_reading_ahead(&self) -> bool {
        self.shared.readahead.is_under_way()
    }

    /// What the pool has done since it was made. Each handle may keep its last 64 hits to itself.
    pub fn statistics(&self) -> Statistics {
        let shared = &*self.shared;
        let (volumes, past) = {
            let volumes = lock(&shared.volumes);
            let together = volumes
                .together
                .iter()
                .map(|of| &of.counters)
                .map(|counted| (counted.hits.get(), counted.misses.get()));
            let sum = |sum: (u64, u64), more: (u64, u64)| (sum.0 + more.0, sum.1 + more.1);
            (volumes.counted(), together.fold(volumes.past, sum))
        };
        let dirty = lock(&shared.dirty_pages).len();
        let mut replacer = shared.replacer();
        let policy = replacer.figures(&shared.core);
        let mut share_of = |volume: &Volume| {
            let share = replacer.policy.of_object(volume.id())?;
            shared.share_figures(&mut replacer, share)
        };
        let volumes: Vec<VolumeStatistics> =
            volumes.iter().map(|volume| VolumeStatistics { share: share_of(volume), ..volume.statistics() }).collect();
        let state = policy.state.into_iter();
        Statistics {
            policy: shared.config.policy.label.clone(),
            page_size: shared.config.page_size,
            capacity: u64::from(replacer.frame_limit()) * u64::from(shared.config.page_size),
            policy_frames: policy.capacity,
            resident: policy.resident,
            ghosts: policy.ghosts,
            dirty,
            laundry: shared.core.laundered(),
            hits: past.0 + volumes.iter().map(|volume| volume.hits).sum::<u64>(),
            misses: past.1 + volumes.iter().map(|volume| volume.misses).sum::<u64>(),
            rescued: shared.rescued.get(),
            evictions: replacer.evictions,
            refused_dirty: replacer.refused_dirty,
            readahead_wasted: replacer.readahead_wasted,
            policy_panics: policy.panics,
            metadata: policy.bytes + replacer.bytes() + shared.core.bytes(),
            hit_time: shared.hit_time.read(),
            miss_time: shared.miss_time.read(),
            policy_state: state.map(|(name, value)| (name.to_owned(), value)).collect(),
            volumes,
        }
    }
}

impl<M: Memory> Shared<M> {
    /// The volumes attached. Their lock is not held afterwards.
    pub(crate) fn all_volumes(&self) -> Vec<Arc<Volume>> {
        lock(&self.volumes).all()
    }

    pub(crate) fn dirty_age(&self) -> Duration {
        Duration::from_nanos(self.dirty_age.load(Ordering::Relaxed))
    }
}

/// As many as there can be: 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<M: Memory> Drop for Pool<M> {
    fn drop(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let (hang, rest): (Vec<_>, Vec<_>) =
            self.shared.all_volumes().into_iter().partition(|volume| volume.is_given_up());
        let patience = if hang.is_empty() { LAST_ATTEMPT } else { Duration::ZERO };
        self.shared.stop_threads(patience);
        for (_, error) in self.flush_all(rest, Some(Instant::now() + LAST_ATTEMPT)) {
            tracing::error!(%error, "the pool was dropped, and not all that was written is in storage");
        }
    }
}

impl Volume {
    fn statistics(&self) -> VolumeStatistics {
        VolumeStatistics { name: self.name().to_owned(), size: self.len(), ..self.counters.read() }
    }
}
