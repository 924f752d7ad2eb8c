//! The memory of programs, steered until a signal or the end of a program ends it.

pub(crate) mod figures;
pub(crate) mod guard;

use crate::cache::{Cache, MEMORY};
use crate::control::{Answer, Command, Steered, done, with_figures};
use crate::declared::Declared;
use crate::error::Error;
use crate::figures::{CacheReport, Report, VolumeReport};
use crate::frame::{Beside, Frame, Hooks, Reload, Service, run};
use crate::options::STOP_TIMEOUT;
use crate::paging::figures::{MemoryFigures, MemoryReport};
use crate::paging::guard::Guard;
use crate::steering::ends::Ends;
use crate::steering::options::{LEAST_MEMORY, PAGE, SteerOptions, check_cache};
use crate::steering::program::{self, Group, Outcome};
use crate::steering::recorded::Uses;
use crate::steering::{SteerEnd, requests};
use crate::words::Size;
use forebay_basis::show_bytes;
use forebay_kernel::Limits;
use forebay_kernel::memory::{Options, Paging};
use forebay_pool::VolumeStatistics;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Steers memory until a signal ends it, or the end of the program, which runs in a control group of its own.
///
/// # Errors
/// What keeps it from steering.
pub(crate) fn steer(
    options: SteerOptions,
    program: Option<process::Command>,
    hooks: Hooks<SteerOptions>,
) -> Result<SteerEnd, Error> {
    options.groups.iter().try_for_each(|group| check_group(group))?;
    if !options.observe {
        check_swap()?;
    }
    let (asking, requests, passing) = requests(program.is_some())?;
    let beside = Beside::bind(&options.beside)?;
    let Hooks { reload, log, ready } = hooks;
    let frame = Frame::new(PAGE, log);
    let follow = options.limits()?;
    let (follows, options) = (AtomicBool::new(follow.is_some()), options.at_most(follow.as_ref()));
    if options.cache_size() < LEAST_MEMORY {
        let [left, least] = [options.cache_size(), LEAST_MEMORY].map(show_bytes);
        return Err(Error::Usage(format!(
            "--memory auto: the limit leaves {left}: raise it, so that {least} are left"
        )));
    }
    let (cache, most) = options.make_cache(None)?;
    let make_group = || if options.observe { Group::new() } else { Group::of_memory(options.cache_size()) };
    let group = program.is_some().then(make_group).transpose()?;
    let groups: Vec<_> =
        options.groups.iter().cloned().chain(group.iter().map(|group| group.path().to_owned())).collect();
    let users = Some(Box::new(Uses::new(Arc::clone(&frame.recorder), u64::MAX)) as _);
    let of_kernel = Options { groups: groups.clone(), observe: options.observe, follow, users };
    let paging = Paging::start(Arc::clone(&cache.pool), of_kernel)?;
    let guard = if options.observe { None } else { Some(Guard::start(&groups)?) };
    let service = Arc::new(Memory {
        frame,
        reload,
        cache,
        most,
        paging: Mutex::new(paging),
        guard: Mutex::new(guard),
        name: options.name(program.as_ref()),
        asked: AtomicU64::new(options.cache_size()),
        follows,
        limit: group.as_ref().and_then(Group::limit).map(Path::to_owned),
        ends: Arc::default(),
        program: Arc::default(),
        options,
    });
    let kept = Arc::clone(&service);
    run(service, beside, &requests, |service, _| {
        let runs = Arc::clone(service);
        service.ends.look_after(move || runs.paging().runs(), asking.clone())?;
        tracing::info!("{}", service.what());
        warn_of_no_limit(&service.options);
        if let (Some(command), Some(group), Some(passing)) = (program, &group, passing) {
            program::run(command, group, passing, asking, &service.program)?;
        }
        ready();
        Ok(())
    })?;
    kept.ends.check()?;
    Ok(SteerEnd { report: kept.report(), program: kept.program.get().cloned(), held: None })
}

/// Refuses a machine from whose memory no page can leave.
fn check_swap() -> Result<(), Error> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() > 1 {
        return Ok(());
    }
    let what = "there is no swap space that memory could leave for: make some, as by `fallocate -l 4G /swapfile && chmod 600 /swapfile && mkswap /swapfile && \
                swapon /swapfile`, or only look, by --observe";
    Err(Error::Usage(what.to_owned()))
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

/// Says that pages stay in memory where no limit has the kernel take them.
fn warn_of_no_limit(options: &SteerOptions) {
    let limited = |group: &&PathBuf| Limits::new(Limits::files_of(group)).is_none();
    if let Some(group) = options.groups.iter().find(limited).filter(|_| !options.observe) {
        tracing::warn!(
            "{}: it has no limit, so pages that were written to swap space stay in memory as well until the machine needs room; set memory.max, or \
             memory.limit_in_bytes in version 1",
            group.display()
        );
    }
}

/// Programs' memory that is steered.
struct Memory {
    frame: Frame,
    reload: Option<Reload<SteerOptions>>,
    cache: Arc<Cache>,
    /// The most bytes that may be asked for.
    most: u64,
    paging: Mutex<Paging>,
    /// It acts when this process has ended.
    guard: Mutex<Option<Guard>>,
    /// What is steered.
    name: String,
    /// The bytes that are asked for, unless the size follows limits.
    asked: AtomicU64,
    follows: AtomicBool,
    /// The file of the limit of a program's group.
    limit: Option<PathBuf>,
    ends: Arc<Ends>,
    /// What has become of the program.
    program: Arc<Outcome>,
    /// As it was started.
    options: SteerOptions,
}

impl Memory {
    fn paging(&self) -> MutexGuard<'_, Paging> {
        self.paging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is steered, and how.
    fn what(&self) -> String {
        let (name, policy) = (&self.name, &self.cache.policy);
        let counts = self.paging().counts();
        let there = show_bytes((counts.there + counts.others) * PAGE);
        let size = match self.follows.load(Ordering::Relaxed) {
            true => format!("what control groups leave, {} now,", show_bytes(counts.asked * PAGE)),
            false => show_bytes(self.options.cache_size()),
        };
        match self.options.observe {
            true => {
                format!("observing the memory of {name}: nothing leaves; {policy} thinks of {size}; {there} are there")
            }
            false => format!("steering the memory of {name}: at most {size} under {policy}; {there} are there"),
        }
    }

    fn resize(&self, size: Size) -> Result<(), Error> {
        check_cache(size.0)?;
        if size.0 < LEAST_MEMORY {
            let [size, least] = [size.0, LEAST_MEMORY].map(show_bytes);
            return Err(Error::Usage(format!("memory of {size}: take {least} or more")));
        }
        if size.0 > self.most {
            let [size, most] = [size.0, self.most].map(show_bytes);
            let what = format!("memory of {size}: it can grow to {most} at most, the memory of this machine");
            return Err(Error::Usage(what));
        }
        self.asked.store(size.0, Ordering::Relaxed);
        self.follows.store(false, Ordering::Relaxed);
        self.paging().resize(size.0);
        // A smaller limit than is taken may be refused: pages leave all the same.
        if let Some(Err(error)) = self.limit.as_deref().map(|file| program::set_limit(file, size.0)) {
            tracing::warn!("{error}");
        }
        tracing::info!("at most {} may stay from now on", show_bytes(size.0));
        Ok(())
    }

    fn take_size(&self, new: &SteerOptions) -> Result<(), Error> {
        let follows = self.follows.load(Ordering::Relaxed);
        if let Some(limits) = new.limits()? {
            if !follows {
                self.paging().follow(limits);
                self.follows.store(true, Ordering::Relaxed);
                tracing::info!("what control groups leave may stay from now on");
            }
            return Ok(());
        }
        let size = new.cache_size();
        let changes = follows || size != self.asked.load(Ordering::Relaxed);
        if changes { self.resize(Size(size)) } else { Ok(()) }
    }

    fn memory(&self) -> MemoryReport {
        let (name, observes) = (self.name.clone(), self.options.observe);
        MemoryReport { name, observes, figures: MemoryFigures::of(&self.paging().counts()) }
    }
}

impl Service for Memory {
    type Options = SteerOptions;

    fn reload(&self) -> Option<&Reload<SteerOptions>> {
        self.reload.as_ref()
    }

    fn take_over(self: &Arc<Self>, new: &SteerOptions) -> Result<Vec<String>, Error> {
        let results = [self.take_size(new), self.options.check_waiting(new)];
        let taken = Error::of_all(results.into_iter().filter_map(Result::err));
        taken.map_err(|why| Error::NotInForce { why: Box::new(why), done: Vec::new() })?;
        Ok(Vec::new())
    }

    fn stopping(&self) -> String {
        "stopping: the kernel's own lists decide again".to_owned()
    }

    fn stopped(&self) -> String {
        format!("stopped: {}", self.memory())
    }

    fn stop(&self) -> Result<(), Error> {
        self.ends.begin();
        self.paging().stop();
        if self.paging().counts().pages.dropped == 0 {
            let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
            guard.into_iter().for_each(Guard::end);
        }
        self.frame.stop_recording(self.patience()).map(drop)
    }
}

impl Steered for Memory {
    fn report(&self) -> Report {
        let pool = VolumeStatistics { name: self.name.clone(), ..self.paging().counted().statistics() };
        let volumes = vec![VolumeReport { cache: MEMORY.to_owned(), pool, ..VolumeReport::default() }];
        Report {
            memory: Some(self.memory()),
            volumes,
            caches: vec![CacheReport { name: MEMORY.to_owned(), pool: self.cache.pool.statistics() }],
            ..self.frame.report()
        }
    }

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn patience(&self) -> Duration {
        STOP_TIMEOUT
    }

    fn cache(&self, name: &str) -> Result<Arc<Cache>, Error> {
        if name == MEMORY {
            return Ok(Arc::clone(&self.cache));
        }
        Err(Error::Usage(format!("there is no cache `{name}`; there is {MEMORY}")))
    }

    fn execute_own(self: Arc<Self>, command: Command) -> Result<Answer, Error> {
        match command {
            Command::Resize { cache, size } => {
                self.cache(&cache)?;
                self.resize(size)?;
                let message = format!("cache {cache}: at most {} may stay from now on", show_bytes(size.0));
                with_figures(message, [("bytes", size.0)])
            }
            Command::Reload {} => done(self.read_again()?),
            other => Err(Error::Usage(format!("to {other} is not for memory that is steered"))),
        }
    }
}
