//! The signals that a thread takes.

use libc::{
    SIG_BLOCK, SIG_SETMASK, pthread_sigmask, sigaddset, sigemptyset, sigfillset, sigismember, sigpending, sigset_t,
    sigtimedwait, timespec,
};
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

/// Does something while this thread does not get a signal that the kernel sends for it.
pub(crate) fn without<T>(signal: i32, act: impl FnOnce() -> T) -> T {
    let (mut one, mut before, mut pending) =
        (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::<sigset_t>::uninit());
    // SAFETY: the sets are written to before they are read, and a thread's mask is its own.
    let was_pending = unsafe {
        sigemptyset(one.as_mut_ptr());
        sigaddset(one.as_mut_ptr(), signal);
        pthread_sigmask(SIG_BLOCK, one.as_ptr(), before.as_mut_ptr());
        sigpending(pending.as_mut_ptr());
        sigismember(pending.as_ptr(), signal) == 1
    };
    let done = act();
    if !was_pending {
        let at_once = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set is there, and what the signal tells is not asked for.
        unsafe { sigtimedwait(one.as_ptr(), null_mut(), &raw const at_once) };
    }
    // SAFETY: it was written above.
    restore(unsafe { before.assume_init_ref() });
    done
}
