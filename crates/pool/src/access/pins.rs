//! Pages that are held: for reading with others, or for writing alone; by a thread while its handle is borrowed, or by whoever has an owned pin.

use crate::access::handle::{Handle, Pin};
use crate::config::WriteMode;
use crate::core::frames::Frames;
use crate::core::memory::Memory;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::Shared;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page held for reading: it stays, and nobody writes to it.
pub struct ReadPin<'h, M: Memory = Frames> {
    handle: &'h Handle<M>,
    pin: Pin,
    /// Null until they are asked for: who maps pages for a program does not.
    bytes: Cell<*const u8>,
}

impl<'h, M: Memory> ReadPin<'h, M> {
    #[inline]
    pub(crate) fn new(handle: &'h Handle<M>, pin: Pin) -> Self {
        Self { handle, pin, bytes: Cell::new(std::ptr::null()) }
    }

    #[inline]
    fn bytes(&self) -> *const u8 {
        if self.bytes.get().is_null() {
            let shared = &self.handle.shared;
            self.bytes.set(shared.memory.pointer(shared.core.pages.get(self.pin.number).frame()));
        }
        self.bytes.get()
    }
}

impl<M: Memory> Deref for ReadPin<'_, M> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame holds this page as long as the shared pin lives, and nobody writes to it meanwhile (PG1 and PG2 of a
        // page's state); it is as long as the pool's pages.
        unsafe { std::slice::from_raw_parts(self.bytes(), self.handle.shared.memory.page_size()) }
    }
}

impl<M: Memory> Drop for ReadPin<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.handle.unpin(self.pin);
    }
}

impl<M: Memory> ReadPin<'_, M> {
    /// The same pin for whoever has it: it outlives the handle, may go to another thread, and keeps the pool's memory. A thread that has one must not
    /// ask to write to the page, or to trim or zero it: it would wait for itself.
    pub fn into_owned(self) -> OwnedPin<M> {
        let shared = Arc::clone(&self.handle.shared);
        // Before this pin is given back: whoever wants the page alone sees one of the two.
        shared.core.pages.get(self.pin.number).share_held();
        OwnedPin { shared, number: self.pin.number, bytes: self.bytes() }
    }
}

/// A page held for reading that no handle is borrowed for. It stays, and nobody writes to it.
pub struct OwnedPin<M: Memory = Frames> {
    shared: Arc<Shared<M>>,
    number: u32,
    bytes: *const u8,
}

// SAFETY: the bytes are read alone, from a frame that keeps its page as long as the pin lives, whichever thread has it (PG1); its mapping lives as
// long as `shared`.
unsafe impl<M: Memory> Send for OwnedPin<M> {}
// SAFETY: as above.
unsafe impl<M: Memory> Sync for OwnedPin<M> {}

impl<M: Memory> Deref for OwnedPin<M> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for a `ReadPin`: a pin counted in the page's state is a shared one (PG1).
        unsafe { std::slice::from_raw_parts(self.bytes, self.shared.memory.page_size()) }
    }
}

impl<M: Memory> Drop for OwnedPin<M> {
    fn drop(&mut self) {
        self.shared.core.pages.get(self.number).unshare();
    }
}

/// A page held for writing. Dropped it counts as written, in write-through mode with its failure kept for the next flush.
pub struct WritePin<'h, M: Memory = Frames> {
    shared: Cow<'h, Arc<Shared<M>>>,
    volume: Cow<'h, Arc<Volume>>,
    owner: u32,
    number: u32,
    block: u64,
    open: bool,
}

impl<'h, M: Memory> WritePin<'h, M> {
    /// Of a page that the handle holds exclusively.
    pub(crate) fn new(handle: &'h Handle<M>, volume: &'h Arc<Volume>, number: u32, block: u64) -> Self {
        let (shared, owner) = (Cow::Borrowed(&handle.shared), handle.owner(volume));
        Self { shared, volume: Cow::Borrowed(volume), owner, number, block, open: true }
    }

    /// The same pin for whoever has it: it outlives the handle, and may go to another thread.
    pub fn into_owned(mut self) -> WritePin<'static, M> {
        self.open = false;
        let (shared, volume) = (Arc::clone(&self.shared), Arc::clone(&self.volume));
        let Self { owner, number, block, .. } = self;
        WritePin { shared: Cow::Owned(shared), volume: Cow::Owned(volume), owner, number, block, open: true }
    }

    /// Ends the write: the page is dirty or, in write-through mode, written.
    ///
    /// # Errors
    /// [`Error::Device`]: the page stays dirty, and its writeback will be tried again.
    pub fn commit(mut self) -> Result<(), Error> {
        self.close()
    }

    /// Lets the page go as it was. Nobody has written to it, whose memory is a program's.
    pub fn abandon(mut self) {
        if std::mem::take(&mut self.open) {
            self.shared.let_go(self.number);
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let held = [(self.block, self.number)];
        match self.volume.mode {
            WriteMode::Back => {
                self.shared.end_write(&self.volume, &held, self.owner);
                Ok(())
            }
            WriteMode::Through => self.shared.write_through(&self.volume, &held, self.owner),
        }
    }

    fn pointer(&self) -> *mut u8 {
        let shared = &self.shared;
        shared.memory.pointer(shared.core.pages.get(self.number).frame())
    }
}

impl<M: Memory> Deref for WritePin<'_, M> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the page is held exclusively (PG2), so its frame is this value's alone.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.shared.memory.page_size()) }
    }
}

impl<M: Memory> DerefMut for WritePin<'_, M> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and this value is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.shared.memory.page_size()) }
    }
}

impl<M: Memory> Drop for WritePin<'_, M> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            self.volume.keep_failure(error);
        }
    }
}
