//! The way of a miss: frames for the pages, one read from the device for a run of them.

use crate::access::handle::{Handle, Pin};
use crate::core::HELD_MOST;
use crate::core::memory::Memory;
use crate::core::replacer::{Admitted, NoFrame};
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::Shared;
use crate::sync::{Backoff, Ordering};
use crate::writeback::Cleaned;
use forebay_basis::{Operation, Place};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A page with its block, held exclusively or being loaded.
pub(crate) type Held = (u64, u32);

/// The first times that it asks again, it only lets other threads run.
const EAGER: u32 = 500;

/// How long a miss waits for a frame while all that could become free wait for devices that hang or fail.
const HANGING: Duration = Duration::from_secs(10);

/// How long it waits at a time to be woken by a page that is loaded, written back or dropped. It looks after that whether a device hangs.
const PAUSE: Duration = Duration::from_millis(10);

/// The same where only pins are in its way: those are given back without a word.
const UNPINNED: Duration = Duration::from_micros(200);

/// What came of asking for pages to be admitted.
pub(crate) enum Admission {
    /// The first pages of the range have frames, and the caller is to load them.
    Run(Vec<Held>),
    /// The first page was in the laundry, and is resident again.
    Rescued,
    /// The first page is there, or somebody loads it.
    Present,
    /// No frame can be had at once.
    NoFrame,
    /// The range is being given up.
    Changing,
    /// The range lies behind the volume's end, or the volume has been detached.
    Gone,
}

impl<M: Memory> Handle<M> {
    /// Loads the absent pages at the start of a range, in one request. `follow`: what is expected behind them is read ahead. `keep` gets a pin of the
    /// first, for a read of it alone. Whether the policy knows of the reference to the first: not if another thread has it.
    pub(crate) fn load(
        &self,
        volume: &Arc<Volume>,
        blocks: Range<u64>,
        operation: Operation,
        follow: bool,
        keep: Option<&mut Option<Pin>>,
    ) -> Result<bool, Error> {
        match self.admit_run(volume, blocks.clone(), operation)? {
            Admission::Run(run) => {
                let mut held = run.iter().map(|&(_, number)| number);
                if follow {
                    self.fill_and_follow(volume, &run, blocks.clone(), blocks.start, operation)?;
                } else {
                    self.shared.fill(volume, &run, operation)?;
                }
                if let Some(keep) = keep {
                    *keep = held.next().map(|number| self.pin_held(number));
                }
                held.for_each(|number| self.shared.let_go(number));
                Ok(true)
            }
            Admission::Rescued => Ok(true),
            Admission::Present | Admission::NoFrame | Admission::Changing | Admission::Gone => Ok(false),
        }
    }

    /// Gives frames to the absent pages at the start of a range, waiting for one if need be.
    pub(crate) fn admit_run(
        &self,
        volume: &Arc<Volume>,
        blocks: Range<u64>,
        operation: Operation,
    ) -> Result<Admission, Error> {
        let (mut tries, mut stuck, mut hanging) = (0, None::<(Instant, u64)>, None);
        let mut failure = None;
        let mut backoff = Backoff::new();
        let progress = &self.shared.progress;
        loop {
            let seen = progress.seen();
            // Where the laundry cannot be emptied, dirty victims are refused, and clean ones go.
            match self.try_admit_run(volume, blocks.clone(), operation, failure.is_some() || hanging.is_some(), 0..0) {
                Admission::NoFrame => {}
                Admission::Changing => {
                    volume.wait_unchanged(&blocks);
                    continue;
                }
                Admission::Gone => {
                    volume.check_block(blocks.start)?;
                    continue;
                }
                admission => return Ok(admission),
            }
            if self.is_prompt() {
                return Err(Error::Busy);
            }
            let cleaned = if failure.is_some() {
                // A device that fails, perhaps after a long time, is not asked twice.
                Ok(Cleaned::Nothing)
            } else if operation == Operation::Read && hanging.is_none() && volume.is_flushed() {
                // A write of ours might wait behind the flush, and a reader takes a clean page's frame rather than wait for that.
                let (freed, _) = self.shared.laundry_by_volume();
                Ok(if freed { Cleaned::Some } else { Cleaned::Hanging })
            } else if operation == Operation::Read
                && let Some(error) = volume.rests_after()
            {
                // It has failed just now: a reader takes a clean page's frame rather than have it fail once more.
                Err(error)
            } else {
                self.shared.clean_some(Some(volume))
            };
            match cleaned {
                Ok(Cleaned::Some) => (tries, stuck, hanging) = (0, None, hanging.map(|_| Instant::now())),
                Ok(Cleaned::ByOthers) => progress.wait(seen, PAUSE),
                Ok(Cleaned::Hanging) => match hanging {
                    None => hanging = Some(Instant::now()),
                    Some(since) if since.elapsed() > HANGING => return Err(self.shared.unwritten()),
                    Some(_) => progress.wait(seen, PAUSE),
                },
                Ok(Cleaned::Nothing) if self.shared.transfers.load(Ordering::SeqCst) > 0 => {
                    progress.wait(seen, PAUSE);
                }
                Ok(Cleaned::Nothing) => {
                    tries += 1;
                    // Where other threads get frames, the pages are not held for long: this thread gets one later.
                    let since = stuck.filter(|&(_, made)| failure.is_some() || made == seen);
                    let since = *stuck.insert(since.unwrap_or((Instant::now(), seen)));
                    if since.0.elapsed() > HELD_MOST {
                        let Some(error) = failure.take() else { return Err(Error::AllPinned) };
                        // It may have been another's attempt, and storage may have recovered since.
                        if !matches!(self.shared.clean_some(Some(volume)), Ok(Cleaned::Some)) {
                            return Err(error);
                        }
                        stuck = None;
                    }
                    if tries > EAGER { progress.wait(seen, UNPINNED) } else { backoff.wait() }
                }
                Err(error) => failure = Some(error),
            }
        }
    }

    /// The same without waiting. `refuse_dirty`: even if the laundry is full. `sheltered`: blocks of which what was read ahead and not used
    /// stays.
    pub(crate) fn try_admit_run(
        &self,
        volume: &Arc<Volume>,
        blocks: Range<u64>,
        operation: Operation,
        refuse_dirty: bool,
        sheltered: Range<u64>,
    ) -> Admission {
        let core = &self.shared.core;
        let mut run = Vec::with_capacity((blocks.end - blocks.start) as usize);
        let mut replacer = self.shared.replacer();
        if volume.changing(&blocks) {
            return Admission::Changing;
        }
        let blocks = blocks.start..blocks.end.min(volume.blocks());
        if volume.is_detached() || blocks.is_empty() {
            return Admission::Gone;
        }
        self.deliver(&mut replacer);
        let laundered = core.laundered();
        let owner = self.owner(volume);
        let mut end = Admission::Present;
        for block in blocks {
            let place = Place { object: volume.id, block };
            let found = replacer.find(core, place);
            let state = found.map(|number| core.pages.get(number).state());
            let in_laundry = state.is_some_and(|state| state.in_laundry());
            if state.is_some_and(|state| !state.absent() && !in_laundry) || in_laundry && !run.is_empty() {
                break;
            }
            if !refuse_dirty && replacer.laundry_full(core) {
                end = Admission::NoFrame;
                break;
            }
            replacer.sheltered = (volume.id, sheltered.clone());
            let admitted = replacer.admit(core, found, place, owner, operation);
            replacer.sheltered.1 = 0..0;
            match admitted {
                Ok(Admitted::Loading(number)) => {
                    self.shared.transfers.fetch_add(1, Ordering::SeqCst);
                    run.push((block, number));
                }
                Ok(Admitted::Rescued) => {
                    self.shared.rescued.add(1);
                    volume.counters.misses.add(1);
                    return Admission::Rescued;
                }
                Err(NoFrame) => {
                    end = Admission::NoFrame;
                    break;
                }
            }
        }
        drop(replacer);
        if core.laundered() > laundered && 2 * core.laundered() > self.shared.config.laundry {
            // Written before it is full, so that a miss rarely waits for that.
            self.shared.queue.wake_writer();
        }
        if run.is_empty() {
            return end;
        }
        self.shared.owners.admitted(run.len() as u64);
        if operation != Operation::Readahead {
            volume.counters.misses.add(run.len() as u64);
        }
        Admission::Run(run)
    }
}

impl<M: Memory> Shared<M> {
    /// Reads the pages of a run, which then are valid and held exclusively; if that fails they are gone.
    pub(crate) fn fill(&self, volume: &Volume, run: &[Held], operation: Operation) -> Result<(), Error> {
        let result = self.transfer(volume, run, operation);
        if result.is_ok() {
            run.iter().for_each(|&(_, number)| self.loaded(number));
        } else {
            self.drop_loading(run);
        }
        result
    }

    /// Reads into the frames of pages that are loading, and go on loading.
    pub(crate) fn transfer(&self, volume: &Volume, run: &[Held], operation: Operation) -> Result<(), Error> {
        let core = &self.core;
        let page_size = self.memory.page_size();
        if let Some(mut buffer) = self.memory.buffer(run.len()) {
            let result = self.transfer_by(volume, run, operation, &mut buffer);
            self.memory.give(buffer);
            return result;
        }
        let mut buffers: Vec<IoSliceMut<'_>> = Vec::with_capacity(run.len());
        let mut length = 0;
        for &(block, number) in run {
            let bytes = self.memory.pointer(core.pages.get(number).frame());
            let wanted = volume.bytes_of(block);
            // SAFETY: the page is loading, so that its frame is its loader's alone (PG2), and the frame has `page_size` bytes.
            let frame = unsafe { std::slice::from_raw_parts_mut(bytes, page_size) };
            let (wanted, rest) = frame.split_at_mut(wanted);
            rest.fill(0);
            length += wanted.len() as u64;
            buffers.push(IoSliceMut::new(wanted));
        }
        volume.read(run[0].0 * page_size as u64, length, &mut buffers)
    }

    /// The same by way of a buffer.
    fn transfer_by(&self, volume: &Volume, run: &[Held], operation: Operation, buffer: &mut [u8]) -> Result<(), Error> {
        let page_size = self.memory.page_size();
        let (first, last) = (run[0], run[run.len() - 1]);
        let wanted = (run.len() - 1) * page_size + volume.bytes_of(last.0);
        let bytes = &mut buffer[..run.len() * page_size];
        let (wanted, rest) = bytes.split_at_mut(wanted);
        rest.fill(0);
        let (offset, length) = (first.0 * page_size as u64, wanted.len() as u64);
        volume.read(offset, length, &mut [IoSliceMut::new(wanted)])?;
        let read = operation == Operation::Read && run.len() == 1;
        let frame = self.core.pages.get(first.1).frame();
        self.memory.fill(frame, bytes, read).map_err(|source| volume.failed("memory", offset, length, source))
    }

    /// Drops pages that were admitted and are not loaded.
    pub(crate) fn drop_loading(&self, run: &[Held]) {
        let mut replacer = self.replacer();
        for &(_, number) in run {
            replacer.drop_page(&self.core, number);
            self.transfers.fetch_sub(1, Ordering::SeqCst);
        }
        drop(replacer);
        self.progress.make();
    }

    /// The frame of a page that was admitted is filled; its loader goes on holding it.
    pub(crate) fn loaded(&self, number: u32) {
        let page = self.core.pages.get(number);
        self.memory.install(page.frame());
        page.loaded();
        self.transfers.fetch_sub(1, Ordering::SeqCst);
        self.progress.make();
    }

    /// Lets go of a page held exclusively.
    pub(crate) fn let_go(&self, number: u32) {
        self.core.waiters.wake(number, self.core.pages.get(number).end_exclusive());
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use crate::{Config, Pool, VolumeConfig, device::MemoryDevice};
    use forebay_policy::Spec;

    #[test]
    fn a_miss_waits_for_held_pages_as_long_as_other_threads_get_frames() {
        let spec = Spec::parse("lru").expect("a policy");
        let pool = Pool::new(Config { laundry: 1, ..Config::new(9 * 4096, spec) }).expect("a pool");
        let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("volume") };
        let volume = pool.attach(Arc::new(MemoryDevice::new(20 * 4096)), config);
        let handle = pool.handle().expect("a handle");
        let frames = u64::from(pool.statistics().policy_frames);
        let pins: Vec<_> = (0..frames).map(|block| handle.read(&volume, block).expect("a read")).collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.handle().expect("a handle").read(&volume, 19).map(drop));
            let begin = Instant::now();
            while begin.elapsed() < HELD_MOST + HELD_MOST / 2 {
                // As a page that another thread has loaded.
                pool.shared.progress.make();
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(pins);
            waiting.join().expect("no panic").expect("there are frames at last");
        });
        let pins: Vec<_> = (0..frames).map(|block| handle.read(&volume, block).expect("a read")).collect();
        let refused = pool.handle().expect("a handle").read(&volume, 19).map(drop);
        assert!(matches!(refused, Err(Error::AllPinned)), "no thread gets a frame");
        drop(pins);
    }
}
