//! Pages that are held in memory, so that the kernel or a device may write to them for a while.

use crate::error::Error;
use crate::pager::{Mapped, Pager};
use crate::region::Region;
use crate::signals;
use crate::space::Space;
use crate::userfault::Continued;
use forebay_pool::WritePin;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Held pages are at most this part of the frames: the others go on being paged.
const PART: u64 = 4;

/// Pages that stay where they are, neither evicted nor written back, until this is dropped: then they are dirty. Ranges that are held at a time do not have a
/// page in common, and no thread syncs what it holds itself: it would wait for itself.
pub struct Pages {
    pins: Vec<WritePin<'static, Space>>,
    count: Count,
}

impl Drop for Pages {
    fn drop(&mut self) {
        signals::blocked(|| self.pins.clear());
    }
}

/// Pages of a pager that count as held.
struct Count(Arc<Pager>, u64);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.held.fetch_sub(self.1, Ordering::SeqCst);
    }
}

impl Pages {
    /// How many they are.
    pub fn count(&self) -> usize {
        debug_assert_eq!(self.pins.len() as u64, self.count.1);
        self.pins.len()
    }
}

/// Bytes of a region for direct input: `file.read_exact_at(&mut held, 0)` with `O_DIRECT`, registered buffers of io_uring, `process_vm_writev`.
pub struct Held<'r> {
    region: &'r mut Region,
    range: Range<usize>,
    /// Gone before the region can be used otherwise.
    _pages: Pages,
}

impl Deref for Held<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.region[self.range.clone()]
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.region[self.range.clone()]
    }
}

impl Region {
    /// Holds `length` bytes from `offset` on for direct input.
    ///
    /// # Errors
    /// As for [`hold_pages`](Region::hold_pages).
    pub fn hold(&mut self, offset: u64, length: u64) -> Result<Held<'_>, Error> {
        let pages = self.hold_pages(offset, length)?;
        Ok(Held { range: offset as usize..(offset + length) as usize, region: self, _pages: pages })
    }

    /// The same for who has the bytes' address: the pages that have them are held until what is returned is dropped.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a range behind the region's end, and for more pages than a quarter of the pager's; [`Error::Pool`] if one cannot be read
    /// or the region cannot be written; [`Error::Forked`].
    pub fn hold_pages(&self, offset: u64, length: u64) -> Result<Pages, Error> {
        self.parts().0.check_process()?;
        signals::blocked(|| self.pin_pages(offset, length))
    }

    fn pin_pages(&self, offset: u64, length: u64) -> Result<Pages, Error> {
        let (pager, Mapped { extent, volume, .. }) = self.parts();
        let page_size = pager.shared.page_size as u64;
        let wrong = |what: String| Err(Error::Configuration(format!("{}: {what}", volume.name())));
        let end = offset.checked_add(length).filter(|&end| end <= extent.length as u64);
        let Some(end) = end else {
            return wrong(format!("{length} bytes at byte {offset} lie beyond the end of the region"));
        };
        let blocks = offset / page_size..end.div_ceil(page_size);
        let (wanted, most) = (blocks.end - blocks.start, pager.shared.pool.capacity() / page_size / PART);
        if pager.held.fetch_add(wanted, Ordering::SeqCst) + wanted > most {
            pager.held.fetch_sub(wanted, Ordering::SeqCst);
            return wrong(format!("{wanted} pages cannot be held: all that are held at a time may be {most}"));
        }
        let mut pages = Pages { pins: Vec::new(), count: Count(Arc::clone(pager), wanted) };
        let handle = pager.handle.lock().unwrap_or_else(PoisonError::into_inner);
        for block in blocks {
            pages.pins.push(handle.write_touched(volume, block)?.into_owned());
            let at = (block * page_size) as usize;
            let mapped = match extent.map(at, page_size as usize, false) {
                Ok(Continued::Removed) => {
                    extent.fill(at).and_then(|()| extent.map(at, page_size as usize, false)).map(drop)
                }
                mapped => mapped.map(drop),
            };
            mapped.map_err(|source| Error::Memory { what: "a page cannot be mapped", source })?;
            // The hand passes it by: a fault would wait until it is held no more.
            extent.was_mapped(at);
        }
        Ok(pages)
    }
}
