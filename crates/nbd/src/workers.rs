//! An export with the threads that do what may have to wait.
//!
//! The threads belong to the export, for all its connections, so that a device that stalls takes no thread from another export.
//! Each has a session of its own, is started when a request finds none idle, and ends after a while without work.

use std::collections::VecDeque;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::budget::Lease;
use crate::buffer::Buffer;
use crate::connection::Connection;
use crate::counters::{Counters, Counts};
use crate::link::lock;
use crate::wire::reply::Replies;
use crate::wire::request::{Command, FUA, NO_HOLE, REQ_ONE, Request};
use crate::{Errno, Export, Failure, Session};

/// A thread without work for this long ends.
const IDLE: Duration = Duration::from_secs(10);

/// An export as the server has it.
pub(crate) struct Volume {
    pub(crate) export: Arc<dyn Export>,
    pub(crate) counters: Arc<Counters>,
    /// Connections that have chosen it.
    connected: AtomicUsize,
    most: usize,
    pool: Mutex<Pool>,
    work: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct Pool {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// A thread without work ends at once.
    closed: bool,
}

/// A request that may have to wait.
pub(crate) struct Job {
    pub(crate) connection: Arc<Connection>,
    pub(crate) request: Request,
    pub(crate) command: Command,
    /// The data of a write: the first bytes, as many as the request says.
    pub(crate) payload: Buffer,
    /// The memory of the data or of the reply.
    pub(crate) lease: Lease,
}

/// A connection's way into a volume, which ends with this value.
pub(crate) struct Entry(Arc<Volume>);

impl Deref for Entry {
    type Target = Arc<Volume>;

    fn deref(&self) -> &Arc<Volume> {
        &self.0
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Volume {
    pub(crate) fn new(export: Arc<dyn Export>, counters: Arc<Counters>, most: usize) -> Self {
        Self {
            export,
            counters,
            connected: AtomicUsize::new(0),
            most: most.max(1),
            pool: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    /// Lets a connection in, if there may be one more.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entry> {
        let entry = Entry(Arc::clone(self));
        let others = self.connected.fetch_add(1, Ordering::SeqCst);
        (others < self.export.most_connections().unwrap_or(usize::MAX)).then_some(entry)
    }

    /// Has a job done by a thread.
    ///
    /// # Errors
    /// The job, if there is no thread and none can be started.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Result<(), Box<Job>> {
        let mut pool = lock(&self.pool);
        pool.queue.push_back(job);
        if pool.queue.len() <= pool.idle {
            drop(pool);
            self.work.notify_one();
        } else if pool.threads < self.most {
            let volume = Arc::clone(self);
            match std::thread::Builder::new().name("nbd-worker".into()).spawn(move || volume.run()) {
                Ok(_) => pool.threads += 1,
                Err(error) if pool.threads == 0 => {
                    tracing::warn!(%error, "no thread for a request that may wait");
                    return pool.queue.pop_back().map_or(Ok(()), |job| Err(Box::new(job)));
                }
                // Those there are will come to it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the threads as they run out of work. For later jobs there are new ones.
    pub(crate) fn retire(&self) {
        lock(&self.pool).closed = true;
        self.work.notify_all();
    }

    /// The same, and waits for it until the deadline.
    pub(crate) fn close(&self, deadline: Instant) {
        self.retire();
        let mut pool = lock(&self.pool);
        while pool.threads > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            pool = self.ended.wait_timeout(pool, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next job. `None`: the thread is no longer counted, which is decided under the same lock as that there is no job, so
    /// that none is left to a thread that has gone.
    fn take(&self) -> Option<Job> {
        let mut pool = lock(&self.pool);
        loop {
            if let Some(job) = pool.queue.pop_front() {
                return Some(job);
            }
            if pool.closed {
                pool.threads -= 1;
                return None;
            }
            pool.idle += 1;
            let (woken, timeout) = self.work.wait_timeout(pool, IDLE).unwrap_or_else(PoisonError::into_inner);
            pool = woken;
            pool.idle -= 1;
            if timeout.timed_out() && pool.queue.is_empty() {
                pool.threads -= 1;
                return None;
            }
        }
    }

    fn run(&self) {
        let mut session = None;
        let mut replies = Replies::default();
        while let Some(job) = self.take() {
            job.run(&*self.export, &mut session, &mut replies);
        }
        self.ended.notify_all();
    }
}

impl Job {
    fn run(self, export: &dyn Export, session: &mut Option<Box<dyn Session>>, replies: &mut Replies) {
        let Self { connection, request, command, payload, lease } = self;
        let mut counts = Counts::default();
        replies.reset(connection.terms.structured);
        let done = catch_unwind(AssertUnwindSafe(|| {
            let session = match session {
                Some(session) => session,
                None => match export.session() {
                    Ok(opened) => session.insert(opened),
                    Err(failure) => return replies.error(request.cookie, &failure),
                },
            };
            perform(&mut **session, &request, command, &payload, replies, &mut counts);
        }));
        if done.is_err() {
            // Nothing is known of the session any more.
            *session = None;
            replies.reset(connection.terms.structured);
            let message = "the server failed inside".into();
            replies.error(request.cookie, &Failure { errno: Errno::Io, message });
            counts.errors += 1;
        }
        // Before the reply, after which a client may look.
        connection.volume.counters.add(&mut counts);
        connection.purse.budget.keep(payload);
        let lease = (command != Command::Write).then_some(lease);
        connection.link.offer(replies.parcel(lease));
        connection.release();
    }
}

/// Does what a request asks, waiting as long as it takes, and adds the reply.
pub(crate) fn perform(
    session: &mut dyn Session,
    request: &Request,
    command: Command,
    payload: &[u8],
    replies: &mut Replies,
    counts: &mut Counts,
) {
    let Request { cookie, offset, length, .. } = *request;
    let (size, fua, mark) = (length as usize, request.has(FUA), replies.len());
    let result = match command {
        Command::Read => session.read(offset, replies.data(cookie, offset, size)),
        Command::Write => session.write(offset, &payload[..size], fua),
        Command::Flush => session.flush(),
        Command::Trim => session.trim(offset, length.into(), fua),
        Command::Cache => session.cache(offset, length.into()),
        Command::WriteZeroes => session.write_zeroes(offset, length.into(), request.has(NO_HOLE), fua),
        Command::BlockStatus => session.status(offset, length.into()).map(|extents| {
            replies.status(cookie, length, &extents, request.has(REQ_ONE));
        }),
        // It has no reply.
        Command::Disconnect => return,
    };
    match result {
        Ok(()) if matches!(command, Command::Read | Command::BlockStatus) => {}
        Ok(()) => replies.done(cookie),
        Err(failure) => {
            replies.truncate(mark);
            replies.error(cookie, &failure);
            counts.errors += 1;
            return;
        }
    }
    count(command, length, counts);
}

/// Counts a request that has been answered well.
pub(crate) fn count(command: Command, length: u32, counts: &mut Counts) {
    let (number, bytes) = match command {
        Command::Read => (&mut counts.reads, Some(&mut counts.read_bytes)),
        Command::Write => (&mut counts.writes, Some(&mut counts.written_bytes)),
        Command::Flush => (&mut counts.flushes, None),
        Command::Trim => (&mut counts.trims, None),
        Command::Cache => (&mut counts.caches, None),
        Command::WriteZeroes => (&mut counts.zeroes, None),
        Command::BlockStatus => (&mut counts.statuses, None),
        Command::Disconnect => return,
    };
    *number += 1;
    if let Some(bytes) = bytes {
        *bytes += u64::from(length);
    }
}
