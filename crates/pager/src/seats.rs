//! Ways into the pool for threads that handle their faults themselves: a thread takes one for a fault, so there are as many as faults at a time, and no thread has one
//! that must go when it ends.

use crate::space::Space;
use forebay_pool::{Handle, Pool};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Seats(Box<[Seat]>);

struct Seat {
    taken: AtomicBool,
    handle: UnsafeCell<Option<Handle<Space>>>,
}

// SAFETY: a handle is used by the thread alone that has taken its seat, and may go from thread to thread.
unsafe impl Sync for Seats {}

/// A seat that is taken.
pub(crate) struct Taken<'a>(&'a Seat);

impl Seats {
    pub(crate) fn new(most: usize) -> Self {
        Self((0..most).map(|_| Seat { taken: AtomicBool::new(false), handle: UnsafeCell::default() }).collect())
    }

    /// A free one: the first, so that few handles are made, and the policy soon learns of what they have seen.
    pub(crate) fn take(&self, pool: &Pool<Space>) -> Option<Taken<'_>> {
        let free = |seat: &&Seat| !seat.taken.load(Ordering::Relaxed) && !seat.taken.swap(true, Ordering::Acquire);
        let taken = Taken(self.0.iter().find(free)?);
        // SAFETY: this thread has taken it.
        let handle = unsafe { &mut *taken.0.handle.get() };
        if handle.is_none() {
            let made = pool.handle().ok()?;
            made.leave_writing_to_others();
            *handle = Some(made);
        }
        Some(taken)
    }

    /// No fault comes any more.
    pub(crate) fn clear(&self) {
        for seat in self.0.iter().filter(|seat| !seat.taken.swap(true, Ordering::Acquire)) {
            // SAFETY: this thread has taken it.
            unsafe { *seat.handle.get() = None };
            seat.taken.store(false, Ordering::Release);
        }
    }
}

impl Taken<'_> {
    pub(crate) fn handle(&self) -> &Handle<Space> {
        // SAFETY: this thread has taken the seat.
        unsafe { &*self.0.handle.get() }.as_ref().expect("a seat that is taken has its handle")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
