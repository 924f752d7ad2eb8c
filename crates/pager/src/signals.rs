//! No signal handler of the program runs on a thread of ours, nor on a thread of the program while it is in one of our functions: a handler
//! may touch a region, and whoever brings the page may need a lock that the interrupted thread holds.

use libc::{SIG_BLOCK, SIG_SETMASK, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, pthread_sigmask, sigset_t};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Signals of a thread's own errors, which are never blocked.
pub(crate) const OWN_ERRORS: [i32; 5] = [SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP];

/// The mask that this thread had.
struct Mask(sigset_t);

/// Does something while this thread has all signals blocked, but for those of its own errors: threads that it starts inherit that.
pub(crate) fn blocked<T>(act: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the sets are written to before they are read, and a thread's mask is its own.
    let _before = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in OWN_ERRORS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        pthread_sigmask(SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        Mask(before.assume_init())
    };
    act()
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the mask that the kernel gave for this thread.
        unsafe { pthread_sigmask(SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}
