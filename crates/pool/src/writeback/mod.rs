//! From frames to storage: writeback for flushes and in the background, the laundry, write-through.
//!
//! What is written back is copied first: a page can be written again while its writeback is under way, and runs of neighbouring
//! blocks go out as one request. Where devices hang that have all copies (`copies.rs`), pages are written from where they lie: their
//! writers wait. Only the holder of a volume's `writing` lock writes dirty pages back, so a flush that holds it finds no writeback under
//! way that it would have to wait for. He waits for no page: who holds one may want the lock.
//!
//! Order of locks: a page held exclusively; a volume's `writing`; the replacer; the dirty pages; the volumes.

pub(crate) mod background;
pub(crate) mod commit;
pub(crate) mod copies;
pub(crate) mod dirty;
pub(crate) mod limits;
mod throttle;

use crate::access::load::Held;
use crate::core::memory::Memory;
use crate::core::page::State;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::Shared;
use crate::sync::{MutexGuard, Ordering, lock, try_lock};
use crate::writeback::background::AGE_CHECK;
use crate::writeback::copies::Copy;
use crate::writeback::throttle::just_failed;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are written at a time from where they lie, unless a single page is larger.
const IN_PLACE: usize = 256 << 10;

/// Pages that are protected and copied together.
const COPIED_TOGETHER: usize = 64;

/// Pages of the laundry looked at in one round.
const LAUNDERED: usize = 256;

/// Objects with dirty pages that one look takes for all of them.
const LOOKED_AT: usize = 64;

/// A page whose writeback has begun: its block and its number.
type Begun = Held;

/// That a volume's `writing` is held.
type Writing<'a> = MutexGuard<'a, ()>;

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

impl<M: Memory> Shared<M> {
    /// Ends the writing of pages held exclusively: they are dirty.
    pub(crate) fn end_write(&self, volume: &Volume, held: &[Held], owner: u32) {
        for &(block, number) in held {
            self.make_dirty(volume, block, number, owner);
            self.let_go(number);
        }
        if self.dirty.load(Ordering::Relaxed) >= self.background_limit() {
            self.queue.wake_writer();
        }
    }

    fn make_dirty(&self, volume: &Volume, block: u64, number: u32, owner: u32) {
        let page = self.core.pages.get(number);
        if page.make_dirty() {
            self.dirty.fetch_add(1, Ordering::Relaxed);
            volume.dirtied();
            lock(&self.dirty_pages).add(volume, block, number, owner);
        }
        // Not before: a flush that its program asks for after the write must find the page among the dirty ones.
        self.memory.unprotect(page.frame());
    }

    /// Takes a page out of the dirty ones, whose `DIRTY` the caller has cleared while nobody else could set it.
    pub(crate) fn forget_dirty(&self, volume: &Volume, block: u64) {
        lock(&self.dirty_pages).remove(volume, block);
        self.dirty.fetch_sub(1, Ordering::Relaxed);
        volume.cleaned();
    }

    /// Some of the volumes that have dirty pages.
    pub(crate) fn dirty_volumes(&self, most: usize) -> Vec<Arc<Volume>> {
        let objects = lock(&self.dirty_pages).objects(most);
        let volumes = lock(&self.volumes);
        objects.into_iter().filter_map(|object| volumes.get(object)).collect()
    }

    /// Writes consecutive pages held exclusively, and none of them in writeback, to the device, and lets go of them. If that fails
    /// they are dirty.
    pub(crate) fn write_through(&self, volume: &Volume, held: &[Held], owner: u32) -> Result<(), Error> {
        let Some(&(first, _)) = held.first() else { return Ok(()) };
        let slices: Vec<IoSlice<'_>> = held
            .iter()
            .map(|&(block, number)| {
                let frame = self.core.pages.get(number).frame();
                self.memory.protect(frame);
                let bytes = self.memory.pointer(frame);
                // SAFETY: the page is held exclusively (PG2), so nobody writes to its frame while the slice lives.
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
            let page = self.core.pages.get(number);
            if result.is_err() {
                self.make_dirty(volume, block, number, owner);
            } else if page.state().dirty() {
                page.make_clean();
                self.forget_dirty(volume, block);
            }
            self.let_go(number);
        }
        self.progress.make();
        result.map_err(|source| volume.failed("write", offset, length, source))
    }

    fn count_write(&self, volume: &Volume, length: u64, time: Duration) {
        volume.counters.device.writes.add(1);
        volume.counters.device.written_bytes.add(length);
        volume.counters.device.request_lengths.add(length);
        volume.counters.device.write_time.add_time(time);
    }

    /// Why no frame becomes free: a device takes no writes, or else all pages are held.
    pub(crate) fn unwritten(&self) -> Error {
        let writing: Vec<u32> = lock(&self.writing).iter().copied().take(LOOKED_AT).collect();
        let cause = writing.into_iter().find_map(|object| lock(&self.volumes).get(object)?.takes_no_writes());
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
            if let Some(error) = just_failed(&volume) {
                result = result.and(Err(error));
            } else if is_own(&volume)
                && let Some(writing) = try_lock(&volume.writing)
            {
                let written = self.write_pages(&volume, &writing, &pages);
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
            for volume in &self.dirty_volumes(if others_write { LOOKED_AT } else { usize::MAX }) {
                if !is_own(volume) {
                    left = true;
                    result = result.map(|before| before.max(written_by_others(volume)));
                }
            }
            let own_ones: Vec<Arc<Volume>> = match own {
                Some(own) if others_write => lock(&self.volumes).get(own.id).into_iter().collect(),
                _ if others_write => Vec::new(),
                _ => self.dirty_volumes(usize::MAX),
            };
            for volume in &own_ones {
                if let Some(error) = just_failed(volume) {
                    result = result.and(Err(error));
                    continue;
                }
                match try_lock(&volume.writing).map(|writing| self.write_some(volume, &writing)) {
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
        let written = self.write_pages(volume, &lock(&volume.writing), pages);
        self.finish_laundry(pages);
        written
    }

    fn write_pages(&self, volume: &Volume, writing: &Writing<'_>, pages: &[Held]) -> Result<u64, Error> {
        let pages = self.with_neighbours(volume, pages);
        self.write_back(volume, writing, &pages, &mut Vec::new())
    }

    /// Frees the frames of pages of the laundry that are clean; whether there are such.
    fn finish_laundry(&self, pages: &[Held]) -> bool {
        let freed = {
            let mut replacer = self.replacer();
            pages.iter().filter(|&&(_, number)| replacer.finish_laundry(&self.core, number)).count() > 0
        };
        if freed {
            self.progress.make();
        }
        freed
    }

    /// Frees what is clean in the laundry; whether there was such, and what is not.
    pub(crate) fn laundry_by_volume(&self) -> (bool, BTreeMap<u32, Vec<Held>>) {
        let (freed, candidates) = self.look_through_laundry();
        let mut by_volume: BTreeMap<u32, Vec<Held>> = BTreeMap::new();
        for number in candidates {
            let page = self.core.pages.get(number);
            by_volume.entry(page.object()).or_default().push((page.block(), number));
        }
        (freed, by_volume)
    }

    /// Frees what is clean in the laundry, and answers what is not.
    fn look_through_laundry(&self) -> (bool, Vec<u32>) {
        let mut replacer = self.replacer();
        let mut freed = false;
        let mut candidates = Vec::new();
        for _ in 0..replacer.laundry.len() {
            if candidates.len() == LAUNDERED {
                break;
            }
            let Some(number) = replacer.laundry.pop_front() else { break };
            if !self.core.pages.get(number).state().in_laundry() {
                continue;
            }
            if replacer.finish_laundry(&self.core, number) {
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
        let dirty = lock(&self.dirty_pages);
        let mut all = BTreeMap::new();
        for &(block, _) in pages {
            let after = dirty.of(volume.id, block..u64::MAX).take(most).zip(block..);
            all.extend(after.take_while(|((at, _), wanted)| at == wanted).map(|(page, _)| page));
            let before = dirty.of(volume.id, 0..block).rev().take(most).zip(1..);
            all.extend(before.take_while(|((at, _), distance)| at + distance == block).map(|(page, _)| page));
        }
        all.into_iter().collect()
    }

    /// Writes the next dirty pages of a volume back, in the order of their blocks from where the last round ended.
    pub(crate) fn write_some(&self, volume: &Volume, writing: &Writing<'_>) -> Result<u64, Error> {
        let most = self.config.copied_pages() as usize;
        let cursor = volume.cursor.load(Ordering::Relaxed);
        let mut pages: Vec<Held> = {
            let dirty = lock(&self.dirty_pages);
            dirty.of(volume.id, cursor..u64::MAX).chain(dirty.of(volume.id, 0..cursor)).take(most).collect()
        };
        volume.cursor.store(pages.last().map_or(0, |&(block, _)| block + 1), Ordering::Relaxed);
        pages.sort_unstable();
        self.write_back(volume, writing, &pages, &mut Vec::new())
    }

    /// Writes back what has been dirty for too long, unless the volume has failed lately; how many pages were written.
    pub(crate) fn write_aged(&self, volume: &Volume, aged: &[Held]) -> u64 {
        if volume.resting() {
            lock(&self.dirty_pages).put_off(volume.id, aged, AGE_CHECK);
            return 0;
        }
        let writing = lock(&volume.writing);
        let pages = self.with_neighbours(volume, aged);
        let mut busy = Vec::new();
        // A failure is kept for the next flush.
        let written = self.write_back(volume, &writing, &pages, &mut busy).unwrap_or(0);
        lock(&self.dirty_pages).renew(volume.id, &busy);
        written
    }

    /// Writes back the dirty pages of ranges of blocks.
    pub(crate) fn write_ranges(&self, volume: &Volume, ranges: &[Range<u64>]) -> Result<(), Error> {
        let mut writing = lock(&volume.writing);
        let mut pages: Vec<Held> = {
            let dirty = lock(&self.dirty_pages);
            ranges.iter().flat_map(|blocks| dirty.of(volume.id, blocks.clone())).collect()
        };
        pages.sort_unstable();
        pages.dedup();
        let mut result = Ok(());
        loop {
            let mut busy = Vec::new();
            result = result.and(self.write_back(volume, &writing, &pages, &mut busy).map(drop));
            drop(writing);
            if busy.is_empty() {
                return result;
            }
            for &(block, number) in &busy {
                self.core.waiters.wait(number, self.core.pages.get(number), volume.id, block, State::busy);
            }
            pages = busy;
            writing = lock(&volume.writing);
        }
    }

    /// Writes pages back, given in the order of their blocks, of which some may be clean or gone by now. Those that are being written to
    /// are passed over, and named in `busy`. All that can be written is; the first error is answered, and kept for the next flush.
    pub(crate) fn write_back(
        &self,
        volume: &Volume,
        _: &Writing<'_>,
        pages: &[Held],
        busy: &mut Vec<Held>,
    ) -> Result<u64, Error> {
        if pages.is_empty() {
            return Ok(0);
        }
        let copy = self.copies.take(pages.len().min(self.config.copied_pages() as usize));
        let in_place = (IN_PLACE / self.config.page_size as usize).max(1);
        let room = copy.as_ref().map_or(in_place, Copy::pages);
        let mut written = 0;
        let mut result = Ok(());
        let (mut begun, mut owners): (Vec<Begun>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut pages = pages;
        let mut frames: Vec<(u32, bool)> = Vec::new();
        while !pages.is_empty() {
            // So few that nobody waits long for a page that is being copied.
            let (some, rest) = pages.split_at(pages.len().min(COPIED_TOGETHER).min(room - begun.len()));
            pages = rest;
            let first = begun.len();
            for &(block, number) in some {
                let page = self.core.pages.get(number);
                match page.begin_writeback(volume.id, block) {
                    Ok(()) => {
                        let owner = lock(&self.dirty_pages).remove(volume, block);
                        owners.push(owner.unwrap_or(volume.id));
                        // What is written from where it lies is there once, not for its program, too.
                        frames.push((page.frame(), copy.is_none() || page.state().in_laundry()));
                        begun.push((block, number));
                    }
                    Err(state) if state.busy() || state.copying() => busy.push((block, number)),
                    Err(_) => {}
                }
            }
            self.memory.protect_all(&frames);
            if let Some(copy) = &copy {
                self.copy_to(copy, first, &frames);
                begun[first..].iter().for_each(|&(_, number)| self.end_copy(number));
            }
            frames.clear();
            if begun.len() == room {
                let issued = self.issue(volume, copy.as_ref(), (&mut begun, &mut owners), &mut written);
                result = result.and(issued);
            }
        }
        let issued = self.issue(volume, copy.as_ref(), (&mut begun, &mut owners), &mut written);
        result.and(issued).map(|()| written)
    }

    fn copy_to(&self, copy: &Copy<'_>, first: usize, pages: &[(u32, bool)]) {
        if pages.is_empty() {
            return;
        }
        let length = pages.len() * self.config.page_size as usize;
        assert!(first + pages.len() <= copy.pages(), "there is room for them");
        // SAFETY: the places are the caller's alone, as many as that, and lie in a row.
        let bytes = unsafe { std::slice::from_raw_parts_mut(copy.pointer(first), length) };
        // The frames are read under the pin of a copy (PG1).
        self.memory.copy(pages, bytes);
    }

    /// A page that is being written can be written to from now on.
    fn end_copy(&self, number: u32) {
        let page = self.core.pages.get(number);
        self.memory.copied(page.frame());
        self.core.waiters.wake(number, page.end_copy());
    }

    /// Writes pages, neighbours in one request, and ends their writebacks: the copies, or without these where they lie.
    fn issue(
        &self,
        volume: &Volume,
        copy: Option<&Copy<'_>>,
        (begun, owners): (&mut Vec<Begun>, &mut Vec<u32>),
        written: &mut u64,
    ) -> Result<(), Error> {
        if begun.is_empty() {
            return Ok(());
        }
        let page_size = self.config.page_size as usize;
        // Where they lie no page is next to another.
        let most = if copy.is_some() { (self.config.request as usize / page_size).max(1) } else { 1 };
        // Places among the pages: runs of consecutive blocks.
        let mut runs: Vec<Range<usize>> = Vec::new();
        for place in 0..begun.len() {
            match runs.last_mut() {
                Some(run) if begun[place - 1].0 + 1 == begun[place].0 && run.len() < most => run.end += 1,
                _ => runs.push(place..place + 1),
            }
        }
        let requests: Vec<(u64, IoSlice<'_>)> = runs
            .iter()
            .map(|run| {
                let length = (run.len() - 1) * page_size + volume.bytes_of(begun[run.end - 1].0);
                let (block, number) = begun[run.start];
                let frame = || self.memory.pointer(self.core.pages.get(number).frame());
                let bytes = copy.map_or_else(frame, |copy| copy.pointer(run.start));
                // SAFETY: the copy has the places of the run, and is the caller's; a frame is read under the pin of a copy (PG1), which ends below. So nobody
                // writes to the bytes while the requests live.
                let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
                (block * page_size as u64, IoSlice::new(bytes))
            })
            .collect();
        self.transfers.fetch_add(1, Ordering::SeqCst);
        volume.writing_began();
        lock(&self.writing).insert(volume.id);
        let start = Instant::now();
        let results = volume.device.write_many(&requests);
        let time = start.elapsed();
        self.transfers.fetch_sub(1, Ordering::SeqCst);
        if copy.is_none() {
            begun.iter().for_each(|&(_, number)| self.end_copy(number));
        }
        let mut first = Ok(());
        for ((run, (offset, bytes)), result) in runs.into_iter().zip(&requests).zip(results) {
            self.count_write(volume, bytes.len() as u64, time);
            for (&(block, number), &owner) in begun[run.clone()].iter().zip(&owners[run.clone()]) {
                // Under the lock: who then takes the page out of the dirty ones finds it among them.
                let mut dirty = lock(&self.dirty_pages);
                let (dirty_again, wake) = self.core.pages.get(number).end_writeback(result.is_ok());
                if dirty_again {
                    dirty.add(volume, block, number, owner);
                } else {
                    self.dirty.fetch_sub(1, Ordering::Relaxed);
                    volume.cleaned();
                }
                drop(dirty);
                self.core.waiters.wake(number, wake);
            }
            match result {
                Ok(()) => {
                    volume.counters.pages_written_back.add(run.len() as u64);
                    *written += run.len() as u64;
                    for by_one in owners[run].chunk_by(|one, next| one == next) {
                        self.owners.written_back(by_one[0], by_one.len() as u64);
                    }
                }
                Err(source) => {
                    volume.counters.failed_writebacks.add(run.len() as u64);
                    let error = volume.failed("writeback", *offset, bytes.len() as u64, source);
                    // Of what fails again before it has rested, and with others, one word is enough.
                    if first.is_ok() && !volume.has_just_failed() {
                        tracing::warn!(%error, "the pages stay dirty, and will be written again");
                    } else {
                        tracing::debug!(%error, "the pages stay dirty, and will be written again");
                    }
                    volume.keep_failure(error.clone());
                    first = first.and(Err(error));
                }
            }
        }
        begun.clear();
        owners.clear();
        volume.tried(first.as_ref().map(|_| ()));
        if first.is_ok() {
            lock(&self.writing).remove(&volume.id);
        }
        // After that, so that writers who wait for it see it.
        self.progress.make();
        first
    }
}
