//! Work on the regions of mapped files, whose storage may hang: other threads than the service's do it, so that who needs the service for
//! something else waits for no such storage.
//!
//! A region's work is done in order, by one thread at a time (a *lane*). A thread that has nothing to do takes the next lane; where all wait, there is one more.

use crate::files::Window;
use crate::regions::discard;
use crate::service::{Service, in_words, lock};
use crate::swap::Swap;
use forebay_pager::Region;
use forebay_pool::device::Device;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The most threads. Further regions wait for one.
const MOST: usize = 64;

/// A thread's stack.
const STACK: usize = 512 << 10;

/// What is to be done with a region, or a part of it.
pub(crate) enum Work {
    /// Gives up what was written there, which the program has no more.
    Discard(Range<u64>),
    /// The same, of what it goes on to use.
    Reset(Range<u64>, Sender<Result<(), String>>),
    /// Ends the region. Its place is vacant then, if there is one.
    Unmap(Option<Range<usize>>, Sender<()>),
}

/// The region of a file.
pub(crate) struct Lane {
    /// As long as it is mapped.
    mapped: Mutex<Option<Mapped>>,
    waiting: Mutex<Waiting>,
    /// Nothing is to be done that changes what the program has.
    unchanged: Condvar,
}

struct Mapped {
    region: Region,
    swap: Arc<Swap>,
    file: Arc<Window>,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    /// A thread has it.
    taken: bool,
    /// Of the work, that under way too: what the program goes on to use.
    resets: usize,
}

impl Lane {
    pub(crate) fn new(region: Region, swap: Arc<Swap>, file: Arc<Window>) -> Arc<Self> {
        let mapped = Mutex::new(Some(Mapped { region, swap, file }));
        Arc::new(Self { mapped, waiting: Mutex::default(), unchanged: Condvar::new() })
    }

    /// Waits until no part of it is being given up that the program goes on to use; `false`: one still is.
    pub(crate) fn wait_until_unchanged(&self, patience: Duration) -> bool {
        let changes = |waiting: &mut Waiting| waiting.resets > 0;
        let waited = self.unchanged.wait_timeout_while(lock(&self.waiting), patience, changes);
        waited.is_ok_and(|(waiting, _)| waiting.resets == 0)
    }

    /// Does what there is to do.
    fn go(&self, service: &Service) {
        loop {
            let work = {
                let mut waiting = lock(&self.waiting);
                let Some(work) = waiting.work.pop_front() else {
                    waiting.taken = false;
                    return;
                };
                work
            };
            match work {
                Work::Discard(part) => {
                    if let Err(error) = self.discard(service, &part) {
                        tracing::warn!("swap space could not be given back: {error}");
                    }
                }
                Work::Reset(part, answer) => {
                    let _ = answer.send(self.discard(service, &part));
                    lock(&self.waiting).resets -= 1;
                    self.unchanged.notify_all();
                }
                Work::Unmap(place, answer) => {
                    self.unmap(service, place);
                    let _ = answer.send(());
                }
            }
        }
    }

    fn discard(&self, service: &Service, part: &Range<u64>) -> Result<(), String> {
        let page = u64::from(service.settings.page_size);
        lock(&self.mapped).as_ref().map_or(Ok(()), |mapped| discard(&mapped.region, part, &mapped.file, page))
    }

    fn unmap(&self, service: &Service, place: Option<Range<usize>>) {
        // The file is closed before anybody learns that it has gone.
        let Some(Mapped { region, swap, file: _file }) = lock(&self.mapped).take() else { return };
        let discarded = region.discard();
        let trim = || swap.trim(0, swap.len()).map_err(in_words);
        if let Err(error) = discarded.as_ref().map_err(in_words).and_then(|()| trim()) {
            tracing::warn!("swap space could not be given back: {error}");
        }
        // Else somebody may have its addresses still.
        if discarded.is_ok() {
            lock(&service.vacant).extend(place);
        }
    }
}

/// The threads.
pub(crate) struct Lanes {
    service: &'static Service,
    lanes: Sender<Arc<Lane>>,
    next: Arc<Mutex<Receiver<Arc<Lane>>>>,
    /// Threads that wait for a lane which no lane has been sent for.
    idle: Arc<AtomicUsize>,
    threads: usize,
}

impl Lanes {
    pub(crate) fn new(service: &'static Service) -> Self {
        let (lanes, next) = channel();
        Self { service, lanes, next: Arc::new(Mutex::new(next)), idle: Arc::default(), threads: 0 }
    }

    /// Has something done after all else that was asked for this region.
    pub(crate) fn push(&mut self, lane: &Arc<Lane>, work: Work) {
        let taken = {
            let mut waiting = lock(&lane.waiting);
            waiting.resets += usize::from(matches!(work, Work::Reset(..)));
            waiting.work.push_back(work);
            std::mem::replace(&mut waiting.taken, true)
        };
        if taken {
            return;
        }
        let one_less = |idle: usize| idle.checked_sub(1);
        if self.idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            self.start_one();
        }
        let _ = self.lanes.send(Arc::clone(lane));
    }

    fn start_one(&mut self) {
        if self.threads == MOST {
            return;
        }
        let (service, next, idle) = (self.service, Arc::clone(&self.next), Arc::clone(&self.idle));
        let work = move || {
            loop {
                // The lock is let go before there is work.
                let Ok(lane) = lock(&next).recv() else { return };
                lane.go(service);
                idle.fetch_add(1, Ordering::SeqCst);
            }
        };
        match std::thread::Builder::new().name("forebay-file".to_owned()).stack_size(STACK).spawn(work) {
            Ok(_) => self.threads += 1,
            Err(error) => tracing::warn!("no further thread for mapped files: {error}"),
        }
    }
}
