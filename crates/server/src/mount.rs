//! Directories behind a cache, mounted over FUSE, until a signal or the last unmount ends it.

use crate::command_socket;
use crate::commands::{Answer, Command, Steered, done, with_figures};
use crate::control;
use crate::declared::Declared;
use crate::delay::SharedDisk;
use crate::directories::{Directories, Directory};
use crate::error::Error;
use crate::listen::Made;
use crate::managers::{self, ManagerReport, OwnersOption};
use crate::memory;
use crate::mount_options::{DirectoryOptions, MountOptions};
use crate::owning;
use crate::record::{self, Recorder};
use crate::report::{CacheReport, Report, VolumeReport};
use crate::service::{Reload, SetLog, serve_until_stopped};
use crate::service_options::{Direct, ServiceOptions};
use crate::signals::{self, Request};
use crate::volumes::Cache;
use crate::words::Size;
use forebay_fuse::{Mounts, Watch};
use forebay_owning::Managers;
use forebay_policy::Operation;
use forebay_policy::show_bytes;
use forebay_pool::VolumeStatistics;
use rustix::process::geteuid;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a change of the cache's size may take.
const RESIZE: Duration = Duration::from_secs(5);

/// What a mount asks of the program that it runs in.
pub struct MountHooks {
    /// Says the options anew, on SIGHUP and when a command asks for it, if there is a file to read them from.
    pub reload: Option<Reload<MountOptions>>,
    /// Changes what is logged.
    pub log: SetLog,
    /// Called when all directories are mounted.
    pub mounted: Box<dyn FnOnce()>,
}

/// Mounts directories until a signal ends it, or the last one is unmounted: returns after everything is flushed.
///
/// # Errors
/// What keeps one from being mounted, or what could not be written at the end.
pub fn mount(options: MountOptions, hooks: MountHooks) -> Result<(), Error> {
    options.check()?;
    let (asking, requests) = signals::listen()?;
    let of_cache = options.with_revoke()?;
    let delay = of_cache.delay()?;
    options.service.record.as_deref().map_or(Ok(()), |path| record::check(&record::free(path)))?;
    of_cache.check_memory(memory::limit())?;
    memory::keep_no_large_blocks();
    let metrics = options.service.metrics.as_ref().map(control::bind).transpose()?;
    let (commands, _socket) = options.service.control.as_deref().map(command_socket::bind).transpose()?.unzip();
    let cache = Arc::new(of_cache.shared_cache()?);
    let rules = managers::read(options.managers.as_deref(), &cache.policy, cache.pool.has_managers())?;
    if options.manager_socket.is_some() {
        owning::check(&cache.pool)?;
        if let Some(owners @ (OwnersOption::Cgroup | OwnersOption::Program)) = options.owners {
            let what = "a manager of its own is one process's or one user's: take --owners process or user";
            return Err(Error::Usage(format!("--manager-socket beside --owners {}: {what}", owners.name())));
        }
    }
    let files = [
        ("--control", options.service.control.as_deref()),
        ("--manager-socket", options.manager_socket.as_deref()),
        ("--record", options.service.record.as_deref()),
    ];
    options.mounts.iter().try_for_each(|mount| managers::check_outside(&mount.mountpoint, files))?;
    let places: Vec<(&Path, &Path)> = options.mounts.iter().map(|mount| (&*mount.source, &*mount.mountpoint)).collect();
    Mounts::check(&places)?;
    let recorder = Arc::new(Recorder::new(of_cache.page_size()));
    let disk = delay.as_deref().map(SharedDisk::new);
    let planned = options.mounts.iter().map(|mount| options.of_mount(mount, disk.as_ref(), &recorder)).collect();
    let mounts = Mounts::new(Arc::clone(&cache.pool), rules)?;
    let patience = options.service.patience();
    // Whoever listens may have gone.
    let unmounted = move || {
        let _ = asking.send(Request::Stop);
    };
    let directories = Directories::mount(mounts, planned, patience, unmounted)?;
    let files = owning::MountedFiles(directories.mounts.finder());
    let service = Arc::new(Mounted {
        managers: options.manager_socket.is_some().then(|| Managers::new(Arc::clone(&cache.pool), Box::new(files))),
        began: Instant::now(),
        cache,
        recorder,
        directories,
        patience,
        reload: hooks.reload,
        options: options.clone(),
        log: hooks.log,
    });
    let begun = begin(&service, &options, metrics, commands);
    let mut served = Ok(());
    if begun.is_ok() {
        let cache = &service.cache;
        for DirectoryOptions { source, mountpoint, .. } in &options.mounts {
            tracing::info!(
                "{} is mounted on {}, behind {} under {}",
                source.display(),
                mountpoint.display(),
                show_bytes(cache.pool.capacity()),
                cache.policy
            );
        }
        (hooks.mounted)();
        let reloading = Arc::clone(&service);
        served = serve_until_stopped(&requests, move || drop(reloading.read_again()));
        tracing::info!("stopping: who uses the directory may finish, and everything is flushed");
    }
    let stopped = service.stop();
    if begun.is_ok() && stopped.is_ok() {
        tracing::info!("unmounted: everything is flushed");
    }
    // What it holds waits for storage when it is dropped, and that may hang.
    std::mem::forget(service);
    begun.map(drop).and(stopped).and(served)
}

/// Starts what runs beside the mount. The socket of managers goes with what is returned.
fn begin(
    service: &Arc<Mounted>,
    options: &MountOptions,
    metrics: Option<TcpListener>,
    commands: Option<UnixListener>,
) -> Result<Option<Made>, Error> {
    if let Some(path) = &options.service.record {
        service.recorder.begin(path)?;
    }
    if let Some(listener) = metrics {
        let address = control::start(service.clone(), listener)?;
        tracing::info!("figures at http://{address}/metrics");
    }
    if let (Some(listener), Some(path)) = (commands, &options.service.control) {
        command_socket::start(service.clone(), listener)?;
        tracing::info!("commands are taken at {}", path.display());
    }
    if options.revokes() {
        let service = Arc::downgrade(service);
        let log = move || managers::log_lost_charges(|| service.upgrade().map(|service| service.lost_charges()));
        std::thread::Builder::new()
            .name("charges".to_owned())
            .spawn(log)
            .map_err(|error| Error::Failed(error.to_string()))?;
    }
    let (Some(managers), Some(path)) = (&service.managers, &options.manager_socket) else { return Ok(None) };
    let made = owning::start(managers, path)?;
    tracing::info!("programs' own managers are taken at {}", path.display());
    Ok(Some(made))
}

/// Mounted directories.
struct Mounted {
    began: Instant,
    cache: Arc<Cache>,
    recorder: Arc<Recorder>,
    managers: Option<Arc<Managers>>,
    directories: Arc<Directories>,
    patience: Duration,
    reload: Option<Reload<MountOptions>>,
    /// As it was mounted.
    options: MountOptions,
    log: SetLog,
}

impl Mounted {
    /// Unmounts all, makes everything durable, and completes the trace.
    fn stop(&self) -> Result<(), Error> {
        let stopped = self.directories.stop(self.patience);
        let recorded = self.recorder.within(self.patience, Recorder::stop);
        match &recorded {
            Ok(Some(recorded)) if recorded.lost > 0 => tracing::warn!("{recorded}"),
            Ok(Some(recorded)) => tracing::info!("{recorded}"),
            Ok(None) | Err(_) => {}
        }
        stopped.and(recorded.map(drop))
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
                self.take_over(&new.service)?;
                let waiting = self.options.waiting_for_restart(&new);
                waiting.map_or(Ok(()), |keys| Err(Error::Usage(format!("{keys}; the rest is in force"))))
            }),
            // Rules that were given by command go.
            None if self.cache.pool.has_managers() => self.read_rules(self.options.managers.as_deref()),
            None => {
                let what = "there is no file to read again, and nothing has changed: --config names one at the start";
                Err(Error::Usage(what.to_owned()))
            }
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
        let rules = managers::read(path, &self.cache.policy, self.cache.pool.has_managers())?;
        self.directories.mounts.set_rules(rules);
        Ok(())
    }

    fn manage(&self, owner: Option<&str>, file: Option<&str>, manager: &str) -> Result<Answer, Error> {
        if !self.cache.pool.has_managers() {
            let what = format!("the policy {} has no managers: mount with --policy lru-sp", self.cache.policy);
            return Err(Error::Usage(what));
        }
        managers::manage(&self.directories.mounts, owner, file, manager)
    }

    /// How many managers have lost their charge, and those of them whose owners are there.
    fn lost_charges(&self) -> (u32, Vec<ManagerReport>) {
        let lost = self.directories.mounts.lost_charges();
        (self.cache.pool.charges_ended(), lost.into_iter().map(ManagerReport::from).collect())
    }

    fn take_over(&self, new: &ServiceOptions) -> Result<(), Error> {
        let defaults = forebay_pool::Config::new(0, new.policy());
        self.cache.pool.set_dirty_limit(new.dirty_limit.map_or(defaults.dirty_limit, |share| share.0))?;
        self.cache.pool.set_dirty_age(new.dirty_age.map_or(defaults.dirty_age, |age| age.0));
        if new.cache_size() == self.cache.pool.capacity() { Ok(()) } else { self.resize(Size(new.cache_size())) }
    }
}

impl Steered for Mounted {
    fn report(&self) -> Report {
        let of_directory = |directory: &Arc<Directory>| VolumeReport {
            cache: self.cache.name.clone(),
            pool: VolumeStatistics { name: directory.name.clone(), ..directory.mount.statistics() },
            clients: directory.mount.counts(),
        };
        let recorded = self.recorder.counts();
        Report {
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            recorded: recorded.map(|(recorded, _)| recorded),
            record_lost: recorded.map(|(_, lost)| lost),
            managers: self.managers.as_ref().map(|managers| managers.counts()),
            volumes: self.directories.all().iter().map(of_directory).collect(),
            caches: vec![CacheReport { name: self.cache.name.clone(), pool: self.cache.pool.statistics() }],
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

    fn policy_restarted(&self) {
        self.directories.mounts.manage_anew();
    }

    fn execute_own(self: Arc<Self>, command: Command) -> Result<Answer, Error> {
        match command {
            Command::Resize { cache, size } => {
                self.cache(&cache)?;
                self.resize(size)?;
                with_figures(format!("cache {cache}: it has {} now", show_bytes(size.0)), [("bytes", size.0)])
            }
            Command::Flush { volume } => {
                match &volume {
                    Some(volume) => self.directories.find(volume)?.mount.flush(self.patience)?,
                    None => self.directories.flush(self.patience)?,
                }
                let of = volume.map_or_else(String::new, |volume| format!("{volume}: "));
                done(format!("{of}all files: durable"))
            }
            Command::Drop { volume } => {
                let pages = self.directories.find(&volume)?.mount.drop_clean();
                let bytes = pages * u64::from(self.cache.page_size);
                let message = format!("{volume}: {} of clean pages have left the cache", show_bytes(bytes));
                with_figures(message, [("pages", pages), ("bytes", bytes)])
            }
            Command::Manage { owner, file, manager } => {
                let manager = if manager == "none" { "lru" } else { &manager };
                self.manage(owner.as_deref(), file.as_deref(), manager)
            }
            Command::Abdicate { owner, file } => self.manage(owner.as_deref(), file.as_deref(), "lru"),
            Command::Hint { file, advice } => {
                let (directory, below) = self.directories.of_file(&file)?;
                managers::hint(&directory.mount, &file, below, &advice)
            }
            Command::Managers {} if !self.cache.pool.has_managers() => {
                Err(Error::Usage(format!("the policy {} has no managers", self.cache.policy)))
            }
            Command::Managers {} => Ok(managers::list(&self.directories.mounts)),
            Command::Reload {} => {
                self.read_again()?;
                done("the configuration was read again".to_owned())
            }
            other => Err(Error::Usage(format!("to {other} is not for a mounted directory"))),
        }
    }
}

impl MountOptions {
    /// What is to be mounted of a directory, and how.
    fn of_mount(
        &self,
        directory: &DirectoryOptions,
        disk: Option<&Arc<SharedDisk>>,
        recorder: &Arc<Recorder>,
    ) -> forebay_fuse::Options {
        let mut made = forebay_fuse::Options::new(&directory.source, &directory.mountpoint);
        made.mode = directory.mode.or(self.mode).unwrap_or_default().into();
        if let Some(readahead) = directory.readahead.or(self.readahead) {
            made.readahead = u32::try_from(readahead.0).unwrap_or(u32::MAX);
        }
        made.read_only = directory.read_only.unwrap_or(self.read_only);
        made.watch_below = directory.watch.unwrap_or(self.watch);
        made.allow_other = self.allow_other || geteuid().is_root() && !self.private;
        made.direct = self.service.direct != Some(Direct::No);
        made.device_timeout = self.service.device_timeout.map(|timeout| timeout.0);
        if let Some(disk) = disk.map(Arc::clone) {
            made.wrap = Some(Box::new(move |file, number| disk.delay(file, number)));
        }
        made.watch = Some(Arc::new(Watcher(Arc::clone(recorder))));
        made.owners = self.owners.unwrap_or_default().into();
        made.mounts = self.mounts.len();
        if self.mounts.len() > 1 {
            made.prefix.clone_from(&directory.source);
        }
        made
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
