//! Where threads wait for a page: until it is loaded, let go of by a writer, or written back.

use crate::core::page::{Page, State, Wake};
use crate::sync::{Backoff, Condvar, Mutex, lock, size};

/// Groups of waiters; a page's number says which is its own.
const GROUPS: usize = size(64, 2);

/// Times that a waiter looks again before it sleeps: another core's copy of a page takes no longer.
const LOOKS: usize = size(50, 1);

pub(crate) struct Waiters {
    groups: Box<[(Mutex<()>, Condvar)]>,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { groups: (0..GROUPS).map(|_| (Mutex::new(()), Condvar::new())).collect() }
    }

    fn group(&self, number: u32) -> &(Mutex<()>, Condvar) {
        &self.groups[number as usize % GROUPS]
    }

    /// Waits while `waits` holds of the page's state, and the number still belongs to this page. The next page of the number may be held for long, by a
    /// thread that waits for us.
    pub(crate) fn wait(&self, number: u32, page: &Page, object: u32, block: u64, waits: impl Fn(State) -> bool) {
        let mut backoff = Backoff::new();
        for _ in 0..LOOKS {
            if !waits(page.state()) || !page.is(object, block) {
                return;
            }
            backoff.wait();
        }
        let (mutex, woken) = self.group(number);
        let mut guard = lock(mutex);
        // Under the lock: who lets go after this sees the announcement, and takes the lock before he wakes us.
        // After it the key: whoever gives the number another wakes us first.
        while page.announce_waiter(&waits) && page.is(object, block) {
            guard = woken.wait(guard).expect("no thread panicked under this lock");
        }
    }

    /// Wakes who waits for the page, if anybody does.
    pub(crate) fn wake(&self, number: u32, wake: Wake) {
        if wake.0 {
            let (mutex, woken) = self.group(number);
            let _guard = lock(mutex);
            woken.notify_all();
        }
    }
}
