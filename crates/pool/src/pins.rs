//! Pages held by a thread: for reading with others, or for writing alone.

use crate::config::WriteMode;
use crate::error::Error;
use crate::frames::Frames;
use crate::handle::{Handle, Pin};
use crate::memory::Memory;
use crate::volume::Volume;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page held for reading: it stays, and nobody writes to it.
pub struct ReadPin<'h, M: Memory = Frames> {
    handle: &'h Handle<M>,
    pin: Pin,
    bytes: *const u8,
}

impl<'h, M: Memory> ReadPin<'h, M> {
    #[inline]
    pub(crate) fn new(handle: &'h Handle<M>, pin: Pin) -> Self {
        let core = &handle.shared.core;
        Self { handle, pin, bytes: handle.shared.memory.pointer(core.pages.get(pin.number).frame()) }
    }
}

impl<M: Memory> Deref for ReadPin<'_, M> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame holds this page as long as the shared pin lives, and nobody writes to it meanwhile (rules 1 and 2 of a
        // page's state); it is as long as the pool's pages.
        unsafe { std::slice::from_raw_parts(self.bytes, self.handle.shared.memory.page_size()) }
    }
}

impl<M: Memory> Drop for ReadPin<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.handle.unpin(self.pin);
    }
}

/// A page held for writing. Dropped it counts as written, in write-through mode with its failure kept for the next flush.
pub struct WritePin<'h, M: Memory = Frames> {
    handle: &'h Handle<M>,
    volume: &'h Arc<Volume>,
    number: u32,
    block: u64,
    open: bool,
}

impl<'h, M: Memory> WritePin<'h, M> {
    /// Of a page that the handle holds exclusively.
    pub(crate) fn new(handle: &'h Handle<M>, volume: &'h Arc<Volume>, number: u32, block: u64) -> Self {
        Self { handle, volume, number, block, open: true }
    }

    /// Ends the write: the page is dirty or, in write-through mode, written.
    ///
    /// # Errors
    /// [`Error::Device`]: the page stays dirty, and its writeback will be tried again.
    pub fn commit(mut self) -> Result<(), Error> {
        self.close()
    }

    fn close(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let held = [(self.block, self.number)];
        match self.volume.mode {
            WriteMode::Back => {
                self.handle.shared.end_write(self.volume, &held, self.handle.owner(self.volume));
                Ok(())
            }
            WriteMode::Through => self.handle.shared.write_through(self.volume, &held, self.handle.owner(self.volume)),
        }
    }

    fn pointer(&self) -> *mut u8 {
        let shared = &self.handle.shared;
        shared.memory.pointer(shared.core.pages.get(self.number).frame())
    }
}

impl<M: Memory> Deref for WritePin<'_, M> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the page is held exclusively (rule 2 of a page's state), so its frame is this value's alone.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.handle.shared.memory.page_size()) }
    }
}

impl<M: Memory> DerefMut for WritePin<'_, M> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and this value is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.handle.shared.memory.page_size()) }
    }
}

impl<M: Memory> Drop for WritePin<'_, M> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            self.volume.keep_failure(error);
        }
    }
}
