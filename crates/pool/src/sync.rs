//! Atomics, locks and threads: the standard library's, or with the feature `model-check` shuttle's, which runs a test under
//! many interleavings of its threads.

#[cfg(not(feature = "model-check"))]
mod primitives {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;
}

#[cfg(feature = "model-check")]
mod primitives {
    pub(crate) use shuttle::hint::spin_loop;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::yield_now;
}

pub(crate) use primitives::*;

/// The size of a table of atomics: smaller under the model checker, which follows each of them.
pub(crate) const fn size(usual: usize, checked: usize) -> usize {
    if cfg!(feature = "model-check") { checked } else { usual }
}

/// Locks. A thread that panicked under a lock of the pool has broken what the lock guards: everyone else stops, too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked under this lock")
}

/// Locks if nobody else has.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}

/// Waits a little longer at each call, for something that another thread is about to do.
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(0)
    }

    /// Spins some 100 times, then lets other threads run.
    pub(crate) fn wait(&mut self) {
        self.0 += 1;
        if self.0 < 100 && !cfg!(feature = "model-check") {
            spin_loop();
        } else {
            yield_now();
        }
    }
}
