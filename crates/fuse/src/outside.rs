//! Files that others change below, noticed at once: an inotify watch on each file with bytes in the pool.
//!
//! Without it a change is noticed when the file is opened next. What programs write through `mmap` below sends no event, and is
//! noticed at the next open as before. A watch takes about a kibibyte of the kernel's memory; files beyond the system's limit
//! (`fs.inotify.max_user_watches`) are looked at when they are opened.

use crate::object::Object;
use foldhash::HashMap;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, init, remove_watch};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Bytes of events that are taken at a time.
const EVENTS: usize = 16 << 10;

/// How long a file is left alone that could not be looked at because of our own changes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: BETWEEN_LOOKS.as_nanos() as _ };

/// The watches of a mount.
pub(crate) struct Outside {
    inotify: OwnedFd,
    /// Readable once the mount has gone.
    ended: OwnedFd,
    /// By the watch's number.
    watched: Mutex<HashMap<i32, Weak<Object>>>,
    /// The system's limit was reached, which was said.
    full: AtomicBool,
}

impl Outside {
    pub(crate) fn new() -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let ended = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { inotify, ended, watched: Mutex::default(), full: AtomicBool::new(false) })
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<i32, Weak<Object>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on changes of this file are noticed.
    pub(crate) fn add(&self, object: &Arc<Object>) {
        // Under the lock: the event of a watch that is not listed would be lost.
        let mut watched = self.watched();
        match object.file.watch(&self.inotify, WatchFlags::MODIFY) {
            Ok(number) => {
                watched.insert(number, Arc::downgrade(object));
                object.set_watch(number);
            }
            Err(error) if !self.full.swap(true, Ordering::Relaxed) => {
                tracing::warn!(
                    "{}: {error}: from here on, files are looked at when they are opened; fs.inotify.max_user_watches is the limit",
                    object.file.name()
                );
            }
            Err(_) => {}
        }
    }

    /// A file goes.
    pub(crate) fn remove(&self, object: &Object) {
        if let Some(number) = object.take_watch() {
            self.watched().remove(&number);
            // The kernel has taken it away if the file is deleted.
            let _ = remove_watch(&self.inotify, number);
        }
    }

    /// Ends [`run`](Outside::run).
    pub(crate) fn end(&self) {
        let _ = rustix::io::write(&self.ended, &1u64.to_ne_bytes());
    }

    /// Waits for events, for so long if something is to be looked at again; `false`: the mount has gone.
    fn wait(&self, limit: Option<&Timespec>) -> io::Result<bool> {
        let mut waits = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        match poll(&mut waits, limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(waits[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over each file that is changed below, by whomever, until the mount has gone; once more if `changed` asks for it, since our
    /// own changes were in the way.
    pub(crate) fn run(&self, changed: impl Fn(&Arc<Object>) -> bool) -> io::Result<()> {
        let mut room = [MaybeUninit::uninit(); EVENTS];
        let mut events = Reader::new(&self.inotify, &mut room);
        let mut later: HashMap<u64, Weak<Object>> = HashMap::default();
        let mut looked = Instant::now();
        loop {
            // What was read with another event is not waited for.
            if events.is_buffer_empty() && !self.wait((!later.is_empty()).then_some(&AGAIN))? {
                return Ok(());
            }
            let mut look = |object: &Arc<Object>| {
                if changed(object) {
                    later.insert(object.number, Arc::downgrade(object));
                } else {
                    later.remove(&object.number);
                }
            };
            match events.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    let all: Vec<_> = self.watched().values().filter_map(Weak::upgrade).collect();
                    all.iter().for_each(look);
                }
                Ok(event) => {
                    let object = self.watched().get(&event.wd()).and_then(Weak::upgrade);
                    object.iter().for_each(&mut look);
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if looked.elapsed() >= BETWEEN_LOOKS {
                looked = Instant::now();
                later.retain(|_, object| object.upgrade().is_some_and(|object| changed(&object)));
            }
        }
    }
}
