//! What the thread that receives from a client shares with those that do its requests: how many there are, and what it has said of
//! data to come.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::budget::Purse;
use crate::link::{Link, lock};
use crate::wire::request::Terms;
use crate::workers::{Entry, Job};

/// A connection in the transmission phase.
pub(crate) struct Connection {
    pub(crate) link: Arc<Link>,
    pub(crate) terms: Terms,
    pub(crate) volume: Entry,
    pub(crate) purse: Arc<Purse>,
    /// Requests in flight; changed under the lock.
    requests: AtomicUsize,
    changing: Mutex<()>,
    eased: Condvar,
    /// Hints to fetch that wait for the one under way; `None` if there is none.
    hints: Mutex<Option<VecDeque<Job>>>,
    /// The client leaves, or the server stops.
    leaving: AtomicBool,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, terms: Terms, volume: Entry, purse: Arc<Purse>) -> Self {
        Self {
            link,
            terms,
            volume,
            purse,
            requests: AtomicUsize::new(0),
            changing: Mutex::default(),
            eased: Condvar::new(),
            hints: Mutex::default(),
            leaving: AtomicBool::new(false),
        }
    }

    /// Whether nobody waits for what hints would fetch.
    pub(crate) fn called_off(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) || self.link.failed()
    }

    /// The client leaves, or the server stops: hints are called off.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// How many hints wait.
    pub(crate) fn waiting_hints(&self) -> usize {
        lock(&self.hints).as_ref().map_or(0, VecDeque::len)
    }

    /// Takes a hint, which is returned if it is to be done now.
    pub(crate) fn take_hint(&self, job: Job) -> Option<Job> {
        let mut hints = lock(&self.hints);
        match &mut *hints {
            Some(waiting) => {
                waiting.push_back(job);
                None
            }
            None => {
                *hints = Some(VecDeque::new());
                Some(job)
            }
        }
    }

    /// A hint has been done; returns the next.
    pub(crate) fn next_hint(&self) -> Option<Job> {
        let mut hints = lock(&self.hints);
        let next = hints.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *hints = None;
        }
        next
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Waits until fewer requests than this are in flight.
    pub(crate) fn wait_below(&self, most: usize) {
        let mut changing = lock(&self.changing);
        while self.in_flight() >= most {
            changing = self.eased.wait(changing).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One more request is in flight.
    pub(crate) fn admit(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }

    /// A request is no longer in flight.
    pub(crate) fn release(&self) {
        let changing = lock(&self.changing);
        self.requests.fetch_sub(1, Ordering::SeqCst);
        drop(changing);
        self.eased.notify_one();
    }
}
