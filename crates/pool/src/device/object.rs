//! A volume on object storage: objects of one size, and a manifest that says how long it is.
//!
//! Byte `n` is in object `n / object_size`, named by that number under the volume's prefix. An object that is not there is a hole
//! and reads as zeroes. Objects cannot be written in part: a write reads the object, changes it and puts it back, and is durable
//! when it returns. So long writes of whole objects are cheap and short ones are not; the pool's writeback makes them long.
//!
//! One process at a time may write a volume. Storage of objects has no lock to ensure that.

use super::pieces::{append, by_unit, cut_mut, scatter, total, within, writable};
use super::{Device, Extent};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use url::Url;

/// How many objects are read, or put, at once by one call.
const AT_ONCE: usize = 16;

/// How many locks the objects are spread over.
const LOCKS: u64 = 64;

/// The most objects that one question for extents asks for.
const MOST_ASKED: usize = 256;

/// The longest object: it is held in memory while it is changed.
const LONGEST: u64 = 1 << 30;

/// What a volume is made with if it is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// In bytes.
    pub length: u64,
    /// In bytes, a multiple of 4096.
    pub object_size: u64,
}

impl NewVolume {
    /// A volume of this many bytes in objects of 4 MiB.
    pub fn new(length: u64) -> Self {
        Self { length, object_size: 4 << 20 }
    }
}

/// What `manifest.json` holds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    length: u64,
    object_size: u64,
}

impl Manifest {
    fn check(self) -> Result<Self, String> {
        let Self { version, object_size, .. } = self;
        if version != 1 {
            return Err(format!("it is of version {version}, this program knows 1"));
        }
        if object_size == 0 || object_size > LONGEST || !object_size.is_multiple_of(4096) {
            return Err(format!("objects of {object_size} bytes: give a multiple of 4096, at most {LONGEST}"));
        }
        Ok(self)
    }
}

/// A part of an object (its number, where in it, how long), and what goes there.
type Part<T> = ((u64, u64, u64), T);

/// What is written to a part of an object.
struct Written<'a> {
    /// Which of the runs it belongs to.
    owner: usize,
    /// Where in the object.
    inside: usize,
    bytes: &'a [u8],
}

/// A volume on object storage. Its calls block on a runtime of its own, so they must not be made inside an asynchronous task.
pub struct ObjectDevice {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    name: String,
    manifest: Manifest,
    /// Where the objects are files, the directory they are in.
    directory: Option<PathBuf>,
    /// Object `n` is changed under lock `n % LOCKS`.
    locks: [Mutex<()>; LOCKS as usize],
    runtime: Runtime,
}

impl ObjectDevice {
    /// Opens the volume at a URL: `file:///directory/prefix`, `memory:///name` (each opening its own, empty), or, with the crate's
    /// feature `s3`, `s3://bucket/prefix` with the AWS environment variables. If it is not there, `new` says what to make.
    ///
    /// # Errors
    /// The URL, the manifest or the storage, and what is wrong with it.
    pub fn open(url: &str, new: Option<NewVolume>) -> io::Result<Self> {
        let parsed = Url::parse(url).map_err(|error| wrong(url, &format!("no URL: {error}")))?;
        let prefix = Path::from_url_path(parsed.path()).map_err(|error| wrong(url, &error.to_string()))?;
        let (store, directory): (Arc<dyn ObjectStore>, _) = match parsed.scheme() {
            "file" => {
                let directory =
                    parsed.to_file_path().map_err(|()| wrong(url, "names another machine; write file:///path"))?;
                (Arc::new(LocalFileSystem::new().with_fsync(true)), Some(directory))
            }
            "memory" => (Arc::new(InMemory::new()), None),
            "s3" => (s3(url)?, None),
            other => return Err(wrong(url, &format!("`{other}:` is unknown; write file:///, memory:/// or s3://"))),
        };
        Self::assemble(store, prefix, url.to_owned(), directory, new)
    }

    /// What of storage a URL names, in one spelling: two URLs of one volume have the same place. None has one if its URL is wrong, or
    /// of memory, where each opening is a volume of its own.
    pub fn place(url: &str) -> Option<String> {
        let parsed = Url::parse(url).ok()?;
        match parsed.scheme() {
            "file" => Some(format!("file://{}", resolved(&parsed.to_file_path().ok()?).display())),
            "memory" => None,
            scheme => {
                let prefix = Path::from_url_path(parsed.path()).ok()?;
                Some(format!("{scheme}://{}/{prefix}", parsed.host_str().unwrap_or_default()))
            }
        }
    }

    /// Opens the volume under a prefix of a store, or makes it. The store's PUT must be durable when it returns.
    ///
    /// # Errors
    /// The manifest or the storage, and what is wrong with it.
    pub fn on(store: Arc<dyn ObjectStore>, prefix: &str, new: Option<NewVolume>) -> io::Result<Self> {
        let name = format!("{store}/{prefix}");
        let prefix = Path::parse(prefix).map_err(|error| wrong(&name, &error.to_string()))?;
        Self::assemble(store, prefix, name, None, new)
    }

    fn assemble(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        name: String,
        directory: Option<PathBuf>,
        new: Option<NewVolume>,
    ) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("object-storage").enable_all().build()?;
        let manifest = runtime.block_on(manifest(&*store, &prefix.clone().join("manifest.json"), &name, new))?;
        let locks = std::array::from_fn(|_| Mutex::new(()));
        Ok(Self { store, prefix, name, manifest, directory, locks, runtime })
    }

    fn path(&self, number: u64) -> Path {
        self.prefix.clone().join(format!("{number:016}"))
    }

    /// How long an object is: the last one may be shorter.
    fn object_length(&self, number: u64) -> u64 {
        self.manifest.object_size.min(self.manifest.length - number * self.manifest.object_size)
    }

    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        by_unit(offset, length, self.manifest.object_size)
    }

    fn failed(&self, doing: &str, number: u64, error: object_store::Error) -> io::Error {
        storage_error(&self.name, &format!("cannot {doing} object {number}"), error)
    }

    /// A part of an object; nothing if there is no object.
    async fn fetch(&self, number: u64, inside: u64, length: u64) -> io::Result<Option<Bytes>> {
        match self.store.get_range(&self.path(number), inside..inside + length).await {
            Ok(bytes) if bytes.len() as u64 == length => Ok(Some(bytes)),
            Ok(bytes) => {
                let message =
                    format!("{}: object {number} has {} bytes of {length} at {inside}", self.name, bytes.len());
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", number, error)),
        }
    }

    /// Fills buffers from parts of objects; the results in their order.
    async fn fill(&self, parts: Vec<Part<Vec<IoSliceMut<'_>>>>) -> Vec<io::Result<()>> {
        stream::iter(parts.into_iter().map(|part| self.fill_one(part))).buffered(AT_ONCE).collect().await
    }

    async fn fill_one(&self, ((number, inside, length), mut buffers): Part<Vec<IoSliceMut<'_>>>) -> io::Result<()> {
        match self.fetch(number, inside, length).await? {
            Some(bytes) => scatter(&bytes, &mut buffers),
            None => buffers.iter_mut().for_each(|buffer| buffer.fill(0)),
        }
        Ok(())
    }

    /// Changes an object: what it was need not be read if `whole` of it changes.
    async fn change(&self, number: u64, whole: bool, change: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let _lock = self.locks[(number % LOCKS) as usize].lock().await;
        let length = self.object_length(number);
        let old = if whole { None } else { self.fetch(number, 0, length).await? };
        let mut bytes = old.map_or_else(|| vec![0; length as usize], Vec::from);
        change(&mut bytes);
        self.put(number, bytes).await
    }

    async fn put(&self, number: u64, bytes: Vec<u8>) -> io::Result<()> {
        let put = self.store.put(&self.path(number), bytes.into()).await;
        put.map(|_| ()).map_err(|error| self.failed("write", number, error))
    }

    async fn delete(&self, number: u64) -> io::Result<()> {
        let _lock = self.locks[(number % LOCKS) as usize].lock().await;
        match self.store.delete(&self.path(number)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", number, error)),
        }
    }

    /// Writes parts of an object; whose they are, and the result.
    async fn store_one(&self, number: u64, parts: Vec<Written<'_>>) -> (Vec<usize>, io::Result<()>) {
        let written: usize = parts.iter().map(|part| part.bytes.len()).sum();
        let copy = |bytes: &mut [u8]| {
            for part in &parts {
                bytes[part.inside..part.inside + part.bytes.len()].copy_from_slice(part.bytes);
            }
        };
        let answer = self.change(number, written as u64 == self.object_length(number), copy).await;
        (parts.iter().map(|part| part.owner).collect(), answer)
    }

    /// Writes runs that do not overlap, each object once; the results in the order of the runs.
    fn store(&self, runs: &[(u64, &[u8])]) -> Vec<io::Result<()>> {
        let mut objects: BTreeMap<u64, Vec<Written<'_>>> = BTreeMap::new();
        for (owner, (offset, run)) in runs.iter().enumerate() {
            let mut rest = *run;
            for (number, inside, length) in self.pieces(*offset, run.len() as u64) {
                let (bytes, left) = rest.split_at(length as usize);
                objects.entry(number).or_default().push(Written { owner, inside: inside as usize, bytes });
                rest = left;
            }
        }
        let changes = stream::iter(objects.into_iter().map(|(number, parts)| self.store_one(number, parts)))
            .buffer_unordered(AT_ONCE);
        let answers: Vec<_> = self.runtime.block_on(changes.collect());
        let mut results: Vec<io::Result<()>> = Vec::with_capacity(runs.len());
        results.resize_with(runs.len(), || Ok(()));
        for (owners, answer) in answers {
            if let Err(error) = answer {
                owners.into_iter().for_each(|owner| results[owner] = Err(again(&error)));
            }
        }
        results
    }
}

/// The manifest, read or made.
async fn manifest(store: &dyn ObjectStore, path: &Path, name: &str, new: Option<NewVolume>) -> io::Result<Manifest> {
    let failed = |error| storage_error(name, "cannot reach its manifest", error);
    let made = new.map(|NewVolume { length, object_size }| Manifest { version: 1, length, object_size });
    let found = match store.get(path).await {
        Ok(found) => found.bytes().await.map_err(failed)?,
        Err(object_store::Error::NotFound { .. }) => {
            let Some(made) = made else {
                let message = format!("{name}: there is no volume; give a length to make one");
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            };
            let made = made.check().map_err(|why| wrong(name, &why))?;
            let text = serde_json::to_vec_pretty(&made)?;
            // Of two that make one volume the second fails.
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            store.put_opts(path, text.into(), options).await.map_err(failed)?;
            return Ok(made);
        }
        Err(error) => return Err(failed(error)),
    };
    let found: Manifest = serde_json::from_slice(&found)
        .map_err(|error| wrong(name, &format!("its manifest cannot be read: {error}")))?;
    let found = found.check().map_err(|why| wrong(name, &format!("its manifest is wrong: {why}")))?;
    if let Some(made) = made.filter(|made| *made != found) {
        let (there, given) = ((found.length, found.object_size), (made.length, made.object_size));
        let message = format!(
            "there is a volume of {} bytes in objects of {}, not of {} in {}; give no length, or another prefix",
            there.0, there.1, given.0, given.1
        );
        return Err(wrong(name, &message));
    }
    Ok(found)
}

/// A path without links, as far as it is there.
fn resolved(path: &std::path::Path) -> PathBuf {
    let there = path.ancestors().find_map(|start| Some((start.canonicalize().ok()?, path.strip_prefix(start).ok()?)));
    there.map_or_else(|| path.to_owned(), |(start, rest)| start.components().chain(rest.components()).collect())
}

#[cfg(feature = "s3")]
fn s3(url: &str) -> io::Result<Arc<dyn ObjectStore>> {
    let builder = object_store::aws::AmazonS3Builder::from_env().with_url(url);
    let store = builder.build().map_err(|error| storage_error(url, "cannot be opened", error))?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "s3"))]
fn s3(url: &str) -> io::Result<Arc<dyn ObjectStore>> {
    let message = format!("{url}: this program was built without S3; build it with the feature `s3`");
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

fn wrong(name: &str, message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{name}: {message}"))
}

/// An error that may be reported twice: io's errors cannot be cloned.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

fn storage_error(name: &str, what: &str, error: object_store::Error) -> io::Error {
    use object_store::Error::{AlreadyExists, NotFound, PermissionDenied, Unauthenticated};
    let kind = match error {
        NotFound { .. } => io::ErrorKind::NotFound,
        AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        PermissionDenied { .. } | Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("{name}: {what}: {error}"))
}

impl Device for ObjectDevice {
    fn len(&self) -> u64 {
        self.manifest.length
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let buffers = cut_mut(buffers, self.pieces(offset, length).map(|(_, _, length)| length));
        let parts = self.pieces(offset, length).zip(buffers).collect();
        self.runtime.block_on(self.fill(parts)).into_iter().collect()
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        writable(self, offset, total(buffers))?;
        let mut at = offset;
        let mut run = |buffer: &'_ IoSlice<'_>| {
            let start = at;
            at += buffer.len() as u64;
            start
        };
        let runs: Vec<(u64, &[u8])> = buffers.iter().map(|buffer| (run(buffer), &**buffer)).collect();
        self.store(&runs).into_iter().collect()
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        let mut results: Vec<_> = runs.iter().map(|(offset, run)| within(self, *offset, run.len() as u64)).collect();
        let (mut owners, mut parts) = (Vec::new(), Vec::new());
        for (owner, (offset, run)) in runs.iter_mut().enumerate().filter(|(owner, _)| results[*owner].is_ok()) {
            let mut rest = &mut **run;
            for piece in self.pieces(*offset, rest.len() as u64) {
                let (taken, left) = rest.split_at_mut(piece.2 as usize);
                owners.push(owner);
                parts.push((piece, vec![IoSliceMut::new(taken)]));
                rest = left;
            }
        }
        for (owner, answer) in owners.into_iter().zip(self.runtime.block_on(self.fill(parts))) {
            if results[owner].is_ok() {
                results[owner] = answer;
            }
        }
        results
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        let checked: Vec<_> = runs.iter().map(|(offset, run)| writable(self, *offset, run.len() as u64)).collect();
        let mut kept: Vec<(u64, &[u8])> = runs.iter().map(|(offset, run)| (*offset, &**run)).collect();
        // A run that is not on the device is left out by being empty.
        kept.iter_mut().zip(&checked).filter(|(_, checked)| checked.is_err()).for_each(|(run, _)| *run = (0, &[]));
        let stored = self.store(&kept);
        checked.into_iter().zip(stored).map(|(checked, stored)| checked.and(stored)).collect()
    }

    fn flush(&self) -> io::Result<()> {
        // What was put is durable; that files were deleted is not before their directory is.
        match &self.directory {
            Some(directory) => std::fs::File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        writable(self, offset, length)?;
        let whole = self.pieces(offset, length).filter(|(number, _, length)| *length == self.object_length(*number));
        let deletes = whole.map(|(number, ..)| self.delete(number));
        let answers: Vec<_> = self.runtime.block_on(stream::iter(deletes).buffer_unordered(AT_ONCE).collect());
        answers.into_iter().collect()
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        writable(self, offset, length)?;
        let zero = |(number, inside, length): (u64, u64, u64)| async move {
            let whole = length == self.object_length(number);
            if whole && !allocate {
                return self.delete(number).await;
            }
            let part = inside as usize..(inside + length) as usize;
            self.change(number, whole, |bytes| bytes[part].fill(0)).await
        };
        let pieces = self.pieces(offset, length).map(zero);
        let answers: Vec<_> = self.runtime.block_on(stream::iter(pieces).buffer_unordered(AT_ONCE).collect());
        answers.into_iter().collect()
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        within(self, offset, length)?;
        let look = |(number, _, length): (u64, u64, u64)| async move {
            match self.store.head(&self.path(number)).await {
                Ok(_) => Ok(Extent { length, hole: false, zero: false }),
                Err(object_store::Error::NotFound { .. }) => Ok(Extent { length, hole: true, zero: true }),
                Err(error) => Err(self.failed("look for", number, error)),
            }
        };
        let looks = stream::iter(self.pieces(offset, length).take(MOST_ASKED).map(look)).buffered(AT_ONCE);
        let answers: Vec<io::Result<Extent>> = self.runtime.block_on(looks.collect());
        let mut extents = Vec::new();
        for answer in answers {
            append(&mut extents, answer?);
        }
        Ok(extents)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}
