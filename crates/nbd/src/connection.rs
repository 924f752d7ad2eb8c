//! The transmission phase of one connection.
//!
//! One thread receives. Requests that need no waiting it answers itself: all those that one call has received, and their replies
//! go out with one call once no whole request is left. The others go to the export's threads (see `workers`), each of which
//! sends its reply by itself.
//!
//! A hand-over costs the wake-up of a thread, which takes longer than a short read of a fast device. So a request that may have
//! to wait is done by the receiving thread if the client has shown that it waits for each reply before it asks again: its last
//! [`SERIAL`] requests came singly, nothing was in flight besides, and nothing more had come when the reply was ready. Then
//! nobody waits for the receiving thread. A client that begins to ask for more just while such a request stalls waits for that
//! one request, and for no further one: it is no longer alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::counters::Counts;
use crate::error::Close;
use crate::input::Input;
use crate::link::{Link, lock};
use crate::socket::{Received, Stop, Wait};
use crate::wire::reply::Replies;
use crate::wire::request::{Command, FUA, HEADER, Request, Terms};
use crate::workers::{Job, Volume, count, perform};
use crate::{Config, Errno, Failure, Session};

/// Requests that have come singly before one is trusted to be alone.
const SERIAL: u32 = 64;

/// Replies are sent when there are this many bytes of them, though more requests have come: what fits a core's own cache.
const SENT_AT: usize = 256 << 10;

/// Buffers of written data that are kept for the next, and the longest kept.
const SPARES: usize = 4;
const SPARE_BYTES: usize = 1 << 20;

/// How often a connection that is to stop looks whether all in flight is done.
const STOPPING: Duration = Duration::from_millis(5);

/// What the receiving thread shares with those that do its requests.
pub(crate) struct Connection {
    pub(crate) link: Arc<Link>,
    pub(crate) terms: Terms,
    pub(crate) volume: Arc<Volume>,
    /// Requests in flight.
    requests: AtomicUsize,
    load: Mutex<Load>,
    eased: Condvar,
}

#[derive(Default)]
struct Load {
    bytes: usize,
    spares: Vec<Vec<u8>>,
}

impl Load {
    /// Keeps a buffer for the next write.
    fn keep(&mut self, payload: Vec<u8>) {
        if !payload.is_empty() && payload.len() <= SPARE_BYTES && self.spares.len() < SPARES {
            self.spares.push(payload);
        }
    }
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, terms: Terms, volume: Arc<Volume>) -> Self {
        let requests = AtomicUsize::new(0);
        Self { link, terms, volume, requests, load: Mutex::default(), eased: Condvar::new() }
    }

    fn in_flight(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whether one more request with so much data may be in flight: the first always.
    fn has_room(&self, load: &Load, bytes: usize, config: &Config) -> bool {
        let requests = self.in_flight();
        requests == 0 || requests < config.in_flight && load.bytes + bytes <= config.in_flight_bytes
    }

    /// Waits until a request with so much data may be in flight.
    fn admit(&self, bytes: usize, config: &Config) {
        let mut load = lock(&self.load);
        while !self.has_room(&load, bytes, config) {
            load = self.eased.wait(load).unwrap_or_else(PoisonError::into_inner);
        }
        load.bytes += bytes;
        self.requests.fetch_add(1, Ordering::SeqCst);
    }

    /// A request is no longer in flight.
    pub(crate) fn release(&self, request: &Request, payload: Vec<u8>) {
        let mut load = lock(&self.load);
        load.bytes -= weight(request);
        load.keep(payload);
        self.requests.fetch_sub(1, Ordering::SeqCst);
        drop(load);
        self.eased.notify_one();
    }

    /// Waits until nothing is in flight.
    fn finish(&self) {
        let mut load = lock(&self.load);
        while self.in_flight() > 0 {
            load = self.eased.wait(load).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A buffer with room for a write's data.
    fn spare(&self, bytes: usize) -> Vec<u8> {
        let mut spare = lock(&self.load).spares.pop().unwrap_or_default();
        if spare.len() < bytes {
            spare.resize(bytes, 0);
        }
        spare
    }
}

/// The bytes of data that a request in flight holds.
fn weight(request: &Request) -> usize {
    if request.command <= Command::Write as u16 { request.length as usize } else { 0 }
}

/// The thread that receives.
pub(crate) struct Receiver<'a> {
    pub(crate) connection: Arc<Connection>,
    pub(crate) session: Box<dyn Session>,
    pub(crate) input: Input,
    replies: Replies,
    counts: Counts,
    /// Requests in a row that came singly.
    serial: u32,
    config: &'a Config,
    stop: &'a Stop,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(
        connection: Arc<Connection>,
        session: Box<dyn Session>,
        input: Input,
        config: &'a Config,
        stop: &'a Stop,
    ) -> Self {
        let replies = Replies::new(connection.terms.structured);
        let counts = Counts { connections: 1, ..Counts::default() };
        Self { connection, session, input, replies, counts, serial: 0, config, stop }
    }

    /// Serves until the end, and says why it came. Nothing is in flight afterwards.
    pub(crate) fn run(mut self) -> Close {
        let close = loop {
            if let Err(close) = self.answer_all().and_then(|()| self.flush()).and_then(|()| self.receive()) {
                break close;
            }
        };
        // What has been answered before is owed in any case.
        let _ = self.flush();
        self.connection.finish();
        close
    }

    /// Answers, or hands over, each request that is there as a whole.
    fn answer_all(&mut self) -> Result<(), Close> {
        while let Some(header) = self.input.ahead().first_chunk::<HEADER>() {
            let request = Request::parse(header)
                .map_err(|magic| Close::Malformed(format!("{magic:#010x} in place of a request's magic")))?;
            let whole = HEADER + request.payload();
            if whole <= Input::CAPACITY && self.input.ahead().len() < whole {
                break;
            }
            self.answer(&request)?;
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> Result<(), Close> {
        let checked = self.connection.terms.check(request).and_then(|command| {
            if self.stop.told() && command != Command::Disconnect {
                return Err(Failure { errno: Errno::ShuttingDown, message: "the server is stopping".into() });
            }
            Ok(command)
        });
        let command = match checked {
            Ok(Command::Disconnect) => return Err(Close::Finished),
            Ok(command) => command,
            Err(failure) => {
                self.input.consume(HEADER);
                self.discard(request.payload())?;
                self.replies.error(request.cookie, &failure);
                self.counts.errors += 1;
                return Ok(());
            }
        };
        match command {
            Command::Read => {
                self.input.consume(HEADER);
                self.read(request)
            }
            Command::Write => self.write(request),
            _ => {
                self.input.consume(HEADER);
                self.may_wait(request, command, Vec::new())
            }
        }
    }

    fn read(&mut self, request: &Request) -> Result<(), Close> {
        let length = request.length as usize;
        if self.replies.len() > 0 && self.replies.len() + length > SENT_AT {
            self.flush()?;
        }
        let mark = self.replies.len();
        let data = self.replies.data(request.cookie, request.offset, length);
        if self.session.try_read(request.offset, data) {
            self.answered(Command::Read, request);
            return Ok(());
        }
        self.replies.truncate(mark);
        self.may_wait(request, Command::Read, Vec::new())
    }

    fn write(&mut self, request: &Request) -> Result<(), Close> {
        let length = request.length as usize;
        let now = !request.has(FUA);
        if HEADER + length <= Input::CAPACITY {
            // `answer_all` has seen that it is there as a whole.
            let data = &self.input.ahead()[HEADER..HEADER + length];
            let written = now && self.session.try_write(request.offset, data);
            let mut payload = Vec::new();
            if !written {
                payload = self.connection.spare(length);
                payload[..length].copy_from_slice(data);
            }
            self.input.consume(HEADER + length);
            return self.written(request, written, payload);
        }
        self.input.consume(HEADER);
        let mut payload = self.connection.spare(length);
        let mut filled = self.input.ahead().len().min(length);
        payload[..filled].copy_from_slice(&self.input.ahead()[..filled]);
        self.input.consume(filled);
        self.flush()?;
        while filled < length {
            filled += self.receive_into(&mut payload[filled..length])?;
        }
        let written = now && self.session.try_write(request.offset, &payload[..length]);
        self.written(request, written, payload)
    }

    fn written(&mut self, request: &Request, written: bool, payload: Vec<u8>) -> Result<(), Close> {
        if !written {
            return self.may_wait(request, Command::Write, payload);
        }
        self.replies.done(request.cookie);
        self.answered(Command::Write, request);
        if !payload.is_empty() {
            lock(&self.connection.load).keep(payload);
        }
        Ok(())
    }

    /// A request has been answered without waiting.
    fn answered(&mut self, command: Command, request: &Request) {
        count(command, request.length, &mut self.counts);
        self.counts.immediate += 1;
        self.serial = if self.alone() { self.serial.saturating_add(1) } else { 0 };
    }

    /// Whether there is no request but the one just taken.
    fn alone(&self) -> bool {
        self.input.ahead().is_empty() && self.connection.in_flight() == 0
    }

    fn may_wait(&mut self, request: &Request, command: Command, payload: Vec<u8>) -> Result<(), Close> {
        let alone = self.alone();
        if alone && self.serial >= SERIAL {
            perform(&mut *self.session, request, command, &payload, &mut self.replies, &mut self.counts);
            self.serial = if self.connection.link.socket.readable() { 0 } else { self.serial.saturating_add(1) };
            return Ok(());
        }
        self.serial = if alone { self.serial + 1 } else { 0 };
        if !self.connection.has_room(&lock(&self.connection.load), weight(request), self.config) {
            // What has been answered does not wait for a place.
            self.flush()?;
        }
        self.connection.admit(weight(request), self.config);
        let job = Job { connection: Arc::clone(&self.connection), request: *request, command, payload };
        if let Err(job) = self.connection.volume.submit(job) {
            perform(&mut *self.session, request, command, &job.payload, &mut self.replies, &mut self.counts);
            self.connection.release(request, job.payload);
        }
        Ok(())
    }

    /// Sends what has been answered.
    fn flush(&mut self) -> Result<(), Close> {
        self.connection.volume.counters.add(&mut self.counts);
        if self.replies.len() > 0 {
            let sent = self.connection.link.send(self.replies.bytes());
            self.replies.clear();
            sent?;
        }
        Ok(())
    }

    /// Passes over the data of a write that is refused.
    fn discard(&mut self, mut left: usize) -> Result<(), Close> {
        loop {
            let here = self.input.ahead().len().min(left);
            self.input.consume(here);
            left -= here;
            if left == 0 {
                return Ok(());
            }
            self.flush()?;
            self.receive()?;
        }
    }

    /// Receives what has come, or waits for it.
    fn receive(&mut self) -> Result<(), Close> {
        self.connection.link.settle();
        loop {
            let wait = self.wait();
            let received = self.input.fill(&self.connection.link, wait)?;
            if self.judge(received)? > 0 {
                return Ok(());
            }
        }
    }

    /// The same, into a buffer.
    fn receive_into(&mut self, buffer: &mut [u8]) -> Result<usize, Close> {
        loop {
            let wait = self.wait();
            let received = self.connection.link.receive(&mut self.input.sealed, buffer, wait)?;
            match self.judge(received)? {
                0 => {}
                count => return Ok(count),
            }
        }
    }

    fn wait(&self) -> Wait<'a> {
        let deadline = self.stop.told().then(|| Instant::now() + STOPPING);
        Wait { spin: self.config.spin, deadline, stop: self.stop }
    }

    fn judge(&self, received: Received) -> Result<usize, Close> {
        match received {
            Received::Bytes(count) => Ok(count),
            Received::End if self.input.ahead().is_empty() => Err(Close::Finished),
            Received::End => Err(Close::Malformed("it ends in the middle of a request".into())),
            // Those in flight are finished, and requests that come meanwhile are told why they are not.
            Received::Nothing if self.connection.in_flight() == 0 => Err(Close::Stopping),
            Received::Nothing => Ok(0),
        }
    }
}
