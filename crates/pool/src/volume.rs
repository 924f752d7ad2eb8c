//! A device behind the pool, with what is known of its pages as a whole: which are dirty, what failed, what is being given up.

use crate::commit::Commits;
use crate::config::{VolumeConfig, WriteMode};
use crate::device::Device;
use crate::error::Error;
use crate::frames::Frames;
use crate::stats::DeviceCounters;
use crate::streams::Streams;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, Ordering, lock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a writeback may last before nobody waits for it who needs a frame for another page.
const HANGS: Duration = Duration::from_secs(1);

/// How long a volume is left alone in the background after a writeback that failed, and after many of them.
const PAUSES: Range<Duration> = Duration::from_millis(200)..Duration::from_secs(10);

/// So many ages may be left over of pages that were dirty, beside as many again as there are dirty pages.
const MOST_STALE: usize = 1024;

/// A device attached to a pool. Its blocks are as long as the pool's pages.
pub struct Volume {
    pub(crate) id: u32,
    name: String,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) mode: WriteMode,
    read_only: bool,
    /// It grows under `writing`, so that no writeback sees both lengths.
    length: AtomicU64,
    page_size: u64,
    /// Which pages have `DIRTY` set.
    pub(crate) dirty: Mutex<DirtyPages>,
    /// Held by the one who writes dirty pages back: there is one at a time. Before any page is held exclusively.
    pub(crate) writing: Mutex<Writing>,
    /// Flushes and durable writes.
    pub(crate) commits: Commits,
    /// A flush of it was waited for in vain.
    given_up: AtomicBool,
    /// A thread of the pool writes it back, or is to.
    ordered: AtomicBool,
    /// What a writeback failed with, until a flush has told it.
    failure: Mutex<Option<Error>>,
    /// When the request of writebacks that is under way began.
    writeback_began: Mutex<Option<Instant>>,
    /// Until when it is left alone in the background after a writeback that failed, and how long it was.
    rest: Mutex<Option<(Instant, Duration)>>,
    /// Ranges of blocks that are being given up: no page of theirs is loaded meanwhile.
    changes: Mutex<Vec<Range<u64>>>,
    change_count: AtomicU32,
    changed: Condvar,
    pub(crate) streams: Mutex<Streams>,
    pub(crate) counters: DeviceCounters,
}

/// The dirty pages of a volume.
#[derive(Default)]
pub(crate) struct DirtyPages {
    /// Their numbers by block.
    pub(crate) by_block: BTreeMap<u64, u32>,
    /// When blocks became dirty; some are clean again since.
    pub(crate) ages: VecDeque<(Instant, u64)>,
    /// Where background writeback goes on.
    pub(crate) cursor: u64,
}

impl DirtyPages {
    /// A page has become dirty.
    pub(crate) fn add(&mut self, block: u64, number: u32) {
        self.by_block.insert(block, number);
        if self.ages.len() > 2 * self.by_block.len() + MOST_STALE {
            self.forget_stale_ages();
        }
        self.ages.push_back((Instant::now(), block));
    }

    /// Keeps the latest age of each dirty page alone.
    fn forget_stale_ages(&mut self) {
        let mut seen = BTreeSet::new();
        let ages = std::mem::take(&mut self.ages).into_iter().rev();
        let mut latest: Vec<_> =
            ages.filter(|&(_, block)| self.by_block.contains_key(&block) && seen.insert(block)).collect();
        latest.reverse();
        self.ages = latest.into();
    }
}

/// The copies of pages that are being written.
#[derive(Default)]
pub(crate) struct Writing {
    pub(crate) buffer: Option<Frames>,
}

impl Volume {
    pub(crate) fn new(id: u32, config: VolumeConfig, device: Arc<dyn Device>, page_size: u32) -> Self {
        let length = device.len();
        Self {
            id,
            name: config.name,
            mode: config.mode,
            read_only: config.read_only || device.read_only(),
            length: AtomicU64::new(length),
            page_size: u64::from(page_size),
            dirty: Mutex::default(),
            writing: Mutex::default(),
            commits: Commits::default(),
            given_up: AtomicBool::new(false),
            ordered: AtomicBool::new(false),
            failure: Mutex::default(),
            writeback_began: Mutex::default(),
            rest: Mutex::default(),
            changes: Mutex::default(),
            change_count: AtomicU32::new(0),
            changed: Condvar::new(),
            streams: Mutex::new(Streams::new(config.readahead, page_size)),
            counters: DeviceCounters::default(),
            device,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number: the object of its pages.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Its bytes from now on, no fewer than before; `writing` is held.
    pub(crate) fn set_len(&self, length: u64) {
        self.length.store(length, Ordering::Release);
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes have been written to its device: what shows that a flush which takes long goes on.
    pub fn bytes_written(&self) -> u64 {
        self.counters.bytes_written.get()
    }

    /// Whether writes are refused.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// The device behind it.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Its blocks; the last one may be shorter.
    pub fn blocks(&self) -> u64 {
        self.len().div_ceil(self.page_size)
    }

    /// The bytes of a block that lie within the volume.
    pub(crate) fn bytes_of(&self, block: u64) -> usize {
        (self.len() - block * self.page_size).min(self.page_size) as usize
    }

    pub(crate) fn check_range(&self, offset: u64, length: u64) -> Result<(), Error> {
        let end = self.len();
        if offset.checked_add(length).is_some_and(|last| last <= end) {
            return Ok(());
        }
        Err(Error::OutOfRange { volume: self.name.clone(), offset, length, end })
    }

    pub(crate) fn check_block(&self, block: u64) -> Result<(), Error> {
        if block < self.blocks() {
            return Ok(());
        }
        self.check_range(block.saturating_mul(self.page_size), self.page_size)
    }

    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.read_only { Err(Error::ReadOnly { volume: self.name.clone() }) } else { Ok(()) }
    }

    pub(crate) fn failed(&self, operation: &'static str, offset: u64, length: u64, source: io::Error) -> Error {
        self.counters.errors.add(1);
        Error::Device { volume: self.name.clone(), operation, offset, length, source: Arc::new(source) }
    }

    /// Reads from the device; the buffers have `length` bytes.
    pub(crate) fn read(&self, offset: u64, length: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<(), Error> {
        let start = Instant::now();
        let result = self.device.read(offset, buffers);
        self.counters.read_time.add_time(start.elapsed());
        self.counters.reads.add(1);
        self.counters.request_lengths.add(length);
        result.map_err(|source| self.failed("read", offset, length, source))?;
        self.counters.bytes_read.add(length);
        Ok(())
    }

    /// Keeps what a writeback failed with for the next flush; the first is kept.
    pub(crate) fn keep_failure(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
    }

    /// Takes note of writebacks that begin.
    pub(crate) fn writing_began(&self) {
        *lock(&self.writeback_began) = Some(Instant::now());
    }

    /// Whether its device does not come to an end with writebacks.
    pub(crate) fn hangs(&self) -> bool {
        lock(&self.writeback_began).is_some_and(|began| began.elapsed() > HANGS)
    }

    /// That an operation has not ended.
    pub(crate) fn hung(&self, operation: &'static str) -> Error {
        let source = io::Error::new(io::ErrorKind::TimedOut, "the device hangs");
        self.failed(operation, 0, self.len(), source)
    }

    /// Takes note of whether a flush was waited for in vain.
    pub(crate) fn give_up_waiting(&self, gave_up: bool) {
        self.given_up.store(gave_up, Ordering::Relaxed);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Takes note of how writebacks have ended: after failures the device gets time to recover.
    pub(crate) fn tried(&self, written: bool) {
        *lock(&self.writeback_began) = None;
        let mut rest = lock(&self.rest);
        *rest = (!written).then(|| {
            let pause = rest.map_or(PAUSES.start, |(_, pause)| (pause * 2).min(PAUSES.end));
            (Instant::now() + pause, pause)
        });
    }

    /// Whether it is to be left alone in the background.
    pub(crate) fn resting(&self) -> bool {
        lock(&self.rest).is_some_and(|(until, _)| Instant::now() < until)
    }

    /// Why its dirty pages stay dirty, if its device hangs or has failed lately.
    pub(crate) fn takes_no_writes(&self) -> Option<Error> {
        if self.hangs() {
            return Some(self.hung("writeback"));
        }
        if self.resting() { lock(&self.failure).clone() } else { None }
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    /// Whether some of its pages are to be written back: as too many are dirty, or they are for longer than `age`.
    pub(crate) fn is_due(&self, too_much: bool, age: Duration) -> bool {
        let dirty = lock(&self.dirty);
        !dirty.by_block.is_empty() && (too_much || dirty.ages.front().is_some_and(|(since, _)| since.elapsed() >= age))
    }

    /// Takes note that a thread of the pool is to write it back. `false`: one does already.
    pub(crate) fn begin_order(&self) -> bool {
        !self.ordered.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn end_order(&self) {
        self.ordered.store(false, Ordering::Relaxed);
    }

    /// A page is dirty no more.
    pub(crate) fn remove_dirty(&self, block: u64) {
        let mut dirty = lock(&self.dirty);
        dirty.by_block.remove(&block);
        if dirty.by_block.is_empty() {
            dirty.ages.clear();
        }
    }

    /// Keeps pages of these blocks from being loaded until the change ends. Those that are being loaded have to be waited for.
    pub(crate) fn begin_change(&self, blocks: Range<u64>) -> Change<'_> {
        let mut changes = lock(&self.changes);
        while changes.iter().any(|other| other.start < blocks.end && blocks.start < other.end) {
            changes = self.changed.wait(changes).expect("no thread panicked under this lock");
        }
        changes.push(blocks.clone());
        self.change_count.fetch_add(1, Ordering::SeqCst);
        Change { volume: self, blocks }
    }

    /// Whether pages of these blocks may not be loaded now. Asked under the replacer's lock: a change that begins later finds
    /// the pages loading.
    pub(crate) fn changing(&self, blocks: &Range<u64>) -> bool {
        self.change_count.load(Ordering::SeqCst) != 0
            && lock(&self.changes).iter().any(|change| change.start < blocks.end && blocks.start < change.end)
    }

    /// Waits until pages of these blocks may be loaded.
    pub(crate) fn wait_unchanged(&self, blocks: &Range<u64>) {
        let mut changes = lock(&self.changes);
        while changes.iter().any(|change| change.start < blocks.end && blocks.start < change.end) {
            changes = self.changed.wait(changes).expect("no thread panicked under this lock");
        }
    }
}

/// A range of blocks is being given up.
pub(crate) struct Change<'a> {
    volume: &'a Volume,
    blocks: Range<u64>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut changes = lock(&self.volume.changes);
        let place = changes.iter().position(|change| *change == self.blocks).expect("a change ends once");
        changes.swap_remove(place);
        self.volume.change_count.fetch_sub(1, Ordering::SeqCst);
        drop(changes);
        self.volume.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_of_pages_that_are_clean_again_do_not_pile_up() {
        let mut dirty = DirtyPages::default();
        dirty.add(0, 0);
        for block in 1..100_000 {
            dirty.add(block, 1);
            dirty.by_block.remove(&block);
        }
        assert!(dirty.ages.len() <= MOST_STALE + 4, "{} ages", dirty.ages.len());
        assert_eq!(dirty.ages.front().map(|age| age.1), Some(0), "the page that is still dirty has kept its age");
    }
}
