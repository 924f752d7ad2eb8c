//! Directories behind a cache, mounted over FUSE, until a signal or the last unmount ends it.

pub(crate) mod clock;
mod mounted;
pub(crate) mod options;

use crate::cache::{Cache, common};
use crate::control::{Answer, Command, Steered, dirty, done, with_figures};
use crate::declared::Declared;
use crate::delay::SharedDisk;
use crate::directories::clock::MountClock;
use crate::directories::mounted::{Directories, Directory};
use crate::directories::options::{DirectoryOptions, MountOptions};
use crate::error::Error;
use crate::figures::{CacheReport, Report, VolumeReport};
use crate::frame::{Beside, Frame, Hooks, Reload, Service, run};
use crate::listen::Made;
use crate::manager_socket::{self, MountedFiles};
use crate::managers::{self, ManagerReport};
use crate::memory;
use crate::options::{Direct, ServiceOptions};
use crate::record::Recorder;
use crate::signals::{self, Request};
use crate::volumes::volume::Mode;
use crate::words::Size;
use forebay_basis::Operation;
use forebay_basis::show_bytes;
use forebay_extents::Extents;
use forebay_fuse::{Mounts, Watch};
use forebay_owning::Managers;
use forebay_pool::{READAHEAD, VolumeStatistics};
use forebay_trace::Circumstances;
use rustix::process::geteuid;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a change of the cache's size may take.
const RESIZE: Duration = Duration::from_secs(5);

/// Mounts directories until a signal ends it, or the last one is unmounted: returns after everything is flushed.
///
/// # Errors
/// What keeps one from being mounted, or what could not be written at the end.
pub fn mount(options: MountOptions, hooks: Hooks<MountOptions>) -> Result<(), Error> {
    options.check()?;
    let (asking, requests) = signals::listen(signals::UNWRITTEN)?;
    let of_cache = options.with_revoke()?;
    let delay = of_cache.delay()?;
    of_cache.check_memory(memory::limit())?;
    memory::keep_no_large_blocks();
    let mut beside = Beside::bind(&options.service.beside)?;
    // Read by policies that go by the disk's block numbers alone.
    let extents =
        of_cache.policy().info.uses.layout.then(|| Extents::new(of_cache.cache_size() / of_cache.page_size()));
    let cache = Arc::new(of_cache.shared_cache(extents.as_ref().map(|(extents, _)| Arc::clone(extents) as _))?);
    let rules = managers::read(options.managers.as_deref(), &cache.policy, cache.pool.has_managers())?;
    if options.manager_socket.is_some() {
        manager_socket::check(&cache.pool, options.owners.unwrap_or_default())?;
    }
    let files = [
        ("--control", options.service.beside.control.as_deref()),
        ("--manager-socket", options.manager_socket.as_deref()),
        ("--record", options.service.beside.record.as_deref()),
    ];
    options.mounts.iter().try_for_each(|mount| managers::check_outside(&mount.mountpoint, files))?;
    let places: Vec<(&Path, &Path)> = options.mounts.iter().map(|mount| (&*mount.source, &*mount.mountpoint)).collect();
    Mounts::check(&places)?;
    let Hooks { reload, log, ready } = hooks;
    let frame = Frame::new(of_cache.page_size(), options.circumstances(&of_cache), log);
    let disk = delay.as_deref().map(SharedDisk::new);
    let planned = options.mounts.iter().map(|mount| options.of_mount(mount, disk.as_ref(), &frame.recorder)).collect();
    let mounts = Mounts::new(Arc::clone(&cache.pool), rules)?;
    let mounts = match extents {
        Some((extents, asked)) => mounts.with_extents(extents, asked)?,
        None => mounts,
    };
    let patience = options.service.patience();
    // Whoever listens may have gone.
    let unmounted = move || {
        let _ = asking.send(Request::Stop);
    };
    // First, as programs may use a directory as soon as it is mounted.
    beside.record(&frame.recorder)?;
    let directories = Directories::mount(mounts, planned, patience, unmounted).inspect_err(|_| {
        // Its error is the one to report.
        let _ = frame.recorder.within(patience, Recorder::abandon);
    })?;
    if let [mount] = &options.mounts[..] {
        let pool = Arc::clone(&cache.pool);
        let directory = directories.all().first().cloned();
        let look = move || {
            let device = directory.as_ref().map(|directory| directory.mount.statistics().device);
            (pool.statistics(), device.unwrap_or_default())
        };
        frame.recorder.measure_by(Arc::new(MountClock::new(mount.mountpoint.clone(), Box::new(look))));
    }
    let files = MountedFiles(directories.mounts.finder());
    let managers = options.manager_socket.is_some().then(|| Managers::new(Arc::clone(&cache.pool), Box::new(files)));
    let service = Arc::new(Mounted { frame, reload, cache, managers, directories, patience, options });
    run(service, beside, &requests, |service, made| {
        service.begin(made)?;
        ready();
        Ok(())
    })
}

/// Mounted directories.
struct Mounted {
    frame: Frame,
    reload: Option<Reload<MountOptions>>,
    cache: Arc<Cache>,
    managers: Option<Arc<Managers>>,
    directories: Arc<Directories>,
    patience: Duration,
    /// As it was mounted.
    options: MountOptions,
}

impl Mounted {
    /// Lets programs manage their own pages, and says what is mounted.
    fn begin(self: &Arc<Self>, made: &mut Vec<Made>) -> Result<(), Error> {
        if self.options.revokes() {
            let service = Arc::downgrade(self);
            let log = move || managers::log_lost_charges(|| service.upgrade().map(|service| service.lost_charges()));
            std::thread::Builder::new()
                .name("charges".to_owned())
                .spawn(log)
                .map_err(|error| Error::Failed(error.to_string()))?;
        }
        if let (Some(managers), Some(path)) = (&self.managers, &self.options.manager_socket) {
            made.push(manager_socket::start(managers, path)?);
            tracing::info!("programs' own managers are taken at {}", path.display());
        }
        for DirectoryOptions { source, mountpoint, .. } in &self.options.mounts {
            tracing::info!(
                "{} is mounted on {}, behind {} under {}",
                source.display(),
                mountpoint.display(),
                show_bytes(self.cache.pool.capacity()),
                self.cache.policy
            );
        }
        Ok(())
    }

    fn resize(&self, size: Size) -> Result<(), Error> {
        self.cache.resize(size.0, RESIZE)?;
        tracing::info!("the cache has {} now", show_bytes(size.0));
        Ok(())
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
        let put = |rule| {
            self.directories.mounts.put_rule_first(rule);
            Ok(())
        };
        managers::manage((owner, file, manager), put)
    }

    /// How many managers have lost their charge, and those of them whose owners are there.
    fn lost_charges(&self) -> (u32, Vec<ManagerReport>) {
        let lost = self.directories.mounts.lost_charges();
        (self.cache.pool.charges_ended(), lost.into_iter().map(ManagerReport::from).collect())
    }
}

impl Service for Mounted {
    type Options = MountOptions;

    fn reload(&self) -> Option<&Reload<MountOptions>> {
        self.reload.as_ref()
    }

    fn take_over(self: &Arc<Self>, new: &MountOptions) -> Result<Vec<String>, Error> {
        let size = new.service.cache_size();
        let resized = || if size == self.cache.pool.capacity() { Ok(()) } else { self.resize(Size(size)) };
        let taken = [
            self.read_rules(new.managers.as_deref()),
            self.cache.limit_dirty(&new.service),
            resized(),
            self.options.check_waiting(new),
        ];
        let taken = Error::of_all(taken.into_iter().filter_map(Result::err));
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

    fn stop(&self) -> Result<(), Error> {
        let stopped = self.directories.stop(self.patience);
        let recorded = self.frame.stop_recording(self.patience);
        Error::of_all([stopped.err(), recorded.err()].into_iter().flatten())
    }
}

impl Steered for Mounted {
    fn report(&self) -> Report {
        let of_directory = |directory: &Arc<Directory>| VolumeReport {
            cache: self.cache.name.clone(),
            pool: VolumeStatistics { name: directory.name.clone(), ..directory.mount.statistics() },
            clients: directory.mount.counts(),
        };
        Report {
            managers: self.managers.as_ref().map(|managers| managers.counts()),
            volumes: self.directories.all().iter().map(of_directory).collect(),
            caches: vec![CacheReport { name: self.cache.name.clone(), pool: self.cache.pool.statistics() }],
            ..self.frame.report()
        }
    }

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn patience(&self) -> Duration {
        self.patience
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
            Command::Manage { owner, file, manager } => self.manage(owner.as_deref(), file.as_deref(), &manager),
            Command::Abdicate { owner, file } => self.manage(owner.as_deref(), file.as_deref(), "lru"),
            Command::Hint { file, advice } => {
                let (directory, below) = self.directories.of_file(&file)?;
                managers::hint(&file, &advice, |advice| {
                    let failed = |error| Error::Failed(format!("{}: {error}", file.display()));
                    directory.mount.hint(below, advice).map_err(failed)
                })
            }
            Command::Dirty { cache, limit, age } => dirty(&*self.cache(&cache)?, limit, age),
            Command::Managers {} if !self.cache.pool.has_managers() => {
                Err(Error::Usage(format!("the policy {} has no managers", self.cache.policy)))
            }
            Command::Managers {} => Ok(managers::list(self.directories.mounts.managers())),
            Command::Reload {} => done(self.read_again()?),
            other => Err(Error::Usage(format!("to {other} is not for a mounted directory"))),
        }
    }
}

impl MountOptions {
    /// The most bytes that are read ahead of a stream in a directory.
    fn readahead(&self, directory: &DirectoryOptions) -> u64 {
        directory.readahead.or(self.readahead).map_or(READAHEAD.into(), |size| size.0)
    }

    fn read_only(&self, directory: &DirectoryOptions) -> bool {
        directory.read_only.unwrap_or(self.read_only)
    }

    fn mode(&self, directory: &DirectoryOptions) -> Mode {
        directory.mode.or(self.mode).unwrap_or_default()
    }

    fn circumstances(&self, of_cache: &ServiceOptions) -> Circumstances {
        let readahead = common(self.mounts.iter().map(|directory| self.readahead(directory)));
        let mode = |directory| if self.read_only(directory) { "read-only" } else { self.mode(directory).word() };
        let mode = common(self.mounts.iter().map(mode));
        of_cache.circumstances("mount", readahead, mode)
    }

    /// What is to be mounted of a directory, and how.
    fn of_mount(
        &self,
        directory: &DirectoryOptions,
        disk: Option<&Arc<SharedDisk>>,
        recorder: &Arc<Recorder>,
    ) -> forebay_fuse::Options {
        let mut made = forebay_fuse::Options::new(&directory.source, &directory.mountpoint);
        made.mode = self.mode(directory).into();
        made.readahead = u32::try_from(self.readahead(directory)).unwrap_or(u32::MAX);
        made.read_only = self.read_only(directory);
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

    fn reference(
        &self,
        (file, file_length): (&dyn Fn() -> u32, u64),
        owner: &dyn Fn() -> u32,
        (offset, length): (u64, u64),
        operation: Operation,
    ) {
        self.0.record_of(owner, || (file(), file_length), offset, length, operation);
    }
}
