//! What is known of ranges: data, holes, zeroes.

use crate::access::handle::Handle;
use crate::core::memory::Memory;
use crate::device::Extent;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::sync::lock;
use std::sync::Arc;

impl<M: Memory> Handle<M> {
    /// What is known of a range: dirty pages are data, whatever the device says of their place.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Device`].
    pub fn extents(&self, volume: &Arc<Volume>, offset: u64, length: u64) -> Result<Vec<Extent>, Error> {
        volume.check_range(offset, length)?;
        let page_size = u64::from(self.shared.config.page_size);
        // The dirty pages first: one that is written back meanwhile is then known from one side or the other.
        let writing = lock(&volume.writing);
        let dirty: Vec<u64> = {
            let dirty = lock(&self.shared.dirty_pages);
            dirty
                .of(volume.id, offset / page_size..(offset + length).div_ceil(page_size))
                .map(|(block, _)| block)
                .collect()
        };
        let known = volume.device.extents(offset, length);
        drop(writing);
        let known = known.map_err(|source| volume.failed("status", offset, length, source))?;
        let mut extents: Vec<Extent> = Vec::new();
        let mut add = |extent: Extent| match extents.last_mut() {
            _ if extent.length == 0 => {}
            Some(last) if (last.hole, last.zero) == (extent.hole, extent.zero) => last.length += extent.length,
            _ => extents.push(extent),
        };
        let mut at = offset;
        let mut dirty = dirty.into_iter().map(|block| block * page_size..(block + 1) * page_size).peekable();
        for extent in known {
            let end = (at + extent.length).min(offset + length);
            while at < end {
                while dirty.next_if(|page| page.end <= at).is_some() {}
                match dirty.peek() {
                    Some(page) if page.start <= at => {
                        let data = page.end.min(end) - at;
                        add(Extent { length: data, hole: false, zero: false });
                        at += data;
                    }
                    next => {
                        let until = next.map_or(end, |page| page.start.min(end));
                        add(Extent { length: until - at, ..extent });
                        at = until;
                    }
                }
            }
        }
        Ok(extents)
    }
}
