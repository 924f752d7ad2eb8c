//! Files, devices and object stores read and written through a pool.
//!
//! A file that is closed stays attached, so that it is found resident when it is opened again, if it could not be written and is as it was. One that could be
//! written is durable when it is closed, and its pages go: others may write it then.

use crate::arguments::{bytes, usage};
use crate::storage::{Failure, Own, begin_log, figures, json, policy};
use forebay_pool::device::{Device, FileDevice, FileOptions, ObjectDevice, ObjectOptions, SingleObject};
use forebay_pool::{Config, Durability, Handle, Statistics, Volume, VolumeConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most files that nobody has open and whose pages stay.
const MOST_IDLE: usize = 128;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// By which a change by others shows: of a file its device, number, bytes and times; of an object its tag. None if nothing does.
fn stamp(path: &Path, url: Option<&str>) -> Option<String> {
    if let Some(url) = url {
        return SingleObject::open(url).ok()??.tag().map(str::to_owned);
    }
    let found = std::fs::metadata(path).ok()?;
    let (modified, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
    Some(format!("{:?}", (found.dev(), found.ino(), found.size(), modified, changed)))
}

/// A file's path from the root, also if it is still to be made.
fn whole(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(made).unwrap_or_else(|| path.to_owned())
}

/// A file that is attached.
struct Entry {
    volume: Arc<Volume>,
    writable: bool,
    /// How many have it open.
    users: usize,
    /// What it was when it was attached; none if it could be written, or changes do not show.
    stamp: Option<String>,
    /// When it was opened last.
    turn: u64,
    growing: Growing,
}

/// One thread at a time makes a file longer, so that none undoes what another has done.
type Growing = Arc<Mutex<()>>;

#[derive(Default)]
struct Entries {
    by_place: HashMap<String, Entry>,
    turns: u64,
}

/// The pool, and what is open.
struct Inner {
    pool: forebay_pool::Pool,
    /// Those that no thread uses, the last one used last.
    handles: Mutex<Vec<Handle>>,
    entries: Mutex<Entries>,
}

/// How a file is opened.
#[derive(Clone, Copy)]
struct Mode {
    writable: bool,
    /// It is made, or emptied.
    create: bool,
}

impl Inner {
    /// Does something with a handle of this thread alone.
    fn with_handle<T>(&self, act: impl FnOnce(&Handle) -> Result<T, forebay_pool::Error>) -> Result<T, Failure> {
        let handle = lock(&self.handles).pop();
        let handle = handle.map_or_else(|| self.pool.handle(), Ok)?;
        let done = act(&handle);
        handle.rest();
        lock(&self.handles).push(handle);
        Ok(done?)
    }

    fn open(
        &self,
        place: String,
        path: &Path,
        url: Option<&str>,
        mode: Mode,
    ) -> Result<(Arc<Volume>, Growing), Failure> {
        let mut entries = lock(&self.entries);
        entries.turns += 1;
        let turn = entries.turns;
        if let Some(entry) = entries.by_place.get_mut(&place) {
            let unused = entry.users == 0;
            if unused && !entry.writable && (mode.writable || entry.stamp != stamp(path, url)) {
                self.pool.detach(&entry.volume)?;
                entries.by_place.remove(&place);
            } else if (mode.writable && !entry.writable) || (mode.create && !unused) {
                let sentence = format!("{}: is open already: close it before it is opened for writing", path.display());
                return Err(Failure::new(libc::EBUSY, sentence));
            } else {
                (entry.users, entry.turn) = (entry.users + 1, turn);
                let (volume, growing) = (Arc::clone(&entry.volume), Arc::clone(&entry.growing));
                if mode.create {
                    self.with_handle(|handle| handle.set_len(&volume, 0))
                        .inspect_err(|_| entries.by_place.get_mut(&place).expect("it is there").users -= 1)?;
                }
                return Ok((volume, growing));
            }
        }
        let device: Arc<dyn Device> = match url {
            Some(url) => open_url(url, mode)?,
            None => Arc::new(open_file(path, mode)?),
        };
        let name = url.map_or_else(|| path.to_string_lossy().into_owned(), str::to_owned);
        let config = VolumeConfig { read_only: !mode.writable, ..VolumeConfig::new(name) };
        let stamp = if mode.writable { None } else { stamp(path, url) };
        let volume = self.pool.attach(device, config);
        let growing = Growing::default();
        let (writable, shared) = (mode.writable, Arc::clone(&growing));
        let entry = Entry { volume: Arc::clone(&volume), writable, users: 1, stamp, turn, growing: shared };
        entries.by_place.insert(place, entry);
        Ok((volume, growing))
    }

    /// Somebody does not use it any more.
    fn close(&self, place: &str, writes: bool) -> Result<(), Failure> {
        let mut entries = lock(&self.entries);
        let Some(entry) = entries.by_place.get_mut(place) else { return Ok(()) };
        entry.users -= 1;
        if entry.users > 0 {
            let volume = Arc::clone(&entry.volume);
            drop(entries);
            return if writes { Ok(self.pool.flush_volume(&volume)?) } else { Ok(()) };
        }
        if entry.stamp.is_none() {
            // What cannot be written stays, and is tried again when it is opened or the pool is closed.
            self.pool.detach(&entry.volume)?;
            entries.by_place.remove(place);
            return Ok(());
        }
        let idle = entries.by_place.iter().filter(|(_, entry)| entry.users == 0);
        if idle.clone().count() > MOST_IDLE
            && let Some(oldest) = idle.min_by_key(|(_, entry)| entry.turn).map(|(place, _)| place.clone())
        {
            self.forget(&mut entries, &oldest)?;
        }
        Ok(())
    }

    fn forget(&self, entries: &mut Entries, place: &str) -> Result<(), Failure> {
        if let Some(entry) = entries.by_place.get(place)
            && entry.users == 0
        {
            self.pool.detach(&entry.volume)?;
            entries.by_place.remove(place);
        }
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        lock(&self.handles).iter().for_each(Handle::settle);
        self.pool.statistics()
    }
}

/// An object as it is, or a volume that is made of objects.
fn open_url(url: &str, mode: Mode) -> Result<Arc<dyn Device>, Failure> {
    if mode.create {
        let sentence = format!("{url}: volumes on object storage are made by `forebay serve`: open it as r+");
        return Err(Failure::new(libc::ENOTSUP, sentence));
    }
    if !mode.writable
        && let Some(object) = SingleObject::open(url)?
    {
        return Ok(Arc::new(object));
    }
    Ok(Arc::new(ObjectDevice::open(url, ObjectOptions { read_only: !mode.writable, ..ObjectOptions::default() })?))
}

fn open_file(path: &Path, mode: Mode) -> Result<FileDevice, Failure> {
    if mode.create {
        let made = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let made: Result<File, Failure> = made.map_err(|error| {
            Failure::new(forebay_pool::errno_of(&error), format!("{}: cannot be made: {error}", path.display()))
        });
        made?;
    }
    let device = FileDevice::open(path, FileOptions { read_only: !mode.writable, ..FileOptions::default() })?;
    // Only now: nobody else has it open.
    if mode.create {
        device.set_len(0)?;
    }
    Ok(device)
}

/// A pool, for the Python class of the same name.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Pool(Mutex<Option<Arc<Own<Inner>>>>);

impl Pool {
    fn inner(&self) -> PyResult<Arc<Own<Inner>>> {
        lock(&self.0).clone().ok_or_else(|| PyValueError::new_err("the pool is closed"))
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (memory, policy, *, page_size))]
    fn new(py: Python<'_>, memory: &Bound<'_, PyAny>, policy: &str, page_size: &Bound<'_, PyAny>) -> PyResult<Self> {
        let page_size = bytes(page_size)?;
        let page_size =
            u32::try_from(page_size).map_err(|_| usage(format!("a page of {page_size} bytes: take 4KiB to 1MiB")))?;
        let config = Config::new(bytes(memory)?, self::policy(policy)?).with_page_size(page_size);
        begin_log();
        let pool = py.detach(|| forebay_pool::Pool::new(config)).map_err(Failure::from)?;
        let inner = Inner { pool, handles: Mutex::default(), entries: Mutex::default() };
        Ok(Self(Mutex::new(Some(Arc::new(Own::new(inner))))))
    }

    /// Opens a file, block device or volume on object storage.
    #[pyo3(signature = (path, *, writable, create))]
    fn open(&self, py: Python<'_>, path: PathBuf, writable: bool, create: bool) -> PyResult<Opened> {
        let inner = self.inner()?;
        let url = path.to_str().filter(|path| path.contains("://")).map(str::to_owned);
        let mode = Mode { writable, create };
        let opened = py.detach(|| {
            let own = inner.get()?;
            let place = match &url {
                // Of memory each opening is another.
                Some(url) => ObjectDevice::place(url).unwrap_or_else(|| url.clone()),
                None => {
                    format!("{:?}", whole(&path))
                }
            };
            Ok::<_, Failure>((own.open(place.clone(), &path, url.as_deref(), mode)?, place))
        });
        let about = |failure: Failure| if url.is_none() { failure.of(&path) } else { failure };
        let ((volume, growing), place) = opened.map_err(about)?;
        Ok(Opened { open: Mutex::new(Some(Open { inner, volume })), place, writable, growing })
    }

    /// Lets the pages of files go that nobody has open.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner()?;
        Ok(py.detach(|| {
            let own = inner.get()?;
            let mut entries = lock(&own.entries);
            let places: Vec<String> = entries.by_place.keys().cloned().collect();
            places.iter().try_for_each(|place| own.forget(&mut entries, place))
        })?)
    }

    /// What happened, as JSON.
    fn statistics(&self, py: Python<'_>) -> PyResult<String> {
        let inner = self.inner()?;
        let cache = py.detach(|| inner.get().map(Inner::statistics))?;
        Ok(json([("cache", figures(&cache)), ("files", figures(&cache.volumes))]))
    }

    /// Makes all durable, and ends it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(inner) = lock(&self.0).take() else { return Ok(()) };
        Ok(py
            .detach(|| {
                // A child of fork has nothing to close.
                let flushed = inner.get().map_or(Ok(()), |own| own.pool.flush());
                drop(inner);
                flushed
            })
            .map_err(Failure::from)?)
    }
}

/// An open file, for the Python class `File`.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Opened {
    /// None if it is closed: the volume holds its device.
    open: Mutex<Option<Open>>,
    place: String,
    writable: bool,
    growing: Growing,
}

/// The pool and the volume of a file that is open.
#[derive(Clone)]
struct Open {
    inner: Arc<Own<Inner>>,
    volume: Arc<Volume>,
}

impl Open {
    /// Does something with it by a handle of this thread alone.
    fn with_handle<T>(
        &self,
        act: impl FnOnce(&Handle, &Arc<Volume>) -> Result<T, forebay_pool::Error>,
    ) -> Result<T, Failure> {
        self.inner.get()?.with_handle(|handle| act(handle, &self.volume))
    }
}

/// The bytes of a NumPy array of bytes, which the caller holds.
struct Bytes {
    address: usize,
    length: usize,
}

impl Bytes {
    fn of(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let interface = array.getattr("__array_interface__")?;
        let (address, _): (usize, bool) = interface.get_item("data")?.extract()?;
        let [length]: [usize; 1] = interface.get_item("shape")?.extract()?;
        Ok(Self { address, length })
    }
}

impl Opened {
    fn get(&self) -> PyResult<Open> {
        let open = lock(&self.open).clone();
        let open = open.ok_or_else(|| PyValueError::new_err("I/O operation on closed file"))?;
        open.inner.get()?;
        Ok(open)
    }
}

#[pymethods]
impl Opened {
    /// The bytes of the file.
    fn length(&self) -> PyResult<u64> {
        Ok(self.get()?.volume.len())
    }

    /// Fills an array of bytes from what begins at `offset`; returns how many there were.
    fn read(&self, py: Python<'_>, offset: u64, array: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (open, bytes) = (self.get()?, Bytes::of(array)?);
        Ok(py.detach(|| {
            let length = open.volume.len().saturating_sub(offset).min(bytes.length as u64);
            if length > 0 {
                // SAFETY: the caller holds the array, which has these bytes; who else writes there meanwhile gets his or ours.
                let buffer = unsafe { std::slice::from_raw_parts_mut(bytes.address as *mut u8, length as usize) };
                open.with_handle(|handle, volume| handle.read_at(volume, offset, buffer))?;
            }
            drop(open);
            Ok::<_, Failure>(length)
        })?)
    }

    /// The same as bytes, at most this many.
    fn read_bytes<'py>(&self, py: Python<'py>, offset: u64, most: u64) -> PyResult<Bound<'py, PyBytes>> {
        let open = self.get()?;
        let length = open.volume.len().saturating_sub(offset).min(most) as usize;
        if length == 0 {
            return Ok(PyBytes::new(py, &[]));
        }
        PyBytes::new_with(py, length, |buffer| {
            Ok(py.detach(|| open.with_handle(|handle, volume| handle.read_at(volume, offset, buffer)))?)
        })
    }

    /// Writes an array of bytes to what begins at `offset`, which makes the file longer where it ends before.
    fn write(&self, py: Python<'_>, offset: u64, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let (open, bytes) = (self.get()?, Bytes::of(array)?);
        if bytes.length == 0 {
            return Ok(());
        }
        Ok(py.detach(|| {
            let end = offset.checked_add(bytes.length as u64);
            let end = end.ok_or_else(|| Failure::new(libc::EFBIG, "a file ends before byte 2^64"))?;
            // SAFETY: as above; who changes it meanwhile gets a mixture written.
            let data = unsafe { std::slice::from_raw_parts(bytes.address as *const u8, bytes.length) };
            if end > open.volume.len() {
                let _growing = lock(&self.growing);
                if end > open.volume.len() {
                    open.with_handle(|handle, volume| handle.set_len(volume, end))?;
                }
            }
            open.with_handle(|handle, volume| handle.write_at(volume, offset, data, Durability::Flush))
        })?)
    }

    /// Makes it as long as this.
    fn set_length(&self, py: Python<'_>, length: u64) -> PyResult<()> {
        let open = self.get()?;
        Ok(py.detach(|| {
            let _growing = lock(&self.growing);
            open.with_handle(|handle, volume| handle.set_len(volume, length))
        })?)
    }

    /// Makes durable what was written before.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.get()?;
        Ok(py.detach(|| open.with_handle(Handle::flush))?)
    }

    /// What happened on it, as JSON.
    fn statistics(&self, py: Python<'_>) -> PyResult<String> {
        let open = self.get()?;
        Ok(py.detach(|| {
            let volumes = open.inner.get()?.statistics().volumes;
            let found = volumes.into_iter().find(|volume| volume.name == open.volume.name());
            Ok::<_, Failure>(figures(&found))
        })?)
    }

    /// Makes it durable, and lets it go.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(Open { inner, volume }) = lock(&self.open).take() else { return Ok(()) };
        Ok(py.detach(|| {
            drop(volume);
            // A child of fork has nothing to close.
            let closed = inner.get().map_or(Ok(()), |own| own.close(&self.place, self.writable));
            drop(inner);
            closed
        })?)
    }
}
