//! Pages that are held in memory, so that the kernel or a device may write to them for a while.

use crate::error::Error;
use crate::extent::Extent;
use crate::pager::{Mapped, Pager};
use crate::region::Region;
use crate::signals;
use crate::space::Space;
use crate::userfault::Continued;
use forebay_pool::WritePin;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, PoisonError};

/// Held pages are at most this part of the frames: the others go on being paged.
const PART: usize = 4;

/// Pages that stay where they are, neither evicted nor written back, until this is dropped: then they are dirty. No thread syncs what it holds itself: it
/// would wait for itself.
pub struct Pages {
    pins: Vec<WritePin<'static, Space>>,
    extent: Arc<Extent>,
    /// Where the first of them begins.
    from: usize,
    _claim: Claim,
}

impl Drop for Pages {
    fn drop(&mut self) {
        // The hand comes to them again.
        self.extent.mark_mapped(self.from, self.pins.len() * self.extent.page_size);
        signals::blocked(|| self.pins.clear());
    }
}

impl Pages {
    /// How many they are.
    pub fn count(&self) -> usize {
        self.pins.len()
    }
}

/// Addresses of pages that are held, which nobody else holds.
struct Claim {
    pager: Arc<Pager>,
    addresses: Range<usize>,
}

impl Claim {
    /// # Errors
    /// Some of them are held, or so many are that these would be too many: what is wrong.
    fn new(pager: &Arc<Pager>, addresses: Range<usize>) -> Result<Self, String> {
        let mut held = pager.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.iter().any(|other| other.start < addresses.end && addresses.start < other.end) {
            return Err("some of these pages are held already: let go of them first".to_owned());
        }
        let page_size = pager.shared.page_size;
        let most = pager.shared.pool.capacity() as usize / page_size / PART;
        let pages = |addresses: &Range<usize>| addresses.len() / page_size;
        let wanted = pages(&addresses);
        if held.iter().map(pages).sum::<usize>() + wanted > most {
            return Err(format!("{wanted} pages cannot be held: all that are held at a time may be {most}"));
        }
        held.push(addresses.clone());
        Ok(Self { pager: Arc::clone(pager), addresses })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.pager.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|other| *other != self.addresses);
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
    /// [`Error::Configuration`] for a range behind the region's end, for pages that are held already, and for more than a quarter of the pager's; [`Error::Pool`] if one cannot be read
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
        let range = (blocks.start * page_size) as usize..(blocks.end * page_size) as usize;
        let base = extent.base as usize;
        let claim = match Claim::new(pager, base + range.start..base + range.end) {
            Ok(claim) => claim,
            Err(what) => return wrong(what),
        };
        let mut pages = Pages { pins: Vec::new(), extent: Arc::clone(extent), from: range.start, _claim: claim };
        let handle = pager.handle.lock().unwrap_or_else(PoisonError::into_inner);
        for block in blocks {
            pages.pins.push(handle.write_touched(volume, block)?.into_owned());
        }
        drop(handle);
        // A fault would wait until they are held no more, perhaps its own thread's. So the hand is to pass them by, and to be done with what it had
        // chosen before.
        let places = range.step_by(page_size as usize);
        places.clone().for_each(|at| _ = extent.was_mapped(at));
        pager.shared.space.wait_until_unmapped();
        for at in places {
            let map = || extent.map_unmarked(at, page_size as usize, false);
            let mapped = match map() {
                Ok(Continued::Removed) => extent.fill(at).and_then(|()| map().map(drop)),
                mapped => mapped.map(drop),
            };
            mapped.map_err(|source| Error::Memory { what: "a page cannot be mapped", source })?;
            extent.wake(at, page_size as usize);
        }
        Ok(pages)
    }
}
