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

use forebay_policy::Place;

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

    /// The bytes are there: the program may use them. A write to them has yet to be noticed.
    fn install(&self, _frame: u32) {}

    /// From now on a write of the program is a fault before it is done: the page is about to be copied for its writeback.
    fn protect(&self, _frame: u32) {}

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
