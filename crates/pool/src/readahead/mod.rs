//! Readahead: pages get frames in the thread whose read asks for them, and their bytes in threads of the pool.
//!
//! ```text
//!   a read that misses, or uses     streams: which blocks      admitted in order      runs        4 threads: one request
//!   something read ahead       -->  are expected next     -->  as loading pages  -->  waiting --> to the device each
//! ```
//!
//! What is expected right behind a miss comes with it, in one request to the device: as in the kernel, a stream's first window costs none
//! of its own. If that request fails, the pages that were missed are read alone.
//!
//! The policy learns of what is read ahead right behind the read that asked for it, whatever the devices do: so it decides as in the
//! simulator, whose rule this is ([`forebay_policy::readahead`]). Whoever needs a page of a run that no thread has taken yet reads
//! the run himself, so that nobody waits behind the readahead of another device.

use crate::access::handle::Handle;
use crate::access::hints::Advice;
use crate::access::load::{Admission, Held};
use crate::core::memory::Memory;
use crate::core::page::State;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::Shared;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock};
use forebay_basis::Operation;
use forebay_policy::readahead::{Read, Streams};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Threads that read ahead: as many requests are under way at a time.
pub(crate) const READERS: usize = 4;

/// Runs, and ranges of hints, that wait to be read; what comes on top is not read ahead.
const MOST_WAITING: usize = 256;

/// What is read ahead.
#[derive(Default)]
pub(crate) struct Readahead {
    streams: Mutex<Streams>,
    /// Before the replacer's lock: a run is here as soon as anybody can see its pages.
    waiting: Mutex<Waiting>,
    reader: Condvar,
    /// Pages that have frames and have not been read.
    pages: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    runs: VecDeque<Run>,
    ranges: VecDeque<Hinted>,
    /// Whether there are threads that read them.
    open: bool,
}

/// Consecutive pages that have frames.
pub(crate) struct Run {
    volume: Arc<Volume>,
    pages: Vec<Held>,
    owner: u32,
}

impl Run {
    fn has(&self, object: u32, block: u64) -> bool {
        self.volume.id == object && self.pages[0].0 <= block && block < self.pages[0].0 + self.pages.len() as u64
    }
}

/// Blocks that a hint says will be needed, and for whom.
struct Hinted {
    volume: Arc<Volume>,
    blocks: Range<u64>,
    owner: u32,
}

/// What a thread that reads does next.
enum Task {
    Run(Run),
    Hinted(Hinted),
}

impl Readahead {
    /// From now on there are threads that read.
    pub(crate) fn open(&self) {
        lock(&self.waiting).open = true;
    }

    /// Ends the threads that read. Nobody reads what is returned.
    pub(crate) fn close(&self) -> Vec<Run> {
        let mut waiting = lock(&self.waiting);
        waiting.open = false;
        waiting.ranges.clear();
        self.reader.notify_all();
        waiting.runs.drain(..).collect()
    }

    /// Has a range of blocks read for somebody, as far as it lies in the volume.
    pub(crate) fn hint(&self, volume: &Arc<Volume>, blocks: Range<u64>, owner: u32) {
        let blocks = blocks.start..blocks.end.min(volume.blocks());
        let mut waiting = lock(&self.waiting);
        if !blocks.is_empty() && waiting.open && waiting.ranges.len() < MOST_WAITING {
            waiting.ranges.push_back(Hinted { volume: Arc::clone(volume), blocks, owner });
            self.reader.notify_one();
        }
    }

    /// What is to be read next; `None` if the pool is closing.
    fn next(&self) -> Option<Task> {
        let mut waiting = lock(&self.waiting);
        while waiting.open {
            if let Some(run) = waiting.runs.pop_front() {
                return Some(Task::Run(run));
            }
            if let Some(hinted) = waiting.ranges.pop_front() {
                return Some(Task::Hinted(hinted));
            }
            waiting = self.reader.wait(waiting).expect("no thread panicked under this lock");
        }
        None
    }

    /// The run that has a page, if no thread has taken it yet.
    fn take(&self, object: u32, block: u64) -> Option<Run> {
        let mut waiting = lock(&self.waiting);
        let place = waiting.runs.iter().position(|run| run.has(object, block))?;
        waiting.runs.remove(place)
    }

    /// All runs of an object that no thread has taken yet.
    fn take_all(&self, object: u32) -> Vec<Run> {
        let mut waiting = lock(&self.waiting);
        let (taken, left) = waiting.runs.drain(..).partition(|run| run.volume.id == object);
        waiting.runs = left;
        Vec::from(taken)
    }

    /// The object has gone.
    pub(crate) fn forget(&self, object: u32) {
        lock(&self.streams).forget(object);
    }

    /// Whether anything is being read ahead of a stream.
    pub(crate) fn is_under_way(&self) -> bool {
        self.pages.load(Ordering::SeqCst) > 0
    }
}

impl<M: Memory> Handle<M> {
    /// A read is over that missed, or was the first to use something read ahead: has read ahead what is expected behind it.
    #[cold]
    pub(crate) fn follow(&self, volume: &Arc<Volume>, blocks: Range<u64>, missed: Option<u64>) {
        let expected = self.expected(volume, blocks.clone(), missed);
        self.admit_ahead(volume, expected, blocks.end, 0);
    }

    /// Fills the last pages of a read, all of which it missed, and has read ahead what is expected behind them: with the same request as
    /// far as that may be.
    ///
    /// # Errors
    /// As for [`fill`](Shared::fill).
    pub(crate) fn fill_and_follow(
        &self,
        volume: &Arc<Volume>,
        run: &[Held],
        read: Range<u64>,
        missed: u64,
        operation: Operation,
    ) -> Result<(), Error> {
        let expected = self.expected(volume, read.clone(), Some(missed));
        let room = self.shared.most_run().saturating_sub(run.len() as u64);
        let joined =
            self.admit_ahead(volume, expected.clone(), read.end, if expected.start == read.end { room } else { 0 });
        if !joined.is_empty() {
            let both = [run, &joined].concat();
            let filled = self.shared.transfer(volume, &both, operation);
            self.shared.end_ahead(volume, &joined, self.owner(volume), &filled);
            self.shared.readahead.pages.fetch_sub(joined.len() as u64, Ordering::SeqCst);
            if filled.is_ok() {
                run.iter().for_each(|&(_, number)| self.shared.loaded(number));
                return Ok(());
            }
        }
        self.shared.fill(volume, run, operation)
    }

    /// The blocks that the rule expects behind a read.
    fn expected(&self, volume: &Volume, blocks: Range<u64>, missed: Option<u64>) -> Range<u64> {
        let most = u64::from(volume.readahead / self.shared.config.page_size);
        let advice = self.advice.get();
        if most == 0 || matches!(advice, Advice::Random | Advice::Once) {
            return 0..0;
        }
        let in_order = advice == Advice::Sequential;
        let read = Read { object: volume.id, start: blocks.start, end: blocks.end, missed, in_order };
        lock(&self.shared.readahead.streams).expect(&read, most)
    }

    /// Admits what is absent of these blocks, and has it read, but for what is returned: the first of them, `joined` at most, which are the
    /// caller's to read. What is read ahead at a time is no more than half of the cache, so that it does not push itself out; nor does it push
    /// out what was read ahead from block `used` on and is still to be used.
    fn admit_ahead(&self, volume: &Arc<Volume>, blocks: Range<u64>, used: u64, joined: u64) -> Vec<Held> {
        let mut with_caller = Vec::new();
        if blocks.is_empty() {
            return with_caller;
        }
        let readahead = &self.shared.readahead;
        let half = (self.shared.frames() - u64::from(self.shared.config.laundry)) / 2;
        let mut waiting = lock(&readahead.waiting);
        let room = half.saturating_sub(readahead.pages.load(Ordering::SeqCst));
        let end = blocks.end.min(blocks.start.saturating_add(room)).min(volume.blocks());
        let mut block = blocks.start;
        while waiting.open && block < end && waiting.runs.len() < MOST_WAITING {
            let joins = block == blocks.start && joined > 0;
            let some = block..end.min(block + if joins { joined } else { self.shared.most_run() });
            match self.try_admit_run(volume, some, Operation::Readahead, false, used..blocks.start) {
                Admission::Run(pages) => {
                    block += pages.len() as u64;
                    readahead.pages.fetch_add(pages.len() as u64, Ordering::SeqCst);
                    if joins {
                        with_caller = pages;
                        continue;
                    }
                    waiting.runs.push_back(Run { volume: Arc::clone(volume), pages, owner: self.owner(volume) });
                    readahead.reader.notify_one();
                }
                Admission::Present | Admission::Rescued => block += 1,
                Admission::NoFrame | Admission::Changing | Admission::Gone => break,
            }
        }
        drop(waiting);
        if block < blocks.end.min(volume.blocks()) {
            lock(&readahead.streams).shorten(volume.id, blocks.end, block);
        }
        with_caller
    }

    /// Until the pool closes, reads what is waiting.
    pub(crate) fn keep_reading(&self) {
        while let Some(task) = self.shared.readahead.next() {
            match task {
                Task::Run(run) => {
                    // Others that read a run may not log: they say what fails when it is of use to them.
                    if let Err(error) = self.shared.read_run(run) {
                        tracing::debug!(%error, "a readahead failed");
                    }
                }
                Task::Hinted(Hinted { volume, blocks, owner }) => {
                    self.set_owner(owner);
                    // What there is no frame for is not read.
                    let _ = self.read_absent_of(&volume, blocks);
                }
            }
        }
    }

    /// Fetches the pages of a range that are absent, as [`Hint::WillNeed`](crate::Hint::WillNeed) has it done in the background, and
    /// returns when they are there. `false`: there is no frame for more, or the device fails, which is left to who needs the pages.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn fetch(&self, volume: &Arc<Volume>, offset: u64, length: u64) -> Result<bool, Error> {
        volume.check_range(offset, length)?;
        let page_size = u64::from(self.shared.config.page_size);
        Ok(self.read_absent_of(volume, offset / page_size..(offset + length).div_ceil(page_size)))
    }

    /// Reads what is absent of a range, as far as there are frames; errors are left to who needs the pages. Whether that was all.
    fn read_absent_of(&self, volume: &Arc<Volume>, blocks: Range<u64>) -> bool {
        let mut block = blocks.start;
        while block < blocks.end {
            if let Ok(pin) = self.pin(volume.id, block) {
                // Seen without a lock, as most are of what is fetched again.
                self.unpin(pin);
                if !pin.state.in_laundry() {
                    block += 1;
                    continue;
                }
            }
            let end = blocks.end.min(block + self.shared.most_run());
            match self.try_admit_run(volume, block..end, Operation::Readahead, false, 0..0) {
                Admission::Run(pages) => {
                    block += pages.len() as u64;
                    if let Err(error) = self.shared.fill_ahead(volume, &pages, self.owner(volume)) {
                        tracing::debug!(%error, "a readahead failed");
                        return false;
                    }
                }
                Admission::Present | Admission::Rescued => block += 1,
                Admission::NoFrame | Admission::Changing | Admission::Gone => return false,
            }
        }
        true
    }
}

impl<M: Memory> Shared<M> {
    /// Reads a run.
    fn read_run(&self, run: Run) -> Result<(), Error> {
        let Run { volume, pages, owner } = run;
        let filled = self.fill_ahead(&volume, &pages, owner);
        self.readahead.pages.fetch_sub(pages.len() as u64, Ordering::SeqCst);
        filled
    }

    /// Reads pages ahead of their use. An error: they are gone.
    fn fill_ahead(&self, volume: &Volume, pages: &[Held], owner: u32) -> Result<(), Error> {
        let filled = self.transfer(volume, pages, Operation::Readahead);
        self.end_ahead(volume, pages, owner, &filled);
        filled
    }

    /// Pages have been read ahead of their use, or could not be: then they are gone.
    fn end_ahead(&self, volume: &Volume, pages: &[Held], owner: u32, filled: &Result<(), Error>) {
        if filled.is_err() {
            return self.drop_loading(pages);
        }
        volume.counters.pages_read_ahead.add(pages.len() as u64);
        self.owners.read_ahead(owner, pages.len() as u64);
        for &(_, number) in pages {
            self.loaded(number);
            self.let_go(number);
        }
    }

    /// Waits while that holds of the state of a page which is loaded, or held alone. If it waits to be read ahead it is read here.
    pub(crate) fn wait_for(&self, object: u32, block: u64, number: u32, waits: impl Fn(State) -> bool) {
        let page = self.core.pages.get(number);
        if page.state().loading_ahead()
            && let Some(run) = self.readahead.take(object, block)
        {
            // If it fails the page is gone, and who waits for it reads it alone.
            let _ = self.read_run(run);
        } else {
            self.core.waiters.wait(number, page, object, block, waits);
        }
    }

    /// Drops what waits to be read of an object that goes.
    pub(crate) fn abandon_all(&self, object: u32) {
        self.abandon(self.readahead.take_all(object));
    }

    /// Drops the pages of runs that nobody reads.
    pub(crate) fn abandon(&self, runs: Vec<Run>) {
        for run in runs {
            self.drop_loading(&run.pages);
            self.readahead.pages.fetch_sub(run.pages.len() as u64, Ordering::SeqCst);
        }
    }
}
