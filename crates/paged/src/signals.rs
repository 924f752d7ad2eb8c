//! The signals that a thread takes.

use libc::{SIG_SETMASK, pthread_sigmask, sigfillset, sigset_t};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Blocks all signals of this thread: threads that it starts inherit that. Returns the mask that it had.
pub(crate) fn block() -> sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the sets are written to before they are read, and a thread's mask is its own.
    unsafe {
        sigfillset(all.as_mut_ptr());
        pthread_sigmask(SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Gives this thread back the mask that [`block`] returned.
pub(crate) fn restore(before: &sigset_t) {
    // SAFETY: the mask is what the kernel gave for this thread.
    unsafe { pthread_sigmask(SIG_SETMASK, before, null_mut()) };
}
