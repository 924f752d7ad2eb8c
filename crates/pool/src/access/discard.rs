//! Ranges that are given up: trim, write-zeroes, and pages that will not be used soon.

use crate::access::bytes::Durability;
use crate::access::handle::Handle;
use crate::access::load::Held;
use crate::core::memory::Memory;
use crate::core::page::State;
use crate::core::search::Search;
use crate::error::Error;
use crate::objects::volume::{Change, Volume};
use crate::pool::Shared;
use crate::sync::yield_now;
use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

/// Pages that are dropped before others get a chance to have the replacer's lock.
const MANY: usize = 64;

impl<M: Memory> Handle<M> {
    /// Says that bytes are not needed any more: the whole pages among them read as zeroes or as what they were.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::ReadOnly`], [`Error::Device`]: what the whole pages then hold is unknown.
    pub fn trim(&self, volume: &Arc<Volume>, offset: u64, length: u64) -> Result<(), Error> {
        volume.check_writable()?;
        volume.check_range(offset, length)?;
        let (blocks, bytes) = self.whole_pages(volume, offset, length);
        if blocks.is_empty() {
            return Ok(());
        }
        let _change = self.drop_pages(volume, &blocks);
        let (start, length) = (bytes.start, bytes.end - bytes.start);
        volume.device.trim(start, length).map_err(|source| volume.failed("trim", start, length, source))?;
        self.shared.try_again();
        Ok(())
    }

    /// Makes bytes read as zeroes. `allocate`: they keep their space in storage.
    ///
    /// # Errors
    /// As for [`trim`](Handle::trim), and as for a write of what lies in parts of pages.
    pub fn write_zeroes(
        &self,
        volume: &Arc<Volume>,
        offset: u64,
        length: u64,
        allocate: bool,
        durability: Durability,
    ) -> Result<(), Error> {
        volume.check_writable()?;
        volume.check_range(offset, length)?;
        let end = offset + length;
        let range = offset..end;
        let (blocks, bytes) = self.whole_pages(volume, offset, length);
        let zeroes = vec![0; self.shared.config.page_size as usize];
        let edges = if blocks.is_empty() { [offset..end, end..end] } else { [offset..bytes.start, bytes.end..end] };
        for edge in edges {
            let mut at = edge.start;
            while at < edge.end {
                let bytes = (edge.end - at).min(zeroes.len() as u64);
                self.put(volume, at, &zeroes[..bytes as usize])?;
                at += bytes;
            }
        }
        if !blocks.is_empty() {
            let _change = self.drop_pages(volume, &blocks);
            let (start, length) = (bytes.start, bytes.end - bytes.start);
            volume
                .device
                .write_zeroes(start, length, allocate)
                .map_err(|source| volume.failed("write of zeroes", start, length, source))?;
            if !allocate {
                self.shared.try_again();
            }
        }
        if durability == Durability::Now { self.shared.commit(volume, from_ref(&range)) } else { Ok(()) }
    }

    /// The pages that lie in a range as a whole, and their bytes.
    fn whole_pages(&self, volume: &Volume, offset: u64, length: u64) -> (Range<u64>, Range<u64>) {
        let page_size = u64::from(self.shared.config.page_size);
        let end = offset + length;
        let first = offset.div_ceil(page_size);
        let last = if end == volume.len() { volume.blocks() } else { end / page_size };
        let blocks = first..last.max(first);
        (blocks.clone(), blocks.start * page_size..(blocks.end * page_size).min(end))
    }

    /// Drops all pages of a range, dirty or not, and what the policy remembers of its places. None of it is loaded until the change that is returned ends.
    fn drop_pages<'v>(&self, volume: &'v Volume, blocks: &Range<u64>) -> Change<'v> {
        let (change, held) = self.hold_range(volume, blocks);
        self.drop_held(volume, &held);
        self.shared.replacer().discard(&self.shared.core, volume.id, blocks);
        change
    }

    /// Drops pages that are held, and gives up what is in them.
    pub(crate) fn drop_held(&self, volume: &Volume, held: &[Held]) {
        for &(block, number) in held {
            let page = self.shared.core.pages.get(number);
            if page.state().dirty() {
                page.make_clean();
                self.shared.forget_dirty(volume, block);
            }
            self.shared.replacer().drop_page(&self.shared.core, number);
        }
    }

    /// Holds all pages of a range exclusively, none of which is in writeback. No other of it is loaded until the change that is returned ends.
    pub(crate) fn hold_range<'v>(&self, volume: &'v Volume, blocks: &Range<u64>) -> (Change<'v>, Vec<Held>) {
        let core = &self.shared.core;
        loop {
            let change = volume.begin_change(blocks.clone());
            match self.hold_all(volume, blocks) {
                Ok(held) => {
                    for &(block, number) in &held {
                        // Writers of other pages wait for nobody, so that it ends.
                        core.waiters.wait(number, core.pages.get(number), volume.id, block, State::in_writeback);
                    }
                    return (change, held);
                }
                Err(number) => {
                    // Who has it may wait for a page of the range to be loaded.
                    drop(change);
                    let page = core.pages.get(number);
                    let block = page.block();
                    self.shared.wait_for(volume.id, block, number, State::busy);
                    core.waiters.wait(number, page, volume.id, block, State::copied_in_writeback);
                    page.wait_unshared(number, volume.id, block, &core.slots);
                }
            }
        }
    }

    /// Holds all pages of a range exclusively, or none and answers one that somebody else has: to wait for it while others are held,
    /// or to drop some and let the others be read, would not do.
    fn hold_all(&self, volume: &Volume, blocks: &Range<u64>) -> Result<Vec<Held>, u32> {
        let core = &self.shared.core;
        let mut held: Vec<Held> = Vec::new();
        // None comes behind us: the range is being given up.
        let mut search = Search::new(volume.id, blocks);
        let mut next = || self.shared.replacer().next_pages(core, &mut search);
        while let Some(candidates) = next() {
            for number in candidates {
                let page = core.pages.get(number);
                // A load waits for its device alone.
                let block = page.block();
                self.shared.wait_for(volume.id, block, number, State::loading);
                if !blocks.contains(&block) {
                    continue;
                }
                match core.begin_exclusive(number, volume.id, block) {
                    Ok(()) => {
                        held.push((block, number));
                        if page.soon_unshared(number, &core.slots) {
                            continue;
                        }
                    }
                    Err(state) if state.busy() && page.is(volume.id, block) => {}
                    // It has left.
                    Err(_) => continue,
                }
                held.iter().for_each(|&(_, number)| self.shared.let_go(number));
                return Err(number);
            }
        }
        Ok(held)
    }
}

impl<M: Memory> Shared<M> {
    /// Lets the pages of a range go, those that are dirty after their writeback; those in use stay.
    pub(crate) fn give_up(&self, volume: &Volume, blocks: &Range<u64>) -> Result<(), Error> {
        self.write_ranges(volume, from_ref(blocks))?;
        self.drop_pages_at_hand(volume, blocks, false);
        Ok(())
    }

    /// Lets the pages of a range go that are clean and not in use, and returns how many have gone. `discard`: those that are dirty, too, and
    /// what is in them is given up.
    pub(crate) fn drop_pages_at_hand(&self, volume: &Volume, blocks: &Range<u64>, discard: bool) -> u64 {
        let core = &self.core;
        let mut dropped = 0;
        let mut search = Search::new(volume.id, blocks);
        loop {
            let mut replacer = self.replacer();
            let Some(numbers) = replacer.next_pages(core, &mut search) else {
                drop(replacer);
                self.progress.make();
                return dropped;
            };
            let many = numbers.len() > MANY;
            for number in numbers {
                let page = core.pages.get(number);
                if page.begin_exclusive(volume.id, page.block()).is_err() {
                    continue;
                }
                let state = page.state();
                if state.dirty() && !discard || state.in_writeback() || page.still_shared(number, &core.slots) {
                    self.let_go(number);
                    continue;
                }
                if state.dirty() {
                    page.make_clean();
                    self.forget_dirty(volume, page.block());
                }
                replacer.drop_page(core, number);
                dropped += 1;
            }
            drop(replacer);
            if many {
                yield_now();
            }
        }
    }
}
