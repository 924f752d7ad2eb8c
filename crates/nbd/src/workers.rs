//! An export with the threads that do what may have to wait.
//!
//! The threads belong to the export, for all its connections, so that a device that stalls takes no thread from another export.
//! Each worker has a session of its own, is started when a request finds none idle, and ends after a while without work.
//!
//! A request that is to be durable is done in two steps: first by a worker, or at once where that needs no waiting, then by the one
//! thread that commits, which takes all that are there at a time. So those that wait for a flush share it, and take no worker from
//! those that read.
//!
//! Hints to fetch (CACHE) are done in short steps by a few threads of their own, in turn, one of a connection at a time, and called off
//! when their client leaves.

use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::budget::Lease;
use crate::buffer::Buffer;
use crate::connection::Connection;
use crate::link::lock;
use crate::wire::reply::Replies;
use crate::wire::request::{Command, FUA, NO_HOLE, REQ_ONE, Request};
use crate::{Errno, Export, Failure, Session};
use forebay_figures::Tally;
use forebay_figures::clients::{Counters, Counts};

/// A thread without work for this long ends.
const IDLE: Duration = Duration::from_secs(10);

/// An export as the server has it.
pub(crate) struct Volume {
    pub(crate) export: Arc<dyn Export>,
    pub(crate) counters: Arc<Counters>,
    /// Connections that have chosen it.
    connected: AtomicUsize,
    workers: Lane,
    commits: Lane,
    fetches: Lane,
}

/// Jobs of one kind, and the threads that do them.
struct Lane {
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
    /// When it was handed over.
    pub(crate) since: Instant,
    /// The data of a write: the first bytes, as many as the request says.
    pub(crate) payload: Buffer,
    /// The memory of the data or of the reply.
    pub(crate) lease: Option<Lease>,
    /// The bytes that a hint has fetched already.
    pub(crate) done: u64,
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

impl Lane {
    fn new(most: usize) -> Self {
        Self { most, pool: Mutex::default(), work: Condvar::new(), ended: Condvar::new() }
    }

    /// Has a job done by a thread, which runs `body` if it is to be started.
    ///
    /// # Errors
    /// The job, if there is no thread and none can be started.
    fn submit(&self, job: Job, body: impl FnOnce() + Send + 'static) -> Result<(), Box<Job>> {
        let mut pool = lock(&self.pool);
        pool.queue.push_back(job);
        if pool.queue.len() <= pool.idle {
            drop(pool);
            self.work.notify_one();
        } else if pool.threads < self.most {
            match std::thread::Builder::new().name("nbd-worker".into()).spawn(body) {
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

    fn retire(&self) {
        lock(&self.pool).closed = true;
        self.work.notify_all();
    }

    fn close(&self, deadline: Instant) {
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

    /// The next jobs: at least one, and at most `most`. `None`: the thread is no longer counted, which is decided under the same lock
    /// as that there is no job, so that none is left to a thread that has gone.
    fn take(&self, most: usize) -> Option<Vec<Job>> {
        let mut pool = lock(&self.pool);
        loop {
            if !pool.queue.is_empty() {
                let count = pool.queue.len().min(most);
                return Some(pool.queue.drain(..count).collect());
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
}

impl Volume {
    /// `most`: workers.
    pub(crate) fn new(export: Arc<dyn Export>, counters: Arc<Counters>, most: usize) -> Self {
        let (workers, commits, fetches) = (Lane::new(most.max(1)), Lane::new(1), Lane::new((most / 4).max(1)));
        Self { export, counters, connected: AtomicUsize::new(0), workers, commits, fetches }
    }

    /// Lets a connection in, if there may be one more.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entry> {
        let entry = Entry(Arc::clone(self));
        let others = self.connected.fetch_add(1, Ordering::SeqCst);
        (others < self.export.most_connections().unwrap_or(usize::MAX)).then_some(entry)
    }

    /// Has a request done by a worker.
    ///
    /// # Errors
    /// The job, if there is no thread and none can be started.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Result<(), Box<Job>> {
        let volume = Arc::clone(self);
        self.workers.submit(job, move || volume.work())
    }

    /// Has a request that is done made durable.
    ///
    /// # Errors
    /// As for `submit`.
    pub(crate) fn submit_commit(self: &Arc<Self>, job: Job) -> Result<(), Box<Job>> {
        let volume = Arc::clone(self);
        self.commits.submit(job, move || volume.commit())
    }

    /// Has a hint done, a part at a time.
    ///
    /// # Errors
    /// As for `submit`.
    pub(crate) fn submit_fetch(self: &Arc<Self>, job: Job) -> Result<(), Box<Job>> {
        let volume = Arc::clone(self);
        self.fetches.submit(job, move || volume.fetch())
    }

    /// Ends the threads as they run out of work. For later jobs there are new ones.
    pub(crate) fn retire(&self) {
        self.workers.retire();
        self.commits.retire();
        self.fetches.retire();
    }

    /// The same, and waits for it until the deadline.
    pub(crate) fn close(&self, deadline: Instant) {
        // Workers leave jobs to be committed.
        self.workers.close(deadline);
        self.commits.close(deadline);
        self.fetches.close(deadline);
    }

    fn work(self: &Arc<Self>) {
        let mut session = None;
        let mut replies = Replies::default();
        while let Some(jobs) = self.workers.take(1) {
            jobs.into_iter().for_each(|job| self.run(job, &mut session, &mut replies));
        }
        self.workers.ended.notify_all();
    }

    fn run(self: &Arc<Self>, job: Job, session: &mut Option<Box<dyn Session>>, replies: &mut Replies) {
        let mut counts = Counts::default();
        replies.reset(job.connection.terms.form);
        if job.command == Command::Read {
            replies.make_room(&job.request, &job.connection.purse.budget);
        }
        let done = catch_unwind(AssertUnwindSafe(|| {
            let session = match session {
                Some(session) => session,
                None => match self.export.session() {
                    Ok(opened) => session.insert(opened),
                    Err(failure) => {
                        counts.errors += 1;
                        replies.error(&job.request, &failure);
                        return false;
                    }
                },
            };
            let to_commit = perform(&mut **session, &job.request, job.command, &job.payload, replies, &mut counts);
            session.hand_over();
            session.rest();
            to_commit
        }));
        match done {
            Ok(false) => job.answer(replies, counts),
            Ok(true) => {
                if let Err(job) = self.submit_commit(job.without_data()) {
                    self.commit_all(vec![*job], replies);
                }
            }
            Err(_) => {
                // Nothing is known of the session any more.
                *session = None;
                replies.reset(job.connection.terms.form);
                replies.error(&job.request, &failed_inside());
                counts.errors += 1;
                job.answer(replies, counts);
            }
        }
    }

    fn commit(&self) {
        let mut replies = Replies::default();
        while let Some(jobs) = self.commits.take(usize::MAX) {
            self.commit_all(jobs, &mut replies);
        }
        self.commits.ended.notify_all();
    }

    /// Makes requests durable together, and answers them.
    fn commit_all(&self, jobs: Vec<Job>, replies: &mut Replies) {
        let ranges: Vec<_> = jobs.iter().map(|job| range(&job.request, job.command)).collect();
        let committed = catch_unwind(AssertUnwindSafe(|| self.export.commit(&ranges)));
        let committed = committed.unwrap_or_else(|_| Err(failed_inside()));
        for job in jobs {
            let mut counts = Counts::default();
            replies.reset(job.connection.terms.form);
            conclude(&committed, &job.request, job.command, replies, &mut counts);
            job.answer(replies, counts);
        }
    }
}

/// Hints to fetch.
impl Volume {
    fn fetch(&self) {
        let mut session = None;
        let mut replies = Replies::default();
        while let Some(jobs) = self.fetches.take(1) {
            for job in jobs {
                if let Some(next) = self.fetch_some(job, &mut session, &mut replies) {
                    lock(&self.fetches.pool).queue.push_back(next);
                }
            }
        }
        self.fetches.ended.notify_all();
    }

    /// Does a part of a hint. Returns what is left of it, or the connection's next hint.
    fn fetch_some(&self, mut job: Job, session: &mut Option<Box<dyn Session>>, replies: &mut Replies) -> Option<Job> {
        let Request { offset, length, .. } = job.request;
        let fetched = catch_unwind(AssertUnwindSafe(|| {
            if job.connection.called_off() {
                return Ok(0);
            }
            let session = match session {
                Some(session) => session,
                None => session.insert(self.export.session()?),
            };
            session.cache(offset + job.done, length - job.done)
        }));
        if let Ok(Ok(fetched @ 1..)) = fetched
            && job.done + fetched < length
        {
            job.done += fetched;
            return Some(job);
        }
        if fetched.is_err() {
            *session = None;
        }
        let mut counts = Counts::default();
        replies.reset(job.connection.terms.form);
        match fetched.unwrap_or_else(|_| Err(failed_inside())) {
            Ok(_) => {
                replies.done(&job.request);
                count(job.command, length, &mut counts);
            }
            Err(failure) => {
                replies.error(&job.request, &failure);
                counts.errors += 1;
            }
        }
        let next = job.connection.next_hint();
        job.answer(replies, counts);
        next
    }
}

fn failed_inside() -> Failure {
    Failure { errno: Errno::Io, message: "the server failed inside".into() }
}

impl Job {
    /// Gives back the memory of the data, which has been written.
    fn without_data(mut self) -> Self {
        self.connection.purse.budget.keep(std::mem::take(&mut self.payload));
        self.lease = None;
        self
    }

    /// Sends the reply; the request is in flight no more.
    fn answer(self, replies: &mut Replies, counts: Counts) {
        let Self { connection, command, since, payload, lease, .. } = self;
        // Before the reply, after which a client may look.
        connection.volume.counters.absorb(&counts);
        connection.volume.counters.request_time.add_time(since.elapsed());
        connection.purse.budget.keep(payload);
        connection.link.offer(replies.parcel(lease.filter(|_| command != Command::Write)));
        connection.release();
    }
}

/// Does what a request asks, waiting as long as it takes, and adds the reply. `true`: it is still to be made durable, and then to be
/// answered.
pub(crate) fn perform(
    session: &mut dyn Session,
    request: &Request,
    command: Command,
    payload: &[u8],
    replies: &mut Replies,
    counts: &mut Counts,
) -> bool {
    let Request { offset, length, .. } = *request;
    let mark = replies.len();
    let result = match command {
        Command::Read => session.read(offset, replies.data(request)),
        Command::Write => session.write(offset, &payload[..length as usize]),
        Command::Trim => session.trim(offset, length),
        Command::WriteZeroes => session.write_zeroes(offset, length, request.has(NO_HOLE)),
        Command::BlockStatus => session.status(offset, length).map(|extents| {
            replies.status(request, &extents, request.has(REQ_ONE));
        }),
        // A flush is only to be committed. A hint for which there is no thread is none.
        Command::Flush | Command::Cache => Ok(()),
        // It has no reply.
        Command::Disconnect => return false,
    };
    match result {
        Ok(()) if is_durable(request, command) => return true,
        Ok(()) if matches!(command, Command::Read | Command::BlockStatus) => count(command, length, counts),
        result => {
            replies.truncate(mark);
            conclude(&result, request, command, replies, counts);
        }
    }
    false
}

/// Whether a request is answered only when it is durable.
pub(crate) fn is_durable(request: &Request, command: Command) -> bool {
    match command {
        Command::Flush => true,
        Command::Write | Command::Trim | Command::WriteZeroes => request.has(FUA),
        _ => false,
    }
}

/// The bytes that a request wants durable.
pub(crate) fn range(request: &Request, command: Command) -> Range<u64> {
    if command == Command::Flush { 0..u64::MAX } else { request.offset..request.offset + request.length }
}

/// Adds the reply to a request that gives nothing back.
pub(crate) fn conclude(
    result: &Result<(), Failure>,
    request: &Request,
    command: Command,
    replies: &mut Replies,
    counts: &mut Counts,
) {
    match result {
        Ok(()) => {
            replies.done(request);
            count(command, request.length, counts);
        }
        Err(failure) => {
            replies.error(request, failure);
            counts.errors += 1;
        }
    }
}

/// Counts a request that has been answered well.
pub(crate) fn count(command: Command, length: u64, counts: &mut Counts) {
    let (number, bytes) = match command {
        Command::Read => (&mut counts.requests.read, Some(&mut counts.read_bytes)),
        Command::Write => (&mut counts.requests.write, Some(&mut counts.written_bytes)),
        Command::Flush => (&mut counts.requests.flush, None),
        Command::Trim => (&mut counts.requests.trim, None),
        Command::Cache => (&mut counts.requests.cache, None),
        Command::WriteZeroes => (&mut counts.requests.write_zeroes, None),
        Command::BlockStatus => (&mut counts.requests.block_status, None),
        Command::Disconnect => return,
    };
    *number += 1;
    if let Some(bytes) = bytes {
        *bytes += length;
    }
}
