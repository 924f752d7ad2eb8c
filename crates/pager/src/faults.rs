//! The threads that handle faults: each waits for one, has the pool bring the page, and maps it.
//!
//! Storage may take its time, or hang. So
//!
//! - a thread more is started when for a moment none has waited for faults, up to [`Options::threads`](crate::Options::threads);
//! - one region has at most half of the threads that others leave it: its other faults are parked until one of its own is done;
//! - who touches a page that is under way already costs no thread: the page's thread wakes all, as the last that it does;
//! - while the pager is [frozen](crate::Frozen), faults of writes wait, and those of reads go on.

use crate::Error;
use crate::cores::{Cores, Seat};
use crate::messages::Fault;
use crate::pager::Shared;
use crate::space::Space;
use crate::userfault::PART;
use forebay_pool::Handle;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the stack of one of the threads may take.
const STACK: usize = 512 << 10;

/// The threads that wait for faults at the start.
const FIRST: usize = 2;

/// How long no thread waits for faults until there is one more: those that have just handled one come back sooner.
const MOMENT: Duration = Duration::from_millis(1);

/// The faults that are under way.
#[derive(Debug)]
pub(crate) struct Desk {
    most: usize,
    /// Threads that wait for a fault.
    idle: AtomicUsize,
    /// Whether none does, and it is seen to that one will.
    short: AtomicBool,
    shorter: Condvar,
    /// No page is being mapped for a write.
    unwritten: Condvar,
    cores: Cores,
    work: Mutex<Work>,
}

#[derive(Debug, Default)]
struct Work {
    threads: Vec<JoinHandle<()>>,
    stopped: bool,
    /// Pages that a thread brings, by their first address.
    under_way: HashSet<usize>,
    /// By their first address: regions with pages under way.
    regions: HashMap<usize, Waiting>,
    /// Pages that are being mapped for writes. One that is still read does not count: its storage may hang.
    writes: usize,
    /// While the pager is frozen: the faults of writes that wait for its end.
    frozen: Option<Vec<Fault>>,
}

#[derive(Debug, Default)]
struct Waiting {
    under_way: usize,
    parked: VecDeque<Fault>,
}

/// A page is being mapped for a write.
pub(crate) struct Write<'a>(&'a Desk);

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let mut work = self.0.lock();
        work.writes -= 1;
        // To notify is a system call, even where nobody waits.
        if work.writes == 0 && work.frozen.is_some() {
            self.0.unwritten.notify_all();
        }
    }
}

/// What becomes of a fault.
enum Turn {
    /// The caller brings its page.
    Bring,
    /// Somebody else will, or it waits.
    Leave,
    /// It waits, and so may these, which nobody would take up: they are to be handed out again.
    HandOut(VecDeque<Fault>),
}

impl Desk {
    pub(crate) fn new(most: usize) -> Self {
        let (idle, short) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (shorter, unwritten) = (Condvar::new(), Condvar::new());
        Self { most, idle, short, shorter, unwritten, cores: Cores::new(), work: Mutex::default() }
    }

    /// Starts no further thread.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.shorter.notify_one();
    }

    /// Ends when all threads have ended.
    pub(crate) fn join(&self) {
        loop {
            let Some(thread) = self.lock().threads.pop() else { return };
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread has taken a fault, and none is left that waits for one.
    fn run_short(&self) {
        if !self.short.swap(true, Ordering::SeqCst) {
            // Under the lock, so that it is not missed by one who is about to wait.
            let _work = self.lock();
            self.shorter.notify_one();
        }
    }

    /// Waits until for a moment no thread has waited for faults, and there may be one more; `false`: it is to stop.
    fn wait_until_short(&self) -> bool {
        let mut work = self.lock();
        loop {
            let enough = |work: &mut Work| !work.stopped && !self.short.load(Ordering::SeqCst);
            work = self.shorter.wait_while(work, enough).unwrap_or_else(PoisonError::into_inner);
            let goes_on = |work: &mut Work| !work.stopped;
            let waited = self.shorter.wait_timeout_while(work, MOMENT, goes_on);
            (work, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if work.stopped {
                return false;
            }
            // In this order: one who takes the last fault after this says so again.
            self.short.store(false, Ordering::SeqCst);
            if self.idle.load(Ordering::SeqCst) > 0 {
                continue;
            }
            self.short.store(true, Ordering::SeqCst);
            // Each of them has a page to bring, and is not just about to come back.
            if work.under_way.len() >= work.threads.len() && work.threads.len() < self.most {
                return true;
            }
        }
    }

    /// Faults of writes wait from now on; `false`: they do so already.
    pub(crate) fn freeze(&self) -> bool {
        let mut work = self.lock();
        let first = work.frozen.is_none();
        work.frozen.get_or_insert_default();
        first
    }

    /// Waits until no page is being mapped for a write; `false`: one still is.
    pub(crate) fn wait_until_unwritten(&self, patience: Duration) -> bool {
        let written = |work: &mut Work| work.writes > 0;
        let waited = self.unwritten.wait_timeout_while(self.lock(), patience, written);
        waited.unwrap_or_else(PoisonError::into_inner).0.writes == 0
    }

    /// Faults of writes do not wait any more: those that did.
    pub(crate) fn thaw(&self) -> Vec<Fault> {
        self.lock().frozen.take().unwrap_or_default()
    }

    /// The page of a write is there, and is about to be mapped for it. `None`: regions are frozen, and the fault waits, if it is given.
    pub(crate) fn begin_write(&self, fault: Option<Fault>) -> Option<Write<'_>> {
        let mut work = self.lock();
        if let Some(waiting) = &mut work.frozen {
            waiting.extend(fault);
            return None;
        }
        work.writes += 1;
        Some(Write(self))
    }

    /// Whether the caller is to bring the page of a fault.
    fn begin(&self, region: usize, page: usize, fault: Fault) -> Turn {
        let mut work = self.lock();
        if fault.write
            && let Some(waiting) = &mut work.frozen
        {
            waiting.push(fault);
            // This fault may have been parked, and then no thread is left that takes the next parked one.
            let parked = work.regions.get_mut(&region).map(|waiting| std::mem::take(&mut waiting.parked));
            return parked.filter(|parked| !parked.is_empty()).map_or(Turn::Leave, Turn::HandOut);
        }
        if work.under_way.contains(&page) {
            return Turn::Leave;
        }
        let all = work.under_way.len();
        let waiting = work.regions.entry(region).or_default();
        let others = all - waiting.under_way;
        if waiting.under_way > 0 && waiting.under_way >= self.most.saturating_sub(others) / 2 {
            waiting.parked.push_back(fault);
            return Turn::Leave;
        }
        waiting.under_way += 1;
        work.under_way.insert(page);
        Turn::Bring
    }

    /// The page is there: a fault to handle next. Those who wait for the page are to be woken after this.
    fn end(&self, region: usize, page: usize) -> Option<Fault> {
        let mut work = self.lock();
        assert!(work.under_way.remove(&page), "it was under way");
        let waiting = work.regions.get_mut(&region).expect("it has a page under way");
        waiting.under_way -= 1;
        let next = waiting.parked.pop_front();
        if waiting.under_way == 0 && waiting.parked.is_empty() && next.is_none() {
            work.regions.remove(&region);
        }
        next
    }
}

/// Starts the threads, and sees to it that there are enough until the pager stops.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<JoinHandle<()>, Error> {
    for _ in 0..FIRST.min(shared.desk.most) {
        start_one(shared)?;
    }
    let own = Arc::clone(shared);
    let oversee = move || {
        while own.desk.wait_until_short() {
            if let Err(error) = start_one(&own) {
                tracing::warn!(%error, "no further thread for faults: those there are will come to them");
            }
        }
    };
    let thread = std::thread::Builder::new().name("forebay-pager".to_owned()).stack_size(STACK).spawn(oversee);
    thread.map_err(|source| Error::Memory { what: "a thread", source })
}

fn start_one(shared: &Arc<Shared>) -> Result<(), Error> {
    let handle = shared.pool.handle()?;
    let own = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("forebay-fault".to_owned()).stack_size(STACK);
    let thread = thread.spawn(move || handle_all(&own, &handle));
    shared.desk.lock().threads.push(thread.map_err(|source| Error::Memory { what: "a thread", source })?);
    Ok(())
}

/// Ends the process when a thread that handles faults panics: the program's thread whose page it was about to bring would wait for ever.
struct Unwound;

impl Drop for Unwound {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a thread that brings pages has panicked: this process ends");
            std::process::abort();
        }
    }
}

/// Handles faults until the pager stops.
fn handle_all(shared: &Arc<Shared>, handle: &Handle<Space>) {
    let _unwound = Unwound;
    let desk = &shared.desk;
    let mut seat = Seat::new();
    loop {
        desk.idle.fetch_add(1, Ordering::SeqCst);
        let fault = shared.space.faults.next();
        if desk.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
            desk.run_short();
        }
        match fault {
            Ok(Some(fault)) => {
                if let Some(seat) = &mut seat {
                    desk.cores.sit(seat, fault);
                }
                resolve(shared, handle, fault);
                shared.hand.turn(shared);
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "faults cannot be read: who touches an absent page waits for ever");
                return;
            }
        }
    }
}

fn resolve(shared: &Shared, handle: &Handle<Space>, fault: Fault) {
    let mut next = Some(fault);
    while let Some(fault) = next {
        let Some(region) = shared.region_at(fault.address) else {
            tracing::error!("address {:#x} was touched while its region was unmapped: SIGBUS", fault.address);
            // Poisons before it wakes.
            let _ = shared.space.faults.poison(fault.address & !(PART - 1), PART);
            return;
        };
        let base = region.extent.base as usize;
        let page = base + (fault.address - base) / shared.page_size * shared.page_size;
        match shared.desk.begin(base, page, fault) {
            Turn::Bring => {}
            Turn::Leave => return,
            Turn::HandOut(parked) => return shared.space.faults.again(parked),
        }
        let mapped = shared.bring(handle, &region, page - base, fault);
        next = shared.desk.end(base, page);
        region.extent.wake(page - base, mapped);
    }
}
