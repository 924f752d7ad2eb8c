//! The pool's own threads: some read ahead, one sees what is to be written back, and others write, a volume each.

use crate::access::handle::Handle;
use crate::access::load::Held;
use crate::core::memory::Memory;
use crate::core::slots::MOST_HANDLES;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::Shared;
use crate::readahead::READERS;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, lock};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The most handles that the users of a pool have at a time: all but those of the threads that read ahead.
pub const HANDLES: usize = MOST_HANDLES - READERS;

/// The most threads that write back. A device that hangs keeps one of them.
const WRITERS: usize = 32;

/// Orders that wait for a thread; hints that come on top are left undone.
const MOST_WAITING: usize = 256;

/// How often it is seen whether pages have been dirty for too long.
pub(crate) const AGE_CHECK: Duration = Duration::from_millis(200);

/// Pages that are dirty for too long, and objects of which too much is dirty, that are ordered at a time.
const MOST_AGED: usize = 4096;
const MOST_OBJECTS: usize = 256;

/// Work for the pool's threads.
#[derive(Default)]
pub(crate) struct Queue {
    work: Mutex<Work>,
    /// For the one that sees what is to be written.
    overseer: Condvar,
    writer: Condvar,
    ended: Condvar,
    /// Whether there are threads that write back.
    writes: AtomicBool,
}

#[derive(Default)]
struct Work {
    /// Something is to be written.
    write: bool,
    orders: VecDeque<Order>,
    writers: usize,
    idle_writers: usize,
    /// Threads that have not ended.
    threads: usize,
    stop: bool,
}

/// A volume to be written back by one of the threads, with pages of it that are in the laundry, and that are dirty for too long.
struct Order {
    volume: Arc<Volume>,
    laundry: Vec<Held>,
    aged: Vec<Held>,
    /// Blocks whose pages are to leave, in an order that is for nothing else.
    leave: Option<Range<u64>>,
}

impl Queue {
    /// Has dirty pages written back.
    pub(crate) fn wake_writer(&self) {
        let mut work = lock(&self.work);
        if !work.write {
            work.write = true;
            self.overseer.notify_one();
        }
    }

    /// Whether what a thread leaves is written by others.
    pub(crate) fn writes(&self) -> bool {
        self.writes.load(Ordering::Relaxed)
    }

    /// Waits for something to write, or for a while. `false`: the pool is closing.
    fn wait_to_write(&self, pause: Duration) -> bool {
        let work = lock(&self.work);
        let wait = |work: &mut Work| !work.write && !work.stop;
        let (mut work, _) =
            self.overseer.wait_timeout_while(work, pause, wait).expect("no thread panicked under this lock");
        work.write = false;
        !work.stop
    }

    fn next_order(&self) -> Option<Order> {
        let mut work = lock(&self.work);
        loop {
            if work.stop {
                return None;
            }
            if let Some(order) = work.orders.pop_front() {
                return Some(order);
            }
            work.idle_writers += 1;
            work = self.writer.wait(work).expect("no thread panicked under this lock");
            work.idle_writers -= 1;
        }
    }

    /// Ends the threads, and waits for that so long. `false`: some hang in a device.
    fn stop(&self, patience: Duration) -> bool {
        self.writes.store(false, Ordering::Relaxed);
        let mut work = lock(&self.work);
        work.stop = true;
        self.overseer.notify_all();
        self.writer.notify_all();
        let running = |work: &mut Work| work.threads > 0;
        let (work, _) =
            self.ended.wait_timeout_while(work, patience, running).expect("no thread panicked under this lock");
        work.threads == 0
    }
}

/// A thread that has not ended. It holds no more of the pool than this.
struct Running(Arc<Queue>);

impl Running {
    /// Starts a thread of the pool.
    fn start<M: Memory>(shared: &Arc<Shared<M>>, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        lock(&shared.queue.work).threads += 1;
        let running = Self(Arc::clone(&shared.queue));
        std::thread::Builder::new().name(name).spawn(move || {
            let _running = running;
            body();
        })?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a thread of the pool has panicked");
        }
        // A thread that panicked under this lock has left nobody who could be told.
        if let Ok(mut work) = self.0.work.lock() {
            work.threads -= 1;
            self.0.ended.notify_all();
        }
    }
}

impl<M: Memory> Shared<M> {
    /// Starts the pool's threads.
    pub(crate) fn start_threads(self: &Arc<Self>) -> Result<(), Error> {
        // The model checker knows its own threads alone. What another cache holds is neither read nor written.
        if cfg!(feature = "model-check") || self.config.elsewhere {
            return Ok(());
        }
        let no_thread = |source| Error::Threads(Arc::new(source));
        self.readahead.open();
        for reader in 0..READERS {
            let handle = Handle::new(self)?;
            Running::start(self, format!("readahead-{reader}"), move || handle.keep_reading()).map_err(no_thread)?;
        }
        let shared = Arc::clone(self);
        Running::start(self, "writeback".to_owned(), move || shared.oversee()).map_err(no_thread)?;
        self.queue.writes.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the pool's threads, and waits for that so long. `false`: some hang in a device, and are left behind.
    pub(crate) fn stop_threads(&self, patience: Duration) -> bool {
        self.abandon(self.readahead.close());
        self.queue.stop(patience)
    }
}

impl<M: Memory> Shared<M> {
    /// Until the pool closes, sees what is dirty for too long, or too much, or in the laundry, and has each such volume written by a thread
    /// that does nothing else: it touches no device itself.
    fn oversee(self: &Arc<Self>) {
        while self.queue.wait_to_write(AGE_CHECK) {
            let mut due: BTreeMap<u32, (Vec<Held>, Vec<Held>)> = BTreeMap::new();
            if self.core.laundered() > 0 {
                for (object, laundry) in self.laundry_by_volume().1 {
                    due.entry(object).or_default().0 = laundry;
                }
            }
            let too_much = self.too_much_dirty();
            let aged = {
                let mut dirty = lock(&self.dirty_pages);
                if too_much {
                    dirty.next_objects(MOST_OBJECTS).into_iter().for_each(|object| _ = due.entry(object).or_default());
                }
                dirty.aged(self.dirty_age(), MOST_AGED)
            };
            if aged.len() == MOST_AGED {
                // There may be more.
                self.queue.wake_writer();
            }
            for (object, page) in aged {
                due.entry(object).or_default().1.push(page);
            }
            for (object, (laundry, aged)) in due {
                let Some(volume) = lock(&self.volumes).get(object) else { continue };
                if !volume.resting() && volume.begin_order() {
                    self.order(Order { volume, laundry, aged, leave: None });
                } else if !aged.is_empty() {
                    lock(&self.dirty_pages).put_off(object, &aged, AGE_CHECK);
                }
            }
        }
    }

    /// Has the pages of a range leave, as far as they are not in use. It is left undone if too much waits to be written.
    ///
    /// # Errors
    /// The device's, if the pool has no threads to do it.
    pub(crate) fn leave_behind(self: &Arc<Self>, volume: &Arc<Volume>, blocks: Range<u64>) -> Result<(), Error> {
        if !self.queue.writes() {
            return self.give_up(volume, &blocks);
        }
        if lock(&self.queue.work).orders.len() < MOST_WAITING {
            let (laundry, aged) = (Vec::new(), Vec::new());
            self.order(Order { volume: Arc::clone(volume), laundry, aged, leave: Some(blocks) });
        }
        Ok(())
    }

    fn order(self: &Arc<Self>, order: Order) {
        let mut work = lock(&self.queue.work);
        work.orders.push_back(order);
        if work.orders.len() <= work.idle_writers {
            self.queue.writer.notify_one();
        } else if work.writers < WRITERS {
            work.writers += 1;
            let name = format!("writer-{}", work.writers);
            drop(work);
            let shared = Arc::clone(self);
            let body = move || {
                while let Some(order) = shared.queue.next_order() {
                    shared.carry_out(&order);
                }
            };
            if let Err(error) = Running::start(self, name, body) {
                // Those there are will come to it, or a later one.
                tracing::warn!(%error, "no further thread to write pages back");
                lock(&self.queue.work).writers -= 1;
            }
        }
    }

    /// Writes a volume back as far as it is due. A failure is kept for its next flush, and the volume left alone for a while.
    fn carry_out(&self, Order { volume, laundry, aged, leave }: &Order) {
        if let Some(blocks) = leave {
            // What could not be written stays, and a flush tells of it.
            let _ = self.give_up(volume, blocks);
            return;
        }
        let mut written = if laundry.is_empty() { 0 } else { self.write_laundry(volume, laundry).unwrap_or(0) };
        if !aged.is_empty() {
            written += self.write_aged(volume, aged);
        }
        while self.too_much_dirty() && !volume.resting() {
            match self.write_some(volume, &lock(&volume.writing)) {
                Ok(pages) if pages > 0 => written += pages,
                _ => break,
            }
        }
        volume.end_order();
        if written > 0 {
            // There may be more.
            self.queue.wake_writer();
        }
    }

    fn too_much_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed) >= self.background_limit()
    }
}
