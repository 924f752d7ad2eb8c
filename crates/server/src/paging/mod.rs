//! The memory of programs, steered until a signal or the end of a program ends it.

pub(crate) mod figures;
pub(crate) mod guard;
pub(crate) mod part;

use crate::cache::{Cache, MEMORY};
use crate::control::{Answer, Command, Steered, done, with_figures};
use crate::declared::Declared;
use crate::error::Error;
use crate::figures::{CacheReport, Report};
use crate::frame::{Beside, Frame, Hooks, Reload, Service, run};
use crate::options::STOP_TIMEOUT;
use crate::paging::part::{Part, warn_of_limits};
use crate::record::Recorded;
use crate::steering::ends::Ends;
use crate::steering::options::{LEAST_MEMORY, PAGE, SteerOptions, check_cache};
use crate::steering::program::{self, Outcome};
use crate::steering::recorded::Uses;
use crate::steering::recording::{Ender, Held, Recording};
use crate::steering::{SteerEnd, requests};
use crate::words::Size;
use forebay_basis::show_bytes;
use forebay_kernel::Common;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Steers memory, or records uses and nothing else, until a signal ends it, or the end of the program, which runs in a control group of its own.
///
/// # Errors
/// What keeps it from steering.
pub(crate) fn steer(
    options: SteerOptions,
    program: Option<process::Command>,
    hooks: Hooks<SteerOptions>,
    recording: Option<Recording>,
) -> Result<SteerEnd, Error> {
    let (asking, requests, passing) = requests(program.is_some())?;
    let beside = Beside::bind(&options.beside)?;
    let Hooks { reload, log, ready } = hooks;
    let frame = Frame::new(PAGE, options.circumstances(recording.is_some()), log);
    let follow = options.limits()?;
    let (follows, options) = (AtomicBool::new(follow.is_some()), options.at_most(follow.as_ref()));
    if options.cache_size() < LEAST_MEMORY {
        let [left, least] = [options.cache_size(), LEAST_MEMORY].map(show_bytes);
        return Err(Error::Usage(format!(
            "--memory auto: the limit leaves {left}: raise it, so that {least} are left"
        )));
    }
    let (cache, most) = options.make_cache(None)?;
    let group = program.is_some().then(|| Part::group(&options)).transpose()?;
    let limit = recording.as_ref().and_then(|recording| recording.limit);
    let users = Uses::new(Arc::clone(&frame.recorder), limit.unwrap_or(u64::MAX));
    let seen = users.seen();
    let common = Common::new(Arc::clone(&cache.pool))?;
    let part = Part::start(common, &options, group.as_ref(), follow, (users, options.name(program.as_ref())))?;
    let service = Arc::new(Memory {
        frame,
        reload,
        cache,
        most,
        part,
        asked: AtomicU64::new(options.cache_size()),
        follows,
        ends: Arc::default(),
        program: Arc::default(),
        held: OnceLock::new(),
        options,
    });
    let kept = Arc::clone(&service);
    let mut ender = None;
    let ran = run(service, beside, &requests, |service, _| {
        let runs = Arc::clone(service);
        service.ends.look_after(move || runs.part.runs(), asking.clone())?;
        match recording {
            None => {
                tracing::info!("{}", service.what());
                warn_of_limits(&service.options);
            }
            Some(recording) => {
                let group = group.as_ref().map(|group| group.path().to_owned());
                let ends = Ender { seen, asking: asking.clone(), group };
                ender = Some(ends.begin(recording, &service.frame, (&service.ends, &service.program))?);
            }
        }
        if let (Some(command), Some(group), Some(passing)) = (program, &group, passing) {
            program::run(command, group, passing, asking, &service.program)?;
        }
        ready();
        Ok(())
    });
    // Its progress is not to be shown any more. It ends with the service.
    if let Some(ender) = ender {
        let _ = ender.join();
    }
    ran?;
    kept.ends.check()?;
    let held = kept.held.get().copied();
    Ok(SteerEnd { report: kept.report(), program: kept.program.get().cloned(), held })
}

/// Programs' memory that is steered.
struct Memory {
    frame: Frame,
    reload: Option<Reload<SteerOptions>>,
    cache: Arc<Cache>,
    /// The most bytes that may be asked for.
    most: u64,
    part: Part,
    /// The bytes that are asked for, unless the size follows limits.
    asked: AtomicU64,
    follows: AtomicBool,
    ends: Arc<Ends>,
    /// What has become of the program.
    program: Arc<Outcome>,
    /// What the recording holds.
    held: OnceLock<Held>,
    /// As it was started.
    options: SteerOptions,
}

impl Memory {
    /// What is steered, and how.
    fn what(&self) -> String {
        let (name, policy) = (self.part.report().name, &self.cache.policy);
        let counts = self.part.counts();
        let there = show_bytes((counts.there + counts.others) * PAGE);
        let size = match self.follows.load(Ordering::Relaxed) {
            true => format!("what control groups leave, {} now,", show_bytes(counts.asked * PAGE)),
            false => show_bytes(self.options.cache_size()),
        };
        match self.options.observe {
            true => {
                format!("observing the memory of {name}: nothing leaves; {policy} thinks of {size}; {there} are there")
            }
            false => {
                let turns = if self.options.turns { ", in turns with the kernel" } else { "" };
                format!("steering the memory of {name}: at most {size} under {policy}{turns}; {there} are there")
            }
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
        self.part.resize(size.0);
        tracing::info!("at most {} may stay from now on", show_bytes(size.0));
        Ok(())
    }

    fn take_size(&self, new: &SteerOptions) -> Result<(), Error> {
        let follows = self.follows.load(Ordering::Relaxed);
        self.options.check_same_kinds(new)?;
        new.check_sizes()?;
        if let Some(limits) = new.limits()? {
            if !follows {
                self.part.follow(limits);
                self.follows.store(true, Ordering::Relaxed);
                tracing::info!("what control groups leave may stay from now on");
            }
            return Ok(());
        }
        let size = new.cache_size();
        let changes = follows || size != self.asked.load(Ordering::Relaxed);
        if changes { self.resize(Size(size)) } else { Ok(()) }
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
        match self.options.observe {
            true => "stopping: nothing has left by this",
            false => "stopping: the kernel's own lists decide again",
        }
        .to_owned()
    }

    fn stopped(&self) -> String {
        format!("stopped: {}", self.part.report())
    }

    fn stop(&self) -> Result<(), Error> {
        self.ends.begin();
        self.part.stop();
        if let Some(Recorded { written, lost, .. }) = self.frame.stop_recording(self.patience())? {
            let _ = self.held.set(Held { written, lost });
        }
        Ok(())
    }
}

impl Steered for Memory {
    fn report(&self) -> Report {
        Report {
            memory: Some(self.part.report()),
            volumes: vec![self.part.volume(MEMORY)],
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
