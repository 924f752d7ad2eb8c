//! Pages held by a thread: for reading with others, or for writing alone.

use crate::config::WriteMode;
use crate::error::Error;
use crate::handle::{Handle, Pin};
use crate::volume::Volume;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page held for reading: it stays, and nobody writes to it.
pub struct ReadPin<'h> {
    handle: &'h Handle,
    pin: Pin,
    bytes: *const u8,
}

impl<'h> ReadPin<'h> {
    #[inline]
    pub(crate) fn new(handle: &'h Handle, pin: Pin) -> Self {
        let memory = &handle.shared.memory;
        Self { handle, pin, bytes: memory.frames.pointer(memory.pages.get(pin.number).frame()) }
    }
}

impl Deref for ReadPin<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame holds this page as long as the shared pin lives, and nobody writes to it meanwhile (rules 1 and 2 of a
        // page's state); it is as long as the pool's pages.
        unsafe { std::slice::from_raw_parts(self.bytes, self.handle.shared.memory.frames.page_size()) }
    }
}

impl Drop for ReadPin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.handle.unpin(self.pin);
    }
}

/// A page held for writing. Dropped it counts as written, in write-through mode with its failure kept for the next flush.
pub struct WritePin<'h> {
    handle: &'h Handle,
    volume: &'h Arc<Volume>,
    number: u32,
    block: u64,
    open: bool,
}

impl<'h> WritePin<'h> {
    /// Of a page that the handle holds exclusively.
    pub(crate) fn new(handle: &'h Handle, volume: &'h Arc<Volume>, number: u32, block: u64) -> Self {
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
        let memory = &self.handle.shared.memory;
        memory.frames.pointer(memory.pages.get(self.number).frame())
    }
}

impl Deref for WritePin<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the page is held exclusively (rule 2 of a page's state), so its frame is this value's alone.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.handle.shared.memory.frames.page_size()) }
    }
}

impl DerefMut for WritePin<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and this value is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.handle.shared.memory.frames.page_size()) }
    }
}

impl Drop for WritePin<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            self.volume.keep_failure(error);
        }
    }
}
