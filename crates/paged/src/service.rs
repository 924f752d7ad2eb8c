//! The thread that has the pager.
//!
//! Its open files are its own (`CLONE_FILES`), and so are those of the pager's threads, which it starts: the program neither sees nor closes
//! them, however many it closes. What needs a file is asked of it. If it ends, which only a fault of ours makes it do, there is no answer, and who
//! waits for one learns that.

use crate::fork::Verdict;
use crate::messages;
use crate::signals;
use crate::staged::{Run, Staged};
use crate::swap::{Backing, Swap, Traffic, model};
use forebay_pager::{Advice, Notice, Options, Pager, Region, Watch};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_run::{Figures, Log, Page, Settings};
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often figures are written down.
const MOMENT: Duration = Duration::from_millis(100);

/// The name under which policies with hands show how far these go.
const HAND_STEPS: &str = "hand steps a fault";

/// Its stack.
const STACK: usize = 512 << 10;

/// The least and the most that regions are made longer by, unless one allocation needs more.
const GROWTH: Range<usize> = 16 << 20..4 << 30;

/// How long a fork waits for writes that are under way, and how long others wait for a fork.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Service {
    settings: Settings,
    jobs: Sender<Job>,
    /// Ranges that read as zeroes by now.
    zeroed: Mutex<Vec<Range<usize>>>,
    /// Ranges that are being made zeroes, or have been and are not taken yet.
    leaving: AtomicUsize,
    pager: OnceLock<Arc<Pager>>,
    figures: OnceLock<Page>,
    /// Held while figures are written down, so that none are older than those before.
    noting: Mutex<()>,
    traffic: Arc<Traffic>,
    /// The most bytes that the program had at a time.
    most: AtomicU64,
}

enum Job {
    /// Makes a range zeroes, and has it taken.
    Leave(Range<usize>),
    /// Makes a range zeroes that nobody has any more.
    Discard(Range<usize>),
    /// Makes a range zeroes that stays the program's.
    Zero(Range<usize>, Sender<Result<(), String>>),
    /// Maps a region from an address on, of at least this length.
    Grow(usize, usize, Sender<Result<Range<usize>, String>>),
    /// Copies ranges for a child, and keeps everything as it is until the last is over.
    Fork(Vec<Range<usize>>, Verdict, Sender<Result<Vec<Run>, String>>, Receiver<()>),
    /// Has been reached.
    Pass(Sender<()>),
}

/// An error's message.
fn in_words(error: impl Display) -> String {
    error.to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
            leaving: AtomicUsize::new(0),
            pager: OnceLock::new(),
            figures: OnceLock::new(),
            noting: Mutex::default(),
            traffic: Arc::default(),
            most: AtomicU64::new(0),
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
        let _ = self.pager.set(Arc::clone(&pager));
        Ok(Regions { service: self, pager, swap: Arc::new(swap), all: Vec::new(), _used: used.ok() })
    }

    /// Writes figures down.
    pub(crate) fn note(&self) {
        let (Some(pager), Some(page)) = (self.pager.get(), self.figures.get()) else { return };
        let _noting = lock(&self.noting);
        let (faults, pool) = (pager.faults(), pager.statistics());
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (reads, writes) = self.traffic.requests.counts();
        let [up_to_1, up_to_2, up_to_4, up_to_8, up_to_16, up_to_32, up_to_64, up_to_128, longer] =
            self.traffic.requests.sequences();
        page.set(Figures {
            process: std::process::id().into(),
            major: faults.major,
            compulsory: count(&self.traffic.compulsory),
            minor: faults.minor,
            failed: faults.failed,
            waited: faults.fault_time.sum,
            hits: pool.hits,
            misses: pool.misses,
            readahead_used: pool.volumes.iter().map(|volume| volume.readahead_used).sum(),
            read: count(&self.traffic.read),
            written: count(&self.traffic.written),
            most: count(&self.most),
            capacity: pool.capacity,
            policy_capacity: u64::from(pool.policy_frames) * u64::from(pool.page_size),
            hand_millisteps: pool.policy_state.get(HAND_STEPS).map_or(0, |steps| (1000.0 * steps).round() as u64),
            reads,
            writes,
            sequences_up_to_1: up_to_1,
            sequences_up_to_2: up_to_2,
            sequences_up_to_4: up_to_4,
            sequences_up_to_8: up_to_8,
            sequences_up_to_16: up_to_16,
            sequences_up_to_32: up_to_32,
            sequences_up_to_64: up_to_64,
            sequences_up_to_128: up_to_128,
            sequences_longer: longer,
        });
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

    /// Has a range made zeroes that nobody has any more.
    pub(crate) fn discard(&self, range: Range<usize>) {
        self.push(Job::Discard(range));
    }

    pub(crate) fn zero(&self, range: Range<usize>) -> bool {
        self.ask(|answer| Job::Zero(range, answer)).is_some_and(|zeroed| zeroed.is_ok())
    }

    pub(crate) fn grow(&self, from: usize, length: usize) -> Option<Range<usize>> {
        let grown = self.ask(|answer| Job::Grow(from, length, answer))?;
        grown.inspect_err(|why| self.say(&format!("there is no more memory: {why}"))).ok()
    }

    /// Copies what is live for a child, and keeps it as it is until what is returned is dropped, or for [`PATIENCE`]: then it says so.
    pub(crate) fn fork(&self, live: Vec<Range<usize>>, verdict: Verdict) -> (Result<Vec<Run>, String>, Sender<()>) {
        let (over, until) = channel();
        let runs = self.ask(|answer| Job::Fork(live, verdict, answer, until));
        (runs.unwrap_or_else(|| Err("the thread that pages has ended".to_owned())), over)
    }
}

/// What the thread works with.
struct Regions {
    service: &'static Service,
    pager: Arc<Pager>,
    swap: Arc<Backing>,
    /// In the order of their addresses.
    all: Vec<(usize, Region, Arc<Swap>)>,
    /// The folder, locked as long as this process may write there.
    _used: Option<File>,
}

impl Regions {
    /// Does a job. Its caller waits for the answer.
    fn work(&mut self, job: Job) {
        match job {
            Job::Leave(range) => match self.zero(&range) {
                Ok(()) => lock(&self.service.zeroed).push(range),
                // Its addresses are not used again.
                Err(error) => tracing::warn!("swap space could not be given back: {error}"),
            },
            Job::Discard(range) => {
                if let Err(error) = self.zero(&range) {
                    tracing::warn!("swap space could not be given back: {error}");
                }
            }
            Job::Zero(range, answer) => _ = answer.send(self.zero(&range)),
            Job::Grow(from, length, answer) => _ = answer.send(self.grow(from, length)),
            Job::Fork(live, verdict, answer, until) => self.fork(&live, verdict, &answer, &until),
            Job::Pass(answer) => _ = answer.send(()),
        }
    }

    /// The parts of a range by region.
    fn parts(&self, range: &Range<usize>) -> impl Iterator<Item = (&Region, &Swap, Range<u64>)> {
        self.all.iter().filter_map(move |(start, region, swap)| {
            let (from, to) = (range.start.max(*start), range.end.min(start + region.len()));
            (from < to).then(|| (region, &**swap, (from - start) as u64..(to - start) as u64))
        })
    }

    fn zero(&self, range: &Range<usize>) -> Result<(), String> {
        self.parts(range).try_for_each(|(region, _, part)| {
            region.advise(part.start, part.end - part.start, Advice::Zero).map_err(in_words)
        })
    }

    fn grow(&mut self, from: usize, length: usize) -> Result<Range<usize>, String> {
        let settings = &self.service.settings;
        let so_far: usize = self.all.iter().map(|(_, region, _)| region.len()).sum();
        let page = settings.page_size as usize;
        let length = length.max(so_far.max(settings.memory as usize).clamp(GROWTH.start, GROWTH.end));
        let length = length.next_multiple_of(page);
        if from + length > crate::heap::end() {
            return Err("there are no more addresses".to_owned());
        }
        let traffic = Arc::clone(&self.service.traffic);
        let swap = Arc::new(Swap::new(&self.swap, length as u64, page as u64, traffic).map_err(in_words)?);
        let config = VolumeConfig { readahead: settings.readahead, ..VolumeConfig::new("memory") };
        let address = NonNull::new(from as *mut u8).ok_or("there is no address 0")?;
        let device = Arc::clone(&swap) as Arc<dyn forebay_pool::device::Device>;
        // SAFETY: these addresses are reserved, and nobody has them yet.
        let region = unsafe { Region::map_at(&self.pager, device, config, address) }.map_err(in_words)?;
        self.all.push((from, region, swap));
        Ok(from..from + length)
    }

    fn fork(
        &self,
        live: &[Range<usize>],
        verdict: Verdict,
        answer: &Sender<Result<Vec<Run>, String>>,
        until: &Receiver<()>,
    ) {
        let frozen = match self.pager.freeze(PATIENCE) {
            Ok(frozen) => frozen,
            Err(error) => {
                let _ = answer.send(Err(in_words(error)));
                return;
            }
        };
        let staged = match self.copy(live) {
            Ok(staged) => staged,
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        let _ = answer.send(Ok(staged.runs().to_vec()));
        if until.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) && !verdict.give_up() {
            // The child is there, and its parent about to say so.
            let _ = until.recv_timeout(PATIENCE);
        }
        drop((frozen, staged));
    }

    /// Copies ranges to a file, and maps that.
    fn copy(&self, live: &[Range<usize>]) -> Result<Staged, String> {
        let length: usize = live.iter().map(Range::len).sum();
        let file = self.swap.new_file(length as u64).map_err(in_words)?;
        let mut at = 0;
        for (_, swap, part) in live.iter().flat_map(|range| self.parts(range)) {
            let length = part.end - part.start;
            swap.copy(part, &file, at).map_err(in_words)?;
            at += length;
        }
        Staged::new(&file, live).map_err(in_words)
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
        let asking = || service.grow(0, 4096).is_none() && !service.zero(0..4096) && service.wait_for_leaving();
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
