//! The pool's own threads: one writes back, some read ahead.

use crate::error::Error;
use crate::handle::Handle;
use crate::load::Admission;
use crate::pool::Shared;
use crate::slots::MOST_HANDLES;
use crate::sync::{Condvar, Mutex, Ordering, lock};
use crate::volume::Volume;
use crate::writeback::Cleaned;
use forebay_policy::Operation;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads that read ahead: as many requests are under way at a time.
const READERS: usize = 4;

/// The most handles that the users of a pool have at a time: all but those of the threads that read ahead.
pub const HANDLES: usize = MOST_HANDLES - READERS;

/// Ranges that wait to be read ahead; what comes on top is not read ahead.
const MOST_WAITING: usize = 256;

/// How often the writer looks whether pages have been dirty for too long.
const ROUND: Duration = Duration::from_millis(200);

/// Work for the pool's threads.
#[derive(Default)]
pub(crate) struct Queue {
    work: Mutex<Work>,
    reader: Condvar,
    writer: Condvar,
}

#[derive(Default)]
struct Work {
    ranges: VecDeque<(Arc<Volume>, Range<u64>)>,
    write: bool,
    stop: bool,
}

impl Queue {
    /// Has a range of blocks read ahead, as far as it lies in the volume.
    pub(crate) fn push(&self, volume: &Arc<Volume>, blocks: Range<u64>) {
        let blocks = blocks.start..blocks.end.min(volume.blocks());
        let mut work = lock(&self.work);
        if !blocks.is_empty() && work.ranges.len() < MOST_WAITING {
            work.ranges.push_back((Arc::clone(volume), blocks));
            self.reader.notify_one();
        }
    }

    /// Has dirty pages written back.
    pub(crate) fn wake_writer(&self) {
        let mut work = lock(&self.work);
        if !work.write {
            work.write = true;
            self.writer.notify_one();
        }
    }

    fn next_range(&self) -> Option<(Arc<Volume>, Range<u64>)> {
        let mut work = lock(&self.work);
        loop {
            if work.stop {
                return None;
            }
            if let Some(next) = work.ranges.pop_front() {
                return Some(next);
            }
            work = self.reader.wait(work).expect("no thread panicked under this lock");
        }
    }

    /// Waits for something to write, or for a while. `false`: the pool is closing.
    fn wait_to_write(&self, pause: Duration) -> bool {
        let work = lock(&self.work);
        let wait = |work: &mut Work| !work.write && !work.stop;
        let (mut work, _) =
            self.writer.wait_timeout_while(work, pause, wait).expect("no thread panicked under this lock");
        work.write = false;
        !work.stop
    }

    fn stop(&self) {
        lock(&self.work).stop = true;
        self.reader.notify_all();
        self.writer.notify_all();
    }
}

pub(crate) struct Background {
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, Error> {
        let mut background = Self { threads: Vec::new() };
        // The model checker knows its own threads alone.
        if cfg!(feature = "model-check") {
            return Ok(background);
        }
        if let Err(error) = background.start_threads(shared) {
            background.stop(shared);
            return Err(error);
        }
        Ok(background)
    }

    fn start_threads(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        for reader in 0..READERS {
            let handle = Handle::new(shared)?;
            self.spawn(format!("readahead-{reader}"), move || {
                while let Some((volume, blocks)) = handle.shared.queue.next_range() {
                    handle.read_ahead(&volume, blocks);
                }
            })?;
        }
        let shared = Arc::clone(shared);
        self.spawn("writeback".to_owned(), move || shared.write_in_background())
    }

    fn spawn(&mut self, name: String, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let no_thread = |source| Error::Configuration(format!("the pool cannot start its threads: {source}"));
        self.threads.push(std::thread::Builder::new().name(name).spawn(body).map_err(no_thread)?);
        Ok(())
    }

    /// Stops the threads. `false`: they were stopped before.
    pub(crate) fn stop(&mut self, shared: &Shared) -> bool {
        let running = !self.threads.is_empty();
        shared.queue.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the pool has panicked");
            }
        }
        running
    }
}

impl Handle {
    /// Reads what is absent of a range, as far as there are frames; errors are left to who needs the pages.
    fn read_ahead(&self, volume: &Arc<Volume>, blocks: Range<u64>) {
        let mut block = blocks.start;
        while block < blocks.end {
            let end = blocks.end.min(block + self.shared.most_run());
            match self.try_admit_run(volume, block..end, Operation::Readahead, false) {
                Admission::Run(run) => {
                    block = run.last().map_or(end, |&(last, _)| last + 1);
                    if let Err(error) = self.fill(volume, &run) {
                        tracing::debug!(%error, "a readahead failed");
                        return;
                    }
                    volume.counters.pages_read_ahead.add(run.len() as u64);
                    run.iter().for_each(|&(_, number)| self.shared.let_go(number));
                }
                Admission::Present | Admission::Rescued => block += 1,
                Admission::NoFrame | Admission::Changing => return,
            }
        }
    }
}

impl Shared {
    /// The writer: what is dirty for too long, or too much, or in the laundry, is written back until the pool closes. A failure is kept
    /// for the volume's next flush, and the volume left alone for a while.
    fn write_in_background(&self) {
        while self.queue.wait_to_write(ROUND) {
            while (self.memory.laundered() > 0 || self.dirty.load(Ordering::Relaxed) >= self.background_limit())
                && matches!(self.clean_some(true), Ok(Cleaned::Some))
            {}
            let volumes = lock(&self.volumes).all();
            volumes.iter().for_each(|volume| self.write_aged(volume));
        }
    }
}
