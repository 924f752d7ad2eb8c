//! The references of clients, written down as a trace: from the server's start by `--record`, or while it runs.
//!
//! A reference goes through a bounded queue to a thread that writes. The queue never makes a client wait: what does not fit is
//! left out, counted and told, since a trace with a gap says so, while a server slowed by its recorder would be another workload.
//!
//! A trace is whole only when it is completed. So a snapshot completes the part that is being written, and begins the next one; it
//! is the trace of the parts so far, and the recording in the end the trace of them all.

mod parts;
mod queue;
#[cfg(test)]
mod tests;

use crate::bounded::bounded;
use crate::error::Error;
use crate::words::counted;
use forebay_basis::Operation;
use forebay_trace::write::folder_of;
use forebay_trace::{AtEnd, Circumstances, OUTPUTS};
use parts::Parts;
use queue::{Message, Queue};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// References that wait to be written: at 40 bytes each, 10 MiB.
const QUEUE: usize = 1 << 18;

/// Records what clients refer to, whenever it is asked to.
pub(crate) struct Recorder {
    page_size: u64,
    circumstances: Circumstances,
    /// What measures the front end's own time while it records.
    clock: Arc<OnceLock<Arc<dyn Clock>>>,
    began: Instant,
    names: Arc<Mutex<Names>>,
    /// Looked at first, so that a reference that is not recorded costs no lock.
    recording: AtomicBool,
    sender: RwLock<Option<SyncSender<Message>>>,
    recorded: Arc<AtomicU64>,
    lost: AtomicU64,
    /// References written again, to snapshots and to traces of several parts.
    copied: AtomicU64,
    /// The trace that was begun last.
    last: Mutex<PathBuf>,
    /// Held by whoever starts, stops or takes a snapshot.
    writer: Mutex<Option<Writer>>,
}

/// What is recorded under which number: volumes, files, processes.
#[derive(Default)]
struct Names {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

/// Measures what a front end takes of its own while it is recorded.
pub(crate) trait Clock: Send + Sync {
    /// A recording begins.
    fn begin(&self);

    /// It ends: adds what was measured.
    fn tell(&self, circumstances: &mut Circumstances);
}

struct Writer {
    path: PathBuf,
    thread: JoinHandle<(Parts, forebay_trace::Result<()>)>,
}

/// What has been recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) path: PathBuf,
    /// References in the trace.
    pub(crate) written: u64,
    /// References that came too fast, and are not.
    pub(crate) lost: u64,
}

impl Recorded {
    /// For programs.
    pub(crate) fn figures(&self) -> [(&'static str, u64); 2] {
        [("references", self.written), ("lost", self.lost)]
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recorded {} in {}", counted(self.written, "request"), self.path.display())?;
        if self.lost > 0 { write!(f, "; {} are missing, since they came too fast", self.lost) } else { Ok(()) }
    }
}

impl Recorder {
    /// Of references to caches with pages of this many bytes, under these circumstances.
    pub(crate) fn new(page_size: u64, circumstances: Circumstances) -> Self {
        Self {
            page_size,
            circumstances,
            clock: Arc::default(),
            began: Instant::now(),
            names: Arc::default(),
            recording: AtomicBool::new(false),
            sender: RwLock::default(),
            recorded: Arc::default(),
            lost: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            last: Mutex::default(),
            writer: Mutex::default(),
        }
    }

    /// Does what may wait for the trace's storage, as long as references are written within each `limit`.
    ///
    /// # Errors
    /// Those of `work`, or that the storage hangs.
    pub(crate) fn within<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let what = format!("recording {}", self.last().display());
        let progress = || {
            // While clients are recorded, they say nothing of what is waited for here.
            let written =
                if self.recording.load(Ordering::Relaxed) { 0 } else { self.recorded.load(Ordering::Relaxed) };
            written + self.copied.load(Ordering::Relaxed)
        };
        let recorder = Arc::clone(self);
        bounded(what.trim_ascii_end(), limit, progress, move || work(&recorder))
    }

    /// Has the front end's own time measured, if it is not yet: of the recording that is under way, and of those to come.
    pub(crate) fn measure_by(&self, clock: Arc<dyn Clock>) {
        if self.records() {
            clock.begin();
        }
        let _ = self.clock.set(clock);
    }

    /// Begins as the server starts, under the first [`free`] name.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub(crate) fn begin(&self, path: &Path) -> Result<(), Error> {
        let free = free(path);
        self.start(&free)?;
        if free != path {
            tracing::warn!("{} is there, of a start before: recording to {}", path.display(), free.display());
        }
        Ok(())
    }

    /// Begins a trace in the format that its name says; it appears there when it is stopped.
    ///
    /// # Errors
    /// A name that cannot be one, or that a trace is being recorded already.
    pub(crate) fn start(&self, path: &Path) -> Result<(), Error> {
        let mut writer = self.writer();
        if let Some(writer) = &*writer {
            let name = writer.path.display();
            return Err(Error::Failed(format!("{name} is being recorded already: stop that first")));
        }
        check(path)?;
        let (sender, receiver) = sync_channel(QUEUE);
        let mut queue = Queue::new(receiver, Arc::clone(&self.names));
        self.recorded.store(0, Ordering::Relaxed);
        self.lost.store(0, Ordering::Relaxed);
        let clock = Arc::clone(&self.clock);
        clock.get().iter().for_each(|clock| clock.begin());
        let at_end = AtEnd(Arc::new(move |circumstances| {
            clock.get().iter().for_each(|clock| clock.tell(circumstances));
        }));
        let parts = Parts::of(path, self.page_size, self.circumstances.clone(), at_end);
        let count = Arc::clone(&self.recorded);
        let name = path.display().to_string();
        let write = move || {
            let (parts, written) = parts.write(&mut queue, &count);
            if let Err(error) = &written {
                tracing::error!("{name}: recording has stopped: {error}; {}", parts.kept());
            }
            (parts, written)
        };
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn(write);
        let thread = thread.map_err(|error| Error::Failed(format!("no thread to record with: {error}")))?;
        *self.last() = path.to_owned();
        *writer = Some(Writer { path: path.to_owned(), thread });
        self.set_sender(Some(sender));
        Ok(())
    }

    /// Completes the trace. `None`: there is none.
    ///
    /// # Errors
    /// What kept it from being written, and where to find what was.
    pub(crate) fn stop(&self) -> Result<Option<Recorded>, Error> {
        let mut writer = self.writer();
        let Some(Writer { path, thread }) = writer.take() else { return Ok(None) };
        // The thread ends when the last sender has gone, and it has written what was sent before.
        self.set_sender(None);
        let ended = thread.join().map_err(|_| Error::Failed("the recorder failed inside".to_owned()));
        let (parts, written) = ended?;
        let whole = written.and_then(|()| parts.complete(&self.copied));
        whole.map_err(|error| Error::Failed(format!("{error}; {}", parts.kept())))?;
        Ok(Some(self.so_far(&path)))
    }

    /// Ends a recording that began for nothing, and removes its trace.
    ///
    /// # Errors
    /// Those of [`stop`](Self::stop), or what keeps the trace from being removed.
    pub(crate) fn abandon(&self) -> Result<(), Error> {
        let Some(Recorded { path, .. }) = self.stop()? else { return Ok(()) };
        std::fs::remove_file(&path).map_err(|error| Error::Failed(format!("{}: {error}", path.display())))
    }

    /// Writes a trace of what has been recorded so far, while the recording goes on.
    ///
    /// # Errors
    /// Nothing is being recorded, a name that cannot be one, or what kept it from being written.
    pub(crate) fn snapshot(&self, path: &Path) -> Result<Recorded, Error> {
        let writer = self.writer();
        let Some(writer) = &*writer else {
            return Err(Error::Failed("nothing is being recorded: start that first".to_owned()));
        };
        check(path)?;
        if Parts::take(&writer.path, path) {
            let name = path.display();
            return Err(Error::Usage(format!("{name}: is a name of the recording itself: choose another")));
        }
        let (answer, answered) = channel();
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner).clone();
        let asked = sender.and_then(|sender| sender.send(Message::Cut(answer)).ok());
        // A writer that has failed answers nothing; the log says why.
        let parts = asked.and_then(|()| answered.recv().ok());
        let parts = parts.ok_or_else(|| Error::Failed(format!("recording {} has failed", writer.path.display())))?;
        let written = parts.copy_to(path, &self.copied).map_err(|error| Error::Failed(error.to_string()))?;
        Ok(Recorded { written, ..self.so_far(path) })
    }

    /// The number of a name: a volume's, a file's, a process's.
    pub(crate) fn number(&self, name: &str) -> u32 {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = names.numbers.get(name) {
            return number;
        }
        let (name, number) = (Arc::<str>::from(name), names.all.len() as u32);
        names.all.push(Arc::clone(&name));
        names.numbers.insert(name, number);
        number
    }

    /// Records a reference to a volume, by its number and its bytes, whose owner is the volume itself, if references are recorded; never waits for
    /// the trace.
    #[inline]
    pub(crate) fn record(&self, volume: (u32, u64), offset: u64, length: u64, operation: Operation) {
        self.record_of(|| volume.0, || volume, offset, length, operation);
    }

    /// The same of an owner and an object, whose numbers are asked for if references are recorded.
    #[inline]
    pub(crate) fn record_of(
        &self,
        owner: impl FnOnce() -> u32,
        object: impl FnOnce() -> (u32, u64),
        offset: u64,
        length: u64,
        operation: Operation,
    ) {
        if self.recording.load(Ordering::Relaxed) {
            self.send((owner(), object()), offset, length, operation);
        }
    }

    #[cold]
    fn send(&self, (owner, object): (u32, (u32, u64)), offset: u64, length: u64, operation: Operation) {
        let time = self.began.elapsed().as_nanos() as u64;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let (object, object_length) = object;
        let message = Message::Reference { time, offset, length, owner, object, operation, object_length };
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.as_ref().map(|sender| sender.try_send(message));
        match sent {
            Some(Err(TrySendError::Full(_))) if self.lost.fetch_add(1, Ordering::Relaxed) == 0 => {
                tracing::warn!("requests cannot be written as fast as they come: some are left out of the trace");
            }
            // The thread that writes has failed, and has said why.
            Some(Err(TrySendError::Disconnected(_))) => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Whether references are recorded now.
    pub(crate) fn records(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    /// References written so far, and those left out, of the trace that is being recorded.
    pub(crate) fn counts(&self) -> Option<(u64, u64)> {
        let counts = || (self.recorded.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed));
        self.recording.load(Ordering::Relaxed).then(counts)
    }

    fn so_far(&self, path: &Path) -> Recorded {
        let (written, lost) = (self.recorded.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed));
        Recorded { path: path.to_owned(), written, lost }
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, PathBuf> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_sender(&self, sender: Option<SyncSender<Message>>) {
        let recording = sender.is_some();
        *self.sender.write().unwrap_or_else(PoisonError::into_inner) = sender;
        self.recording.store(recording, Ordering::Relaxed);
    }
}

/// Where a server that starts records: a trace of that name may be there, of a start before; then the next number is in this one's, `data-2.parquet`.
pub(crate) fn free(path: &Path) -> PathBuf {
    let [stem, extension] =
        [path.file_stem(), path.extension()].map(|part| part.unwrap_or_default().display().to_string());
    let numbered = (2_u32..).map(|number| path.with_file_name(format!("{stem}-{number}.{extension}")));
    let taken = |path: &PathBuf| path.symlink_metadata().is_ok();
    std::iter::once(path.to_owned()).chain(numbered).find(|path| !taken(path)).unwrap_or_else(|| path.to_owned())
}

/// Whether a trace can be written under a name that is not taken.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let name = path.display();
    match path.symlink_metadata() {
        Ok(_) => return Err(Error::Failed(format!("{name}: exists already; remove it, or choose another name"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::Failed(format!("{name}: {error}"))),
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !OUTPUTS.iter().any(|output| output.keeps_requests && output.extensions.contains(&extension)) {
        return Err(Error::Usage(format!("{name}: let its name end in .parquet or .csv")));
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(Error::Failed(format!("{name}: there is no folder {}", folder.display())));
    }
    Ok(())
}
