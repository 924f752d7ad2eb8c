//! A device behind the pool, with what is known of its pages as a whole: which are dirty, what failed, what is being given up.

use crate::config::{VolumeConfig, WriteMode};
use crate::device::{Device, Space};
use crate::error::Error;
use crate::objects::ObjectNumbers;
use crate::stats::VolumeCounters;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, Ordering, lock};
use crate::writeback::commit::Commits;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How long a writeback may last before nobody waits for it who needs a frame for another page.
const HANGS: Duration = Duration::from_secs(1);

/// How long a volume is left alone in the background after a writeback that failed, and after many of them.
const PAUSES: Range<Duration> = Duration::from_millis(200)..Duration::from_secs(10);

/// How long writers wait at most after a writeback that failed, until one of them tries again.
const PATIENCE: Duration = Duration::from_secs(1);

/// What times of writebacks are counted from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A device attached to a pool. Its blocks are as long as the pool's pages.
///
/// A pool may have a million of them: what few need at a time is the pool's, or is made when it is needed.
pub struct Volume {
    pub(crate) id: u32,
    page_size: u32,
    name: Box<str>,
    pub(crate) device: Arc<dyn Device>,
    /// The file systems that its pages need room in.
    pub(crate) spaces: Box<[Space]>,
    pub(crate) mode: WriteMode,
    read_only: bool,
    /// It gets no more pages. Read under the replacer's lock where pages are admitted.
    detached: AtomicBool,
    /// A flush of it was waited for in vain.
    given_up: AtomicBool,
    /// A thread of the pool writes it back, or is to.
    ordered: AtomicBool,
    /// It changes under `writing`, so that no writeback sees both lengths.
    length: AtomicU64,
    /// The bytes read ahead of a stream.
    pub(crate) readahead: u32,
    /// Changes of `changes` that are under way.
    change_count: AtomicU32,
    /// How many of its pages are in the pool's queue of dirty ones: under its lock.
    pub(crate) dirty: AtomicU64,
    /// Where background writeback goes on.
    pub(crate) cursor: AtomicU64,
    /// Held by the one who writes dirty pages back: there is one at a time. After any page is held exclusively.
    pub(crate) writing: Mutex<()>,
    /// Flushes and durable writes.
    pub(crate) commits: Commits,
    trouble: Mutex<Option<Box<Trouble>>>,
    /// When the request of writebacks that is under way began, in nanoseconds since `START`; 0 if there is none.
    writeback_began: AtomicU64,
    /// Ranges of blocks that are being given up: no page of theirs is loaded meanwhile.
    changes: Mutex<Vec<Range<u64>>>,
    changed: Condvar,
    /// Its own, or those of all that are not counted by themselves.
    pub(crate) counters: Arc<VolumeCounters>,
    numbers: Arc<ObjectNumbers>,
}

/// What is known of a volume whose writebacks have failed.
#[derive(Default)]
struct Trouble {
    /// What they failed with, until a flush has told it.
    failure: Option<Error>,
    rest: Option<Rest>,
}

/// That a volume's last writeback has failed.
struct Rest {
    since: Instant,
    /// How long it is left alone in the background; its writers wait for [`PATIENCE`] at most.
    pause: Duration,
    error: Error,
    /// How many have failed.
    failures: u64,
    /// Storage may take what it did not: the next writer tries at once.
    over: bool,
}

/// What a writer is to do whose volume takes no writes.
pub(crate) enum Resting {
    /// Nothing has failed lately.
    No,
    /// To wait for so long; and how many have failed so far.
    For(Duration, u64),
}

impl Volume {
    pub(crate) fn new(
        id: u32,
        config: VolumeConfig,
        device: Arc<dyn Device>,
        length: u64,
        page_size: u32,
        counters: Arc<VolumeCounters>,
        numbers: Arc<ObjectNumbers>,
    ) -> Self {
        let mut spaces = device.spaces();
        spaces.dedup_by(|one, another| one.is(another));
        Self {
            id,
            spaces: spaces.into(),
            page_size,
            name: config.name.into(),
            mode: config.mode,
            read_only: config.read_only || device.read_only(),
            detached: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            ordered: AtomicBool::new(false),
            length: AtomicU64::new(length),
            readahead: config.readahead,
            change_count: AtomicU32::new(0),
            dirty: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            writing: Mutex::default(),
            commits: Commits::default(),
            trouble: Mutex::default(),
            writeback_began: AtomicU64::new(0),
            changes: Mutex::default(),
            changed: Condvar::new(),
            counters,
            numbers,
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

    /// A page has become dirty.
    pub(crate) fn dirtied(&self) {
        self.spaces.iter().for_each(|space| space.dirtied(self.page_size.into()));
    }

    /// A dirty page has been written back, or dropped.
    pub(crate) fn cleaned(&self) {
        self.spaces.iter().for_each(|space| space.cleaned(self.page_size.into()));
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Its bytes from now on. `writing` is held and, if they are fewer, so are all pages behind them, of which none is admitted.
    pub(crate) fn set_len(&self, length: u64) {
        self.length.store(length, Ordering::Release);
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of its pages are dirty.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// The bytes of its pages that are dirty.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_pages() * u64::from(self.page_size)
    }

    /// How many bytes have been written to its device: what shows that a flush which takes long goes on.
    pub fn bytes_written(&self) -> u64 {
        self.counters.device.written_bytes.get()
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
        self.len().div_ceil(self.page_size.into())
    }

    /// The bytes of a block that lie within the volume. They stay as many while a page of the block is held.
    pub(crate) fn bytes_of(&self, block: u64) -> usize {
        self.len().saturating_sub(block * u64::from(self.page_size)).min(self.page_size.into()) as usize
    }

    pub(crate) fn check_range(&self, offset: u64, length: u64) -> Result<(), Error> {
        let end = self.len();
        if offset.checked_add(length).is_some_and(|last| last <= end) && !self.is_detached() {
            return Ok(());
        }
        Err(self.out_of_range(offset, length))
    }

    /// Why a range cannot be had that is not there, or not any more.
    pub(crate) fn out_of_range(&self, offset: u64, length: u64) -> Error {
        if self.is_detached() {
            return self.detached();
        }
        Error::OutOfRange { volume: self.name().to_owned(), offset, length, end: self.len() }
    }

    /// Whether it gets no more pages.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Relaxed)
    }

    /// Whether it was so before.
    pub(crate) fn set_detached(&self, detached: bool) -> bool {
        self.detached.swap(detached, Ordering::SeqCst)
    }

    pub(crate) fn detached(&self) -> Error {
        Error::Detached { volume: self.name().to_owned() }
    }

    pub(crate) fn check_attached(&self) -> Result<(), Error> {
        if self.is_detached() { Err(self.detached()) } else { Ok(()) }
    }

    pub(crate) fn check_block(&self, block: u64) -> Result<(), Error> {
        if block < self.blocks() && !self.is_detached() {
            return Ok(());
        }
        self.check_range(block.saturating_mul(self.page_size.into()), self.page_size.into())
    }

    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        self.check_attached()?;
        if self.read_only { Err(Error::ReadOnly { volume: self.name().to_owned() }) } else { Ok(()) }
    }

    pub(crate) fn failed(&self, operation: &'static str, offset: u64, length: u64, source: io::Error) -> Error {
        self.counters.device.errors.add(1);
        Error::Device { volume: self.name().to_owned(), operation, offset, length, source: Arc::new(source) }
    }

    /// Reads from the device; the buffers have `length` bytes.
    pub(crate) fn read(&self, offset: u64, length: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<(), Error> {
        let start = Instant::now();
        let result = self.device.read(offset, buffers);
        self.counters.device.read_time.add_time(start.elapsed());
        self.counters.device.reads.add(1);
        self.counters.device.request_lengths.add(length);
        result.map_err(|source| self.failed("read", offset, length, source))?;
        self.counters.device.read_bytes.add(length);
        Ok(())
    }

    /// Keeps what a writeback failed with for the next flush; the first is kept.
    pub(crate) fn keep_failure(&self, error: Error) {
        lock(&self.trouble).get_or_insert_default().failure.get_or_insert(error);
    }

    /// Takes note of writebacks that begin.
    pub(crate) fn writing_began(&self) {
        self.writeback_began.store(START.elapsed().as_nanos().max(1) as u64, Ordering::Relaxed);
    }

    /// Whether its device does not come to an end with writebacks.
    pub(crate) fn hangs(&self) -> bool {
        let began = self.writeback_began.load(Ordering::Relaxed);
        began != 0 && START.elapsed().saturating_sub(Duration::from_nanos(began)) > HANGS
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
    pub(crate) fn tried(&self, written: Result<(), &Error>) {
        self.writeback_began.store(0, Ordering::Relaxed);
        let mut trouble = lock(&self.trouble);
        if let Err(error) = written {
            let rest = &mut trouble.get_or_insert_default().rest;
            let (pause, failures) = match rest {
                Some(rest) => ((rest.pause * 2).min(PAUSES.end), rest.failures + 1),
                None => (PAUSES.start, 1),
            };
            *rest = Some(Rest { since: Instant::now(), pause, error: error.clone(), failures, over: false });
        } else if let Some(known) = &mut *trouble {
            known.rest = None;
            if known.failure.is_none() {
                *trouble = None;
            }
        }
    }

    fn rests(&self, is_so: impl Fn(&Rest) -> bool) -> bool {
        lock(&self.trouble).as_ref().and_then(|known| known.rest.as_ref()).is_some_and(is_so)
    }

    /// Whether it is to be left alone in the background.
    pub(crate) fn resting(&self) -> bool {
        self.rests(|rest| !rest.over && rest.since.elapsed() < rest.pause)
    }

    /// Whether there has just been a word on its failures.
    pub(crate) fn has_just_failed(&self) -> bool {
        self.rests(|rest| rest.since.elapsed() < rest.pause)
    }

    /// Whether its writers are to leave it alone for a while, as a writeback has just failed.
    pub(crate) fn resting_from(&self) -> Resting {
        let trouble = lock(&self.trouble);
        let Some(rest) = trouble.as_ref().and_then(|known| known.rest.as_ref()) else { return Resting::No };
        let left = rest.pause.min(PATIENCE).saturating_sub(rest.since.elapsed());
        if rest.over || left.is_zero() { Resting::No } else { Resting::For(left, rest.failures) }
    }

    /// The error of the writeback that has failed last, if more have failed than that many.
    pub(crate) fn failed_since(&self, failures: u64) -> Option<Error> {
        let trouble = lock(&self.trouble);
        let rest = trouble.as_ref()?.rest.as_ref()?;
        (rest.failures > failures).then(|| rest.error.clone())
    }

    /// Storage may take what it did not: who needs it tries at once.
    pub(crate) fn try_again(&self) {
        if let Some(rest) = lock(&self.trouble).as_mut().and_then(|known| known.rest.as_mut()) {
            rest.over = true;
        }
    }

    /// The failure after which it is to be left alone, and that no flush has told of.
    pub(crate) fn rests_after(&self) -> Option<Error> {
        if self.resting() { lock(&self.trouble).as_ref()?.failure.clone() } else { None }
    }

    /// Why its dirty pages stay dirty, if its device hangs or has failed lately.
    pub(crate) fn takes_no_writes(&self) -> Option<Error> {
        if self.hangs() {
            return Some(self.hung("writeback"));
        }
        self.rests_after()
    }

    /// Whether writebacks have failed, and a flush is to tell of it.
    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.trouble).is_some()
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.trouble).as_mut()?.failure.take()
    }

    /// Takes note that a thread of the pool is to write it back. `false`: one does already.
    pub(crate) fn begin_order(&self) -> bool {
        !self.ordered.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn end_order(&self) {
        self.ordered.store(false, Ordering::Relaxed);
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

impl Drop for Volume {
    fn drop(&mut self) {
        // What a pool could not write is lost with it, and needs no room any more.
        let lost = self.dirty_bytes();
        self.spaces.iter().for_each(|space| space.cleaned(lost));
        self.numbers.give(self.id);
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
