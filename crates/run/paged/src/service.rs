//! The thread that has the pager.
//!
//! Its open files are its own (`CLONE_FILES`), and so are those of the pager's threads, which it starts: the program neither sees nor closes
//! them, however many it closes. What needs a file is asked of it. If it ends, which only a fault of ours makes it do, there is no answer, and who
//! waits for one learns that.

use crate::files::Asked;
use crate::fork::Verdict;
use crate::messages;
use crate::regions::Regions;
use crate::signals;
use crate::staged::Run;
use crate::swap::{Backing, Swap, model};
use forebay_pager::{Notice, Options, Pager, Watch};
use forebay_policy::Spec;
use forebay_pool::Together;
use forebay_run_shared::log::Log;
use forebay_run_shared::{Figures, Page, Seen, Settings, TrafficCounters};
use libc::c_int;
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often figures are written down.
const MOMENT: Duration = Duration::from_millis(100);

/// Its stack.
const STACK: usize = 512 << 10;

pub(crate) struct Service {
    pub(crate) settings: Settings,
    jobs: Sender<Job>,
    /// Ranges that read as zeroes by now.
    pub(crate) zeroed: Mutex<Vec<Range<usize>>>,
    /// Places of files whose regions have gone.
    pub(crate) vacant: Mutex<Vec<Range<usize>>>,
    /// Where regions of memory lie, and their swap space.
    pub(crate) swaps: Mutex<Vec<(Range<usize>, Arc<Swap>)>>,
    /// Ranges that are being made zeroes, or have been and are not taken yet.
    leaving: AtomicUsize,
    pager: OnceLock<(Arc<Pager>, Together)>,
    figures: OnceLock<Page>,
    /// Held while figures are written down, so that none are older than those before.
    noting: Mutex<()>,
    pub(crate) traffic: Arc<TrafficCounters>,
    /// The most bytes that the program had at a time.
    most: AtomicU64,
    /// The user knows that there is no more memory. Some programs ask again for each of their objects.
    is_known_full: AtomicBool,
}

pub(crate) enum Job {
    /// Makes a range zeroes, and has it taken.
    Leave(Range<usize>),
    /// Gives up what is in a range that nobody has any more.
    Discard(Range<usize>),
    /// Makes a range zeroes, or what its file has, that stays the program's.
    Reset(Range<usize>, Sender<Result<(), String>>),
    /// Finds room in swap space for a range.
    Reserve(Range<usize>, Sender<Result<(), String>>),
    /// Maps a region from an address on, of at least this length.
    Grow(usize, usize, Sender<Result<Range<usize>, String>>),
    /// Maps a region of a file from an address on, of this length, protected so.
    Map(usize, usize, Asked, c_int, Sender<Result<Range<usize>, NotMapped>>),
    /// Unmaps the region of a file that begins at an address, where the program has nothing any more. When nobody has its addresses this place is vacant.
    Unmap(usize, Option<Range<usize>>, Sender<()>),
    /// Copies ranges for a child, and keeps everything as it is until the last is over.
    Fork(Vec<Range<usize>>, Verdict, Sender<Result<Vec<Run>, String>>, Receiver<()>),
    /// Has been reached.
    Pass(Sender<()>),
}

/// Why a file has no region.
#[derive(Debug)]
pub(crate) enum NotMapped {
    /// It cannot be had here.
    NoFile,
    /// Its addresses may be anybody's now.
    NoRegion,
}

/// An error's message.
pub(crate) fn in_words(error: impl Display) -> String {
    error.to_string()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Starts the thread, and returns when it has a pager.
    pub(crate) fn start(settings: Settings) -> Result<&'static Self, String> {
        let (service, asked) = Self::new(settings);
        let service: &'static Self = Box::leak(Box::new(service));
        let (answer, began) = channel();
        let thread = std::thread::Builder::new().name("forebay-run".to_owned()).stack_size(STACK);
        let before = signals::block();
        let spawned = thread.spawn(move || service.work(&asked, &answer));
        signals::restore(&before);
        spawned.map_err(in_words)?;
        began.recv().map_err(|_| "its thread has ended".to_owned())??;
        Ok(service)
    }

    /// One whose thread, which gets the jobs, has yet to begin.
    fn new(settings: Settings) -> (Self, Receiver<Job>) {
        let (jobs, asked) = channel();
        let service = Self {
            settings,
            jobs,
            zeroed: Mutex::default(),
            vacant: Mutex::default(),
            swaps: Mutex::default(),
            leaving: AtomicUsize::new(0),
            pager: OnceLock::new(),
            figures: OnceLock::new(),
            noting: Mutex::default(),
            traffic: Arc::default(),
            most: AtomicU64::new(0),
            is_known_full: AtomicBool::new(false),
        };
        (service, asked)
    }

    fn work(&'static self, asked: &Receiver<Job>, began: &Sender<Result<(), String>>) {
        let mut regions = match self.begin() {
            Ok(regions) => regions,
            Err(error) => {
                let _ = began.send(Err(error));
                return;
            }
        };
        // The caller waits for this answer.
        let _ = began.send(Ok(()));
        let mut noted = Instant::now();
        loop {
            match asked.recv_timeout(MOMENT.saturating_sub(noted.elapsed())) {
                Ok(job) => regions.work(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if noted.elapsed() >= MOMENT {
                self.note();
                noted = Instant::now();
            }
        }
    }

    fn begin(&'static self) -> Result<Regions, String> {
        let settings = &self.settings;
        // SAFETY: from here on this thread's files are its own, and none is open.
        if unsafe { libc::unshare(libc::CLONE_FILES) < 0 || libc::close_range(0, u32::MAX, 0) < 0 } {
            return Err(in_words(io::Error::last_os_error()));
        }
        // Standard input, output and error: what is written there by mistake harms no file.
        let nothing = || memfd_create("nothing", MemfdFlags::CLOEXEC).map(File::from).map_err(in_words);
        let standard = [nothing()?, nothing()?, settings.open_messages().or_else(|_| nothing())?];
        let _: [i32; 3] = standard.map(IntoRawFd::into_raw_fd);
        let subscriber = tracing_subscriber::fmt().with_writer(|| messages::Log).with_ansi(false).without_time();
        // A child of fork has its parent's.
        let _ = subscriber.with_max_level(tracing::Level::WARN).with_target(false).try_init();
        let used = File::open(&settings.folder).inspect(|folder| _ = flock(folder, FlockOperation::LockShared));
        let delay = settings.delay.as_deref().and_then(model);
        let swap = Backing::new(&settings.swap, delay.as_deref());
        let swap = swap.map_err(|error| format!("swap space in {}: {error}", settings.swap.display()))?;
        let spec = Spec::parse(&settings.policy).map_err(in_words)?;
        let mut options = Options { page_size: settings.page_size, swap: true, ..Options::new(settings.memory, spec) };
        // The program may end by it.
        options.failure = Some(Notice::new(|| self.note()));
        if settings.record {
            let log = Log::create(&settings.folder, std::process::id()).map_err(in_words)?;
            let base = crate::heap::base() as u64;
            // What cannot be written is missing in the trace, which says how long it is.
            options.watch = Some(Watch::new(move |address, write| _ = log.add(address as u64 - base, write)));
        }
        let pager = Pager::new(&options).map_err(in_words)?;
        if !pager.serves_system_calls() {
            return Err("it no longer has the right to have system calls wait for pages".to_owned());
        }
        match Page::create(&settings.folder, std::process::id()) {
            Ok(page) => _ = self.figures.set(page),
            Err(error) => tracing::warn!("process {} has no figures: {error}", std::process::id()),
        }
        let together = pager.count_together();
        let _ = self.pager.set((Arc::clone(&pager), together.clone()));
        Ok(Regions::new(self, pager, together, swap, used.ok()))
    }

    /// Writes figures down.
    pub(crate) fn note(&self) {
        let (Some((pager, together)), Some(page)) = (self.pager.get(), self.figures.get()) else { return };
        let _noting = lock(&self.noting);
        let seen = Seen {
            faults: pager.faults(),
            pool: pager.statistics(),
            regions: together.statistics(),
            traffic: self.traffic.read(),
            most: self.most.load(Ordering::Relaxed),
        };
        page.set(Figures::of(&seen));
    }

    pub(crate) fn used(&self, most: usize) {
        self.most.store(most as u64, Ordering::Relaxed);
    }

    /// Says something of this process.
    pub(crate) fn say(&self, what: &str) {
        messages::say(&self.settings, what);
    }

    /// Without the thread nobody does it.
    fn push(&self, job: Job) {
        let _ = self.jobs.send(job);
    }

    fn ask<T>(&self, job: impl FnOnce(Sender<T>) -> Job) -> Option<T> {
        let (answer, given) = channel();
        self.push(job(answer));
        given.recv().ok()
    }

    /// Has a range made zeroes, and among [`taken`](Self::take_zeroed) then.
    pub(crate) fn leave(&self, range: Range<usize>) {
        self.leaving.fetch_add(1, Ordering::AcqRel);
        self.push(Job::Leave(range));
    }

    /// The ranges that are zeroes since the last call.
    pub(crate) fn take_zeroed(&self) -> Vec<Range<usize>> {
        if self.leaving.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let zeroed = std::mem::take(&mut *lock(&self.zeroed));
        self.leaving.fetch_sub(zeroed.len(), Ordering::AcqRel);
        zeroed
    }

    /// Waits until all that was to leave has left; `false`: there is nothing.
    pub(crate) fn wait_for_leaving(&self) -> bool {
        let any = self.leaving.load(Ordering::Acquire) > 0;
        if any {
            self.ask(Job::Pass);
        }
        any
    }

    /// Has what is in a range given up that nobody has any more.
    pub(crate) fn discard(&self, range: Range<usize>) {
        self.push(Job::Discard(range));
    }

    /// Has a range made zeroes, or what its file has.
    pub(crate) fn reset(&self, range: Range<usize>) -> bool {
        self.ask(|answer| Job::Reset(range, answer)).is_some_and(|reset| reset.is_ok())
    }

    /// Finds room in swap space for a range that the program is about to get; `false`: there is none.
    pub(crate) fn reserve(&self, range: Range<usize>) -> bool {
        if self.promise(&range) {
            return true;
        }
        let reserved = self.ask(|answer| Job::Reserve(range, answer)).unwrap_or(Ok(()));
        reserved.inspect_err(|why| self.say_full(&format!("swap space: {why}"))).is_ok()
    }

    /// Says, once, that the program gets no more memory.
    fn say_full(&self, why: &str) {
        if !self.is_known_full.swap(true, Ordering::Relaxed) {
            self.say(&format!("there is no more memory: {why}"));
        }
    }

    /// The same without asking the file system, as long as it has plenty.
    fn promise(&self, range: &Range<usize>) -> bool {
        let swaps = lock(&self.swaps);
        let parts = swaps.iter().filter_map(|(place, swap)| {
            let (from, to) = (range.start.max(place.start), range.end.min(place.end));
            (from < to).then(|| (swap, (from - place.start) as u64..(to - place.start) as u64))
        });
        let mut parts = parts.peekable();
        let has_room = parts.peek().is_none_or(|(swap, _)| swap.has_budget(range.len() as u64));
        has_room && {
            parts.for_each(|(swap, part)| swap.promise(&part));
            true
        }
    }

    pub(crate) fn grow(&self, from: usize, length: usize) -> Option<Range<usize>> {
        let grown = self.ask(|answer| Job::Grow(from, length, answer))?;
        grown.inspect_err(|why| self.say_full(why)).ok()
    }

    pub(crate) fn map(
        &self,
        from: usize,
        length: usize,
        asked: Asked,
        protection: c_int,
    ) -> Result<Range<usize>, NotMapped> {
        self.ask(|answer| Job::Map(from, length, asked, protection, answer)).unwrap_or(Err(NotMapped::NoRegion))
    }

    /// Unmaps the region of a file that begins at an address; then its place is [vacant](Self::vacant), if there is one.
    /// What is returned has an answer when it has gone.
    pub(crate) fn unmap(&self, from: usize, place: Option<Range<usize>>) -> Receiver<()> {
        let (answer, gone) = channel();
        self.push(Job::Unmap(from, place, answer));
        gone
    }

    /// Copies what is live for a child, and keeps it as it is until what is returned is dropped, or for a while: then it says so.
    pub(crate) fn fork(&self, live: Vec<Range<usize>>, verdict: Verdict) -> (Result<Vec<Run>, String>, Sender<()>) {
        let (over, until) = channel();
        let runs = self.ask(|answer| Job::Fork(live, verdict, answer, until));
        (runs.unwrap_or_else(|| Err("the thread that pages has ended".to_owned())), over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_a_thread_that_has_ended_learns_that() {
        let settings = Settings {
            memory: 1 << 20,
            page_size: 4096,
            readahead: 0,
            policy: "lru".to_owned(),
            swap: "/".into(),
            delay: None,
            folder: "/nowhere".into(),
            record: false,
        };
        let (service, asked) = Service::new(settings);
        service.leave(0..4096);
        let asking = || service.grow(0, 4096).is_none() && !service.reset(0..4096) && service.wait_for_leaving();
        std::thread::scope(|scope| {
            let waits = scope.spawn(asking);
            // It panics once it has been asked twice, the second time by who waits.
            let panicked = scope.spawn(move || {
                let jobs: Vec<Job> = asked.iter().take(2).collect();
                assert!(jobs.is_empty(), "this test's panic");
            });
            assert!(panicked.join().is_err());
            assert!(waits.join().expect("it is answered"), "and it is again");
        });
    }
}
