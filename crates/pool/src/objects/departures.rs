//! The replacer's lock. Pages that leave under it are announced, and followers woken, after it has been released.

use crate::core::memory::Memory;
use crate::core::replacer::Replacer;
use crate::objects::followers::Followers;
use crate::pool::{Pool, Shared};
use crate::sync::{MutexGuard, lock};
use forebay_basis::Place;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

/// Called with the pages that have left.
pub(crate) type Listener = Box<dyn Fn(&[Place]) + Send + Sync>;

impl<M: Memory> Pool<M> {
    /// Registers a listener that is called with the pages that leave: the volume's number and the block of each. A front end uses it to
    /// invalidate the kernel's copies. A page may be back before the call. `false`: there is a listener already.
    ///
    /// The thread that made the pages leave calls it, and may hold other pages. So the listener must not wait or use the pool: let it pass
    /// the pages to a thread of its own.
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
    listener: &'s OnceLock<Listener>,
    guard: Option<MutexGuard<'s, Replacer>>,
}

impl<M: Memory> Shared<M> {
    #[inline]
    pub(crate) fn replacer(&self) -> Locked<'_> {
        Locked { listener: &self.listener, guard: Some(lock(&self.replacer)) }
    }

    /// The same, unless a thread has panicked under the lock.
    pub(crate) fn replacer_unless_poisoned(&self) -> Option<Locked<'_>> {
        Some(Locked { listener: &self.listener, guard: Some(self.replacer.lock().ok()?) })
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
        if self.departed.is_empty() && self.followers.is_empty() {
            return;
        }
        let (departed, stirred) = (std::mem::take(&mut self.departed), self.followers.take_stirred());
        self.guard = None;
        Followers::wake(&stirred);
        if let Some(listener) = self.listener.get().filter(|_| !departed.is_empty()) {
            listener(&departed);
        }
    }
}
