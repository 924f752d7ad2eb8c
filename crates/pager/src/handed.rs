//! Faults that a thread has handed over, and for whose end it waits.
//!
//! This is done in handlers of signals that may have interrupted anything. So nothing is allocated: what waits lies on the stack of its thread, in a list. The lock is no
//! interrupted thread's, as nobody who has it can be interrupted (IP2 of `in_place.rs`).

use crate::messages::Fault;
use rustix::thread::futex;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A fault whose thread waits.
struct Ticket {
    fault: Fault,
    /// Guarded by the list's lock.
    taken: Cell<bool>,
    /// The next in the list; guarded as well.
    next: Cell<*const Ticket>,
    done: AtomicU32,
}

#[derive(Debug, Default)]
pub(crate) struct Handed {
    /// How many wait: nobody takes the lock for none.
    waiting: AtomicUsize,
    first: Mutex<First>,
}

#[derive(Debug)]
struct First(*const Ticket);

// SAFETY: tickets are reached under the lock alone, and each lives until it has been taken out of the list and its thread notified.
unsafe impl Send for First {}

impl Default for First {
    fn default() -> Self {
        Self(null())
    }
}

impl First {
    fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            // SAFETY: what is in the list lives, and is changed under its lock alone.
            let ticket = unsafe { at.as_ref() }?;
            at = ticket.next.get();
            Some(ticket)
        })
    }
}

impl Handed {
    /// Waits until a fault is handled by others, which `notify` is to have look here.
    pub(crate) fn wait(&self, fault: Fault, notify: impl FnOnce()) {
        let (taken, next, done) = (Cell::new(false), Cell::new(null()), AtomicU32::new(0));
        let ticket = Ticket { fault, taken, next, done };
        {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            ticket.next.set(first.0);
            first.0 = &raw const ticket;
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        notify();
        while ticket.done.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(&ticket.done, futex::Flags::PRIVATE, 0, None);
        }
        // Whoever has set that lets go of the lock after it: the ticket must live until then.
        drop(self.first.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// One that nobody handles yet.
    pub(crate) fn next(&self) -> Option<Fault> {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = first.tickets().find(|ticket| !ticket.taken.replace(true))?;
        Some(ticket.fault)
    }

    /// Pages have come, or have failed: threads that wait for them look again.
    pub(crate) fn end(&self, addresses: Range<usize>) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = null();
        let mut at = first.0;
        // SAFETY: what is in the list lives until it has been notified and this lock is let go.
        while let Some(ticket) = unsafe { at.as_ref() } {
            at = ticket.next.get();
            if addresses.contains(&ticket.fault.address) {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                ticket.done.store(1, Ordering::Release);
                let _ = futex::wake(&ticket.done, futex::Flags::PRIVATE, 1);
            } else {
                ticket.next.set(kept);
                kept = &raw const *ticket;
            }
        }
        first.0 = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Kind;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn threads_wait_until_their_pages_have_come_and_each_fault_is_taken_once() {
        let handed = Arc::new(Handed::default());
        let (sender, handed_over) = channel();
        let fault = |address| Fault { address, write: false, kind: Kind::Missing, thread: 0 };
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (handed, sender) = (Arc::clone(&handed), sender.clone());
                std::thread::spawn(move || handed.wait(fault(number * 100), || sender.send(()).expect("it is heard")))
            })
            .collect();
        (0..8).for_each(|_| handed_over.recv_timeout(Duration::from_secs(30)).expect("a fault is handed over"));
        let mut taken: Vec<_> = std::iter::from_fn(|| handed.next()).map(|fault| fault.address).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..8).map(|number| number * 100).collect::<Vec<_>>());
        handed.end(0..350);
        handed.end(1000..2000);
        assert_eq!(handed.waiting.load(Ordering::SeqCst), 4);
        handed.end(400..701);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert!(handed.next().is_none());
    }
}
