//! Room in the file system below for pages that are about to become dirty.

use crate::access::handle::Handle;
use crate::core::memory::Memory;
use crate::core::page::State;
use crate::device::Reserved;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::Shared;
use crate::sync::lock;
use std::ops::Range;
use std::sync::Arc;

impl<M: Memory> Handle<M> {
    /// Whether these pages may become dirty without asking below.
    #[inline]
    pub(crate) fn has_room(&self, volume: &Volume, blocks: Range<u64>) -> bool {
        let length = (blocks.end - blocks.start) * u64::from(self.shared.config.page_size);
        volume.spaces.iter().all(|space| space.has_room(length))
    }

    /// Finds room for pages that are about to become dirty.
    ///
    /// # Errors
    /// [`Error::Device`]: there is none. [`Error::Busy`]: another handle must look.
    #[inline]
    pub(crate) fn make_room(&self, volume: &Arc<Volume>, blocks: Range<u64>) -> Result<(), Error> {
        if self.has_room(volume, blocks.clone()) { Ok(()) } else { self.find_room(volume, blocks) }
    }

    #[cold]
    fn find_room(&self, volume: &Arc<Volume>, blocks: Range<u64>) -> Result<(), Error> {
        // A dirty page found its room when it became dirty. Then the free bytes are only sampled anew, for the writes that follow.
        let are_dirty = blocks.clone().all(|block| self.state_of(volume, block).is_some_and(State::dirty));
        if self.is_prompt() {
            return if are_dirty { Ok(()) } else { Err(Error::Busy) };
        }
        let page_size = u64::from(self.shared.config.page_size);
        let offset = blocks.start * page_size;
        let length = if are_dirty { 0 } else { (blocks.end * page_size).min(volume.len()).saturating_sub(offset) };
        match volume.device.reserve(offset, length) {
            Ok(Reserved::WriteBack) => self.shared.write_back_beside(volume),
            Ok(Reserved::Plenty | Reserved::Allocated | Reserved::Unknown) => {}
            Err(source) => return Err(volume.failed("write", offset, length, source)),
        }
        Ok(())
    }
}

impl<M: Memory> Shared<M> {
    /// Writes back what is dirty in the file systems of a volume. Passes over pages that are being written to, and volumes whose devices hang or have
    /// just failed. A failure is kept for the next flush.
    fn write_back_beside(&self, volume: &Volume) {
        for other in self.dirty_volumes(usize::MAX) {
            let shares = other.spaces.iter().any(|one| volume.spaces.iter().any(|another| one.is(another)));
            if shares && !other.hangs() && !other.resting() {
                let writing = lock(&other.writing);
                let pages: Vec<_> = lock(&self.dirty_pages).of(other.id, 0..u64::MAX).collect();
                let _ = self.write_back(&other, &writing, &pages, &mut Vec::new());
            }
        }
    }
}
