//! A volume on object storage: objects of one size, and a manifest that says how long it is.
//!
//! Byte `n` is in object `n / object_size`, named by that number under the volume's prefix. An object that is not there is a hole
//! and reads as zeroes. Objects cannot be written in part: a write reads the object, changes it and puts it back, and is durable
//! when it returns. So long writes of whole objects are cheap and short ones are not; the pool's writeback makes them long.
//!
//! One process at a time may write a volume. Where the objects are files, a lock ensures that. Other storage has no locks: there
//! every object is changed on condition that it is as this process last saw it ([`known`]), so that the second writer's change fails
//! instead of undoing the first one's.

mod client;
mod known;
mod manifest;
mod single;
mod threads;

pub use manifest::NewVolume;
pub use single::SingleObject;

use super::lock::{share, take};
use super::pieces::{append, by_unit, cut_mut, scatter, total, within, writable};
use super::{Device, Extent};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use known::{Found, Known};
use manifest::{Manifest, manifest};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{BackoffConfig, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, RetryConfig};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::time::sleep;
use url::Url;

/// How many objects are read, or put, at once by one call.
const AT_ONCE: usize = 16;

/// How many locks the objects are spread over.
const LOCKS: u64 = 64;

/// The most objects that one question for extents asks for.
const MOST_ASKED: usize = 256;

/// How often a change is tried whose answer was lost, or that found an earlier one of this process in its way, and the first pause.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// How long a request that failed by its server or the network is repeated, and the longest pause between two.
const RETRIED: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long it is repeated while the volume is opened: who starts a server learns soon what is missing.
const RETRIED_AT_OPENING: Duration = Duration::from_secs(3);

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

/// How a volume on object storage is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectOptions {
    /// What to make if it is not there.
    pub new: Option<NewVolume>,
    /// Whether it is only read.
    pub read_only: bool,
    /// How long a request that failed by its server or the network is repeated; by default a minute.
    pub retry: Option<Duration>,
}

impl From<NewVolume> for ObjectOptions {
    fn from(new: NewVolume) -> Self {
        Self { new: Some(new), ..Self::default() }
    }
}

/// A volume on object storage. Its calls block on a runtime of its own, so they must not be made inside an asynchronous task.
pub struct ObjectDevice {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    name: String,
    manifest: Manifest,
    read_only: bool,
    /// Where the objects are files, the directory they are in, which holds the lock.
    directory: Option<File>,
    /// Elsewhere, what the objects were when they were last seen.
    known: Option<Known>,
    /// How long a change is tried again.
    retried: Duration,
    /// Object `n` is changed under lock `n % LOCKS`.
    locks: [Mutex<()>; LOCKS as usize],
    runtime: Runtime,
}

impl ObjectDevice {
    /// Opens the volume at a URL: `file:///directory/prefix`, `memory:///name` (each opening its own, empty), or `s3://bucket/prefix`
    /// with the AWS environment variables.
    ///
    /// # Errors
    /// The URL, the manifest or the storage, and what is wrong with it; a volume of files that another process has open, unless
    /// both only read it.
    pub fn open(url: &str, options: ObjectOptions) -> io::Result<Self> {
        let parsed = Url::parse(url).map_err(|error| wrong(url, &format!("no URL: {error}")))?;
        let prefix = Path::from_url_path(parsed.path()).map_err(|error| wrong(url, &error.to_string()))?;
        let retried = options.retry.unwrap_or(RETRIED);
        let mut opening = None;
        let (store, directory): (Arc<dyn ObjectStore>, _) = match parsed.scheme() {
            "file" => {
                let directory =
                    parsed.to_file_path().map_err(|()| wrong(url, "names another machine; write file:///path"))?;
                (Arc::new(LocalFileSystem::new().with_fsync(true)), Some(directory))
            }
            "memory" => (Arc::new(InMemory::new()), None),
            "s3" => {
                opening = Some(s3(url, RETRIED_AT_OPENING.min(retried))?);
                (s3(url, retried)?, None)
            }
            other => return Err(wrong(url, &format!("`{other}:` is unknown; write file:///, memory:/// or s3://"))),
        };
        let without_key = parsed.scheme() == "s3" && std::env::var_os("AWS_ACCESS_KEY_ID").is_none();
        let opening = opening.unwrap_or_else(|| Arc::clone(&store));
        Self::assemble(&*opening, store, prefix, url.to_owned(), directory, options).map_err(|error| {
            let hint = "AWS_ACCESS_KEY_ID is not set, so the keys of this machine's role were asked for";
            if without_key { io::Error::new(error.kind(), format!("{error}; {hint}")) } else { error }
        })
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
        let options = ObjectOptions { new, ..ObjectOptions::default() };
        Self::assemble(&*Arc::clone(&store), store, prefix, name, None, options)
    }

    /// `opening` is the same store, of which the manifest is asked.
    fn assemble(
        opening: &dyn ObjectStore,
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        name: String,
        directory: Option<PathBuf>,
        ObjectOptions { new, read_only, retry }: ObjectOptions,
    ) -> io::Result<Self> {
        let runtime = threads::start()?;
        let manifest = runtime.block_on(manifest(opening, &prefix.clone().join("manifest.json"), &name, new))?;
        let directory = directory.map(File::open).transpose()?;
        if let Some(directory) = &directory {
            let locked = if read_only { share(directory) } else { take(directory) };
            locked
                .map_err(|error| io::Error::new(error.kind(), format!("{name}: is open elsewhere already: {error}")))?;
        }
        let known = directory.is_none().then(Known::default);
        let locks = std::array::from_fn(|_| Mutex::new(()));
        let retried = retry.unwrap_or(RETRIED);
        Ok(Self { store, prefix, name, manifest, read_only, directory, known, retried, locks, runtime })
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

    fn failed(&self, doing: &str, number: u64, error: Error) -> io::Error {
        storage_error(&self.name, &format!("cannot {doing} object {number}"), error)
    }

    /// An object as the storage has it now; nothing if there is none.
    async fn ask(&self, number: u64, options: GetOptions) -> io::Result<Option<Found>> {
        self.ours()?;
        let answer = async {
            let answer = self.store.get_opts(&self.path(number), options).await?;
            Found::of(answer, self.known.as_ref()).await
        };
        match answer.await {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", number, error)),
        }
    }

    /// The same, if nobody else has changed it.
    async fn see(&self, number: u64, options: GetOptions) -> io::Result<Option<Bytes>> {
        let found = self.ask(number, options.clone()).await?;
        if self.known.as_ref().is_none_or(|known| known.agrees(number, found.as_ref())) {
            return Ok(found.map(|found| found.bytes));
        }
        // A change of our own may have ended in between; under the lock none does.
        let _lock = self.locks[(number % LOCKS) as usize].lock().await;
        self.see_locked(number, options).await
    }

    /// The same, with the object's lock held.
    async fn see_locked(&self, number: u64, options: GetOptions) -> io::Result<Option<Bytes>> {
        let found = self.ask(number, options).await?;
        if let Some(known) = &self.known
            && !known.agrees(number, found.as_ref())
        {
            // A change of our own may have been made though its answer was lost.
            if !found.as_ref().is_some_and(|found| found.ours) {
                return Err(known.taken(&self.name, number));
            }
            known.note(number, found.as_ref().and_then(|found| found.tag.clone()));
        }
        Ok(found.map(|found| found.bytes))
    }

    /// A part of an object; nothing if there is no object.
    async fn fetch(&self, number: u64, inside: u64, length: u64) -> io::Result<Option<Bytes>> {
        self.long_enough(number, length, self.see(number, part_of_it(inside, length)).await?)
    }

    fn long_enough(&self, number: u64, length: u64, found: Option<Bytes>) -> io::Result<Option<Bytes>> {
        match found {
            Some(bytes) if bytes.len() as u64 != length => {
                let message = format!("{}: object {number} has {} bytes of {length}", self.name, bytes.len());
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
            }
            found => Ok(found),
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
    async fn change(&self, number: u64, whole: bool, change: impl Fn(&mut [u8])) -> io::Result<()> {
        let _lock = self.locks[(number % LOCKS) as usize].lock().await;
        self.ours()?;
        let length = self.object_length(number);
        let began = Instant::now();
        for attempt in 1.. {
            let old = if !whole {
                let old = self.see_locked(number, part_of_it(0, length)).await?;
                self.long_enough(number, length, old)?
            } else {
                if attempt > 1 || self.known.as_ref().is_some_and(|known| !known.has(number)) {
                    self.see_locked(number, nothing_of_it()).await?;
                }
                None
            };
            let mut bytes = old.map_or_else(|| vec![0; length as usize], Vec::from);
            change(&mut bytes);
            match self.put(number, bytes).await {
                // The condition makes it safe to put again what may have been put.
                Err(Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::Generic { .. })
                    if self.known.is_some() && attempt < TRIES && began.elapsed() < self.retried =>
                {
                    sleep(PAUSE * (1 << attempt)).await;
                }
                put => return put.map_err(|error| self.failed("write", number, error)),
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn put(&self, number: u64, bytes: Vec<u8>) -> object_store::Result<()> {
        let Some(known) = &self.known else {
            return self.store.put(&self.path(number), bytes.into()).await.map(drop);
        };
        let put = self.store.put_opts(&self.path(number), bytes.into(), known.condition(number)).await?;
        known.note(number, put.e_tag);
        Ok(())
    }

    async fn delete(&self, number: u64) -> io::Result<()> {
        let _lock = self.locks[(number % LOCKS) as usize].lock().await;
        if let Some(known) = &self.known {
            // Deleting knows no condition: what another has written must be seen before.
            if self.see_locked(number, nothing_of_it()).await?.is_none() {
                return Ok(());
            }
            known.forget(number);
        }
        match self.store.delete(&self.path(number)).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(self.failed("delete", number, error)),
        }
        if let Some(known) = &self.known {
            known.note(number, None);
        }
        Ok(())
    }

    /// Nothing is read or written any more once another process was seen to write.
    fn ours(&self) -> io::Result<()> {
        self.known.as_ref().map_or(Ok(()), |known| known.ours(&self.name))
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

/// A path without links, as far as it is there.
fn resolved(path: &std::path::Path) -> PathBuf {
    let there = path.ancestors().find_map(|start| Some((start.canonicalize().ok()?, path.strip_prefix(start).ok()?)));
    there.map_or_else(|| path.to_owned(), |(start, rest)| start.components().chain(rest.components()).collect())
}

fn s3(url: &str, retried: Duration) -> io::Result<Arc<dyn ObjectStore>> {
    // The time ends it, and what a server denies (403, 404) is not repeated.
    let backoff = BackoffConfig { max_backoff: LONGEST_PAUSE, ..BackoffConfig::default() };
    let retry = RetryConfig { retry_timeout: retried, max_retries: 10_000, backoff };
    // Unencrypted only if AWS_ENDPOINT says http://.
    let builder = AmazonS3Builder::from_env().with_allow_http(true).with_retry(retry).with_url(url);
    let store = builder
        .with_http_connector(client::Connector)
        .build()
        .map_err(|error| storage_error(url, "cannot be opened", error))?;
    Ok(Arc::new(store))
}

/// These bytes of an object.
fn part_of_it(inside: u64, length: u64) -> GetOptions {
    GetOptions { range: Some(GetRange::Bounded(inside..inside + length)), ..GetOptions::default() }
}

/// Whether it is there, and as it was.
fn nothing_of_it() -> GetOptions {
    GetOptions { head: true, ..GetOptions::default() }
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

fn storage_error(name: &str, what: &str, error: Error) -> io::Error {
    let kind = match error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    // What is at the bottom says most, as that a connection was refused, and the errors above do not all show it.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let (shown, cause) = (error.to_string(), cause.to_string());
    let more = if shown.contains(&cause) { String::new() } else { format!(": {cause}") };
    io::Error::new(kind, format!("{name}: {what}: {shown}{more}"))
}

impl Device for ObjectDevice {
    fn len(&self) -> u64 {
        self.manifest.length
    }

    fn read_only(&self) -> bool {
        self.read_only
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
            Some(directory) => directory.sync_all(),
            None => self.ours(),
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
            self.change(number, whole, |bytes| bytes[part.clone()].fill(0)).await
        };
        let pieces = self.pieces(offset, length).map(zero);
        let answers: Vec<_> = self.runtime.block_on(stream::iter(pieces).buffer_unordered(AT_ONCE).collect());
        answers.into_iter().collect()
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        within(self, offset, length)?;
        let look = |(number, _, length): (u64, u64, u64)| async move {
            let hole = self.see(number, nothing_of_it()).await?.is_none();
            Ok(Extent { length, hole, zero: hole })
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
