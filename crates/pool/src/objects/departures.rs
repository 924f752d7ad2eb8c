//! The replacer's lock. Pages that leave under it are announced, and followers woken, after it has been released. Which pages the policy waits to see used is announced before,
//! so that it stays in order.

use crate::core::memory::Memory;
use crate::core::replacer::Replacer;
use crate::objects::followers::Followers;
use crate::pool::{Pool, Shared};
use crate::sync::{MutexGuard, lock};
use forebay_basis::Place;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

/// Called with the pages that have left.
type Listener = Box<dyn Fn(&[Place]) + Send + Sync>;
/// Called with pages, and whether the policy waits to see their next use.
type AwaitedListener = Box<dyn Fn(&[(Place, bool)]) + Send + Sync>;

/// Who is told of pages.
#[derive(Default)]
pub(crate) struct Listeners {
    left: OnceLock<Listener>,
    awaited: OnceLock<AwaitedListener>,
}

impl<M: Memory> Pool<M> {
    /// Registers a listener that is called with the pages that leave: the volume's number and the block of each. A front end uses it to
    /// invalidate the kernel's copies. A page may be back before the call. `false`: there is a listener already.
    ///
    /// The thread that made the pages leave calls it, and may hold other pages. So the listener must not wait or use the pool: let it pass
    /// the pages to a thread of its own.
    pub fn on_leave(&self, listener: impl Fn(&[Place]) + Send + Sync + 'static) -> bool {
        let first = self.shared.listeners.left.set(Box::new(listener)).is_ok();
        if first {
            self.shared.replacer().announce();
        }
        first
    }

    /// Registers a listener that is called with pages whose next use the policy waits to see (`true`), or does so no more. Until it waits again, or the page has left, a use of
    /// such a page changes nothing, and need not be told ([`Handle::refer`](crate::Handle::refer)). Of other pages all uses count. `false`: there is a listener already, or
    /// the policy does not say what it waits for.
    ///
    /// It is called under the pool's lock, so it must not wait or use the pool. Uses that are not told are seen by no [`Follower`](crate::Follower) either.
    pub fn on_await(&self, listener: impl Fn(&[(Place, bool)]) + Send + Sync + 'static) -> bool {
        let says = self.shared.config.policy.info.awaits_uses;
        let first = says && self.shared.listeners.awaited.set(Box::new(listener)).is_ok();
        if first {
            self.shared.replacer().announce_awaited();
        }
        first
    }
}

/// The replacer, locked.
pub(crate) struct Locked<'s> {
    listeners: &'s Listeners,
    guard: Option<MutexGuard<'s, Replacer>>,
}

impl<M: Memory> Shared<M> {
    #[inline]
    pub(crate) fn replacer(&self) -> Locked<'_> {
        Locked { listeners: &self.listeners, guard: Some(lock(&self.replacer)) }
    }

    /// The same, unless a thread has panicked under the lock.
    pub(crate) fn replacer_unless_poisoned(&self) -> Option<Locked<'_>> {
        Some(Locked { listeners: &self.listeners, guard: Some(self.replacer.lock().ok()?) })
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
        if self.departed.is_empty() && self.followers.is_empty() && self.awaited.is_empty() {
            return;
        }
        if let Some(listener) = self.listeners.awaited.get().filter(|_| !self.awaited.is_empty()) {
            listener(&self.awaited);
            self.awaited.clear();
        }
        let (departed, stirred) = (std::mem::take(&mut self.departed), self.followers.take_stirred());
        self.guard = None;
        Followers::wake(&stirred);
        if let Some(listener) = self.listeners.left.get().filter(|_| !departed.is_empty()) {
            listener(&departed);
        }
    }
}
