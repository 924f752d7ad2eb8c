//! The thread that has the pager.
//!
//! Its open files are its own (`CLONE_FILES`), and so are those of the pager's threads, which it starts: the program neither sees nor closes
//! them, however many it closes. What needs a file is asked of it.

use crate::swap::{Swap, Traffic, model, nameless};
use forebay_model::Model;
use forebay_pager::{Advice, Options, Pager, Region, Watch};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_run::{Figures, Log, Page, Settings};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How often figures are written down.
const MOMENT: Duration = Duration::from_millis(100);

/// Its stack.
const STACK: usize = 512 << 10;

/// The least and the most that regions are made longer by, unless one allocation needs more.
const GROWTH: Range<usize> = 16 << 20..4 << 30;

pub(crate) struct Service {
    settings: Settings,
    jobs: Mutex<VecDeque<Job>>,
    asked: Condvar,
    /// Ranges that read as zeroes by now.
    zeroed: Mutex<Vec<Range<usize>>>,
    /// Ranges that are being made zeroes, or have been and are not taken yet.
    leaving: AtomicUsize,
    /// The service's thread.
    thread: AtomicI32,
    pager: OnceLock<Arc<Pager>>,
    figures: OnceLock<Page>,
    log: OnceLock<Arc<Log>>,
    traffic: Arc<Traffic>,
    /// The most bytes that the program had at a time.
    most: AtomicU64,
}

enum Job {
    /// Makes a range zeroes, and has it taken.
    Leave(Range<usize>),
    /// The same, for a range that stays the program's.
    Zero(Range<usize>, Answer<io::Result<()>>),
    /// Maps a region from an address on, with so many bytes at least.
    Grow(usize, usize, Answer<io::Result<Range<usize>>>),
    /// Copies ranges to a file, at their distance from an address: its descriptor here.
    Copy(Vec<Range<usize>>, usize, Answer<io::Result<i32>>),
    /// Ends the use of that descriptor.
    Close(i32),
    /// Has been reached.
    Pass(Answer<()>),
}

/// A place for an answer.
struct Answer<T>(Arc<(Mutex<Option<T>>, Condvar)>);

impl<T> Answer<T> {
    fn give(self, answer: T) {
        *lock(&self.0.0) = Some(answer);
        self.0.1.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Starts the thread, and returns when it has a pager.
    pub(crate) fn start(settings: Settings) -> io::Result<&'static Self> {
        let service: &'static Self = Box::leak(Box::new(Self {
            settings,
            jobs: Mutex::default(),
            asked: Condvar::new(),
            zeroed: Mutex::default(),
            leaving: AtomicUsize::new(0),
            thread: AtomicI32::new(0),
            pager: OnceLock::new(),
            figures: OnceLock::new(),
            log: OnceLock::new(),
            traffic: Arc::default(),
            most: AtomicU64::new(0),
        }));
        let place = Arc::new((Mutex::new(None), Condvar::new()));
        let answer = Answer(Arc::clone(&place));
        let thread = std::thread::Builder::new().name("forebay-run".to_owned()).stack_size(STACK);
        with_signals_blocked(|| thread.spawn(move || service.work(answer)))?;
        wait_for(&place)?;
        Ok(service)
    }

    fn work(&'static self, began: Answer<io::Result<()>>) {
        let mut regions = match self.begin() {
            Ok(pager) => Regions { service: self, pager, delay: None, all: Vec::new(), copies: Vec::new() },
            Err(error) => {
                tracing::error!("the program's memory cannot be paged: {error}");
                return began.give(Err(error));
            }
        };
        regions.delay = self.settings.delay.as_deref().and_then(model);
        began.give(Ok(()));
        loop {
            let mut jobs = lock(&self.jobs);
            if jobs.is_empty() {
                (jobs, _) = self.asked.wait_timeout(jobs, MOMENT).unwrap_or_else(PoisonError::into_inner);
            }
            let job = jobs.pop_front();
            drop(jobs);
            match job {
                Some(job) => regions.work(job),
                None => self.note(),
            }
        }
    }

    fn begin(&self) -> io::Result<Arc<Pager>> {
        // SAFETY: from here on this thread's files are its own, and none is open.
        if unsafe { libc::unshare(libc::CLONE_FILES) < 0 || libc::close_range(0, u32::MAX, 0) < 0 } {
            return Err(io::Error::last_os_error());
        }
        // Standard input, output and error: what is written there by mistake harms no file.
        let nothing = [File::open("/dev/null")?, File::options().write(true).open("/dev/null")?];
        let messages = self.settings.folder.join("messages");
        let messages = File::options().append(true).create(true).open(messages)?;
        std::mem::forget((nothing, messages));
        let subscriber = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).without_time();
        // A child of fork has its parent's.
        let _ = subscriber.with_max_level(tracing::Level::WARN).with_target(false).try_init();
        // SAFETY: it asks for this thread's number.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Release);
        let spec = Spec::parse(&self.settings.policy).map_err(|error| io::Error::other(error.to_string()))?;
        let mut options = Options { page_size: self.settings.page_size, ..Options::new(self.settings.memory, spec) };
        if self.settings.record {
            let log = Arc::new(Log::create(&self.settings.folder, std::process::id())?);
            let (own, base) = (Arc::clone(&log), crate::heap::base() as u64);
            // What cannot be written is missing in the trace, which says how long it is.
            options.watch = Some(Watch::new(move |address, write| _ = own.add(address as u64 - base, write)));
            let _ = self.log.set(log);
        }
        let pager = Pager::new(&options).map_err(|error| io::Error::other(error.to_string()))?;
        let _ = self.figures.set(Page::create(&self.settings.folder, std::process::id())?);
        let _ = self.pager.set(Arc::clone(&pager));
        Ok(pager)
    }

    /// Writes figures down.
    pub(crate) fn note(&self) {
        let (Some(pager), Some(page)) = (self.pager.get(), self.figures.get()) else { return };
        let (faults, pool) = (pager.faults(), pager.statistics());
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        page.set(Figures {
            process: std::process::id().into(),
            major: faults.major,
            compulsory: count(&self.traffic.compulsory),
            minor: faults.minor,
            failed: faults.failed,
            waited: faults.fault_time.sum,
            hits: pool.hits,
            misses: pool.misses,
            read: count(&self.traffic.read),
            written: count(&self.traffic.written),
            most: count(&self.most),
        });
    }

    /// What is to be known when the program ends.
    pub(crate) fn end(&self) {
        self.note();
        if self.log.get().is_some() {
            self.ask(Job::Pass);
        }
    }

    pub(crate) fn used(&self, most: usize) {
        self.most.store(most as u64, Ordering::Relaxed);
    }

    fn push(&self, job: Job) {
        lock(&self.jobs).push_back(job);
        self.asked.notify_one();
    }

    fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> T {
        let place = Arc::new((Mutex::new(None), Condvar::new()));
        self.push(job(Answer(Arc::clone(&place))));
        wait_for(&place)
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

    pub(crate) fn zero(&self, range: Range<usize>) -> io::Result<()> {
        self.ask(|answer| Job::Zero(range, answer))
    }

    pub(crate) fn grow(&self, from: usize, length: usize) -> io::Result<Range<usize>> {
        self.ask(|answer| Job::Grow(from, length, answer))
    }

    /// Copies ranges to a file, at their distance from `base`: a descriptor that is open here, and where to find it.
    pub(crate) fn copy(&self, ranges: Vec<Range<usize>>, base: usize) -> io::Result<(i32, String)> {
        let copy = self.ask(|answer| Job::Copy(ranges, base, answer))?;
        Ok((copy, format!("/proc/self/task/{}/fd/{copy}\0", self.thread.load(Ordering::Acquire))))
    }

    pub(crate) fn close(&self, copy: i32) {
        self.push(Job::Close(copy));
    }
}

fn wait_for<T>((place, given): &(Mutex<Option<T>>, Condvar)) -> T {
    let mut place = lock(place);
    loop {
        if let Some(answer) = place.take() {
            return answer;
        }
        place = given.wait(place).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Does something while this thread has all signals blocked: a thread that it starts inherits that.
fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (std::mem::MaybeUninit::uninit(), std::mem::MaybeUninit::uninit());
    // SAFETY: the sets are written to before they are read, and a thread's mask is its own.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let done = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        done
    }
}

/// What the thread works with.
struct Regions {
    service: &'static Service,
    pager: Arc<Pager>,
    delay: Option<Arc<Model>>,
    /// In the order of their addresses.
    all: Vec<(usize, Region, Arc<Swap>)>,
    /// Copies for children that are being made.
    copies: Vec<File>,
}

impl Regions {
    fn work(&mut self, job: Job) {
        match job {
            Job::Leave(range) => match self.zero(&range) {
                Ok(()) => lock(&self.service.zeroed).push(range),
                // Its addresses are not used again.
                Err(error) => tracing::warn!("swap space could not be given back: {error}"),
            },
            Job::Zero(range, answer) => answer.give(self.zero(&range)),
            Job::Grow(from, length, answer) => answer.give(self.grow(from, length)),
            Job::Copy(ranges, base, answer) => answer.give(self.copy(&ranges, base)),
            Job::Close(copy) => self.copies.retain(|file| file.as_raw_fd() != copy),
            Job::Pass(answer) => {
                self.service.log.get().iter().for_each(|log| _ = log.flush());
                answer.give(());
            }
        }
    }

    /// The parts of a range by region.
    fn parts(&self, range: &Range<usize>) -> impl Iterator<Item = (&Region, &Swap, Range<u64>)> {
        self.all.iter().filter_map(move |(start, region, swap)| {
            let (from, to) = (range.start.max(*start), range.end.min(start + region.len()));
            (from < to).then(|| (region, &**swap, (from - start) as u64..(to - start) as u64))
        })
    }

    fn zero(&self, range: &Range<usize>) -> io::Result<()> {
        for (region, _, part) in self.parts(range) {
            let zeroed = region.advise(part.start, part.end - part.start, Advice::Zero);
            zeroed.map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(())
    }

    fn grow(&mut self, from: usize, length: usize) -> io::Result<Range<usize>> {
        let settings = &self.service.settings;
        let so_far: usize = self.all.iter().map(|(_, region, _)| region.len()).sum();
        let page = settings.page_size as usize;
        let length = length.max(so_far.max(settings.memory as usize).clamp(GROWTH.start, GROWTH.end));
        let length = length.next_multiple_of(page);
        if from + length > crate::heap::end() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let traffic = Arc::clone(&self.service.traffic);
        let swap = Swap::create(&settings.swap, length as u64, page as u64, self.delay.as_deref(), traffic)?;
        let (swap, config) = (Arc::new(swap), VolumeConfig::new("memory"));
        let address = NonNull::new(from as *mut u8).ok_or(io::ErrorKind::InvalidInput)?;
        let device = Arc::clone(&swap) as Arc<dyn forebay_pool::device::Device>;
        // SAFETY: these addresses are reserved, and nobody has them yet.
        let region = unsafe { Region::map_at(&self.pager, device, config, address) };
        let region = region.map_err(|error| io::Error::other(error.to_string()))?;
        self.all.push((from, region, swap));
        Ok(from..from + length)
    }

    fn copy(&mut self, ranges: &[Range<usize>], base: usize) -> io::Result<i32> {
        for (_, region, _) in &self.all {
            region.sync().map_err(|error| io::Error::other(error.to_string()))?;
        }
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(base);
        let (file, path) = nameless(&self.service.settings.swap, (end - base) as u64)?;
        std::fs::remove_file(path)?;
        for range in ranges {
            for (start, region, swap) in &self.all {
                let (from, to) = (range.start.max(*start), range.end.min(start + region.len()));
                if from < to {
                    swap.copy((from - start) as u64..(to - start) as u64, &file, (start - base) as u64)?;
                }
            }
        }
        let copy = file.as_raw_fd();
        self.copies.push(file);
        Ok(copy)
    }
}
