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

use crate::userfault::Userfault;
use forebay_policy::Place;
use forebay_pool::Memory;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// How many pages may be mapped at the pool's addresses after their use. They count twice in the program's resident set.
const LEFT_MAPPED: usize = 16;

/// One region's addresses.
#[derive(Debug)]
pub(crate) struct Extent {
    file: OwnedFd,
    /// The program's addresses.
    pub(crate) base: *mut u8,
    /// The pool's.
    alias: *mut u8,
    pub(crate) length: usize,
    /// By page: it may be mapped at the program's addresses.
    mapped: Vec<AtomicBool>,
    /// Where pages begin that failed.
    poisoned: Mutex<Vec<usize>>,
}

// SAFETY: the pointers are addresses of mappings that live as long as this value. Who may touch their bytes is decided by the pool and by the program.
unsafe impl Send for Extent {}
// SAFETY: as above.
unsafe impl Sync for Extent {}

impl Extent {
    /// Addresses for `length` bytes, of which none is there.
    pub(crate) fn new(name: &str, length: usize, page_size: usize) -> io::Result<Self> {
        let file = memfd_create(name.replace('\0', ""), MemfdFlags::CLOEXEC)?;
        ftruncate(&file, length as u64)?;
        let mapped = (0..length / page_size).map(|_| AtomicBool::new(false)).collect();
        let mut extent = Self { file, base: null_mut(), alias: null_mut(), length, mapped, poisoned: Mutex::default() };
        extent.base = extent.map()?;
        extent.alias = extent.map()?;
        // A dump of this process has the program's pages; here it would bring all others into memory.
        // SAFETY: the range is the mapping made above.
        let _ = unsafe { madvise(extent.alias.cast(), length, Advice::LinuxDontDump) };
        Ok(extent)
    }

    fn map(&self) -> io::Result<*mut u8> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at addresses of the kernel's choice touches no memory that is in use.
        let base = unsafe { mmap(null_mut(), self.length, protection, flags, &self.file, 0) }?;
        // A child of fork would wait for ever at an absent page, as nobody handles its faults. A huge page would hold more than one frame's memory.
        for advice in [Advice::LinuxDontFork, Advice::LinuxNoHugepage] {
            // SAFETY: the range is the mapping made above. Kernels without huge pages know no advice on them.
            match unsafe { madvise(base, self.length, advice) } {
                Err(error) if advice == Advice::LinuxDontFork => return Err(error.into()),
                _ => {}
            }
        }
        Ok(base.cast())
    }

    /// A page failed: who touches it gets SIGBUS until it is [tried again](Extent::try_again).
    pub(crate) fn failed(&self, at: usize) {
        self.poisoned.lock().unwrap_or_else(PoisonError::into_inner).push(at);
    }

    /// Pages that failed are read again when they are touched.
    pub(crate) fn try_again(&self, page_size: usize) {
        for at in self.poisoned.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            Self::drop_mapping(self.base, at, page_size);
        }
    }

    fn drop_mapping(base: *mut u8, at: usize, length: usize) {
        // SAFETY: a range of one of the mappings; the bytes stay in the file.
        let _ = unsafe { madvise(base.wrapping_add(at).cast(), length, Advice::LinuxDontNeed) };
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        for base in [self.base, self.alias] {
            if !base.is_null() {
                // SAFETY: the mapping was made by `new`, and nobody has addresses of it any more.
                let _ = unsafe { munmap(base.cast(), self.length) };
            }
        }
    }
}

/// The page that a frame holds.
#[derive(Debug, Default)]
struct FramePage {
    /// Its object; what follows is of no meaning as long as there is none.
    object: AtomicUsize,
    /// Where in the region it begins.
    at: AtomicUsize,
}

/// The memory of a pool whose pages lie in regions.
#[derive(Debug)]
pub(crate) struct Space {
    page_size: usize,
    pub(crate) faults: Userfault,
    frames: Vec<FramePage>,
    /// By the number of their object.
    regions: RwLock<Vec<Option<Arc<Extent>>>>,
    /// Pages used last at the pool's addresses, by object and place.
    left: Mutex<Vec<(usize, usize)>>,
}

impl Space {
    pub(crate) fn new(frames: usize, page_size: usize) -> io::Result<Self> {
        let faults = Userfault::new()?;
        let frames = (0..frames).map(|_| FramePage::default()).collect();
        Ok(Self { page_size, faults, frames, regions: RwLock::default(), left: Mutex::default() })
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
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions[object as usize] = None;
    }

    fn extent(&self, object: usize) -> Option<Arc<Extent>> {
        self.regions.read().unwrap_or_else(PoisonError::into_inner).get(object).cloned().flatten()
    }

    fn of(&self, frame: u32) -> (Arc<Extent>, usize) {
        let page = &self.frames[frame as usize];
        let object = page.object.load(Ordering::Acquire);
        (self.extent(object).expect("a page is of a region"), page.at.load(Ordering::Acquire))
    }

    /// Maps a page of a region for the program, and wakes who waits for it. A page that is not `protected` is dirty, and held alone.
    pub(crate) fn map(&self, extent: &Extent, at: usize, protected: bool) -> io::Result<()> {
        extent.mapped[at / self.page_size].store(true, Ordering::Release);
        match self.faults.map(extent.base as usize + at, self.page_size, protected) {
            // The program has unmapped these addresses.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the mapping of the next mapped pages from a frame on away, so that their next use shows: how many they are, and the frame to go on from.
    pub(crate) fn unmap_some(&self, from: usize, most: usize) -> (usize, usize) {
        let mut ranges: Vec<(usize, usize)> = Vec::with_capacity(most);
        let mut frame = from;
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..self.frames.len().min(8 * most) {
            if ranges.len() == most {
                break;
            }
            let page = &self.frames[frame];
            let (object, at) = (page.object.load(Ordering::Acquire), page.at.load(Ordering::Acquire));
            let mapped = |extent: &Extent| {
                extent.mapped.get(at / self.page_size).is_some_and(|mapped| mapped.swap(false, Ordering::AcqRel))
            };
            if regions.get(object).is_some_and(|extent| extent.as_deref().is_some_and(mapped)) {
                ranges.push((object, at));
            }
            frame = (frame + 1) % self.frames.len();
        }
        drop(regions);
        let count = ranges.len();
        self.drop_mappings(ranges, |extent| extent.base);
        (count, frame)
    }

    /// Takes mappings away, those in a row at once.
    fn drop_mappings(&self, mut pages: Vec<(usize, usize)>, of: impl Fn(&Extent) -> *mut u8) {
        pages.sort_unstable();
        for run in pages.chunk_by(|one, next| one.0 == next.0 && one.1 + self.page_size == next.1) {
            let ((object, at), length) = (run[0], run.len() * self.page_size);
            // A region that has gone may have given its number to a shorter one.
            if let Some(extent) = self.extent(object).filter(|extent| at + length <= extent.length) {
                Extent::drop_mapping(of(&extent), at, length);
            }
        }
    }

    /// A page has been used at the pool's addresses.
    fn leave(&self, frame: u32) {
        let page = &self.frames[frame as usize];
        let used = (page.object.load(Ordering::Acquire), page.at.load(Ordering::Acquire));
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push(used);
        if left.len() == 2 * LEFT_MAPPED {
            // The others may be in use.
            let old = left.drain(..LEFT_MAPPED).collect();
            drop(left);
            self.drop_mappings(old, |extent| extent.alias);
        }
    }
}

impl Memory for Space {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pointer(&self, frame: u32) -> *mut u8 {
        let (extent, at) = self.of(frame);
        extent.alias.wrapping_add(at)
    }

    fn place(&self, frame: u32, place: Place) {
        let page = &self.frames[frame as usize];
        page.object.store(place.object as usize, Ordering::Release);
        page.at.store(place.block as usize * self.page_size, Ordering::Release);
    }

    fn install(&self, frame: u32) {
        self.leave(frame);
    }

    fn protect(&self, frame: u32) {
        let (extent, at) = self.of(frame);
        // A range that the program has unmapped needs no protection.
        let _ = self.faults.protect(extent.base as usize + at, self.page_size, true);
        self.leave(frame);
    }

    /// A write fault ends here: the page counts as dirty before its program can write to it.
    fn unprotect(&self, frame: u32) {
        let (extent, at) = self.of(frame);
        if let Err(error) = self.map(&extent, at, false) {
            tracing::error!(%error, "a page cannot be mapped for a write");
            let _ = self.faults.wake(extent.base as usize + at, self.page_size);
        }
    }

    fn release(&self, frame: u32) {
        let (extent, at) = self.of(frame);
        extent.mapped[at / self.page_size].store(false, Ordering::Release);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = fallocate(&extent.file, hole, at as u64, self.page_size as u64) {
            tracing::error!(%error, "a page's memory could not be given back");
        }
    }

    fn retire(&self, _: u32) {}
}
