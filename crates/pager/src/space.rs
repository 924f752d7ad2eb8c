//! Where the pages of regions lie: in a file in memory for each region, mapped twice.
//!
//! ```text
//!   the program's addresses    |  .  |  p  | p w |  .  |        p: mapped, w: a write is no fault
//!                                       |     |
//!   the memory file            |  .  |  x  |  x  |  x  |        x: a resident page, each in a frame of the pool
//!                                       |     |     |
//!   the pool's addresses       |  x  |  x  |  x  |  x  |        what is read and written back
//! ```
//!
//! A page of the file has memory as long as a frame of the pool holds it. The pool reads and writes it at its own addresses, where there are no
//! faults to handle. The program finds it when a fault has mapped it, and never before its bytes are there. Taking the mapping away
//! again loses no byte: the next touch is a minor fault, and shows that the page is used.

use crate::buffers::Buffers;
use crate::extent::Extent;
use crate::in_place::report;
use crate::leaving::{Leaving, Left};
use crate::userfault::{Continued, Userfault};
use forebay_basis::Place;
use forebay_pool::{Buffer, Memory};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Bytes that may be mapped at the pool's addresses after their use. They count twice in the program's resident set.
const LEFT_MAPPED: usize = 64 << 10;

/// The most pages whose mapping is taken away by one call: it keeps others from their faults.
const RUN: usize = 128;

/// The page that a frame holds.
#[derive(Debug, Default)]
struct FramePage {
    /// Its object; what follows is of no meaning as long as there is none.
    object: AtomicU32,
    /// Its number in the region.
    block: AtomicU32,
    /// It may be mapped for the pool.
    aliased: AtomicBool,
}

/// The memory of a pool whose pages lie in regions.
#[derive(Debug)]
pub(crate) struct Space {
    page_size: usize,
    pub(crate) faults: Arc<Userfault>,
    frames: Vec<FramePage>,
    /// By the number of their object.
    regions: RwLock<Vec<Option<Arc<Extent>>>>,
    /// Pages used last at the pool's addresses, by object and place.
    left: Mutex<Vec<(u32, usize)>>,
    /// Whether the policy says which uses it waits to see, and it is asked.
    awaits: bool,
    /// Pages that are mapped and whose reference bit the policy has cleared.
    cleared: Mutex<Vec<(u32, usize)>>,
    /// Pages that lose their mapping when memory is given back next.
    later: Mutex<Vec<(u32, usize)>>,
    /// Held while mappings are chosen and taken away.
    unmapping: Mutex<()>,
    leaving: Leaving,
    buffers: Buffers,
}

impl Space {
    pub(crate) fn new(count: usize, page_size: usize, in_place: bool, awaits: bool) -> io::Result<Self> {
        let faults = Arc::new(Userfault::new(in_place)?);
        let frames = (0..count).map(|_| FramePage::default()).collect();
        Ok(Self {
            page_size,
            faults,
            frames,
            regions: RwLock::default(),
            left: Mutex::default(),
            awaits,
            cleared: Mutex::default(),
            later: Mutex::default(),
            unmapping: Mutex::default(),
            leaving: Leaving::new(count),
            buffers: Buffers::new(count * page_size),
        })
    }

    /// The region of an object.
    pub(crate) fn add(&self, object: u32, extent: Arc<Extent>) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        if regions.len() <= object as usize {
            regions.resize(object as usize + 1, None);
        }
        regions[object as usize] = Some(extent);
    }

    /// The object has gone, and with it all its pages.
    pub(crate) fn remove(&self, object: u32) {
        self.give_back();
        let gone = self.regions.write().unwrap_or_else(PoisonError::into_inner)[object as usize].take();
        drop(gone);
    }

    fn extent(&self, object: u32) -> Option<Arc<Extent>> {
        self.regions.read().unwrap_or_else(PoisonError::into_inner).get(object as usize).cloned().flatten()
    }

    fn place_of(&self, frame: u32) -> (u32, usize) {
        let page = &self.frames[frame as usize];
        let object = page.object.load(Ordering::Acquire);
        (object, page.block.load(Ordering::Acquire) as usize * self.page_size)
    }

    fn of(&self, frame: u32) -> (Arc<Extent>, usize) {
        let (object, at) = self.place_of(frame);
        (self.extent(object).expect("a page is of a region"), at)
    }

    /// How many frames there are.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Takes the mappings of up to `most` mapped pages away, from frame `from` on, if `may` allows: so their next use shows. Returns how many, and the frame to go on
    /// from.
    pub(crate) fn unmap_some(
        &self,
        from: usize,
        most: usize,
        may: impl Fn(&Extent, (u32, usize)) -> bool,
    ) -> (usize, usize) {
        let _unmapping = self.unmapping.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pages: Vec<(u32, usize)> = Vec::with_capacity(most);
        let mut frame = from;
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..self.frames.len().min(8 * most) {
            if pages.len() == most {
                break;
            }
            let (object, at) = self.place_of(frame as u32);
            let extent = regions.get(object as usize).and_then(Option::as_ref);
            if extent.is_some_and(|extent| may(extent, (object, at)) && extent.was_mapped(at)) {
                pages.push((object, at));
            }
            frame = (frame + 1) % self.frames.len();
        }
        drop(regions);
        let count = pages.len();
        self.drop_mappings(pages);
        (count, frame)
    }

    /// Pages that lie in a row, as they are sorted.
    fn runs<'a>(&self, pages: &'a [(u32, usize)]) -> impl Iterator<Item = &'a [(u32, usize)]> + use<'a> {
        let page_size = self.page_size;
        pages.chunk_by(move |one, next| one.0 == next.0 && one.1 + page_size == next.1)
    }

    /// Takes mappings of pages for their program away.
    fn drop_mappings(&self, mut pages: Vec<(u32, usize)>) {
        if pages.is_empty() {
            return;
        }
        pages.sort_unstable();
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        for some in pages.chunks(RUN) {
            let addresses = self.runs(some).filter_map(|run| {
                let ((object, at), length) = (run[0], run.len() * self.page_size);
                // A region that has gone may have given its number to a shorter one.
                let extent = regions.get(object as usize)?.as_ref().filter(|extent| at + length <= extent.length)?;
                Some(extent.base as usize + at..extent.base as usize + at + length)
            });
            self.faults.drop_mappings(addresses);
        }
    }

    /// Gives the memory of all pages that have left back.
    pub(crate) fn give_back(&self) {
        self.leaving.give_all(|left| self.give(left));
    }

    fn give(&self, left: &mut [Left]) {
        self.unmap(std::mem::take(&mut self.later.lock().unwrap_or_else(PoisonError::into_inner)));
        left.sort_unstable();
        for run in self.runs(left) {
            let Some(extent) = self.extent(run[0].0) else { continue };
            if let Err(error) = extent.release(run[0].1, run.len() * self.page_size) {
                report(&error, "the memory of pages could not be given back");
            }
        }
    }

    /// Pages whose reference bit the policy has cleared since the last call.
    pub(crate) fn take_cleared(&self) -> Vec<(u32, usize)> {
        std::mem::take(&mut self.cleared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the policy waits to see a page used.
    pub(crate) fn awaits(&self, (object, at): (u32, usize)) -> bool {
        self.extent(object).is_some_and(|extent| extent.awaits(at))
    }

    /// Takes the mapping of those of these pages away that are mapped: how many they are.
    pub(crate) fn unmap(&self, mut pages: Vec<(u32, usize)>) -> usize {
        if pages.is_empty() {
            return 0;
        }
        let _unmapping = self.unmapping.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|&(object, at)| self.extent(object).is_some_and(|extent| extent.was_mapped(at)));
        let count = pages.len();
        self.drop_mappings(pages);
        count
    }

    /// Takes their mapping away when memory is given back next: how many are mapped now.
    pub(crate) fn unmap_later(&self, mut pages: Vec<(u32, usize)>) -> usize {
        pages.retain(|&(object, at)| self.extent(object).is_some_and(|extent| extent.is_mapped(at)));
        let count = pages.len();
        self.later.lock().unwrap_or_else(PoisonError::into_inner).append(&mut pages);
        count
    }

    /// Waits until no page is about to lose its mapping that does not count as mapped any more.
    pub(crate) fn wait_until_unmapped(&self) {
        drop(self.unmapping.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Does something to pages, those in a row at once.
    fn by_run(&self, mut pages: Vec<(u32, usize)>, act: impl Fn(&Extent, usize, usize)) {
        pages.sort_unstable();
        for run in self.runs(&pages).flat_map(|run| run.chunks(RUN)) {
            let ((object, at), length) = (run[0], run.len() * self.page_size);
            // A region that has gone may have given its number to a shorter one.
            if let Some(extent) = self.extent(object).filter(|extent| at + length <= extent.length) {
                act(&extent, at, length);
            }
        }
    }

    /// A page is not used any more at the pool's addresses, if it was.
    fn leave(&self, frame: u32) {
        if !self.frames[frame as usize].aliased.swap(false, Ordering::AcqRel) {
            return;
        }
        let used = self.place_of(frame);
        let kept = LEFT_MAPPED / self.page_size;
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push(used);
        if left.len() > 2 * kept {
            // The others may be in use.
            let old = left.len() - kept;
            let old = left.drain(..old).collect();
            drop(left);
            self.by_run(old, Extent::drop_alias);
        }
    }
}

impl Memory for Space {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pointer(&self, frame: u32) -> *mut u8 {
        let (extent, at) = self.of(frame);
        self.frames[frame as usize].aliased.store(true, Ordering::Release);
        extent.alias.wrapping_add(at)
    }

    fn buffer(&self, pages: usize) -> Option<Buffer> {
        self.buffers.take(pages * self.page_size)
    }

    fn give(&self, buffer: Buffer) {
        self.buffers.give(buffer);
    }

    fn fill(&self, frame: u32, bytes: &[u8], read: bool) -> io::Result<()> {
        let (extent, at) = self.of(frame);
        if read && extent.write_mapped(at, bytes) { Ok(()) } else { extent.write(at, bytes) }
    }

    fn copy(&self, pages: &[(u32, bool)], mut bytes: &mut [u8]) {
        let places: Vec<(u32, usize)> = pages.iter().map(|&(frame, _)| self.place_of(frame)).collect();
        for run in self.runs(&places) {
            let extent = self.extent(run[0].0).expect("a page is of a region");
            let copies;
            (copies, bytes) = bytes.split_at_mut(run.len() * self.page_size);
            if let Err(error) = extent.read(run[0].1, copies) {
                report(&error, "pages cannot be copied by a call, but by their addresses");
                // SAFETY: the pool's mapping of the pages, which the caller holds, has as many bytes.
                unsafe { std::ptr::copy_nonoverlapping(extent.alias.add(run[0].1), copies.as_mut_ptr(), copies.len()) };
            }
        }
    }

    fn place(&self, frame: u32, place: Place) {
        let at = place.block as usize * self.page_size;
        self.leaving.take((place.object, at), |left| self.give(left));
        let page = &self.frames[frame as usize];
        page.object.store(place.object, Ordering::Release);
        page.block.store(place.block as u32, Ordering::Release);
    }

    fn install(&self, frame: u32) {
        self.leave(frame);
    }

    fn protect(&self, frame: u32) {
        self.protect_all(&[(frame, false)]);
    }

    /// Pages in a row are protected at once. To others that stay mapped each costs an interruption of the other cores: of those that have been evicted the mapping is
    /// taken away instead, of all at once.
    fn protect_all(&self, pages: &[(u32, bool)]) {
        let evicted: Vec<_> =
            pages.iter().filter(|(_, evicted)| *evicted).map(|&(frame, _)| self.place_of(frame)).collect();
        // Before it is so: one that comes back meanwhile may lose its mapping once more, which costs a fault.
        evicted.iter().for_each(|&(object, at)| _ = self.extent(object).map(|extent| extent.was_mapped(at)));
        self.drop_mappings(evicted);
        let mut stay: Vec<_> =
            pages.iter().filter(|(_, evicted)| !evicted).map(|&(frame, _)| self.place_of(frame)).collect();
        stay.sort_unstable();
        for run in self.runs(&stay) {
            let extent = self.extent(run[0].0).expect("a page is of a region");
            if let Err(error) = extent.protect(run[0].1, run.len() * self.page_size) {
                report(&error, "pages cannot be protected: what is written to them from now on may be lost");
            }
        }
    }

    fn copied(&self, frame: u32) {
        self.leave(frame);
    }

    /// A write fault ends here: the page counts as dirty before its program can write to it.
    fn unprotect(&self, frame: u32) {
        let (extent, at) = self.of(frame);
        let mapped = match extent.map(at, self.page_size, false) {
            Ok(Continued::Removed) => extent.fill(at).and_then(|()| extent.map(at, self.page_size, false)),
            mapped => mapped,
        };
        if let Err(error) = mapped {
            report(&error, "a page cannot be mapped for a write: SIGBUS");
            let _ = extent.poison(at);
        }
        self.leave(frame);
    }

    fn awaits_uses(&self) -> bool {
        self.awaits
    }

    fn await_use(&self, frame: u32, awaited: bool) {
        let (object, at) = self.place_of(frame);
        if self.extent(object).is_some_and(|extent| extent.set_awaited(at, awaited)) {
            self.cleared.lock().unwrap_or_else(PoisonError::into_inner).push((object, at));
        }
    }

    fn release(&self, frame: u32) {
        let (object, at) = self.place_of(frame);
        // The hand passes it by.
        self.extent(object).expect("a page is of a region").was_mapped(at);
        self.frames[frame as usize].aliased.store(false, Ordering::Release);
        self.leaving.add((object, at), |left| self.give(left));
    }

    fn retire(&self, _: u32) {}
}
