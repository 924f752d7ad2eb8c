//! One limit of memory for several regions, and the threads behind them.

use crate::budget;
use crate::error::Error;
use crate::extent::Extent;
use crate::faults::{self, Desk};
use crate::figures::{FaultCounters, Faults};
use crate::hand::Hand;
use crate::in_place;
use crate::order::Order;
use crate::seats::Seats;
use crate::signals;
use crate::space::Space;
use crate::told::Told;
use crate::uses::Uses;
use forebay_basis::show_bytes;
use forebay_policy::Spec;
use forebay_pool::{Config, Handle, Hint, Pool, Statistics, Together, Volume};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// For swap space: the share of the dirty limit at which background writeback begins, and how long a page may be dirty.
const SWAP_BACKGROUND: f64 = 0.9;
const SWAP_AGE: Duration = Duration::from_secs(3600);

/// The most faults that are handled in place at a time: others are handed to threads.
const SEATS: usize = 64;

/// How a pager is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most memory that resident pages take together, in bytes: from 16 pages to what the machine has. A policy that remembers many pages which
    /// are not resident has up to a quarter less for those that are.
    pub memory: u64,
    /// The bytes of a page: a power of two from 4 KiB to 2 MiB.
    pub page_size: u32,
    /// The policy that chooses victims.
    pub policy: Spec,
    /// The most threads that handle faults: as many reads of absent pages are under way at a time, beside readahead. They are started as they
    /// are needed.
    pub threads: usize,
    /// The share of a processor that it may cost to see which resident pages are used. A policy with reference bits may cost half the time of each miss
    /// beside it, and up to six minor faults. 0: no use of a resident page is seen. 1: up to six minor faults a miss, however fast storage is.
    pub sampling: f64,
    /// Whether its regions are in front of swap space: what is written there is of no use after this process, so pages are written as they must leave,
    /// nearly all may be dirty, and who writes in order makes those that were read ahead dirty, too.
    pub swap: bool,
    /// Who learns of the uses that the policy learns of. Of those there are more while somebody watches: all but those of the 32 pages that were
    /// mapped last, whatever the policy. That is slow.
    pub watch: Option<Watch>,
    /// Who learns that a page cannot be used, before the signal for it may end the process.
    pub failure: Option<Notice>,
    /// Whether a fault is handled on the thread that has it, by a handler for `SIGBUS`: several times faster than by another thread. What that asks of the program
    /// is in `docs/pager.md`; above all, system calls that touch absent pages fail with `EFAULT`, and the program's heap does not lie in a region.
    pub in_place: bool,
}

/// Learns of each use of a page that the policy learns of: its address, and whether it is a write. It is called on the threads that handle faults, and
/// touches no region.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(usize, bool) + Send + Sync>);

impl Watch {
    /// One that calls a function.
    pub fn new(watch: impl Fn(usize, bool) + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }

    pub(crate) fn see(&self, address: usize, write: bool) {
        (self.0)(address, write);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// Learns that something has happened. It is called on the threads that handle faults, and touches no region.
#[derive(Clone)]
pub struct Notice(Arc<dyn Fn() + Send + Sync>);

impl Notice {
    /// One that calls a function.
    pub fn new(notice: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(notice))
    }

    pub(crate) fn give(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

impl Options {
    /// Pages of 4 KiB, up to 64 threads that handle faults, 2 % of a processor.
    pub fn new(memory: u64, policy: Spec) -> Self {
        Self {
            memory,
            page_size: 4096,
            policy,
            threads: 64,
            sampling: 0.02,
            swap: false,
            watch: None,
            failure: None,
            in_place: false,
        }
    }

    fn check(&self) -> Result<Config, Error> {
        let wrong = |what: String| Err(Error::Configuration(what));
        if !(1..=1024).contains(&self.threads) {
            return wrong(format!("{} threads for faults: take 1 to 1024", self.threads));
        }
        if !(0.0..=1.0).contains(&self.sampling) {
            return wrong(format!("{} of a processor for sampling: take a share from 0 to 1", self.sampling));
        }
        if self.in_place && self.watch.is_some() {
            return wrong(
                "uses cannot be watched where faults are handled in place: let threads handle them".to_owned(),
            );
        }
        if self.in_place && !in_place::KNOWS_WRITES {
            return wrong(
                "faults cannot be handled in place on this kind of processor: let threads handle them".to_owned(),
            );
        }
        if self.memory / u64::from(self.page_size.max(1)) < 16 {
            let least = show_bytes(16 * u64::from(self.page_size));
            return wrong(format!("{} is too little: take 16 pages, {least}, or more", show_bytes(self.memory)));
        }
        let machine = memory_of_the_machine();
        if self.memory > machine {
            return wrong(format!(
                "{} is more than this machine's {}: take less",
                show_bytes(self.memory),
                show_bytes(machine)
            ));
        }
        let config = Config::new(self.memory, self.policy.clone()).with_page_size(self.page_size);
        let config = Config { copies: budget::COPIES, ..config };
        Ok(if self.swap {
            Config { dirty_limit: 1.0, background: SWAP_BACKGROUND, dirty_age: SWAP_AGE, ..config }
        } else {
            config
        })
    }
}

/// The bytes of memory that there are.
fn memory_of_the_machine() -> u64 {
    // SAFETY: this asks for two numbers.
    let (pages, bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(bytes).unwrap_or(0)
}

/// A region that is mapped.
#[derive(Clone)]
pub(crate) struct Mapped {
    pub(crate) extent: Arc<Extent>,
    pub(crate) volume: Arc<Volume>,
    /// How the program says that it will go through it.
    pub(crate) stream: Arc<AtomicU8>,
    /// Its faults in a row.
    pub(crate) order: Arc<Order>,
    /// Its device may be read where a fault is.
    pub(crate) reads_in_place: bool,
}

/// Numbers of `Mapped::stream`.
const STREAMS: [Hint; 3] = [Hint::Normal, Hint::Sequential, Hint::Random];

impl Mapped {
    pub(crate) fn stream(&self) -> Hint {
        STREAMS[usize::from(self.stream.load(Ordering::Relaxed))]
    }

    /// Takes note of a hint on the stream as a whole; `false`: it is another.
    pub(crate) fn set_stream(&self, hint: Hint) -> bool {
        let number = STREAMS.iter().position(|&stream| stream == hint);
        number.inspect(|&number| self.stream.store(number as u8, Ordering::Relaxed)).is_some()
    }
}

/// What the threads work on.
pub(crate) struct Shared {
    pub(crate) space: Arc<Space>,
    pub(crate) pool: Pool<Space>,
    pub(crate) page_size: usize,
    pub(crate) counters: FaultCounters,
    pub(crate) hand: Hand,
    pub(crate) uses: Uses,
    pub(crate) desk: Desk,
    /// For faults that are handled in place.
    pub(crate) seats: Seats,
    pub(crate) watch: Option<Watch>,
    pub(crate) failure: Option<Notice>,
    pub(crate) told: Told,
    /// Whether regions are in front of swap space.
    pub(crate) swap: bool,
    config: Config,
    /// The most pages that regions have had together.
    most_pages: Mutex<u64>,
    /// In the order of their addresses.
    regions: RwLock<Vec<Mapped>>,
}

impl Shared {
    /// The region that has an address.
    pub(crate) fn region_at(&self, address: usize) -> Option<Mapped> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let behind = regions.partition_point(|region| region.extent.base as usize <= address);
        let region = regions[..behind].last()?;
        (address - (region.extent.base as usize) < region.extent.length).then(|| region.clone())
    }

    /// All regions.
    pub(crate) fn regions(&self) -> Vec<Mapped> {
        self.regions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add(&self, region: Mapped) {
        let mut most_pages = self.most_pages.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, count) = {
            let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
            let place = regions.partition_point(|other| other.extent.base < region.extent.base);
            regions.insert(place, region);
            (regions.iter().map(|region| region.extent.length as u64).sum::<u64>(), regions.len() as u64)
        };
        *most_pages = (*most_pages).max(bytes / self.page_size as u64);
        if let Err(error) = self.pool.resize(budget::for_pages(&self.config, *most_pages, count)) {
            // Storage of another region takes no writes: that is no reason to do without this one.
            tracing::warn!(%error, "there are more frames for now than the limit allows with what it takes to manage them");
        }
    }

    pub(crate) fn remove(&self, extent: &Arc<Extent>) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.retain(|region| !Arc::ptr_eq(&region.extent, extent));
    }
}

/// A limit of memory, and a policy, for [regions](crate::Region) that share them. It lives as long as the last of them.
pub struct Pager {
    pub(crate) shared: Arc<Shared>,
    /// For what programs advise.
    pub(crate) handle: Mutex<Handle<Space>>,
    /// Addresses of pages that are held for direct input.
    pub(crate) held: Mutex<Vec<Range<usize>>>,
    /// Has threads for faults started.
    overseer: Option<JoinHandle<()>>,
    /// The process that made it: a child of fork has none of its threads, nor the regions.
    process: u32,
}

impl Pager {
    /// A pager without regions.
    ///
    /// # Errors
    /// [`Error::Configuration`]; [`Error::Memory`] if the kernel or the user's rights have no userfaultfd for it.
    pub fn new(options: &Options) -> Result<Arc<Self>, Error> {
        let config = options.check()?;
        signals::blocked(|| Self::start(options, config))
    }

    fn start(options: &Options, config: Config) -> Result<Arc<Self>, Error> {
        let page_size = options.page_size as usize;
        let awaits = options.policy.info.awaits_uses;
        let frames = options.memory as usize / page_size;
        let space = Space::new(frames, page_size, options.in_place, awaits && options.sampling > 0.0)
            .map_err(|source| Error::Memory { what: "faults cannot be handled", source })?;
        let space = Arc::new(space);
        let share = if awaits { options.sampling } else { 0.0 };
        let pool = Pool::with_memory(config.clone(), Arc::clone(&space))?;
        let handle = pool.handle()?;
        let shared = Arc::new(Shared {
            space,
            pool,
            page_size,
            counters: FaultCounters::default(),
            hand: Hand::new(if awaits { 0.0 } else { options.sampling }),
            uses: Uses::new(share, options.in_place, frames, options.watch.is_some()),
            desk: Desk::new(options.threads),
            seats: Seats::new(if options.in_place { SEATS } else { 0 }),
            watch: options.watch.clone(),
            failure: options.failure.clone(),
            told: Told::default(),
            swap: options.swap,
            config,
            most_pages: Mutex::default(),
            regions: RwLock::default(),
        });
        let mut pager = Self {
            shared,
            handle: Mutex::new(handle),
            held: Mutex::default(),
            overseer: None,
            process: std::process::id(),
        };
        pager.overseer = Some(faults::start(&pager.shared)?);
        if options.in_place {
            in_place::begin(&pager.shared)?;
        }
        Ok(Arc::new(pager))
    }

    /// Whether system calls that touch an absent page wait for it. Where the user lacks the right to that they fail with `EFAULT`, and the
    /// program touches the bytes before it hands them to the system.
    pub fn serves_system_calls(&self) -> bool {
        self.shared.space.faults.of_system_calls
    }

    /// What the faults were.
    pub fn faults(&self) -> Faults {
        signals::blocked(|| self.shared.counters.read())
    }

    /// What the pool has done.
    pub fn statistics(&self) -> Statistics {
        signals::blocked(|| self.shared.pool.statistics())
    }

    /// A group of regions that are counted together, those that have gone, too: those whose [`VolumeConfig`](forebay_pool::VolumeConfig) names it.
    pub fn count_together(&self) -> Together {
        self.shared.pool.count_together()
    }

    /// A child of fork has nobody to bring pages.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.is_of_this_process() { Ok(()) } else { Err(Error::Forked) }
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            // The threads, and the locks that they held, are the parent's: nothing of this may be touched.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        signals::blocked(|| {
            if self.shared.space.faults.in_place {
                in_place::end(&self.shared);
            }
            self.shared.desk.stop();
            self.shared.space.faults.messages.stop();
            let _ = self.overseer.take().map(JoinHandle::join);
            self.shared.desk.join();
        });
    }
}
