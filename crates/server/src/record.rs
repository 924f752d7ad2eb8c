//! `--record`: the references of clients, written down as a trace.
//!
//! A reference goes through a bounded queue to a thread that writes. The queue never makes a client wait: what does not fit is
//! left out, counted and told, since a trace with a gap says so, while a server slowed by its recorder would be another workload.

use crate::error::Error;
use forebay_policy::Operation;
use forebay_trace::{ConvertOptions, Names, OUTPUTS, Reader, Request, Unit, convert};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// References that wait to be written: at 32 bytes each, 8 MiB.
const QUEUE: usize = 1 << 18;

/// A trace being recorded.
pub(crate) struct Recorder {
    path: PathBuf,
    began: Instant,
    sender: SyncSender<Message>,
    volumes: Arc<Mutex<Vec<String>>>,
    recorded: Arc<AtomicU64>,
    lost: AtomicU64,
    stage: Mutex<Stage>,
}

enum Stage {
    Waiting(Queue),
    Writing(JoinHandle<forebay_trace::Result<u64>>),
    Done,
}

enum Message {
    Reference { time: u64, offset: u64, length: u32, volume: u16, operation: Operation },
    End,
}

impl Recorder {
    /// A trace in the format that its name says. Nothing is written before it begins.
    pub(crate) fn new(path: &Path) -> Result<Arc<Self>, Error> {
        let name = path.display();
        if path.exists() {
            return Err(Error::Failed(format!("--record {name}: exists already; remove it, or choose another name")));
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if !OUTPUTS.iter().any(|output| output.keeps_requests && output.extensions.contains(&extension)) {
            return Err(Error::Usage(format!("--record {name}: let its name end in .parquet or .csv")));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(Error::Failed(format!("--record {name}: there is no folder {}", folder.display())));
        }
        let (sender, receiver) = sync_channel(QUEUE);
        let volumes = Arc::new(Mutex::new(Vec::new()));
        let queue = Queue { receiver, volumes: Arc::clone(&volumes), known: Vec::new() };
        Ok(Arc::new(Self {
            path: path.to_owned(),
            began: Instant::now(),
            sender,
            volumes,
            recorded: Arc::default(),
            lost: AtomicU64::new(0),
            stage: Mutex::new(Stage::Waiting(queue)),
        }))
    }

    /// Begins to write.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = match std::mem::replace(&mut *stage, Stage::Done) {
            Stage::Waiting(queue) => queue,
            other => {
                *stage = other;
                return Ok(());
            }
        };
        let (out, count) = (self.path.clone(), Arc::clone(&self.recorded));
        let write = move || {
            let mut progress = |written| count.store(written, Ordering::Relaxed);
            let written = convert(&mut queue, &out, &ConvertOptions::default(), &mut progress);
            if let Err(error) = &written {
                tracing::error!("recording has stopped: {error}");
            }
            written
        };
        let writer = std::thread::Builder::new().name("record".to_owned()).spawn(write);
        *stage = Stage::Writing(writer.map_err(|error| Error::Failed(format!("no thread to record with: {error}")))?);
        Ok(())
    }

    /// The number under which a volume's references are recorded.
    pub(crate) fn volume(&self, name: &str) -> u32 {
        let mut volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = volumes.iter().position(|volume| volume == name);
        known.unwrap_or_else(|| {
            volumes.push(name.to_owned());
            volumes.len() - 1
        }) as u32
    }

    /// Records a reference; never waits.
    pub(crate) fn record(&self, volume: u32, offset: u64, length: u64, operation: Operation) {
        let time = self.began.elapsed().as_nanos() as u64;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let message = Message::Reference { time, offset, length, volume: volume as u16, operation };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.sender.try_send(message)
            && self.lost.fetch_add(1, Ordering::Relaxed) == 0
        {
            tracing::warn!("references come faster than they can be recorded: some are left out of the trace");
        }
    }

    /// References written so far, and those left out.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.recorded.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }

    /// Completes the trace.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let Stage::Writing(writer) = std::mem::replace(&mut *stage, Stage::Done) else { return Ok(()) };
        // A writer that has failed takes no more, and says why when it is joined.
        let _ = self.sender.send(Message::End);
        let written = writer.join().map_err(|_| Error::Failed("the recorder failed inside".to_owned()))?;
        let written = written.map_err(|error| Error::Failed(format!("--record: {error}")))?;
        let (lost, name) = (self.lost.load(Ordering::Relaxed), self.path.display());
        if lost > 0 {
            tracing::warn!("recorded {written} references in {name}; {lost} are missing, since they came too fast");
        } else {
            tracing::info!("recorded {written} references in {name}");
        }
        Ok(())
    }
}

/// The queue's other end, read like any trace.
struct Queue {
    receiver: Receiver<Message>,
    volumes: Arc<Mutex<Vec<String>>>,
    /// The numbers of volumes among the trace's owners and objects.
    known: Vec<(u32, u32)>,
}

impl Queue {
    fn request(&mut self, names: &mut Names, message: Message) -> Option<Request> {
        let Message::Reference { time, offset, length, volume, operation } = message else { return None };
        let volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &volumes[self.known.len()..] {
            self.known.push((names.owner(name), names.object(name)));
        }
        let (owner, object) = self.known[usize::from(volume)];
        Some(Request { time, owner, object, offset, length: length.into(), operation })
    }
}

impl Reader for Queue {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn next(&mut self, names: &mut Names) -> forebay_trace::Result<Option<Request>> {
        let message = self.receiver.recv().ok();
        Ok(message.and_then(|message| self.request(names, message)))
    }

    fn fill(&mut self, names: &mut Names, most: usize, batch: &mut Vec<Request>) -> forebay_trace::Result<bool> {
        // What is there is taken; only for the first one it waits, so that figures are told as they come.
        let Some(first) = self.next(names)? else { return Ok(false) };
        batch.push(first);
        while batch.len() < most
            && let Ok(message) = self.receiver.try_recv()
        {
            let Some(request) = self.request(names, message) else { return Ok(false) };
            batch.push(request);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let recorder = Recorder::new(&path).unwrap();
        recorder.begin().unwrap();
        let (a, b) = (recorder.volume("a"), recorder.volume("b"));
        assert_eq!((recorder.volume("a"), a == b), (a, false));
        recorder.record(b, 4096, 8192, Operation::Write);
        recorder.record(a, 0, 512, Operation::Read);
        recorder.finish().unwrap();
        assert_eq!(recorder.counts(), (2, 0));
        let (_, mut reader) = forebay_trace::open(&path, &forebay_trace::Options::default()).unwrap();
        let (mut names, mut found) = (Names::new(), Vec::new());
        while let Some(request) = reader.next(&mut names).unwrap() {
            found.push((
                names.object_name(request.object).to_owned(),
                request.offset,
                request.length,
                request.operation,
            ));
        }
        let expected = [("b".to_owned(), 4096, 8192, Operation::Write), ("a".to_owned(), 0, 512, Operation::Read)];
        assert_eq!(found, expected);
        assert_eq!(reader.unit(), Unit::Bytes);
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_begun_in_vain() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there.parquet");
        std::fs::write(&there, "").unwrap();
        let refused = |path: &Path| Recorder::new(path).err().expect("it is refused").to_string();
        assert!(refused(&there).contains("exists already"));
        assert!(refused(&folder.path().join("trace.lirs")).contains("let its name end in .parquet or .csv"));
        assert!(refused(&folder.path().join("no/trace.csv")).contains("there is no folder"));
    }
}
