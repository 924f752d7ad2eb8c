//! One region's addresses: a file in memory, mapped for the program and for the pool.

use crate::userfault::{Continued, Userfault};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Extent {
    file: OwnedFd,
    faults: Arc<Userfault>,
    /// The program's addresses.
    pub(crate) base: *mut u8,
    /// The pool's.
    pub(crate) alias: *mut u8,
    pub(crate) length: usize,
    pub(crate) page_size: usize,
    pub(crate) read_only: bool,
    /// By page: it may be mapped at the program's addresses.
    mapped: Vec<AtomicBool>,
    /// By page: the policy waits to see it used.
    awaited: Vec<AtomicBool>,
    /// Where pages begin that failed. Its lock is held while the program's mapping of a page changes, but for one that is taken away.
    poisoned: Mutex<Vec<usize>>,
}

// SAFETY: the pointers are addresses of mappings that live as long as this value. Who may touch their bytes is decided by the pool and by the program.
unsafe impl Send for Extent {}
// SAFETY: as above.
unsafe impl Sync for Extent {}

impl Extent {
    /// Addresses for `length` bytes, of which none is there: from `at` on, where the caller has reserved them.
    pub(crate) fn new(
        faults: &Arc<Userfault>,
        name: &str,
        length: usize,
        page_size: usize,
        read_only: bool,
        at: Option<NonNull<u8>>,
    ) -> io::Result<Self> {
        // Names of files in memory have at most 249 bytes.
        let name: String = name.chars().filter(|&character| character != '\0').take(60).collect();
        let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
        ftruncate(&file, length as u64)?;
        let [mapped, awaited] = [(); 2].map(|()| (0..length / page_size).map(|_| AtomicBool::new(false)).collect());
        let faults = Arc::clone(faults);
        let (base, alias, poisoned) = (null_mut(), null_mut(), Mutex::default());
        let mut extent = Self { file, faults, base, alias, length, page_size, read_only, mapped, awaited, poisoned };
        extent.base = extent.map_nothing(at)?;
        extent.alias = extent.map_nothing(None)?;
        // Not before they are registered can they be used: else `mlockall(MCL_FUTURE)` has the kernel fill them with zeroes at once, which would
        // count as the pages' bytes.
        extent.faults.register(extent.base as usize, length)?;
        extent.faults.register_alone(extent.alias as usize, length)?;
        let writable = MprotectFlags::READ | MprotectFlags::WRITE;
        for (base, protection) in
            [(extent.base, if read_only { MprotectFlags::READ } else { writable }), (extent.alias, writable)]
        {
            // SAFETY: the range is one of the mappings made above.
            unsafe { mprotect(base.cast(), length, protection) }?;
        }
        // A dump of this process has the program's pages; here it would bring all others into memory.
        // SAFETY: the range is the mapping made above.
        let _ = unsafe { madvise(extent.alias.cast(), length, Advice::LinuxDontDump) };
        Ok(extent)
    }

    fn map_nothing(&self, at: Option<NonNull<u8>>) -> io::Result<*mut u8> {
        let fixed = if at.is_some() { MapFlags::FIXED } else { MapFlags::empty() };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | fixed;
        let at = at.map_or(null_mut(), |at| at.as_ptr().cast());
        // SAFETY: a new mapping at addresses of the kernel's choice, or reserved for it, touches no memory that is in use.
        let base = unsafe { mmap(at, self.length, ProtFlags::empty(), flags, &self.file, 0) }?;
        self.faults.begin(base as usize..base as usize + self.length);
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

    /// Maps pages for the program; threads that wait for them are to be [woken](Extent::wake). A page that is not `protected` is dirty, and held alone.
    pub(crate) fn map(&self, at: usize, length: usize, protected: bool) -> io::Result<Continued> {
        self.mark_mapped(at, length);
        self.map_unmarked(at, length, protected)
    }

    /// The same unseen by the hand: pages that are held.
    pub(crate) fn map_unmarked(&self, at: usize, length: usize, protected: bool) -> io::Result<Continued> {
        let _changing = self.changing();
        Ok(self.faults.map(self.base as usize + at, length, protected)?)
    }

    /// Has threads that wait for pages look again.
    pub(crate) fn wake(&self, at: usize, length: usize) {
        if let Err(error) = self.faults.wake(self.base as usize + at, length) {
            tracing::error!(%error, "who waits for a page at byte {at} cannot be woken");
        }
    }

    /// Pages may be mapped at the program's addresses from now on.
    pub(crate) fn mark_mapped(&self, at: usize, length: usize) {
        for mapped in &self.mapped[at / self.page_size..(at + length) / self.page_size] {
            mapped.store(true, Ordering::Release);
        }
    }

    /// Gives a page memory again, of zeroes, where the program has removed it.
    pub(crate) fn fill(&self, at: usize) -> io::Result<()> {
        // SAFETY: the range is a page of the mapping, and nothing but what is absent changes.
        Ok(unsafe { madvise(self.alias.wrapping_add(at).cast(), self.page_size, Advice::LinuxPopulateWrite) }?)
    }

    /// A write to pages of the program is a fault from now on.
    pub(crate) fn protect(&self, at: usize, length: usize) -> Result<(), Errno> {
        let _changing = self.changing();
        self.faults.protect(self.base as usize + at, length)
    }

    /// A page failed: who touches it gets SIGBUS until it is [tried again](Extent::try_again).
    pub(crate) fn poison(&self, at: usize) -> Result<(), Errno> {
        let mut poisoned = self.changing();
        if !poisoned.contains(&at) {
            poisoned.push(at);
        }
        self.mapped[at / self.page_size].store(false, Ordering::Release);
        self.faults.poison(self.base as usize + at, self.page_size)
    }

    /// A write to a page of a region that cannot be written is `SIGSEGV` again, where the program had made it writable.
    pub(crate) fn refuse_writes(&self, at: usize) -> Result<(), Errno> {
        let _changing = self.changing();
        self.faults.refuse_writes(self.base as usize + at, self.page_size)
    }

    /// Whether the page at one of the program's addresses has failed.
    pub(crate) fn is_poisoned(&self, address: usize) -> bool {
        let at = (address - self.base as usize) / self.page_size * self.page_size;
        self.changing().contains(&at)
    }

    /// Pages that failed are read again when they are touched.
    pub(crate) fn try_again(&self) {
        for at in self.changing().drain(..) {
            self.faults.drop_mapping(self.base as usize + at, self.page_size);
        }
    }

    /// Whether a page may have been mapped for the program since the last call.
    pub(crate) fn was_mapped(&self, at: usize) -> bool {
        self.mapped.get(at / self.page_size).is_some_and(|mapped| mapped.swap(false, Ordering::AcqRel))
    }

    /// Takes note whether the policy waits to see a page used. `true`: it does so from now on, and the page may be mapped.
    pub(crate) fn set_awaited(&self, at: usize, awaited: bool) -> bool {
        let page = at / self.page_size;
        let before = self.awaited[page].swap(awaited, Ordering::AcqRel);
        awaited && !before && self.mapped[page].load(Ordering::Acquire)
    }

    /// Whether the policy waits to see a page used.
    pub(crate) fn awaits(&self, at: usize) -> bool {
        self.awaited.get(at / self.page_size).is_some_and(|awaited| awaited.load(Ordering::Acquire))
    }

    /// Takes the pool's mapping away.
    pub(crate) fn drop_alias(&self, at: usize, length: usize) {
        // SAFETY: a range of the pool's mapping; the bytes stay in the file.
        let _ = unsafe { madvise(self.alias.wrapping_add(at).cast(), length, Advice::LinuxDontneedLocked) };
    }

    /// Gives the memory of pages back.
    pub(crate) fn release(&self, at: usize, length: usize) -> Result<(), Errno> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, hole, at as u64, length as u64)
    }

    /// Gives pages memory, and puts bytes there.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match pwrite(&self.file, &bytes[done..], (at + done) as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Copies bytes of pages.
    pub(crate) fn read(&self, at: usize, bytes: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match pread(&self.file, &mut bytes[done..], (at + done) as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives a page memory with these bytes, and maps it for its program, who may read it: in one call. `false`: it is to be done otherwise.
    pub(crate) fn write_mapped(&self, at: usize, bytes: &[u8]) -> bool {
        let done = self.faults.copy(self.base as usize + at, bytes);
        if done {
            self.mark_mapped(at, bytes.len());
        }
        done
    }

    /// Whether a page may be mapped for the program.
    pub(crate) fn is_mapped(&self, at: usize) -> bool {
        self.mapped.get(at / self.page_size).is_some_and(|mapped| mapped.load(Ordering::Acquire))
    }

    fn changing(&self) -> MutexGuard<'_, Vec<usize>> {
        self.poisoned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        for base in [self.base, self.alias].into_iter().filter(|base| !base.is_null()) {
            let start = base as usize;
            self.faults.end(start..start + self.length, |part| {
                // First this, so that the kernel does not wait for somebody to hear of the other.
                match self.faults.unregister(part.start, part.len()) {
                    // SAFETY: the mapping was made by `new`, the program has not unmapped this part, and nobody has addresses of it any more.
                    Ok(()) => _ = unsafe { munmap(part.start as *mut _, part.len()) },
                    Err(error) => tracing::error!(%error, "a region's addresses could not be given back"),
                }
            });
        }
    }
}
