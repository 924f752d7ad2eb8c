//! From frames to storage: writeback for flushes and in the background, the laundry, write-through.
//!
//! What is written back is copied first: a page can be written again while its writeback is under way, and runs of neighbouring
//! blocks go out as one request. Only the holder of a volume's `writing` lock writes dirty pages back, so a flush that holds it
//! finds no writeback under way that it would have to wait for. He waits for no page: who holds one may want the lock.
//!
//! Order of locks: a page held exclusively; a volume's `writing`; the replacer; a volume's `dirty`.

use crate::error::Error;
use crate::frames::Frames;
use crate::load::Held;
use crate::page::State;
use crate::pool::Shared;
use crate::sync::{Backoff, Ordering, lock, try_lock};
use crate::volume::{Volume, Writing};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes copied for one round of writebacks, unless a single page is larger.
const BATCH: usize = 4 << 20;

/// Pages of the laundry looked at in one round.
const ROUND: usize = 256;

/// Times that a writer looks again while too many pages are dirty and all of them held.
const LOOKS: u32 = 1000;

/// One frame in this many is left to clean pages, whatever share may be dirty, so that a device which takes no writes holds up no other's
/// volumes: their pages come and go in these.
const CLEAN: u32 = 16;

/// The most of these frames that dirty pages may take.
fn most_dirty(frames: u32) -> u32 {
    frames - (frames / CLEAN).max(1)
}

/// The fewest frames of which dirty pages leave enough to clean ones.
pub(crate) fn least_frames(dirty: u32) -> u32 {
    (dirty + 1).max(dirty.saturating_mul(CLEAN).div_ceil(CLEAN - 1))
}

/// What came of an attempt to clean pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cleaned {
    /// There was nothing to clean that is not in use.
    Nothing,
    /// Other threads write what there is, to devices that hang or have failed lately.
    Hanging,
    /// Other threads write what there is.
    ByOthers,
    /// A frame of the laundry is free, or pages are clean.
    Some,
}

fn written_by_others(volume: &Volume) -> Cleaned {
    if volume.hangs() || volume.resting() { Cleaned::Hanging } else { Cleaned::ByOthers }
}

impl Shared {
    pub(crate) fn frames(&self) -> u64 {
        u64::from(self.frames.load(Ordering::Relaxed))
    }

    /// The most pages that may be dirty before writers wait.
    pub(crate) fn dirty_limit(&self) -> u64 {
        let share = f64::from_bits(self.dirty_share.load(Ordering::Relaxed));
        let most = u64::from(most_dirty(self.frames.load(Ordering::Relaxed)));
        ((self.frames() as f64 * share) as u64).min(most).max(1)
    }

    /// How many pages a writer may make dirty in one go: at least one.
    pub(crate) fn room_for_dirty(&self) -> u64 {
        let most = u64::from(most_dirty(self.frames.load(Ordering::Relaxed)));
        most.saturating_sub(self.dirty.load(Ordering::Relaxed)).max(1)
    }

    /// From how many dirty pages on they are written in the background.
    pub(crate) fn background_limit(&self) -> u64 {
        self.dirty_limit().div_ceil(2)
    }

    /// Ends the writing of pages held exclusively: they are dirty.
    pub(crate) fn end_write(&self, volume: &Volume, held: &[Held]) {
        for &(block, number) in held {
            self.make_dirty(volume, block, number);
            self.let_go(number);
        }
        if self.dirty.load(Ordering::Relaxed) >= self.background_limit() {
            self.queue.wake_writer();
        }
    }

    fn make_dirty(&self, volume: &Volume, block: u64, number: u32) {
        if self.memory.pages.get(number).make_dirty() {
            self.dirty.fetch_add(1, Ordering::Relaxed);
            lock(&volume.dirty).add(block, number);
        }
    }

    /// Takes a page out of the dirty ones, whose `DIRTY` the caller has cleared while nobody else could set it.
    pub(crate) fn forget_dirty(&self, volume: &Volume, block: u64) {
        volume.remove_dirty(block);
        self.dirty.fetch_sub(1, Ordering::Relaxed);
    }

    /// Writes consecutive pages held exclusively, and none of them in writeback, to the device, and lets go of them. If that fails
    /// they are dirty.
    pub(crate) fn write_through(&self, volume: &Volume, held: &[Held]) -> Result<(), Error> {
        let Some(&(first, _)) = held.first() else { return Ok(()) };
        let slices: Vec<IoSlice<'_>> = held
            .iter()
            .map(|&(block, number)| {
                let bytes = self.memory.frames.pointer(self.memory.pages.get(number).frame());
                // SAFETY: the page is held exclusively (rule 2), so nobody writes to its frame while the slice lives.
                IoSlice::new(unsafe { std::slice::from_raw_parts(bytes, volume.bytes_of(block)) })
            })
            .collect();
        let length: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let offset = first * u64::from(self.config.page_size);
        self.transfers.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        let result = volume.device.write(offset, &slices);
        self.count_write(volume, length, start.elapsed());
        self.transfers.fetch_sub(1, Ordering::SeqCst);
        for &(block, number) in held {
            let page = self.memory.pages.get(number);
            if result.is_err() {
                self.make_dirty(volume, block, number);
            } else if page.state().dirty() {
                page.make_clean();
                self.forget_dirty(volume, block);
            }
            self.let_go(number);
        }
        result.map_err(|source| volume.failed("write", offset, length, source))
    }

    fn count_write(&self, volume: &Volume, length: u64, time: Duration) {
        volume.counters.writes.add(1);
        volume.counters.bytes_written.add(length);
        volume.counters.request_lengths.add(length);
        volume.counters.write_time.add_time(time);
    }

    /// Waits until fewer pages are dirty than may be. If that cannot be had because of pages that are held, perhaps by this thread, or of
    /// another volume that fails or hangs, the writer goes on as soon as the dirty pages of its own volume are written.
    pub(crate) fn throttle(&self, volume: &Arc<Volume>) -> Result<(), Error> {
        let mut looks = 0;
        while self.dirty.load(Ordering::Relaxed) >= self.dirty_limit() {
            match self.clean_some(Some(volume)) {
                Ok(Cleaned::Some) => looks = 0,
                Ok(Cleaned::ByOthers) => Backoff::new().sleep(Duration::from_micros(100)),
                Ok(Cleaned::Nothing) if looks < LOOKS => {
                    looks += 1;
                    Backoff::new().sleep(Duration::from_micros(100));
                }
                Ok(Cleaned::Nothing | Cleaned::Hanging) | Err(_) => {
                    return self.write_some(volume, &mut lock(&volume.writing)).map(drop);
                }
            }
        }
        Ok(())
    }

    /// Why no frame becomes free: a device takes no writes, or else all pages are held.
    pub(crate) fn unwritten(&self) -> Error {
        let cause = self.all_volumes().iter().find_map(|volume| volume.takes_no_writes());
        cause.unwrap_or(Error::AllPinned)
    }

    /// Frees frames of the laundry, or cleans pages if many are dirty: what a thread does that needs one of these. It writes back its `own`
    /// volume, and leaves others to the pool's threads, so that no device holds up those who have no business with it. An error is
    /// answered if nothing else could be done.
    pub(crate) fn clean_some(&self, own: Option<&Volume>) -> Result<Cleaned, Error> {
        let (freed, laundry) = self.laundry_by_volume();
        if freed {
            return Ok(Cleaned::Some);
        }
        let others_write = self.queue.writes();
        let is_own = |volume: &Volume| !others_write || own.is_some_and(|own| own.id == volume.id);
        let mut left = false;
        let mut result = Ok(Cleaned::Nothing);
        for (object, pages) in laundry {
            let Some(volume) = lock(&self.volumes).get(object) else { continue };
            if is_own(&volume)
                && let Some(mut writing) = try_lock(&volume.writing)
            {
                let written = self.write_pages(&volume, &mut writing, &pages);
                drop(writing);
                if self.finish_laundry(&pages) {
                    return Ok(Cleaned::Some);
                }
                result = written.and(result);
            } else {
                left |= !is_own(&volume);
                result = result.map(|before| before.max(written_by_others(&volume)));
            }
        }
        // Without a laundry a dirty page is no victim until it is clean.
        let limit = if self.config.laundry == 0 { 1 } else { self.background_limit() };
        if self.dirty.load(Ordering::Relaxed) >= limit {
            let mut volumes = self.all_volumes();
            volumes.sort_by_key(|volume| Reverse(lock(&volume.dirty).by_block.len()));
            for volume in &volumes {
                if !is_own(volume) {
                    if !lock(&volume.dirty).by_block.is_empty() {
                        left = true;
                        result = result.map(|before| before.max(written_by_others(volume)));
                    }
                    continue;
                }
                match try_lock(&volume.writing).map(|mut writing| self.write_some(volume, &mut writing)) {
                    Some(Ok(0)) => {}
                    Some(Ok(_)) => return Ok(Cleaned::Some),
                    Some(Err(error)) => result = result.and(Err(error)),
                    None => result = result.map(|before| before.max(written_by_others(volume))),
                }
            }
        }
        if left {
            self.queue.wake_writer();
        }
        result
    }

    /// Writes back pages of the laundry and frees their frames; how many were written, neighbours included.
    pub(crate) fn write_laundry(&self, volume: &Volume, pages: &[Held]) -> Result<u64, Error> {
        let written = self.write_pages(volume, &mut lock(&volume.writing), pages);
        self.finish_laundry(pages);
        written
    }

    fn write_pages(&self, volume: &Volume, writing: &mut Writing, pages: &[Held]) -> Result<u64, Error> {
        let pages = self.with_neighbours(volume, pages);
        self.write_back(volume, writing, &pages, &mut Vec::new())
    }

    /// Frees the frames of pages of the laundry that are clean; whether there are such.
    fn finish_laundry(&self, pages: &[Held]) -> bool {
        let mut replacer = lock(&self.replacer);
        pages.iter().filter(|&&(_, number)| replacer.finish_laundry(&self.memory, number)).count() > 0
    }

    /// Frees what is clean in the laundry; whether there was such, and what is not.
    pub(crate) fn laundry_by_volume(&self) -> (bool, BTreeMap<u32, Vec<Held>>) {
        let (freed, candidates) = self.look_through_laundry();
        let mut by_volume: BTreeMap<u32, Vec<Held>> = BTreeMap::new();
        for number in candidates {
            let page = self.memory.pages.get(number);
            by_volume.entry(page.object()).or_default().push((page.block(), number));
        }
        (freed, by_volume)
    }

    /// Frees what is clean in the laundry, and answers what is not.
    fn look_through_laundry(&self) -> (bool, Vec<u32>) {
        let mut replacer = lock(&self.replacer);
        let mut freed = false;
        let mut candidates = Vec::new();
        for _ in 0..replacer.laundry.len() {
            if candidates.len() == ROUND {
                break;
            }
            let Some(number) = replacer.laundry.pop_front() else { break };
            if !self.memory.pages.get(number).state().in_laundry() {
                continue;
            }
            if replacer.finish_laundry(&self.memory, number) {
                freed = true;
            } else {
                replacer.laundry.push_back(number);
                candidates.push(number);
            }
        }
        (freed, candidates)
    }

    /// Pages with the dirty ones next to them, as many as one request takes, by block.
    fn with_neighbours(&self, volume: &Volume, pages: &[Held]) -> Vec<Held> {
        let most = self.most_run() as usize;
        let dirty = lock(&volume.dirty);
        let mut all = BTreeMap::new();
        for &(block, _) in pages {
            let after =
                dirty.by_block.range(block..).take(most).zip(block..).take_while(|((at, _), wanted)| *at == wanted);
            all.extend(after.map(|((&block, &number), _)| (block, number)));
            let before = dirty.by_block.range(..block).rev().take(most).zip(1..);
            let before = before.take_while(|((at, _), distance)| **at + distance == block);
            all.extend(before.map(|((&block, &number), _)| (block, number)));
        }
        all.into_iter().collect()
    }

    /// Writes the next dirty pages of a volume back, in the order of their blocks from where the last round ended.
    pub(crate) fn write_some(&self, volume: &Volume, writing: &mut Writing) -> Result<u64, Error> {
        let most = (BATCH / self.config.page_size as usize).max(1);
        let mut dirty = lock(&volume.dirty);
        let behind = dirty.by_block.range(dirty.cursor..).chain(dirty.by_block.range(..dirty.cursor));
        let mut pages: Vec<Held> = behind.take(most).map(|(&block, &number)| (block, number)).collect();
        dirty.cursor = pages.last().map_or(0, |&(block, _)| block + 1);
        drop(dirty);
        pages.sort_unstable();
        self.write_back(volume, writing, &pages, &mut Vec::new())
    }

    /// Writes back what has been dirty for too long, unless the volume has failed lately; how many pages were written.
    pub(crate) fn write_aged(&self, volume: &Volume) -> u64 {
        if volume.resting() {
            return 0;
        }
        let mut writing = lock(&volume.writing);
        let mut dirty = lock(&volume.dirty);
        let mut aged = Vec::new();
        while let Some(&(since, block)) = dirty.ages.front() {
            if since.elapsed() < self.dirty_age() {
                break;
            }
            dirty.ages.pop_front();
            aged.extend(dirty.by_block.get(&block).map(|&number| (block, number)));
        }
        drop(dirty);
        let pages = self.with_neighbours(volume, &aged);
        let mut busy = Vec::new();
        // A failure is kept for the next flush.
        let written = self.write_back(volume, &mut writing, &pages, &mut busy).unwrap_or(0);
        let mut dirty = lock(&volume.dirty);
        dirty.ages.extend(busy.into_iter().map(|(block, _)| (Instant::now(), block)));
        written
    }

    /// Writes back the dirty pages of ranges of blocks.
    pub(crate) fn write_ranges(&self, volume: &Volume, ranges: &[Range<u64>]) -> Result<(), Error> {
        let mut writing = lock(&volume.writing);
        let mut pages: Vec<Held> = {
            let dirty = lock(&volume.dirty);
            let within = ranges.iter().flat_map(|blocks| dirty.by_block.range(blocks.clone()));
            within.map(|(&block, &number)| (block, number)).collect()
        };
        pages.sort_unstable();
        pages.dedup();
        let mut result = Ok(());
        loop {
            let mut busy = Vec::new();
            result = result.and(self.write_back(volume, &mut writing, &pages, &mut busy).map(drop));
            drop(writing);
            if busy.is_empty() {
                return result;
            }
            for &(_, number) in &busy {
                self.memory.waiters.wait(number, self.memory.pages.get(number), State::busy);
            }
            pages = busy;
            writing = lock(&volume.writing);
        }
    }

    /// Writes pages back, given in the order of their blocks, of which some may be clean or gone by now. Those that are being written to
    /// are passed over, and named in `busy`. All that can be written is; the first error is answered, and kept for the next flush.
    fn write_back(
        &self,
        volume: &Volume,
        writing: &mut Writing,
        pages: &[Held],
        busy: &mut Vec<Held>,
    ) -> Result<u64, Error> {
        let page_size = self.config.page_size as usize;
        let room = (BATCH / page_size).max(1);
        if writing.buffer.is_none() && !pages.is_empty() {
            let bytes = room * page_size;
            let buffer = Frames::new(1, bytes, false)
                .map_err(|source| Error::Memory { bytes: bytes as u64, source: Arc::new(source) })?;
            writing.buffer = Some(buffer);
        }
        let mut written = 0;
        let mut result = Ok(());
        let mut copied: Vec<Held> = Vec::new();
        for &(block, number) in pages {
            let page = self.memory.pages.get(number);
            match page.begin_writeback(volume.id, block) {
                Ok(()) => {
                    volume.remove_dirty(block);
                    self.copy_to(writing, copied.len(), number);
                    copied.push((block, number));
                    page.end_copy();
                }
                Err(state) if state.busy() || state.copying() => busy.push((block, number)),
                Err(_) => {}
            }
            if copied.len() == room {
                let issued = self.issue(volume, writing, &mut copied, &mut written);
                result = result.and(issued);
            }
        }
        let issued = self.issue(volume, writing, &mut copied, &mut written);
        result.and(issued).map(|()| written)
    }

    fn copy_to(&self, writing: &Writing, place: usize, number: u32) {
        let page_size = self.config.page_size as usize;
        let buffer = writing.buffer.as_ref().expect("there is a buffer where pages are written").pointer(0);
        let frame = self.memory.frames.pointer(self.memory.pages.get(number).frame());
        // SAFETY: the frame is read under the pin of a copy (rule 1); the buffer belongs to the holder of the lock, and has the place.
        unsafe { std::ptr::copy_nonoverlapping(frame, buffer.add(place * page_size), page_size) };
    }

    /// Writes the copies, neighbours in one request, and ends their writebacks.
    fn issue(
        &self,
        volume: &Volume,
        writing: &Writing,
        copied: &mut Vec<Held>,
        written: &mut u64,
    ) -> Result<(), Error> {
        let (Some(buffer), false) = (writing.buffer.as_ref(), copied.is_empty()) else { return Ok(()) };
        let page_size = self.config.page_size as usize;
        let most = (self.config.request as usize / page_size).max(1);
        // Places in the buffer: runs of consecutive blocks.
        let mut runs: Vec<Range<usize>> = Vec::new();
        for place in 0..copied.len() {
            match runs.last_mut() {
                Some(run) if copied[place - 1].0 + 1 == copied[place].0 && run.len() < most => run.end += 1,
                _ => runs.push(place..place + 1),
            }
        }
        let requests: Vec<(u64, IoSlice<'_>)> = runs
            .iter()
            .map(|run| {
                let length = (run.len() - 1) * page_size + volume.bytes_of(copied[run.end - 1].0);
                // SAFETY: the buffer has the places of the run, and nobody writes to it while the requests live: its lock is held.
                let bytes = unsafe { std::slice::from_raw_parts(buffer.pointer(0).add(run.start * page_size), length) };
                (copied[run.start].0 * page_size as u64, IoSlice::new(bytes))
            })
            .collect();
        self.transfers.fetch_add(1, Ordering::SeqCst);
        volume.writing_began();
        let start = Instant::now();
        let results = volume.device.write_many(&requests);
        let time = start.elapsed();
        self.transfers.fetch_sub(1, Ordering::SeqCst);
        let mut first = Ok(());
        for ((run, (offset, bytes)), result) in runs.into_iter().zip(&requests).zip(results) {
            self.count_write(volume, bytes.len() as u64, time);
            for &(block, number) in &copied[run.clone()] {
                // Under the lock: who then takes the page out of the dirty ones finds it among them.
                let mut dirty = lock(&volume.dirty);
                let (dirty_again, wake) = self.memory.pages.get(number).end_writeback(result.is_ok());
                if dirty_again {
                    dirty.add(block, number);
                } else {
                    self.dirty.fetch_sub(1, Ordering::Relaxed);
                }
                drop(dirty);
                self.memory.waiters.wake(number, wake);
            }
            match result {
                Ok(()) => {
                    volume.counters.pages_written_back.add(run.len() as u64);
                    *written += run.len() as u64;
                }
                Err(source) => {
                    volume.counters.failed_writebacks.add(run.len() as u64);
                    let error = volume.failed("writeback", *offset, bytes.len() as u64, source);
                    tracing::warn!(%error, "the pages stay dirty, and will be written again");
                    volume.keep_failure(error.clone());
                    first = first.and(Err(error));
                }
            }
        }
        copied.clear();
        volume.tried(first.is_ok());
        first
    }
}
