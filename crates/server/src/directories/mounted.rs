//! The directories of one cache: mounted together, unmounted one by one or together.

use crate::error::Error;
use forebay_fuse::{Mount, Mounts, Options};
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long those who use a directory that is unmounted have to finish.
const PATIENCE: Duration = Duration::from_secs(10);

/// Those that are mounted, and those whose last flush has failed.
pub(crate) struct Directories {
    pub(crate) mounts: Mounts,
    all: Mutex<Vec<Arc<Directory>>>,
    stopping: AtomicBool,
}

/// A mounted directory.
pub(crate) struct Directory {
    /// Its source as the user names it: its volume's name in figures.
    pub(crate) name: String,
    pub(crate) mount: Mount,
    /// Paths of the source and of the mount point.
    places: Vec<PathBuf>,
}

impl Directory {
    /// Writes everything of it back, within this time for storage.
    fn stop(&self, limit: Duration) -> Result<(), Error> {
        Ok(self.mount.stop(PATIENCE, limit)?)
    }
}

impl Directories {
    /// Mounts all, or none. `ended` is called when the last one has been unmounted. Storage that takes nothing is waited for as long as
    /// `limit`.
    ///
    /// # Errors
    /// What keeps one of them from being mounted.
    pub(crate) fn mount(
        mounts: Mounts,
        planned: Vec<Options>,
        limit: Duration,
        ended: impl Fn() + Clone + Send + 'static,
    ) -> Result<Arc<Self>, Error> {
        let directories = Arc::new(Self { mounts, all: Mutex::default(), stopping: AtomicBool::new(false) });
        let mounted = planned.into_iter().try_for_each(|options| directories.add(options, limit, ended.clone()));
        let before = directories.all();
        // The log says what could not be flushed of the others.
        if mounted.is_err() && directories.stop(limit).is_ok() && !before.is_empty() {
            tracing::info!("{}: unmounted again, and flushed", names(&before));
        }
        mounted.map(|()| directories)
    }

    fn add(
        self: &Arc<Self>,
        options: Options,
        limit: Duration,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        let name = options.source.display().to_string();
        let places = [&options.source, &options.mountpoint];
        let places = places.into_iter().flat_map(|place| [absolute(place).ok(), place.canonicalize().ok()]);
        let places = places.flatten().collect();
        let (directories, leaving) = (Arc::clone(self), name.clone());
        let unmounted = move || {
            if !directories.leave(&leaving, limit) {
                ended();
            }
        };
        // Whoever unmounts it at once is noticed when it is in the list.
        let mut all = self.lock();
        let mount = self.mounts.add(options, unmounted)?;
        all.push(Arc::new(Directory { name, mount, places }));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Directory>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, in the order in which they were named.
    pub(crate) fn all(&self) -> Vec<Arc<Directory>> {
        self.lock().clone()
    }

    /// The directory of that name, or at that path, below or above.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Directory>, Error> {
        let all = self.all();
        let path = Path::new(name).canonicalize().ok();
        let is = |directory: &&Arc<Directory>| {
            directory.name == name || path.as_ref().is_some_and(|path| directory.places.contains(path))
        };
        all.iter()
            .find(is)
            .cloned()
            .ok_or_else(|| Error::Usage(format!("there is no volume `{name}`; there is {}", names(&all))))
    }

    /// The directory of a file, and its path there.
    pub(crate) fn of_file<'f>(&self, file: &'f Path) -> Result<(Arc<Directory>, &'f Path), Error> {
        let all = self.all();
        let found = all.iter().find_map(|directory| {
            let below = directory.places.iter().find_map(|place| file.strip_prefix(place).ok());
            Some((Arc::clone(directory), below.filter(|below| *below != Path::new(""))?))
        });
        found.ok_or_else(|| {
            let what = format!("{}: it is no file of this mount, which has those of {}", file.display(), names(&all));
            Error::Usage(what)
        })
    }

    /// Writes everything back and makes it durable, within this time.
    pub(crate) fn flush(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let flush = |directory: &Arc<Directory>| {
            directory.mount.flush(deadline.saturating_duration_since(Instant::now())).map_err(Error::from).err()
        };
        Error::of_all(self.all().iter().filter_map(flush))
    }

    /// A directory has been unmounted: its files leave the cache to the others. `false`: there are none.
    fn leave(&self, name: &str, limit: Duration) -> bool {
        let all = self.all();
        if all.iter().all(|directory| directory.mount.is_gone()) {
            return false;
        }
        let left = all.iter().find(|directory| directory.name == name);
        let Some(left) = left.filter(|_| !self.stopping.load(Ordering::SeqCst)) else { return true };
        match left.stop(limit).and_then(|()| Ok(left.mount.release()?)) {
            Ok(()) => {
                self.lock().retain(|directory| directory.name != name);
                tracing::info!("{name} has been unmounted, and is flushed; still mounted: {}", names(&self.all()));
            }
            Err(error) => tracing::error!("{name} has been unmounted: {error}; this is tried again with the last one"),
        }
        true
    }

    /// Unmounts all, side by side, and makes everything durable.
    ///
    /// # Errors
    /// What could not be unmounted, or is not durable.
    pub(crate) fn stop(&self, limit: Duration) -> Result<(), Error> {
        self.stopping.store(true, Ordering::SeqCst);
        let all = self.all();
        let stopped = std::thread::scope(|scope| {
            let begin = |directory| {
                let stop = move || Directory::stop(directory, limit);
                Builder::new().name("stop".to_owned()).spawn_scoped(scope, stop).map_err(|_| directory)
            };
            let begun: Vec<_> = all.iter().map(|directory| begin(&**directory)).collect();
            let end = |begun: Result<std::thread::ScopedJoinHandle<'_, _>, &Directory>| match begun {
                Ok(thread) => thread.join().expect("a stop does not panic"),
                Err(directory) => directory.stop(limit),
            };
            Error::of_all(begun.into_iter().filter_map(|begun| end(begun).err()))
        });
        // In the background there is no other place to say so.
        stopped.inspect_err(|error| tracing::error!("{error}"))
    }
}

/// The names of directories, as messages have them.
fn names(all: &[Arc<Directory>]) -> String {
    all.iter().map(|directory| &*directory.name).collect::<Vec<_>>().join(", ")
}
