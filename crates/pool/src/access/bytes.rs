//! Reads and writes of bytes, over as many pages as they touch.

use crate::access::handle::{Handle, NotPinned};
use crate::access::hints::Advice;
use crate::access::load::{Admission, Held};
use crate::config::WriteMode;
use crate::core::memory::Memory;
use crate::core::page::State;
use crate::core::table;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::sync::Ordering;
use forebay_basis::{Operation, Place};
use std::io::IoSliceMut;
use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Instant;

/// When a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the next flush.
    Flush,
    /// When it returns: force unit access.
    Now,
}

/// The part of a request that lies in one page.
struct Part {
    block: u64,
    /// Within the page.
    page: Range<usize>,
    /// Within the request.
    request: Range<usize>,
}

impl<M: Memory> Handle<M> {
    /// # Errors
    /// [`Error::OutOfRange`]: the volume's end has come nearer since the request was checked.
    fn part(&self, volume: &Volume, offset: u64, length: usize, done: usize) -> Result<Part, Error> {
        // A power of two.
        let page_size = self.shared.config.page_size;
        let position = offset + done as u64;
        let (block, start) = (position >> page_size.trailing_zeros(), position as usize & (page_size as usize - 1));
        let bytes = volume.bytes_of(block).saturating_sub(start).min(length - done);
        if bytes == 0 {
            return Err(volume.out_of_range(offset, length as u64));
        }
        Ok(Part { block, page: start..start + bytes, request: done..done + bytes })
    }

    /// The same of a whole page that is held: the end stays behind its start.
    fn part_held(&self, volume: &Volume, offset: u64, length: usize, done: usize) -> Part {
        self.part(volume, offset, length, done).expect("a page that is held lies before the end")
    }

    /// The pages that a request touches.
    fn pages_of(&self, offset: u64, length: usize) -> Range<u64> {
        let page_size = u64::from(self.shared.config.page_size);
        offset / page_size..(offset + length as u64).div_ceil(page_size)
    }

    /// The pages that one request to the device may have, from `block` to the one of the last byte.
    fn run_of(&self, block: u64, offset: u64, length: usize) -> Range<u64> {
        block..self.pages_of(offset, length).end.min(block + self.shared.most_run())
    }

    /// Copies bytes out of the volume.
    ///
    /// # Errors
    /// As for [`read`](Handle::read); what the buffer then holds is unknown.
    pub fn read_at(&self, volume: &Arc<Volume>, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        volume.check_range(offset, buffer.len() as u64)?;
        let mut told = None;
        let (mut missed, mut first_use, mut followed) = (None, false, false);
        let blocks = self.pages_of(offset, buffer.len());
        let mut done = 0;
        while done < buffer.len() {
            let part = self.part(volume, offset, buffer.len(), done)?;
            match self.pin(volume.id, part.block) {
                Ok(pin) if told == Some(part.block) || !pin.state.in_laundry() => {
                    self.copy_out(pin.number, &part, buffer);
                    if told != Some(part.block) {
                        first_use |= self.hit(volume, part.block, pin);
                    }
                    self.unpin(pin);
                    done = part.request.end;
                }
                Ok(pin) => {
                    self.unpin(pin);
                    if self.load(volume, part.block..part.block + 1, Operation::Read, false, None)? {
                        told = Some(part.block);
                        missed = missed.or(told);
                    }
                }
                Err(NotPinned::Busy(number)) => self.shared.wait_for(volume.id, part.block, number, State::busy),
                Err(NotPinned::Absent) if self.advice.get() == Advice::Once => {
                    let blocks = self.run_of(part.block, offset, buffer.len());
                    if let Some(pages) = self.absent(volume, blocks) {
                        done = self.read_past(volume, offset, buffer, done, pages)?;
                    }
                }
                Err(NotPinned::Absent) => {
                    let start = Instant::now();
                    match self.admit_run(volume, self.run_of(part.block, offset, buffer.len()), Operation::Read)? {
                        Admission::Run(run) => {
                            let first = *missed.get_or_insert(part.block);
                            if part.block + run.len() as u64 == blocks.end {
                                followed = true;
                                self.fill_and_follow(volume, &run, blocks.clone(), first, Operation::Read)?;
                            } else {
                                self.shared.fill(volume, &run, Operation::Read)?;
                            }
                            // The end may have come to lie before the request, in its first page, before that was admitted.
                            let mut copied = Ok(());
                            for &(_, number) in &run {
                                match self.part(volume, offset, buffer.len(), done) {
                                    Ok(part) => {
                                        self.copy_out(number, &part, buffer);
                                        done = part.request.end;
                                    }
                                    Err(error) => copied = Err(error),
                                }
                                self.shared.let_go(number);
                            }
                            copied?;
                            self.shared.miss_time.add_time(start.elapsed());
                        }
                        Admission::Rescued => {
                            told = Some(part.block);
                            missed = missed.or(told);
                        }
                        Admission::Present | Admission::NoFrame | Admission::Changing | Admission::Gone => {}
                    }
                }
            }
        }
        if (missed.is_some() || first_use) && !followed {
            self.follow(volume, blocks, missed);
        }
        Ok(())
    }

    /// How many pages at the start of a range are absent, if the first is. Under the replacer's lock: without it a page that is there
    /// may not be found, and what it holds is newer than the device.
    fn absent(&self, volume: &Volume, blocks: Range<u64>) -> Option<u64> {
        let core = &self.shared.core;
        let replacer = self.shared.replacer();
        let absent = |block: &u64| {
            let found = replacer.find(core, Place { object: volume.id, block: *block });
            found.is_none_or(|number| core.pages.get(number).state().absent())
        };
        let pages = blocks.take_while(absent).count() as u64;
        (pages > 0).then_some(pages)
    }

    /// Reads this many absent pages of what is left of a request without admitting them; returns how much is then done. A page that
    /// somebody admits and writes meanwhile is written at the same time as it is read: old and new are both right.
    fn read_past(
        &self,
        volume: &Volume,
        offset: u64,
        buffer: &mut [u8],
        done: usize,
        pages: u64,
    ) -> Result<usize, Error> {
        let part = |end, _| Ok(self.part(volume, offset, buffer.len(), end)?.request.end);
        let end = (0..pages).try_fold(done, part)?;
        let (start, length) = (offset + done as u64, (end - done) as u64);
        volume.counters.misses.add(pages);
        volume.read(start, length, &mut [IoSliceMut::new(&mut buffer[done..end])])?;
        Ok(end)
    }

    /// Copies bytes out of the volume if all of them are resident, so that nothing is waited for. `false`: no reference was counted, and
    /// what the buffer holds is unknown.
    pub fn read_at_if_resident(&self, volume: &Arc<Volume>, offset: u64, buffer: &mut [u8]) -> bool {
        if volume.check_range(offset, buffer.len() as u64).is_err() {
            return false;
        }
        let start = self.begin_measured();
        let mut found = self.found.borrow_mut();
        found.clear();
        let mut done = 0;
        while done < buffer.len() {
            let Ok(part) = self.part(volume, offset, buffer.len(), done) else { return false };
            let Ok(pin) = self.pin(volume.id, part.block) else { return false };
            let here = !pin.state.in_laundry();
            if here {
                self.copy_out(pin.number, &part, buffer);
                found.push((part.block, pin));
            }
            self.unpin(pin);
            if !here {
                return false;
            }
            done = part.request.end;
        }
        let mut first_use = false;
        for &(block, pin) in found.iter() {
            first_use |= self.hit(volume, block, pin);
        }
        if first_use {
            self.follow(volume, self.pages_of(offset, buffer.len()), None);
        }
        if let Some(start) = start {
            self.shared.hit_time.add_time(start.elapsed() / found.len().max(1) as u32);
        }
        true
    }

    /// Whether a page can be used without waiting, as far as can be seen.
    fn resident(&self, volume: &Volume, block: u64) -> bool {
        self.state_of(volume, block).is_some_and(|state| state.valid() && !state.busy() && !state.in_laundry())
    }

    pub(crate) fn state_of(&self, volume: &Volume, block: u64) -> Option<State> {
        let core = &self.shared.core;
        let hash = table::hash(volume.id, block);
        let number = core.table.find(hash, |number| core.pages.get(number).is(volume.id, block))?;
        Some(core.pages.get(number).state())
    }

    /// Copies bytes into the volume. In write-through mode, and with [`Durability::Now`], they are in storage when this returns;
    /// else a flush, or the pool on its own, writes them back.
    ///
    /// # Errors
    /// As for [`write`](Handle::write), and with [`Durability::Now`] as for [`flush`](Handle::flush). Bytes whose write to the
    /// device failed are kept, and written again later.
    pub fn write_at(
        &self,
        volume: &Arc<Volume>,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), Error> {
        self.put(volume, offset, data)?;
        match durability {
            Durability::Flush => Ok(()),
            Durability::Now => self.shared.commit(volume, from_ref(&(offset..offset + data.len() as u64))),
        }
    }

    /// Makes durable all that was written to the volume before, by whichever handle.
    ///
    /// # Errors
    /// [`Error::Device`], also of a writeback in the background that failed since the last flush. What failed stays dirty, and the
    /// next flush writes it again.
    pub fn flush(&self, volume: &Arc<Volume>) -> Result<(), Error> {
        volume.check_attached()?;
        self.shared.flush(volume)
    }

    /// Writes, as far as the volume's mode says.
    pub(crate) fn put(&self, volume: &Arc<Volume>, offset: u64, data: &[u8]) -> Result<(), Error> {
        volume.check_writable()?;
        volume.check_range(offset, data.len() as u64)?;
        if volume.mode == WriteMode::Back {
            return self.write_behind(volume, offset, data, false);
        }
        let mut done = 0;
        while done < data.len() {
            done = self.write_chunk(volume, offset, data, done)?;
        }
        Ok(())
    }

    /// Copies bytes into the volume if that needs no waiting. `false`: they are to be written by [`write_at`](Handle::write_at), even
    /// though some of them may have been.
    pub fn write_at_if_ready(&self, volume: &Arc<Volume>, offset: u64, data: &[u8]) -> bool {
        if volume.mode != WriteMode::Back
            || volume.check_writable().is_err()
            || volume.check_range(offset, data.len() as u64).is_err()
            || !self.shared.takes_writes()
            || !self.has_room(volume, self.pages_of(offset, data.len()))
        {
            return false;
        }
        let mut done = 0;
        while done < data.len() {
            let Ok(part) = self.part(volume, offset, data.len(), done) else { return false };
            if !self.whole(volume, &part) && !self.resident(volume, part.block) {
                return false;
            }
            done = part.request.end;
        }
        self.write_behind(volume, offset, data, true).is_ok()
    }

    /// Whether a write covers all of a page.
    fn whole(&self, volume: &Volume, part: &Part) -> bool {
        part.page == (0..volume.bytes_of(part.block))
    }

    /// `has_room`: below there is room for all of it.
    fn write_behind(&self, volume: &Arc<Volume>, offset: u64, data: &[u8], has_room: bool) -> Result<(), Error> {
        let make_room = |blocks| if has_room { Ok(()) } else { self.make_room(volume, blocks) };
        let mut done = 0;
        while done < data.len() {
            self.shared.throttle(volume)?;
            let length = volume.len();
            let part = self.part(volume, offset, data.len(), done)?;
            let absent = || self.state_of(volume, part.block).is_none_or(State::absent);
            if self.whole(volume, &part) && absent() {
                let page_size = u64::from(self.shared.config.page_size);
                let end = offset + data.len() as u64;
                // The end may have come nearer than that of the request.
                let whole_end = if end >= length { length.div_ceil(page_size) } else { end / page_size };
                let blocks =
                    part.block..whole_end.min(part.block + self.shared.most_run().min(self.shared.room_for_dirty()));
                let admission = if blocks.is_empty() {
                    None
                } else {
                    make_room(blocks.clone())?;
                    Some(self.admit_run(volume, blocks, Operation::Write)?)
                };
                if let Some(Admission::Run(run)) = admission {
                    // While the pages are held the end stays; before, it may have moved, and the last page be no whole one.
                    if volume.len() != length {
                        self.shared.drop_loading(&run);
                        continue;
                    }
                    for &(_, number) in &run {
                        let part = self.part_held(volume, offset, data.len(), done);
                        self.copy_in_new(number, &part, data);
                        done = part.request.end;
                    }
                    self.shared.end_write(volume, &run, self.owner(volume));
                    continue;
                }
            }
            make_room(part.block..part.block + 1)?;
            let number = self.hold(volume, part.block, false)?;
            // It may have come nearer before the page was held.
            let part = match self.part(volume, offset, data.len(), done) {
                Ok(part) => part,
                Err(error) => {
                    self.shared.let_go(number);
                    return Err(error);
                }
            };
            self.copy_in(number, &part, data);
            self.shared.end_write(volume, &[(part.block, number)], self.owner(volume));
            done = part.request.end;
        }
        Ok(())
    }

    /// Writes the next pages of a request to the device, in one request; returns how much of the data is then done. Nothing is waited
    /// for while pages are held.
    fn write_chunk(&self, volume: &Arc<Volume>, offset: u64, data: &[u8], mut done: usize) -> Result<usize, Error> {
        let part = self.part(volume, offset, data.len(), done)?;
        self.make_room(volume, self.run_of(part.block, offset, data.len()))?;
        let mut held: Vec<Held> = Vec::new();
        while done < data.len() && (held.len() as u64) < self.shared.most_run() {
            let length = volume.len();
            let part = match self.part(volume, offset, data.len(), done) {
                Ok(part) => part,
                Err(error) if held.is_empty() => return Err(error),
                Err(_) => break,
            };
            let block = part.block;
            if self.state_of(volume, block).is_none_or(State::absent) && self.whole(volume, &part) {
                let admission = if held.is_empty() {
                    self.admit_run(volume, block..block + 1, Operation::Write)?
                } else {
                    self.try_admit_run(volume, block..block + 1, Operation::Write, false, 0..0)
                };
                if let Admission::Run(run) = admission {
                    if volume.len() != length {
                        self.shared.drop_loading(&run);
                        continue;
                    }
                    let part = self.part_held(volume, offset, data.len(), done);
                    self.copy_in_new(run[0].1, &part, data);
                    held.push(run[0]);
                    done = part.request.end;
                    continue;
                }
            }
            // To wait for a frame or a page while pages are held might be to wait for oneself.
            let number = if held.is_empty() {
                self.hold(volume, block, true)?
            } else if let Some(number) = self.hold_at_once(volume, block) {
                number
            } else {
                break;
            };
            let Ok(part) = self.part(volume, offset, data.len(), done) else {
                // The end has come nearer before the page was held: the next look tells.
                self.shared.let_go(number);
                break;
            };
            self.copy_in(number, &part, data);
            held.push((block, number));
            done = part.request.end;
        }
        self.shared.write_through(volume, &held, self.owner(volume))?;
        Ok(done)
    }

    fn copy_out(&self, number: u32, part: &Part, buffer: &mut [u8]) {
        let core = &self.shared.core;
        let frame = self.shared.memory.pointer(core.pages.get(number).frame());
        let buffer = &mut buffer[part.request.clone()];
        // SAFETY: the caller holds the page, shared or exclusively (PG1 and PG2), and the part lies within a page.
        unsafe { std::ptr::copy_nonoverlapping(frame.add(part.page.start), buffer.as_mut_ptr(), buffer.len()) };
    }

    fn copy_in(&self, number: u32, part: &Part, data: &[u8]) {
        let core = &self.shared.core;
        let frame = self.shared.memory.pointer(core.pages.get(number).frame());
        let data = &data[part.request.clone()];
        // SAFETY: the caller holds the page exclusively (PG2), and the part lies within a page.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), frame.add(part.page.start), data.len()) };
    }

    /// Fills a new page with a write that covers all of it; its writer goes on holding it.
    fn copy_in_new(&self, number: u32, part: &Part, data: &[u8]) {
        let core = &self.shared.core;
        self.copy_in(number, part, data);
        let frame = self.shared.memory.pointer(core.pages.get(number).frame());
        let rest = self.shared.memory.page_size() - part.page.end;
        // SAFETY: the page is loading and its frame its loader's alone (PG2); what lies behind the volume's end reads as zero.
        unsafe { frame.add(part.page.end).write_bytes(0, rest) };
        self.shared.loaded(number);
    }
}

impl<M: Memory> crate::pool::Shared<M> {
    /// The most pages in a request to a device; few enough that some requests fit in the pool at a time.
    pub(crate) fn most_run(&self) -> u64 {
        let most = u64::from(self.config.request / self.config.page_size);
        most.min(self.frames() / 8).max(1)
    }

    /// Whether a write would find a frame and stay below the dirty limit, as far as can be seen.
    fn takes_writes(&self) -> bool {
        self.dirty.load(Ordering::Relaxed) < self.dirty_limit()
            && self.core.laundered.load(Ordering::Relaxed) < self.config.laundry
    }
}
