//! One limit of memory for several regions, and the threads behind them.

use crate::error::Error;
use crate::faults;
use crate::figures::{FaultCounters, Faults};
use crate::hand::{self, Hand};
use crate::space::{Extent, Space};
use forebay_policy::{Spec, show_bytes};
use forebay_pool::{Config, Pool, Statistics, Volume};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

/// How a pager is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most memory that resident pages take together, in bytes.
    pub memory: u64,
    /// The bytes of a page: a power of two from 4 KiB to 1 MiB.
    pub page_size: u32,
    /// The policy that chooses victims.
    pub policy: Spec,
    /// Threads that handle faults: as many reads of absent pages are under way at a time, beside readahead.
    pub threads: usize,
    /// The share of a processor that it may cost to see which resident pages are used.
    pub sampling: f64,
}

impl Options {
    /// Pages of 4 KiB, four threads, 2 % of a processor.
    pub fn new(memory: u64, policy: Spec) -> Self {
        Self { memory, page_size: 4096, policy, threads: 4, sampling: 0.02 }
    }
}

/// A region that is mapped.
#[derive(Clone)]
pub(crate) struct Mapped {
    pub(crate) extent: Arc<Extent>,
    pub(crate) volume: Arc<Volume>,
}

/// What the threads work on.
pub(crate) struct Shared {
    pub(crate) space: Arc<Space>,
    pub(crate) page_size: usize,
    pub(crate) counters: FaultCounters,
    pub(crate) hand: Hand,
    pub(crate) stop: OwnedFd,
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

    pub(crate) fn add(&self, region: Mapped) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        let place = regions.partition_point(|other| other.extent.base < region.extent.base);
        regions.insert(place, region);
    }

    pub(crate) fn remove(&self, extent: &Arc<Extent>) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.retain(|region| !Arc::ptr_eq(&region.extent, extent));
    }

    /// Who waits for a page gets SIGBUS.
    pub(crate) fn poison(&self, extent: &Extent, at: usize) {
        extent.failed(at);
        let address = extent.base as usize + at;
        if self.space.faults.poison(address, self.page_size).is_err() {
            let _ = self.space.faults.wake(address, self.page_size);
        }
    }
}

/// A limit of memory, and a policy, for [regions](crate::Region) that share them. It lives as long as the last of them.
pub struct Pager {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Pool<Space>,
    threads: Vec<JoinHandle<()>>,
}

impl Pager {
    /// A pager without regions.
    ///
    /// # Errors
    /// [`Error::Configuration`]; [`Error::Memory`] if the kernel or the user's rights have no userfaultfd for it.
    pub fn new(options: &Options) -> Result<Arc<Self>, Error> {
        let wrong = |what: String| Err(Error::Configuration(what));
        if !(1..=256).contains(&options.threads) {
            return wrong(format!("{} threads for faults: take 1 to 256", options.threads));
        }
        if !(0.0..=1.0).contains(&options.sampling) {
            return wrong(format!("{} of a processor for sampling: take a share from 0 to 1", options.sampling));
        }
        let page_size = options.page_size;
        let config = Config::new(options.memory, options.policy.clone()).with_page_size(page_size);
        let frames = options.memory / u64::from(page_size.max(1));
        if frames < 16 {
            return wrong(format!("{} is too little: take 16 pages or more", show_bytes(options.memory)));
        }
        let space = Space::new(frames as usize, page_size as usize)
            .map_err(|source| Error::Memory { what: "faults cannot be handled", source })?;
        let space = Arc::new(space);
        let pool = Pool::with_memory(config, Arc::clone(&space))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|source| Error::Memory { what: "an eventfd", source: source.into() })?;
        let shared = Arc::new(Shared {
            space,
            page_size: page_size as usize,
            counters: FaultCounters::default(),
            hand: Hand::default(),
            stop,
            regions: RwLock::default(),
        });
        let mut pager = Self { shared, pool, threads: Vec::new() };
        for _ in 0..options.threads {
            let handle = pager.pool.handle()?;
            pager.spawn("forebay-fault", move |shared| faults::handle_all(shared, &handle))?;
        }
        let sampling = options.sampling;
        if sampling > 0.0 {
            pager.spawn("forebay-hand", move |shared| hand::turn(shared, sampling))?;
        }
        Ok(Arc::new(pager))
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce(&Shared) + Send + 'static) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared));
        self.threads.push(thread.map_err(|source| Error::Memory { what: "a thread", source })?);
        Ok(())
    }

    /// Whether system calls that touch an absent page wait for it. Where the user lacks the right to that they fail with `EFAULT`, and the
    /// program touches the bytes before it hands them to the system.
    pub fn serves_system_calls(&self) -> bool {
        self.shared.space.faults.of_system_calls
    }

    /// What the faults were.
    pub fn faults(&self) -> Faults {
        self.shared.counters.read()
    }

    /// What the pool has done.
    pub fn statistics(&self) -> Statistics {
        self.pool.statistics()
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.shared.hand.stop();
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
