//! A mounted directory, from its options to its last flush.

use crate::behind::Behind;
use crate::credentials;
use crate::cut::Cut;
use crate::device::{Files, Wrap};
use crate::error::Error;
use crate::filesystem::FileSystem;
use crate::inode::Tree;
use crate::managing::Managing;
use crate::mapped::{self, Mapped};
use crate::mounts::Mounts;
use crate::nodes::Nodes;
use crate::object::{Looked, Object};
use crate::outside::Outside;
use crate::place::{self, Place};
use crate::protocol::{self, Notifier, Session};
use crate::recent::Recent;
use crate::shared::Shared;
use forebay_basis::Operation;
use forebay_figures::clients::Counts;
use forebay_owning::{Advice, Owners, Processes};
use forebay_pool::device::Space;
use forebay_pool::{READAHEAD, Together, VolumeConfig, VolumeStatistics, WriteMode};
use rustix::fs::{Mode, OFlags, openat, syncfs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Files without users that are remembered for their pages and ghosts at least, and for each frame.
const LEAST_RESTING: usize = 16 << 10;
const RESTING_OF_A_FRAME: u64 = 4;

/// The part of the cache that closed files may have in the page cache below, beside it, until they are on the disk.
const BEHIND: u64 = 8;

/// Threads that receive requests.
const LEAST_THREADS: usize = 2;
pub(crate) const MOST_THREADS: usize = 16;

/// How often an unmounted directory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What learns of each reference of a program.
pub trait Watch: Send + Sync {
    /// A file by its path below the mounted directory; its number for what follows.
    fn file(&self, path: &str) -> u32;

    /// An owner of references by its name; its number for what follows. The kernel is called `0`: it reads and writes what programs have
    /// mapped.
    fn owner(&self, name: &str) -> u32;

    /// An owner reads or writes a file that has had so many bytes before: from an offset on, a number of bytes. The numbers of the file and of the owner are
    /// asked for if they are needed.
    fn reference(
        &self,
        file: (&dyn Fn() -> u32, u64),
        owner: &dyn Fn() -> u32,
        bytes: (u64, u64),
        operation: Operation,
    );
}

/// What to mount, and how.
pub struct Options {
    /// The directory whose files are shown.
    pub source: PathBuf,
    /// Where.
    pub mountpoint: PathBuf,
    /// When a write is in storage.
    pub mode: WriteMode,
    /// The most bytes read ahead of a stream.
    pub readahead: u32,
    /// Nothing can be changed.
    pub read_only: bool,
    /// All users may use it, as far as permissions let them; else its owner alone. One that is root's alone is quicker with names, as the
    /// kernel does not check permissions.
    pub allow_other: bool,
    /// Files below bypass the kernel's page cache where they can.
    pub direct: bool,
    /// Changes of files below are noticed at once, not when they are opened.
    pub watch_below: bool,
    /// What lies between the pool and each file.
    pub wrap: Option<Wrap>,
    /// How long a program waits for storage that does not answer; for ever, if there is no limit.
    pub device_timeout: Option<Duration>,
    /// What learns of references.
    pub watch: Option<Arc<dyn Watch>>,
    /// Whose uses are one owner's.
    pub owners: Owners,
    /// What the names of its files begin with, in messages, rules and traces; nothing where there is no other mount.
    pub prefix: PathBuf,
    /// How many mounts share the process's descriptors.
    pub mounts: usize,
}

impl Options {
    /// A directory in write-back mode, for its owner, with 512 KiB of readahead.
    pub fn new(source: impl Into<PathBuf>, mountpoint: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            mountpoint: mountpoint.into(),
            mode: WriteMode::Back,
            readahead: READAHEAD,
            read_only: false,
            allow_other: false,
            direct: true,
            watch_below: false,
            wrap: None,
            device_timeout: None,
            watch: None,
            owners: Owners::Process,
            prefix: PathBuf::new(),
            mounts: 1,
        }
    }
}

/// A mounted directory, by [`Mounts::add`](crate::Mounts::add). Dropping it unmounts it, without waiting for its users.
pub struct Mount {
    pub(crate) shared: Arc<Shared>,
    pub(crate) place: Place,
    /// What cuts it from the kernel, where the system lets it.
    cut: Option<Arc<Cut>>,
    counted: Together,
    read_only: bool,
    ended: Mutex<Receiver<io::Result<()>>>,
    gone: Arc<AtomicBool>,
}

impl Mount {
    pub(crate) fn new(mounts: &Mounts, options: Options, ended: impl FnOnce() + Send + 'static) -> Result<Self, Error> {
        let system = |what: &str| {
            let what = what.to_owned();
            |source| Error::System { what, source }
        };
        let pool = Arc::clone(&mounts.pool);
        let (source, mountpoint) = place::check(&options.source, &options.mountpoint)?;
        let tree = Tree::open(&options, &source).map_err(system("source"))?;
        let superuser = tree.superuser();
        credentials::check(superuser).map_err(system("files cannot be made in their users' names"))?;
        let (mode, wrap, tree) = (options.mode, options.wrap, Arc::new(tree));
        let space = Space::new(tree.root()).map_err(system("source"))?;
        let behind = Behind::new(pool.statistics().capacity / BEHIND / options.mounts as u64, tree.most_files());
        // As many as wait may be being written.
        let idle = Recent::new(tree.most_files() - 2 * behind.most_files);
        let files = Arc::new(Files {
            tree: Arc::clone(&tree),
            mode,
            wrap,
            under_way: Arc::default(),
            space,
            idle,
            behind,
            layouts: mounts.layouts.clone(),
            forgotten: AtomicBool::new(false),
        });
        let nodes = Nodes::new(tree).map_err(system("source"))?;
        let (mapped, left) = Mapped::new();
        mounts.follow(&mapped);
        let statistics = pool.statistics();
        let page_size = u64::from(statistics.page_size);
        let resting = (statistics.capacity / page_size * RESTING_OF_A_FRAME) as usize / options.mounts;
        let counted = pool.count_together();
        let together = Some(counted.clone());
        let volume = VolumeConfig { mode, readahead: options.readahead, together, ..VolumeConfig::new("") };
        let outside = options.watch_below.then(Outside::new).transpose().map_err(system("no inotify for --watch"))?;
        let of_files = (volume, options.watch, outside);
        let managing = Managing::new(pool.has_managers(), &mounts.rules);
        let root_alone = superuser && !options.allow_other;
        let of_users = (Processes::new(options.owners), managing, root_alone);
        let shared = Arc::new(Shared::new(pool, files, nodes, mapped, of_files, of_users, resting.max(LEAST_RESTING)));
        let to_mount = protocol::Place {
            source: &source,
            mountpoint: &mountpoint,
            read_only: options.read_only,
            allow_other: options.allow_other,
            kernel_checks: !root_alone,
        };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let how = protocol::Options {
            threads: cores.clamp(LEAST_THREADS, MOST_THREADS),
            superuser,
            only_user: (!options.allow_other).then(|| rustix::process::geteuid().as_raw()),
            // With an idea of access lists the kernel checks permissions, too. Without, they are attributes as any others.
            access_lists: !root_alone,
            limit: options.device_timeout,
        };
        let what = format!("{} cannot be mounted", mountpoint.display());
        let session = Session::new(&to_mount, how, &shared.under_way);
        let failed = |source| Error::System { what, source };
        let (session, place) =
            session.and_then(|session| Ok((session, Place::new(mountpoint.clone())?))).map_err(failed)?;
        shared.set_notifier(session.notifier());
        let cut = Cut::of(place.device()).map(Arc::new);
        if let Err(error) = &cut {
            tracing::debug!("{place}: it cannot be cut from the kernel if it is killed: {error}");
        }
        let cut = cut.ok();
        let (notifier, gone) = (session.notifier(), Arc::new(AtomicBool::new(false)));
        let going = Arc::clone(&gone);
        let invalidate = move || mapped::invalidate(&left, &notifier, page_size, &going);
        spawn("invalidate", invalidate)?;
        if shared.outside.is_some() {
            let (shared, notifier) = (Arc::clone(&shared), session.notifier());
            spawn("watch", move || watch_below(&shared, &notifier))?;
        }
        let (answer, answered): (Sender<io::Result<()>>, _) = channel();
        let (going, watching, guarded) = (Arc::clone(&gone), Arc::clone(&shared), cut.clone());
        let serve = move || {
            // It lives as long as this thread does.
            let guard = guarded.map(|cut| cut.guard());
            if let Some(Err(error)) = &guard {
                tracing::warn!("nothing cuts the mount from the kernel if it is killed: {error}");
            }
            let answers = FileSystem(Arc::clone(&watching));
            let name = |node| watching.nodes.name(node);
            let served = session.serve(name, move |request, reply| answers.answer(request, reply));
            going.store(true, Ordering::SeqCst);
            watching.outside.iter().for_each(Outside::end);
            // Nobody may wait for it.
            let _ = answer.send(served);
            ended();
        };
        spawn("mount", serve)?;
        Ok(Self { shared, place, cut, counted, read_only: options.read_only, ended: Mutex::new(answered), gone })
    }

    /// What programs have asked for.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// What has happened on all its files in the pool.
    pub fn statistics(&self) -> VolumeStatistics {
        self.counted.statistics()
    }

    /// Writes everything back and makes it durable, within this time.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    pub fn flush(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let objects = self.shared.nodes.objects();
        let volumes = objects.iter().map(|object| Arc::clone(&object.volume)).collect();
        let flushed = self.shared.pool.flush_volumes_within(volumes, limit);
        let mut failed: Vec<String> = flushed.into_iter().map(|(_, error)| error.to_string()).collect();
        let shorter = objects.iter().filter(|object| !object.file.is_caught_up());
        failed.extend(shorter.map(|object| format!("{}: its end is not written", object.file.name())));
        failed.extend(self.sync_forgotten(deadline.saturating_duration_since(Instant::now())).err());
        failed.sort_unstable();
        failed.dedup();
        if failed.is_empty() { Ok(()) } else { Err(Error::NotDurable(failed)) }
    }

    /// Makes durable, within this time, what was written to files of which nothing is known any more: all that the file system below has.
    fn sync_forgotten(&self, limit: Duration) -> Result<(), String> {
        let files = Arc::clone(&self.shared.files);
        if !files.forgotten.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let (done, synced) = channel();
        let sync = move || {
            let root =
                openat(files.tree.root(), ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            // After the limit the receiver is gone.
            let _ = done.send(root.and_then(syncfs));
        };
        let why = match spawn("sync", sync).map(|()| synced.recv_timeout(limit)) {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(errno))) => io::Error::from(errno).to_string(),
            Ok(Err(_)) => format!("it takes longer than {limit:?}"),
            Err(error) => error.to_string(),
        };
        self.shared.files.forgotten.store(true, Ordering::SeqCst);
        Err(format!("files that are not in the cache any more: {why}"))
    }

    /// Hints at a whole file, by its path below the source: to read it ahead or to let it leave at once, or else by its attribute.
    ///
    /// # Errors
    /// There is no such file, or its file system has no attributes, or nothing may be changed.
    pub fn hint(&self, path: &Path, advice: Advice) -> io::Result<()> {
        if self.read_only && !matches!(advice, Advice::WillNeed | Advice::DoNotNeed) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.shared.hint_by_path(path, advice)
    }

    /// Lets the clean pages of all files go that are not in use; how many.
    pub fn drop_clean(&self) -> u64 {
        self.shared.nodes.objects().iter().map(|object| self.shared.pool.drop_clean(&object.volume)).sum()
    }

    /// Whether it has been unmounted, and no request comes any more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Takes its files out of the pool, once it has [stopped](Self::stop): their frames are the other mounts'.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    pub fn release(&self) -> Result<(), Error> {
        let objects = self.shared.nodes.settled_objects();
        let detached = objects.iter().filter_map(|object| self.shared.pool.detach(&object.volume).err());
        let failed: Vec<String> = detached.map(|error| error.to_string()).collect();
        if failed.is_empty() { Ok(()) } else { Err(Error::NotDurable(failed)) }
    }

    /// Unmounts it: it cannot be entered any more, those who use it have `patience` to finish, and then everything is flushed within `limit`.
    ///
    /// # Errors
    /// [`Error::NotDurable`], or that it cannot be unmounted.
    pub fn stop(&self, patience: Duration, limit: Duration) -> Result<(), Error> {
        let detached = if self.is_gone() { Ok(()) } else { self.place.detach() };
        // What is dirty is written while its users finish.
        let _ = self.flush(patience);
        let deadline = Instant::now() + patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        let served = {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.recv_timeout(if detached.is_ok() { left() } else { Duration::ZERO })
        };
        if matches!(served, Err(RecvTimeoutError::Timeout)) {
            tracing::warn!("{}: files are still open, and are cut off", self.place);
        }
        self.shared.closing.store(true, Ordering::SeqCst);
        if !self.shared.workers.finish(left().max(LOOK)) {
            tracing::warn!("{}: requests are still waiting, and are cut off", self.place);
        }
        let flushed = self.flush(limit);
        // Those who still use it get errors from here on: a thread that waits for them in the kernel would keep the process for ever.
        if !self.is_gone()
            && let Some(Err(error)) = self.cut.as_ref().map(|cut| cut.now())
        {
            tracing::warn!("{}: it cannot be cut from the kernel: {error}", self.place);
        }
        flushed?;
        match (detached, served) {
            (Err(source), _) => {
                let what = format!("{} cannot be unmounted", self.place);
                Err(Error::System { what, source })
            }
            (_, Ok(Err(source))) if source.kind() == io::ErrorKind::ConnectionAborted => {
                tracing::warn!("{}: the kernel has cut the connection; everything is flushed", self.place);
                Ok(())
            }
            (_, Ok(Err(source))) => Err(Error::System { what: "requests could not be received".to_owned(), source }),
            _ => Ok(()),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.is_gone()
            && let Err(error) = self.place.detach()
        {
            tracing::error!("{}: cannot be unmounted: {error}", self.place);
        }
    }
}

/// Looks at files that are changed below, until the mount has gone.
fn watch_below(shared: &Shared, notifier: &Notifier) {
    let changed = |object: &Arc<Object>| {
        let looked = shared.look_below(object, true);
        if looked == Looked::New {
            notifier.forget_attributes(object.number);
        }
        looked == Looked::Later
    };
    if let Some(Err(error)) = shared.outside.as_ref().map(|outside| outside.run(changed)) {
        tracing::error!("changes below are noticed when files are opened, as they cannot be watched: {error}");
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|source| Error::System { what: format!("no thread to {name}"), source })
}
