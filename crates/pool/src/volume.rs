//! A device behind the pool, with what is known of its pages as a whole: which are dirty, what failed, what is being given up.

use crate::config::{VolumeConfig, WriteMode};
use crate::device::Device;
use crate::error::Error;
use crate::frames::Frames;
use crate::stats::DeviceCounters;
use crate::streams::Streams;
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, lock};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// A device attached to a pool. Its blocks are as long as the pool's pages.
pub struct Volume {
    pub(crate) id: u32,
    name: String,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) mode: WriteMode,
    read_only: bool,
    length: u64,
    page_size: u64,
    /// Which pages have `DIRTY` set.
    pub(crate) dirty: Mutex<DirtyPages>,
    /// Held by the one who writes dirty pages back: there is one at a time. Before any page is held exclusively.
    pub(crate) writing: Mutex<Writing>,
    /// What a writeback failed with, until a flush has told it.
    failure: Mutex<Option<Error>>,
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
            length,
            page_size: u64::from(page_size),
            dirty: Mutex::default(),
            writing: Mutex::default(),
            failure: Mutex::default(),
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
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
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
        self.length.div_ceil(self.page_size)
    }

    /// The bytes of a block that lie within the volume.
    pub(crate) fn bytes_of(&self, block: u64) -> usize {
        (self.length - block * self.page_size).min(self.page_size) as usize
    }

    pub(crate) fn check_range(&self, offset: u64, length: u64) -> Result<(), Error> {
        if offset.checked_add(length).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        Err(Error::OutOfRange { volume: self.name.clone(), offset, length, end: self.length })
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

    /// Keeps what a writeback failed with for the next flush; the first is kept.
    pub(crate) fn keep_failure(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    /// A page has become dirty.
    pub(crate) fn add_dirty(&self, block: u64, number: u32) {
        let mut dirty = lock(&self.dirty);
        dirty.by_block.insert(block, number);
        dirty.ages.push_back((Instant::now(), block));
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
