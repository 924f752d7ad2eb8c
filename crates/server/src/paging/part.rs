//! Programs' memory that is steered, alone or together with files.

use crate::error::Error;
use crate::figures::VolumeReport;
use crate::paging::figures::{MemoryFigures, MemoryReport};
use crate::paging::guard::Guard;
use crate::steering::options::{PAGE, SteerOptions};
use crate::steering::program::{self, Group};
use crate::steering::recorded::Uses;
use forebay_basis::show_bytes;
use forebay_kernel::memory::{Chooser, Counts, Options, Paging, SetLimit};
use forebay_kernel::{Common, Limits};
use forebay_pool::VolumeStatistics;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Programs' memory that is steered.
pub(crate) struct Part {
    paging: Mutex<Paging>,
    /// It acts when this process has ended.
    guard: Mutex<Option<Guard>>,
    /// What is steered.
    name: String,
    observe: bool,
}

impl Part {
    /// Refuses groups whose memory cannot be steered.
    pub(crate) fn check_groups(options: &SteerOptions) -> Result<(), Error> {
        options.groups.iter().try_for_each(|group| check_group(group))
    }

    /// Refuses a machine from whose memory no page can leave.
    pub(crate) fn check_swap(options: &SteerOptions) -> Result<(), Error> {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        if options.observe || swaps.lines().count() > 1 {
            return Ok(());
        }
        let what = "there is no swap space that memory could leave for: make some, as by `fallocate -l 4G /swapfile && chmod 600 /swapfile && mkswap /swapfile && \
                    swapon /swapfile`, or only look, by --observe";
        Err(Error::Usage(what.to_owned()))
    }

    /// The control group of a program that is to be started.
    pub(crate) fn group(options: &SteerOptions) -> Result<Group, Error> {
        if options.observe { Group::new() } else { Group::of_memory(options.cache_size()) }
    }

    /// Begins to steer the memory of control groups, and of the program's own.
    pub(crate) fn start(
        common: Arc<Common>,
        options: &SteerOptions,
        group: Option<&Group>,
        follow: Option<Limits>,
        (users, name): (Uses, String),
    ) -> Result<Self, Error> {
        let groups: Vec<_> =
            options.groups.iter().cloned().chain(group.iter().map(|group| group.path().to_owned())).collect();
        let (observe, files_beside) = (options.observe, options.cache.is_some());
        let users = Some(Box::new(users) as _);
        let turns = options.turns;
        let limit = group.and_then(Group::limit).map(|file| set_limit_of(file.to_owned()));
        let of_kernel = Options { groups: groups.clone(), observe, files_beside, turns, limit, follow, users };
        let paging = Paging::start(common, of_kernel)?;
        let guard = if observe { None } else { Some(Guard::start(&groups)?) };
        Ok(Self { paging: Mutex::new(paging), guard: Mutex::new(guard), name, observe })
    }

    fn paging(&self) -> MutexGuard<'_, Paging> {
        self.paging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen and done so far.
    pub(crate) fn counts(&self) -> Counts {
        self.paging().counts()
    }

    /// Whether it goes on.
    pub(crate) fn runs(&self) -> bool {
        self.paging().runs()
    }

    /// The size follows what limits leave, from now on.
    pub(crate) fn follow(&self, limits: Limits) {
        self.paging().follow(limits);
    }

    /// Another size is asked for, in bytes.
    pub(crate) fn resize(&self, bytes: u64) {
        self.paging().resize(bytes);
    }

    /// What was counted.
    pub(crate) fn report(&self) -> MemoryReport {
        MemoryReport { name: self.name.clone(), observes: self.observe, figures: MemoryFigures::of(&self.counts()) }
    }

    /// What the policy of a cache has seen of it.
    pub(crate) fn volume(&self, cache: &str) -> VolumeReport {
        let pool = VolumeStatistics { name: self.name.clone(), ..self.paging().counted().statistics() };
        VolumeReport { cache: cache.to_owned(), pool, ..VolumeReport::default() }
    }

    /// Ends it: the kernel's own lists decide again.
    pub(crate) fn stop(&self) {
        self.paging().stop();
        let Counts { pages, kernel_chose, .. } = self.counts();
        // Nothing was done to their lists.
        if pages.dropped == 0 && kernel_chose.is_zero() {
            let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
            guard.into_iter().for_each(Guard::end);
        }
    }
}

/// Sets the limit of a program's group, by its file, from the thread that steers.
fn set_limit_of(file: PathBuf) -> SetLimit {
    Box::new(move |pages, chooser| {
        let more = chooser == Chooser::Policy;
        // A smaller limit than is taken may be refused: pages leave all the same.
        if let Err(error) = program::set_limit(&file, pages * PAGE, more) {
            tracing::warn!("{error}");
        }
    })
}

/// Refuses the group of the whole machine: what answers those who would end this is in it.
fn check_group(group: &Path) -> Result<(), Error> {
    let is_root = group.join("release_agent").exists()
        || group.join("cgroup.controllers").exists() && !group.join("cgroup.type").exists();
    if !is_root {
        return Ok(());
    }
    let what = "it holds all processes of this machine, and the kernel's own lists suit these; name a group below it";
    Err(Error::Usage(format!("--cgroup {}: {what}", group.display())))
}

/// Says that pages stay in memory where no limit has the kernel take them, and where a limit leaves less than was asked for.
pub(crate) fn warn_of_limits(options: &SteerOptions) {
    for group in options.groups.iter().filter(|_| !options.observe) {
        let most = Limits::new(Limits::files_of(group)).map(|limits| limits.most() * PAGE);
        if let Some(most) = most.filter(|most| *most < options.cache_size()) {
            let [size, most] = [options.cache_size(), most].map(show_bytes);
            tracing::warn!(
                "{}: its limit leaves {most} of {size}: the kernel takes the rest by itself",
                group.display()
            );
        }
    }
    let limited = |group: &&PathBuf| Limits::new(Limits::files_of(group)).is_none();
    if let Some(group) = options.groups.iter().find(limited).filter(|_| !options.observe) {
        tracing::warn!(
            "{}: it has no limit, so pages that were written to swap space stay in memory as well until the machine needs room; set memory.max, or \
             memory.limit_in_bytes in version 1",
            group.display()
        );
    }
}
