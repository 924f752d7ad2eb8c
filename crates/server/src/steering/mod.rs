//! The kernel's page cache, steered until a signal or the end of a program ends it.
//!
//! ```text
//! options      what is steered, and how
//! shares       what directories and groups have of the size
//! begun        what that takes of the system
//! claim        one process steers a directory
//! ends         how it ends
//! folio_limit  devices read ahead less meanwhile
//! program      a program in a control group of its own
//! recorded     uses, written down as a trace
//! recording    uses, and nothing else, until it is time to end
//! figures      what was counted
//! once         brought down to a size, and left alone
//! ```

mod begun;
pub(crate) mod claim;
pub(crate) mod ends;
pub(crate) mod figures;
mod folio_limit;
mod once;
pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod recorded;
pub(crate) mod recording;
mod shares;

pub use once::{Lowered, lower};

use crate::cache::Cache;
use crate::control::{Answer, Command, Steered, done, with_figures};
use crate::declared::Declared;
use crate::error::Error;
use crate::figures::{CacheReport, Report};
use crate::frame::{Beside, Frame, Hooks, Reload, Service, run};
use crate::manager_socket::{self, SteeredFiles};
use crate::managers;
use crate::options::STOP_TIMEOUT;
use crate::paging;
use crate::paging::part::{Part, warn_of_limits};
use crate::record::{self, Recorded};
use crate::signals::{self, Request};
use crate::steering::ends::Ends;
use crate::steering::figures::{PageCacheFigures, PageCacheReport, Seen};
use crate::steering::options::{LEAST_MEMORY, LEAST_PAGES, PAGE, SteerOptions, check_cache};
use crate::steering::program::{Group, Passing};
use crate::steering::recorded::Uses;
use crate::steering::recording::{Ender, Held, Recording};
use crate::steering::shares::{ShareOptions, check_fit};
use crate::words::{Room, Size};
use forebay_basis::show_bytes;
use forebay_extents::Extents;
use forebay_kernel::{Common, Counts, ReadAhead, Scope, Steering};
use forebay_owning::Managers;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// What a second signal to stop comes to.
const SECOND_SIGNAL: &str =
    "the kernel's own lists decide from now on, and a trace that is being recorded is not completed";

/// What came of steering.
#[derive(Debug)]
pub struct SteerEnd {
    /// All figures at the end.
    pub report: Report,
    /// The exit code of the program, if there was one: 128 and the signal's number if that has killed it. Otherwise why it could not be run.
    pub program: Option<Result<u8, String>>,
    /// What a recording holds, if there was one.
    pub held: Option<Held>,
}

/// Steers until a signal ends it, or the end of the program, which runs in a control group of its own.
///
/// # Errors
/// What keeps it from steering; or the recording could not be written.
pub fn steer(
    options: SteerOptions,
    program: Option<process::Command>,
    hooks: Hooks<SteerOptions>,
) -> Result<SteerEnd, Error> {
    options.check(program.is_some())?;
    // What cannot be is said first, whoever steers there.
    forebay_kernel::check(&options.scopes())?;
    if options.memory.is_some() {
        Part::check_groups(&options)?;
    }
    options.limits()?;
    let _claims = options.claim()?;
    if options.memory.is_some() {
        Part::check_swap(&options)?;
    }
    match options.has_files() {
        true => watch(options, program, hooks, None),
        false => paging::steer(options, program, hooks, None),
    }
}

/// Records the uses of files in the page cache, below directories and by control groups: no policy learns of them, and nothing leaves. It ends as [`steer`] does, or
/// earlier by the recording's own ends: then the program's exit code counts as 0.
///
/// # Errors
/// What keeps it from watching; or the recording could not be written.
pub fn record_page_cache(
    (directories, groups): (Vec<PathBuf>, Vec<PathBuf>),
    recording: Recording,
    program: Option<process::Command>,
    hooks: Hooks<SteerOptions>,
) -> Result<SteerEnd, Error> {
    let cache = Some(Room::Bytes(Size(LEAST_PAGES * PAGE)));
    let options = SteerOptions { directories, groups, cache, observe: true, ..SteerOptions::default() };
    options.check(program.is_some())?;
    whole(recording, |recording| watch(options, program, hooks, Some(recording)))
}

/// Records the uses of memory by the processes of control groups, or by a program: faults, and reference bits by epochs. Nothing leaves. It ends as
/// [`record_page_cache`] does.
///
/// # Errors
/// What keeps it from watching; or the recording could not be written.
pub fn record_memory(
    groups: Vec<PathBuf>,
    recording: Recording,
    program: Option<process::Command>,
    hooks: Hooks<SteerOptions>,
) -> Result<SteerEnd, Error> {
    let memory = Some(Room::Bytes(Size(LEAST_MEMORY)));
    let options = SteerOptions { groups, memory, observe: true, ..SteerOptions::default() };
    options.check(program.is_some())?;
    forebay_kernel::check(&options.scopes())?;
    Part::check_groups(&options)?;
    whole(recording, |recording| paging::steer(options, program, hooks, Some(recording)))
}

/// Makes a recording, which has its name when it is whole.
fn whole(
    mut recording: Recording,
    recorded: impl FnOnce(Recording) -> Result<SteerEnd, Error>,
) -> Result<SteerEnd, Error> {
    let out = recording.out.clone();
    if recording.force {
        recording.out = record::free(&out);
    }
    record::check(&recording.out)?;
    let written = recording.out.clone();
    let ended = recorded(recording)?;
    if written != out && ended.held.is_some() {
        let failed = |error| Error::Failed(format!("{}: cannot become {}: {error}", written.display(), out.display()));
        fs::rename(&written, &out).map_err(failed)?;
    }
    Ok(ended)
}

/// Steers, or records uses and nothing else.
fn watch(
    options: SteerOptions,
    program: Option<process::Command>,
    hooks: Hooks<SteerOptions>,
    recording: Option<Recording>,
) -> Result<SteerEnd, Error> {
    let make_group = || if options.memory.is_some() { Part::group(&options) } else { Group::new() };
    let group = program.is_some().then(make_group).transpose()?;
    let mut scopes = options.scopes();
    scopes.extend(group.iter().map(|group| Scope::Group(group.path().to_owned())));
    let (asking, requests, mut passing) = requests(program.is_some())?;
    let beside = Beside::bind(&options.beside)?;
    folio_limit::put_back_left();
    // A signal to stop has it put back from here on.
    let _folio_limit = options.limit_folios(&scopes)?;
    let Hooks { reload, log, ready } = hooks;
    let frame = Frame::new(PAGE, options.circumstances(recording.is_some()), log);
    let follow = options.limits()?;
    let (follows, options) = (AtomicBool::new(follow.is_some()), options.at_most(follow.as_ref()));
    check_fit(&options.shares, options.cache_size())?;
    let (extents, asked) = Extents::new(options.cache_size() / PAGE);
    let (cache, most) = options.make_cache(Some(Arc::clone(&extents) as _))?;
    let only_users = recording.is_some();
    let limit = recording.as_ref().and_then(|recording| recording.limit);
    let users = Uses::new(Arc::clone(&frame.recorder), limit.unwrap_or(u64::MAX));
    let seen = users.seen();
    let users = Some(Box::new(users) as _);
    let rules = managers::read(options.managers.as_deref(), &cache.policy, cache.pool.has_managers())?;
    let owners = options.owners.unwrap_or_default();
    if options.manager_socket.is_some() {
        manager_socket::check(&cache.pool, owners)?;
    }
    let owners = owners.into();
    let observe = options.observe;
    let shares = options.shared();
    let extents = Some((extents, asked));
    let name = options.name(program.as_ref());
    let common = Common::new(Arc::clone(&cache.pool))?;
    let of_kernel =
        forebay_kernel::Options { scopes, shares, observe, only_users, follow, users, extents, owners, rules };
    let mut early = Vec::new();
    let mut stops = || {
        early.extend(requests.try_iter());
        early.contains(&Request::Stop) || passing.as_mut().is_some_and(Passing::is_asked_to_end)
    };
    let steering = Steering::start(Arc::clone(&common), of_kernel, &mut stops)?;
    let start_memory = || {
        let users = Uses::new(Arc::clone(&frame.recorder), u64::MAX);
        let program = program.as_ref().map(|program| program.get_program().display().to_string());
        let groups = options.groups.iter().map(|group| group.display().to_string());
        let whose = groups.chain(program).collect::<Vec<_>>().join(", ");
        Part::start(common, &options, group.as_ref(), None, (users, format!("memory of {whose}")))
    };
    let memory = options.memory.is_some().then(start_memory).transpose()?;
    for request in early {
        // The receiver is below.
        let _ = asking.send(request);
    }
    let files = SteeredFiles(steering.finder());
    let managers = options.manager_socket.is_some().then(|| Managers::new(Arc::clone(&cache.pool), Box::new(files)));
    let service = Arc::new(PageCache {
        frame,
        reload,
        cache,
        managers,
        most,
        steering: Mutex::new(steering),
        memory,
        name,
        asked: AtomicU64::new(options.cache_size()),
        follows,
        shares: Mutex::new(options.shares.clone()),
        ends: Arc::default(),
        program: Arc::default(),
        held: OnceLock::new(),
        options,
    });
    let kept = Arc::clone(&service);
    let mut ender = None;
    let ran = run(service, beside, &requests, |service, made| {
        let runs = Arc::clone(service);
        let goes_on = move || runs.steering().runs() && runs.memory.as_ref().is_none_or(Part::runs);
        service.ends.look_after(goes_on, asking.clone())?;
        if let (Some(managers), Some(path)) = (&service.managers, &service.options.manager_socket) {
            made.push(manager_socket::start(managers, path)?);
            tracing::info!("programs' own managers are taken at {}", path.display());
        }
        match recording {
            None => {
                tracing::info!("{}", service.what());
                if service.memory.is_some() {
                    warn_of_limits(&service.options);
                }
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

pub(crate) type Requests = (Sender<Request>, Receiver<Request>, Option<Passing>);

/// What asks it to stop: signals; or the end of a program, which signals go to.
pub(crate) fn requests(has_program: bool) -> Result<Requests, Error> {
    if has_program {
        let (asking, requests) = channel();
        return Ok((asking, requests, Some(Passing::begin()?)));
    }
    let (asking, requests) = signals::listen(SECOND_SIGNAL)?;
    Ok((asking, requests, None))
}

/// A page cache that is steered.
struct PageCache {
    frame: Frame,
    reload: Option<Reload<SteerOptions>>,
    cache: Arc<Cache>,
    /// Managers of programs' own, if they may connect.
    managers: Option<Arc<Managers>>,
    /// The most bytes that may be asked for.
    most: u64,
    steering: Mutex<Steering>,
    /// The memory of programs, which has the size together with the files.
    memory: Option<Part>,
    /// What is steered.
    name: String,
    /// The bytes that are asked for, unless the size follows limits.
    asked: AtomicU64,
    follows: AtomicBool,
    /// As they are now.
    shares: Mutex<Vec<ShareOptions>>,
    ends: Arc<Ends>,
    /// What has become of the program.
    program: Arc<program::Outcome>,
    /// What the recording holds.
    held: OnceLock<Held>,
    /// As it was started.
    options: SteerOptions,
}

impl PageCache {
    fn steering(&self) -> MutexGuard<'_, Steering> {
        self.steering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is steered, and how.
    fn what(&self) -> String {
        let (name, policy) = (&self.name, &self.cache.policy);
        let Counts { there, asked, .. } = self.steering().counts();
        let mut there = show_bytes(there * PAGE);
        if let Some(counts) = self.memory.as_ref().map(Part::counts) {
            there = format!("{there} of files and {} of memory", show_bytes((counts.there + counts.others) * PAGE));
        }
        let name = if self.memory.is_some() { format!("files and memory of {name}") } else { name.clone() };
        let size = match self.follows.load(Ordering::Relaxed) {
            true => format!("what control groups leave, {} now,", show_bytes(asked * PAGE)),
            false => show_bytes(self.options.cache_size()),
        };
        match self.options.observe {
            true => {
                format!("observing {name}: nothing leaves; {policy} thinks of a cache of {size}; {there} are there")
            }
            false => format!("steering {name}: at most {size} under {policy}; {there} are there"),
        }
    }

    fn resize(&self, size: Size, shares: &[ShareOptions]) -> Result<(), Error> {
        check_cache(size.0)?;
        let least = LEAST_MEMORY + LEAST_PAGES * PAGE;
        if self.memory.is_some() && size.0 < least {
            let [size, least] = [size.0, least].map(show_bytes);
            return Err(Error::Usage(format!("memory and a cache of {size}: take {least} or more")));
        }
        check_fit(shares, size.0)?;
        if size.0 > self.most {
            let (size, most) = (show_bytes(size.0), show_bytes(self.most));
            return Err(Error::Usage(format!(
                "a cache of {size}: it can grow to {most} at most, the memory of this machine"
            )));
        }
        self.asked.store(size.0, Ordering::Relaxed);
        self.follows.store(false, Ordering::Relaxed);
        self.steering().resize(size.0);
        if let Some(memory) = &self.memory {
            memory.resize(size.0);
        }
        tracing::info!("at most {} may stay from now on", show_bytes(size.0));
        Ok(())
    }

    fn take_size(&self, new: &SteerOptions, shares: &[ShareOptions]) -> Result<(), Error> {
        let follows = self.follows.load(Ordering::Relaxed);
        if let Some(limits) = new.limits()? {
            if !follows {
                self.steering().follow(limits);
                self.follows.store(true, Ordering::Relaxed);
                tracing::info!("what control groups leave may stay from now on");
            }
            return Ok(());
        }
        let size = new.cache_size();
        let changes = follows || size != self.asked.load(Ordering::Relaxed);
        if changes { self.resize(Size(size), shares) } else { check_fit(shares, size) }
    }

    fn read_rules(&self, path: Option<&Path>) -> Result<(), Error> {
        let rules = managers::read(path, &self.cache.policy, self.cache.pool.has_managers())?;
        if self.steering().set_rules(rules) { Ok(()) } else { Err(no_answer()) }
    }

    fn check_has_managers(&self) -> Result<(), Error> {
        if self.cache.pool.has_managers() {
            return Ok(());
        }
        let what = format!("the policy {} has no managers: steer with --policy lru-sp", self.cache.policy);
        Err(Error::Usage(what))
    }

    fn manage(&self, owner: Option<&str>, file: Option<&str>, manager: &str) -> Result<Answer, Error> {
        self.check_has_managers()?;
        let put = |rule| if self.steering().put_rule_first(rule) { Ok(()) } else { Err(no_answer()) };
        managers::manage((owner, file, manager), put)
    }

    fn page_cache(&self) -> PageCacheReport {
        let steering = self.steering();
        let ahead = steering.counted().iter().map(|of| of.statistics().readahead_used).sum();
        let seen = Seen { counts: steering.counts(), ahead };
        let (name, observes) = (self.name.clone(), self.options.observe);
        PageCacheReport { name, observes, figures: PageCacheFigures::of(&seen) }
    }
}

fn no_answer() -> Error {
    Error::Failed("the thread that steers does not answer: what was asked may not be in force".to_owned())
}

impl Service for PageCache {
    type Options = SteerOptions;

    fn reload(&self) -> Option<&Reload<SteerOptions>> {
        self.reload.as_ref()
    }

    fn take_over(self: &Arc<Self>, new: &SteerOptions) -> Result<Vec<String>, Error> {
        // Without managers there is nothing to read again.
        let managed = new.managers.is_some() || self.cache.pool.has_managers();
        let ruled = if managed { self.read_rules(new.managers.as_deref()) } else { Ok(()) };
        let results = [ruled, self.take_sizes(new), self.options.check_waiting(new)];
        let taken = Error::of_all(results.into_iter().filter_map(Result::err));
        taken.map_err(|why| Error::NotInForce { why: Box::new(why), done: Vec::new() })?;
        Ok(Vec::new())
    }

    /// Rules that were given by command go.
    fn read_others_again(&self) -> Result<bool, Error> {
        let managed = self.cache.pool.has_managers();
        if managed {
            self.read_rules(self.options.managers.as_deref())?;
        }
        Ok(managed)
    }

    fn stopping(&self) -> String {
        match self.options.observe {
            true => "stopping: nothing has left by this",
            false => "stopping: the kernel's own lists decide again",
        }
        .to_owned()
    }

    fn stopped(&self) -> String {
        let memory = self.memory.as_ref().map_or(String::new(), |memory| format!("; memory: {}", memory.report()));
        format!("stopped: {}{memory}", self.page_cache())
    }

    fn stop(&self) -> Result<(), Error> {
        self.ends.begin();
        self.steering().stop();
        if let Some(memory) = &self.memory {
            memory.stop();
        }
        if let Some(Recorded { written, lost, .. }) = self.frame.stop_recording(self.patience())? {
            let _ = self.held.set(Held { written, lost });
        }
        Ok(())
    }
}

impl Steered for PageCache {
    fn report(&self) -> Report {
        Report {
            page_cache: Some(self.page_cache()),
            memory: self.memory.as_ref().map(Part::report),
            managers: self.managers.as_ref().map(|managers| managers.counts()),
            volumes: self
                .seen()
                .into_iter()
                .chain(self.memory.iter().map(|memory| memory.volume(&self.cache.name)))
                .collect(),
            caches: vec![CacheReport { name: self.cache.name.clone(), pool: self.cache.pool.statistics() }],
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
        if name == self.cache.name {
            return Ok(Arc::clone(&self.cache));
        }
        Err(Error::Usage(format!("there is no cache `{name}`; there is {}", self.cache.name)))
    }

    fn policy_restarted(&self) {
        self.steering().manage_anew();
    }

    fn execute_own(self: Arc<Self>, command: Command) -> Result<Answer, Error> {
        match command {
            Command::Resize { cache, size } => {
                self.cache(&cache)?;
                self.resize(size, &self.shares())?;
                let message = format!("cache {cache}: at most {} may stay from now on", show_bytes(size.0));
                with_figures(message, [("bytes", size.0)])
            }
            Command::Reload {} => done(self.read_again()?),
            Command::Manage { owner, file, manager } => self.manage(owner.as_deref(), file.as_deref(), &manager),
            Command::Abdicate { owner, file } => self.manage(owner.as_deref(), file.as_deref(), "lru"),
            Command::Managers {} => {
                self.check_has_managers()?;
                Ok(managers::list(self.steering().managers()))
            }
            Command::Hint { file, advice } => managers::hint(&file, &advice, |advice| {
                // Others ask for figures while the kernel reads.
                let ahead = self.steering().hint(&file, advice)?;
                Ok(ahead.map_or(Ok(()), ReadAhead::start)?)
            }),
            Command::Drop { .. } => {
                let what = "pages leave a steered page cache when it is smaller: resize it, and resize it back";
                Err(Error::Usage(what.to_owned()))
            }
            other => Err(Error::Usage(format!("to {other} is not for a steered page cache"))),
        }
    }
}
