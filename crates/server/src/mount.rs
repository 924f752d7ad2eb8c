//! A directory behind a cache, mounted over FUSE, until a signal or an unmount ends it.

use crate::command_socket;
use crate::commands::{Answer, Command, Steered, done, with_figures};
use crate::control;
use crate::delay::SharedDisk;
use crate::error::Error;
use crate::listen::Made;
use crate::managers::{self, OwnersOption};
use crate::memory;
use crate::options::{Direct, Options, read_file};
use crate::owning;
use crate::record::{self, Recorder};
use crate::report::{CacheReport, Report, VolumeReport};
use crate::service::{SetLog, serve_until_stopped};
use crate::signals::{self, Request};
use crate::volume_options::Mode;
use crate::volumes::Cache;
use crate::words::{Age, Policy, Share, Size};
use clap::Args;
use forebay_fuse::{Mount, Watch};
use forebay_nbd::{Counts, Requests};
use forebay_owning::Managers;
use forebay_policy::Operation;
use forebay_policy::show_bytes;
use rustix::process::geteuid;
use serde::Deserialize;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long those who use a directory that is unmounted have to finish.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a stopping mount waits for storage that takes nothing, unless it is said.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a change of the cache's size may take.
const RESIZE: Duration = Duration::from_secs(5);

/// How the cache works, and what it shows of itself.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MountOptions {
    /// The size of the cache: all the memory that files take [default: 512MiB]
    #[arg(short, long, value_name = "SIZE")]
    pub cache: Option<Size>,
    /// The policy of the cache: `forebay policies` lists them [default: clock-pro]
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…")]
    pub policy: Option<Policy>,
    /// The page size of the cache, a power of two from 4KiB to 1MiB [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    pub page: Option<Size>,
    /// When writes are in storage: soon, or when they return [default: write-back]
    #[arg(long, value_enum, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// The most that is read ahead of a stream; 0 for nothing [default: 512KiB]
    #[arg(long, value_name = "SIZE")]
    pub readahead: Option<Size>,
    /// Let nothing be changed
    #[arg(long)]
    pub read_only: bool,
    /// Notice at once what others change below, not when a file is opened next
    #[arg(long)]
    pub watch: bool,
    /// Let other users in, as far as permissions of files let them; of root's mounts this is the default
    #[arg(long)]
    pub allow_other: bool,
    /// Serve figures by HTTP: /metrics for Prometheus, /statistics as JSON for `forebay top`
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Take commands of `forebay control` at a unix socket, its owner's alone
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Who manages which files of whom, under lru-sp: rules of a TOML file, as of `forebay compare`
    #[arg(long, value_name = "FILE.toml")]
    pub managers: Option<PathBuf>,
    /// Whose references count as one owner's, for managers and in traces [default: process]
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub owners: Option<OwnersOption>,
    /// Let programs manage their own pages by a unix socket (docs/own-managers.md); the policy is to be lru-sp
    #[arg(long, value_name = "PATH")]
    pub manager_socket: Option<PathBuf>,
    /// Write the references of programs to a trace, which is whole when the directory has been unmounted
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Make files as slow as on a disk: a preset of `forebay devices`, or a TOML file
    #[arg(long, value_name = "DEVICE")]
    pub delay: Option<String>,
    /// The share of the cache that may be dirty before writers wait [default: 50%]
    #[arg(long, value_name = "SHARE")]
    pub dirty_limit: Option<Share>,
    /// How long a page may be dirty before it is written back [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub dirty_age: Option<Age>,
    /// How long a stopping mount waits for storage that takes nothing; then it names what is not durable, and exits with 1
    /// [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub stop_timeout: Option<Age>,
    /// Ask the system for huge pages for the cache
    #[arg(long)]
    pub huge_pages: bool,
    /// Whether files bypass the system's page cache: `auto` where they can [default: auto]
    #[arg(long, value_enum, value_name = "WHEN", hide_possible_values = true)]
    pub direct: Option<Direct>,
}

impl MountOptions {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong in it and where.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_file(path)
    }

    /// These options, and what `file` says where they say nothing.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        Self {
            cache: self.cache.or(file.cache),
            policy: self.policy.or(file.policy),
            page: self.page.or(file.page),
            mode: self.mode.or(file.mode),
            readahead: self.readahead.or(file.readahead),
            read_only: self.read_only || file.read_only,
            watch: self.watch || file.watch,
            allow_other: self.allow_other || file.allow_other,
            metrics: self.metrics.or(file.metrics),
            control: self.control.or(file.control),
            managers: self.managers.or(file.managers),
            owners: self.owners.or(file.owners),
            manager_socket: self.manager_socket.or(file.manager_socket),
            record: self.record.or(file.record),
            delay: self.delay.or(file.delay),
            dirty_limit: self.dirty_limit.or(file.dirty_limit),
            dirty_age: self.dirty_age.or(file.dirty_age),
            stop_timeout: self.stop_timeout.or(file.stop_timeout),
            huge_pages: self.huge_pages || file.huge_pages,
            direct: self.direct.or(file.direct),
        }
    }

    /// What a server of one volume would be given for such a cache.
    fn of_server(&self) -> Options {
        Options {
            cache: self.cache,
            policy: self.policy.clone(),
            page: self.page,
            delay: self.delay.clone(),
            dirty_limit: self.dirty_limit,
            dirty_age: self.dirty_age,
            huge_pages: self.huge_pages,
            ..Options::default()
        }
    }
}

/// Reads the options again.
pub type Reload = Box<dyn Fn() -> Result<MountOptions, Error> + Send + Sync>;

/// What a mount asks of the program that it runs in.
pub struct MountHooks {
    /// Says the options anew, on SIGHUP and when a command asks for it, if there is a file to read them from.
    pub reload: Option<Reload>,
    /// Changes what is logged.
    pub log: SetLog,
    /// Called when the directory is mounted.
    pub mounted: Box<dyn FnOnce()>,
}

/// Mounts a directory until a signal or an unmount ends it: returns after everything is flushed.
///
/// # Errors
/// What keeps it from being mounted, or what could not be written at the end.
pub fn mount(source: &Path, mountpoint: &Path, options: MountOptions, hooks: MountHooks) -> Result<(), Error> {
    let (asking, requests) = signals::listen()?;
    let of_server = options.of_server();
    let delay = of_server.delay()?;
    options.record.as_deref().map_or(Ok(()), record::check)?;
    of_server.check_shared_memory(memory::limit())?;
    let metrics = options.metrics.map(control::bind).transpose()?;
    let (commands, _socket) = options.control.as_deref().map(command_socket::bind).transpose()?.unzip();
    let cache = Arc::new(of_server.shared_cache()?);
    let rules = managers::read(options.managers.as_deref(), &cache.policy, cache.pool.has_managers())?;
    if options.manager_socket.is_some() {
        owning::check(&cache.pool)?;
        if let Some(owners @ (OwnersOption::Cgroup | OwnersOption::Program)) = options.owners {
            let what = "a manager of its own is one process's or one user's: take --owners process or user";
            return Err(Error::Usage(format!("--manager-socket beside --owners {}: {what}", owners.name())));
        }
    }
    let files = [
        ("--control", options.control.as_deref()),
        ("--manager-socket", options.manager_socket.as_deref()),
        ("--record", options.record.as_deref()),
    ];
    managers::check_outside(mountpoint, files)?;
    let recorder = Arc::new(Recorder::new(of_server.recorded_page_size()));
    let mut of_mount = forebay_fuse::Options::new(source, mountpoint);
    of_mount.mode = options.mode.unwrap_or_default().into();
    if let Some(readahead) = options.readahead {
        of_mount.readahead = u32::try_from(readahead.0).unwrap_or(u32::MAX);
    }
    of_mount.read_only = options.read_only;
    of_mount.watch_below = options.watch;
    of_mount.allow_other = options.allow_other || geteuid().is_root();
    of_mount.direct = options.direct != Some(Direct::No);
    if let Some(model) = &delay {
        let disk = SharedDisk::new(model);
        of_mount.wrap = Some(Box::new(move |file, number| disk.delay(file, number)));
    }
    of_mount.watch = Some(Arc::new(Watcher(Arc::clone(&recorder))));
    of_mount.owners = options.owners.unwrap_or_default().into();
    of_mount.rules = rules;
    // Whoever listens may have gone.
    let unmounted = move || {
        let _ = asking.send(Request::Stop);
    };
    let mounted = Mount::new(Arc::clone(&cache.pool), of_mount, unmounted)?;
    let files = owning::MountedFiles(mounted.finder());
    let service = Arc::new(Mounted {
        managers: options.manager_socket.is_some().then(|| Managers::new(Arc::clone(&cache.pool), Box::new(files))),
        began: Instant::now(),
        source: source.display().to_string(),
        places: [source, mountpoint]
            .iter()
            .flat_map(|place| [absolute(place).ok(), place.canonicalize().ok()])
            .flatten()
            .collect(),
        cache,
        recorder,
        mount: mounted,
        patience: options.stop_timeout.map_or(STOP_TIMEOUT, |limit| limit.0),
        reload: hooks.reload,
        rules: options.managers.clone(),
        log: hooks.log,
    });
    let begun = begin(&service, &options, metrics, commands);
    if begun.is_ok() {
        let cache = &service.cache;
        tracing::info!(
            "{} is mounted on {}, behind {} under {}",
            source.display(),
            mountpoint.display(),
            show_bytes(cache.pool.capacity()),
            cache.policy
        );
        (hooks.mounted)();
        let reloading = Arc::clone(&service);
        serve_until_stopped(&requests, move || drop(reloading.read_again()))?;
        tracing::info!("stopping: who uses the directory may finish, and everything is flushed");
    }
    let stopped = service.stop();
    // What it holds waits for storage when it is dropped, and that may hang.
    std::mem::forget(service);
    begun.map(drop).and(stopped)
}

/// Starts what runs beside the mount. The socket of managers goes with what is returned.
fn begin(
    service: &Arc<Mounted>,
    options: &MountOptions,
    metrics: Option<TcpListener>,
    commands: Option<UnixListener>,
) -> Result<Option<Made>, Error> {
    if let Some(path) = &options.record {
        service.recorder.start(path)?;
    }
    if let Some(listener) = metrics {
        let address = control::start(service.clone(), listener)?;
        tracing::info!("figures at http://{address}/metrics");
    }
    if let (Some(listener), Some(path)) = (commands, &options.control) {
        command_socket::start(service.clone(), listener)?;
        tracing::info!("commands are taken at {}", path.display());
    }
    let (Some(managers), Some(path)) = (&service.managers, &options.manager_socket) else { return Ok(None) };
    let made = owning::start(managers, path)?;
    tracing::info!("programs' own managers are taken at {}", path.display());
    Ok(Some(made))
}

/// A mounted directory.
struct Mounted {
    began: Instant,
    /// As the command line says it: its volume's name in figures.
    source: String,
    /// Paths of the source and of the mount point.
    places: Vec<PathBuf>,
    cache: Arc<Cache>,
    recorder: Arc<Recorder>,
    managers: Option<Arc<Managers>>,
    mount: Mount,
    patience: Duration,
    reload: Option<Reload>,
    /// The file of managers' rules that the command line names.
    rules: Option<PathBuf>,
    log: SetLog,
}

impl Mounted {
    /// Unmounts it, makes everything durable, and completes the trace.
    fn stop(&self) -> Result<(), Error> {
        let stopped = self.mount.stop(PATIENCE, self.patience).map_err(Error::from);
        let recorded = self.recorder.within(self.patience, Recorder::stop);
        match &recorded {
            Ok(Some(recorded)) if recorded.lost > 0 => tracing::warn!("{recorded}"),
            Ok(Some(recorded)) => tracing::info!("{recorded}"),
            Ok(None) | Err(_) => {}
        }
        match &stopped {
            Ok(()) => tracing::info!("unmounted: everything is flushed"),
            // In the background there is no other place to say so.
            Err(error) => tracing::error!("{error}"),
        }
        stopped.and(recorded.map(drop))
    }

    /// Checks that a volume is the one there is: the source or the mount point, under any of their paths.
    fn check_volume(&self, volume: &str) -> Result<(), Error> {
        let known = |path: PathBuf| self.places.contains(&path);
        if volume == self.source || Path::new(volume).canonicalize().is_ok_and(known) {
            return Ok(());
        }
        Err(Error::Usage(format!("there is no volume `{volume}`; there is {}", self.source)))
    }

    fn resize(&self, size: Size) -> Result<(), Error> {
        self.cache.resize(size.0, RESIZE)?;
        tracing::info!("the cache has {} now", show_bytes(size.0));
        Ok(())
    }

    /// Reads the configuration and the managers' rules again, and takes over what can change: rules, the size of the cache and dirty limits.
    fn read_again(&self) -> Result<(), Error> {
        let taken = match &self.reload {
            Some(reload) => reload().and_then(|new| {
                self.read_rules(new.managers.as_deref())?;
                self.take_over(&new.of_server())
            }),
            None => self.read_rules(self.rules.as_deref()),
        };
        match &taken {
            Ok(()) => tracing::info!(
                "the configuration was read again: managers, the cache's size and dirty limits are in force"
            ),
            Err(error) => tracing::error!("the configuration was read again, and not all of it is in force: {error}"),
        }
        taken
    }

    fn read_rules(&self, path: Option<&Path>) -> Result<(), Error> {
        self.mount.set_rules(managers::read(path, &self.cache.policy, self.mount.has_managers())?);
        Ok(())
    }

    fn take_over(&self, new: &Options) -> Result<(), Error> {
        let defaults = forebay_pool::Config::new(0, new.policy());
        self.cache.pool.set_dirty_limit(new.dirty_limit.map_or(defaults.dirty_limit, |share| share.0))?;
        self.cache.pool.set_dirty_age(new.dirty_age.map_or(defaults.dirty_age, |age| age.0));
        if new.cache_size() == self.cache.pool.capacity() { Ok(()) } else { self.resize(Size(new.cache_size())) }
    }
}

impl Steered for Mounted {
    fn report(&self) -> Report {
        let mut statistics = self.cache.pool.statistics();
        let mut files = std::mem::take(&mut statistics.uncounted);
        files.name.clone_from(&self.source);
        files.dirty = statistics.dirty;
        let asked = self.mount.counts();
        let requests = Requests { read: asked.reads, write: asked.writes, flush: asked.flushes, ..Requests::default() };
        let counts = Counts {
            connections: asked.opened,
            requests,
            read_bytes: asked.read_bytes,
            written_bytes: asked.written_bytes,
            immediate: asked.immediate,
            errors: asked.errors,
            ..Counts::default()
        };
        let recorded = self.recorder.counts();
        Report {
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            recorded: recorded.map(|(recorded, _)| recorded),
            record_lost: recorded.map(|(_, lost)| lost),
            managers: self.managers.as_ref().map(|managers| managers.counts()),
            volumes: vec![VolumeReport { cache: self.cache.name.clone(), pool: files, clients: counts }],
            caches: vec![CacheReport { name: self.cache.name.clone(), pool: statistics }],
            ..Report::default()
        }
    }

    fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn set_log(&self, level: &str) -> Result<(), Error> {
        (self.log)(level)
    }

    fn cache(&self, name: &str) -> Result<Arc<Cache>, Error> {
        if name == self.cache.name {
            return Ok(Arc::clone(&self.cache));
        }
        Err(Error::Usage(format!("there is no cache `{name}`; there is {}", self.cache.name)))
    }

    fn execute_own(self: Arc<Self>, command: Command) -> Result<Answer, Error> {
        match command {
            Command::Resize { cache, size } => {
                self.cache(&cache)?;
                self.resize(size)?;
                with_figures(format!("cache {cache}: it has {} now", show_bytes(size.0)), [("bytes", size.0)])
            }
            Command::Flush { volume } => {
                volume.map_or(Ok(()), |volume| self.check_volume(&volume))?;
                self.mount.flush(self.patience)?;
                done("all files: durable".to_owned())
            }
            Command::Drop { volume } => {
                self.check_volume(&volume)?;
                let pages = self.mount.drop_clean();
                let bytes = pages * u64::from(self.cache.page_size);
                let message = format!("{volume}: {} of clean pages have left the cache", show_bytes(bytes));
                with_figures(message, [("pages", pages), ("bytes", bytes)])
            }
            Command::Manage { owner, file, manager } => {
                let manager = if manager == "none" { "lru" } else { &manager };
                managers::manage(&self.mount, owner.as_deref(), file.as_deref(), manager, &self.cache.policy)
            }
            Command::Abdicate { owner, file } => {
                managers::manage(&self.mount, owner.as_deref(), file.as_deref(), "lru", &self.cache.policy)
            }
            Command::Hint { file, advice } => managers::hint(&self.mount, &self.places, &file, &advice),
            Command::Managers {} if !self.mount.has_managers() => {
                Err(Error::Usage(format!("the policy {} has no managers", self.cache.policy)))
            }
            Command::Managers {} => Ok(managers::list(&self.mount)),
            Command::Reload {} => {
                self.read_again()?;
                done("the configuration was read again".to_owned())
            }
            other => Err(Error::Usage(format!("to {other} is not for a mounted directory"))),
        }
    }
}

/// Records references of owners to files.
struct Watcher(Arc<Recorder>);

impl Watch for Watcher {
    fn file(&self, path: &str) -> u32 {
        self.0.number(path)
    }

    fn owner(&self, name: &str) -> u32 {
        self.0.number(name)
    }

    fn reference(&self, file: u32, owner: &dyn Fn() -> u32, (offset, length): (u64, u64), operation: Operation) {
        self.0.record_of(owner, file, offset, length, operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_overrides_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "cache = \"1MiB\"\nmode = \"write-through\"\nread-only = true\n").unwrap();
        let line = MountOptions { cache: Some(Size(7)), ..MountOptions::default() };
        let both = line.over(MountOptions::read(file.path()).unwrap());
        assert_eq!((both.cache, both.mode, both.read_only), (Some(Size(7)), Some(Mode::WriteThrough), true));
        std::fs::write(file.path(), "volume = 1").unwrap();
        let wrong = MountOptions::read(file.path()).unwrap_err().to_string();
        assert!(wrong.contains("line 1") && wrong.contains("unknown field `volume`"), "{wrong}");
    }
}
