//! Where the bytes of pages lie: in a mapping of the pool's own, or in a program's address space.
//!
//! The replacer, the judge, writeback and readahead are one for both. They know frames, and ask a `Memory` where a frame's bytes are:
//!
//! ```text
//!   free --place--> loading --install--> resident --protect, copied--> (its writeback)
//!     ^                                     |  ^                            |
//!     |                                     |  +---------unprotect----------+   before it is written again
//!     +--------------- release -------------+
//! ```
//!
//! In the pool's own mapping a frame's bytes are always at the same address and all but `pointer` do nothing. In an address space a page is where
//! its program expects it: it appears there when it is installed, and what the program does with it shows by faults. Whoever handles those uses the pool as any
//! other: a read fault is a [`read`](crate::Handle::read), a write fault a [`write`](crate::Handle::write) that changes no byte; so uses, dirty
//! pages and their limits, owners and errors take the ways that they take in front of files and volumes.

use forebay_basis::Place;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes that are aligned to a system's page, as direct reads want them.
#[derive(Debug)]
pub struct Buffer {
    bytes: NonNull<[u8]>,
}

// SAFETY: the bytes belong to this value alone.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// What a buffer's first byte is aligned to.
const ALIGNED: usize = 4096;

impl Buffer {
    /// Room for `length` bytes, which are zero. It is a mapping of its own, so that all of its memory is the system's again when it is dropped: the C
    /// library would keep some for each thread.
    pub fn new(length: usize) -> Self {
        let length = length.max(1).next_multiple_of(ALIGNED);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at addresses of the kernel's choice touches no memory that is in use.
        let bytes = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE) };
        let bytes = bytes.ok().and_then(|bytes| NonNull::new(bytes.cast::<u8>()));
        let Some(bytes) = bytes else {
            std::alloc::handle_alloc_error(
                std::alloc::Layout::from_size_align(length, ALIGNED).expect("a length of memory"),
            )
        };
        Self { bytes: NonNull::slice_from_raw_parts(bytes, length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `new` has made this mapping, and nobody has its addresses any more.
        let unmapped = unsafe { munmap(self.bytes.as_ptr().cast(), self.bytes.len()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are this value's, and have been set.
        unsafe { self.bytes.as_ref() }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this value is borrowed mutably.
        unsafe { self.bytes.as_mut() }
    }
}

/// Where the bytes of pages lie, by frame.
///
/// Calls for one frame come one at a time, but for [`pointer`](Memory::pointer).
pub trait Memory: Send + Sync + 'static {
    /// The bytes of a page.
    fn page_size(&self) -> usize;

    /// Where the bytes of the page in a frame are: between [`place`](Memory::place) and [`install`](Memory::install) where they are to be
    /// read to. They are `page_size` bytes, which the pool reads and writes as the state of the page allows; they stay there until the frame is
    /// released.
    fn pointer(&self, frame: u32) -> *mut u8;

    /// A frame is to hold the page of a place, whose bytes are about to be read or written.
    fn place(&self, _frame: u32, _place: Place) {}

    /// A buffer for the bytes of consecutive pages, for memory that takes them at once by [`fill`](Memory::fill). It may be longer. `None`: they are read to
    /// where the frames' [`pointer`](Memory::pointer)s are.
    fn buffer(&self, _pages: usize) -> Option<Buffer> {
        None
    }

    /// The buffer is not needed any more.
    fn give(&self, _buffer: Buffer) {}

    /// Puts bytes of whole pages, which are consecutive pages of one object, into their frames, of which this is the first. `read`: the program waits to read
    /// the one page that it is.
    ///
    /// # Errors
    /// There is no memory for them.
    fn fill(&self, _frame: u32, _bytes: &[u8], _read: bool) -> io::Result<()> {
        Ok(())
    }

    /// Copies the bytes of pages, which nobody writes to, one after the other; there is room for all of them.
    fn copy(&self, pages: &[(u32, bool)], bytes: &mut [u8]) {
        for (&(frame, _), bytes) in pages.iter().zip(bytes.chunks_exact_mut(self.page_size())) {
            // SAFETY: the caller holds the page, so that its frame keeps its bytes, of which there are as many as a page has.
            unsafe { std::ptr::copy_nonoverlapping(self.pointer(frame), bytes.as_mut_ptr(), bytes.len()) };
        }
    }

    /// The bytes are there: the program may use them. A write to them has yet to be noticed.
    fn install(&self, _frame: u32) {}

    /// From now on a write of the program is a fault before it is done: the page is about to be copied for its writeback.
    fn protect(&self, _frame: u32) {}

    /// The same for several pages, each with whether it has been evicted: it costs less together.
    fn protect_all(&self, pages: &[(u32, bool)]) {
        pages.iter().for_each(|&(frame, _)| self.protect(frame));
    }

    /// It has been copied, and is not read until it is used again.
    fn copied(&self, _frame: u32) {}

    /// The page is dirty: the program may write to it.
    fn unprotect(&self, _frame: u32) {}

    /// Whether uses come to the pool only where [`await_use`](Memory::await_use) has asked for them. Asked once.
    fn awaits_uses(&self) -> bool {
        false
    }

    /// The policy waits to see the page in a frame used, or does so no more. Under the replacer's lock: this takes note, and changes no mapping.
    fn await_use(&self, _frame: u32, _awaited: bool) {}

    /// The page has left: the program finds it absent, and the frame is free.
    fn release(&self, _frame: u32) {}

    /// The free frame's memory goes back to the system.
    fn retire(&self, frame: u32);
}
