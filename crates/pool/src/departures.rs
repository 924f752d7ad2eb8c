//! The replacer's lock, and word of the pages that have left under it: told after the lock has been released.

use crate::pool::{Pool, Shared};
use crate::replacer::Replacer;
use crate::sync::{MutexGuard, lock};
use forebay_policy::Place;
use std::ops::{Deref, DerefMut};

/// Who is told of pages that have left.
pub(crate) type Listener = Box<dyn Fn(&[Place]) + Send + Sync>;

impl Pool {
    /// Has somebody told of the pages that leave, as a front end that has to invalidate the kernel's copies: of each, its volume's number and
    /// its block. A page may come back before that is told. `false`: there is such a listener already.
    ///
    /// It is called by whichever thread has made the pages leave, which may hold other pages: it must not wait, nor use the pool, and best
    /// hands its word over to a thread of its own.
    pub fn on_leave(&self, listener: impl Fn(&[Place]) + Send + Sync + 'static) -> bool {
        let first = self.shared.listener.set(Box::new(listener)).is_ok();
        if first {
            self.shared.replacer().announce();
        }
        first
    }
}

/// The replacer, locked.
pub(crate) struct Locked<'s> {
    shared: &'s Shared,
    guard: Option<MutexGuard<'s, Replacer>>,
}

impl Shared {
    #[inline]
    pub(crate) fn replacer(&self) -> Locked<'_> {
        Locked { shared: self, guard: Some(lock(&self.replacer)) }
    }

    /// The same, unless a thread has panicked under the lock.
    pub(crate) fn replacer_unless_poisoned(&self) -> Option<Locked<'_>> {
        Some(Locked { shared: self, guard: Some(self.replacer.lock().ok()?) })
    }
}

impl Deref for Locked<'_> {
    type Target = Replacer;

    #[inline]
    fn deref(&self) -> &Replacer {
        self.guard.as_ref().expect("it is locked until it is dropped")
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Replacer {
        self.guard.as_mut().expect("it is locked until it is dropped")
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.departed.is_empty() {
            return;
        }
        let departed = std::mem::take(&mut self.departed);
        self.guard = None;
        if let Some(listener) = self.shared.listener.get() {
            listener(&departed);
        }
    }
}
