//! The transmission phase of one connection.
//!
//! One thread receives. Requests that need no waiting it answers itself: all those that one call has received, and their replies
//! go out with one call once no whole request is left. The others go to the export's threads (see `workers`), each of which
//! sends its reply by itself.
//!
//! A hand-over costs the wake-up of a thread, which takes longer than a short read of a fast device. So a request that may have
//! to wait is done by the receiving thread if the client has shown that it waits for each reply before it asks again: its last
//! [`Config::trusted`] requests came singly, nothing was in flight besides, and nothing more had come when the reply was ready. Then
//! nobody waits for the receiving thread. A client that begins to ask for more just while such a request stalls waits for that
//! one request, and for no further one: it is no longer alone.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Instant;

use crate::budget::{Hurry, Lease};
use crate::buffer::Buffer;
use crate::connection::Connection;
use crate::error::Close;
use crate::input::Input;
use crate::socket::{Received, Stop, Wait};
use crate::spin::{Spin, Spinners};
use crate::wire::reply::{EXTENTS, Replies};
use crate::wire::request::{Command, REQ_ONE, Request, header};
use crate::workers::{Job, conclude, count, is_durable, perform, range};
use crate::{Config, Counts, Errno, Failure, Session};
use forebay_figures::Tally;

/// Hints of one connection at a time; those that come on top are answered, and not done.
const MOST_HINTS: usize = 32;

/// The bytes of a long write that must have come before its memory is taken.
const COME: usize = 16 << 10;

/// The longest data of a refused request that are passed over; longer ones end the connection.
const MOST_REFUSED: usize = u32::MAX as usize;

/// The bytes that a request in flight holds for its data or its reply.
fn weight(request: &Request) -> usize {
    match request.command {
        0 | 1 => request.length as usize,
        command if command == Command::BlockStatus as u16 && !request.has(REQ_ONE) => EXTENTS * 2 * size_of::<u64>(),
        _ => 0,
    }
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
    /// The bytes of a request before its data.
    header: usize,
    /// When that came which is being answered.
    came: Instant,
    /// When the message must be whole that has begun to come.
    whole: Option<Instant>,
    spin: Spin<'a>,
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
        spinners: &'a Spinners,
    ) -> Self {
        let replies = Replies::new(connection.terms.form);
        let counts = Counts { connections: 1, ..Counts::default() };
        let header = header(connection.terms.form);
        let (spin, came) = (Spin::new(spinners), Instant::now());
        Self { connection, session, input, replies, counts, serial: 0, header, came, whole: None, spin, config, stop }
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
        self.connection.leave();
        self.connection.wait_below(1);
        // What is not taken in time is lost.
        let _ = self.connection.link.settle();
        close
    }

    /// The most data that goes together with other replies.
    fn short(&self) -> usize {
        self.config.allowance()
    }

    /// Answers, or hands over, each request that is there as a whole.
    fn answer_all(&mut self) -> Result<(), Close> {
        while self.input.ahead().len() >= self.header {
            let request = Request::parse(self.input.ahead(), self.connection.terms.form)
                .map_err(|magic| Close::Malformed(format!("{magic:#010x} in place of a request's magic")))?;
            let whole = usize::try_from(request.payload).map_or(usize::MAX, |data| data.saturating_add(self.header));
            if whole <= Input::CAPACITY && self.input.ahead().len() < whole {
                break;
            }
            self.whole = None;
            self.answer(&request)?;
            if self.replies.len() > self.short() {
                self.flush()?;
            }
        }
        if !self.input.ahead().is_empty() {
            self.begins(Input::CAPACITY);
        }
        Ok(())
    }

    /// A message of this many bytes has begun to come.
    fn begins(&mut self, bytes: usize) {
        self.whole.get_or_insert_with(|| Instant::now() + self.config.whole(bytes));
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
                self.input.consume(self.header);
                self.discard(request.payload)?;
                self.replies.error(request, &failure);
                self.counts.errors += 1;
                return Ok(());
            }
        };
        match command {
            Command::Read => {
                self.input.consume(self.header);
                self.read(request)
            }
            Command::Write => self.write(request),
            Command::Cache => {
                self.input.consume(self.header);
                self.hint(request)
            }
            _ => {
                self.input.consume(self.header);
                self.may_wait(request, command, Buffer::default(), None)
            }
        }
    }

    fn read(&mut self, request: &Request) -> Result<(), Close> {
        let length = request.length as usize;
        if length > self.short() {
            return self.read_long(request);
        }
        if self.replies.len() > 0 && self.replies.len() + length > self.short() {
            self.flush()?;
        }
        let mark = self.replies.len();
        let data = self.replies.data(request);
        if self.session.try_read(request.offset, data) {
            self.answered(Command::Read, request);
            return Ok(());
        }
        self.replies.truncate(mark);
        self.may_wait(request, Command::Read, Buffer::default(), None)
    }

    fn read_long(&mut self, request: &Request) -> Result<(), Close> {
        let length = request.length as usize;
        let lease = self.lease(length)?;
        let mut reply = self.long_reply(request);
        if self.session.try_read(request.offset, reply.data(request)) {
            self.answered(Command::Read, request);
            return Ok(self.connection.link.send(reply.parcel(Some(lease)))?);
        }
        drop(reply);
        self.may_wait(request, Command::Read, Buffer::default(), Some(lease))
    }

    /// Room for a reply that goes out by itself.
    fn long_reply(&self, request: &Request) -> Replies {
        let mut reply = Replies::new(self.connection.terms.form);
        reply.make_room(request, &self.connection.purse.budget);
        reply
    }

    fn write(&mut self, request: &Request) -> Result<(), Close> {
        let length = request.length as usize;
        if self.header + length > Input::CAPACITY {
            return self.write_long(request);
        }
        // `answer_all` has seen that it is there as a whole.
        let data = self.header..self.header + length;
        if self.session.try_write(request.offset, &self.input.ahead()[data.clone()]) {
            self.input.consume(data.end);
            return self.written(request);
        }
        let lease = self.lease(length)?;
        let payload = Buffer::Heap(self.input.ahead()[data.clone()].to_vec());
        self.input.consume(data.end);
        self.may_wait(request, Command::Write, payload, Some(lease))
    }

    /// A write whose data does not fit the input. What is only announced takes no memory: its data must have begun to come.
    fn write_long(&mut self, request: &Request) -> Result<(), Close> {
        let length = request.length as usize;
        self.input.consume(self.header);
        self.begins(length);
        self.flush()?;
        while self.input.ahead().len() < COME {
            self.receive()?;
        }
        let lease = self.lease(length)?;
        // The time that the server took for it is not the client's.
        self.whole = None;
        self.begins(length);
        let mut payload = self.connection.purse.budget.buffer(length);
        let mut filled = self.input.ahead().len().min(length);
        payload[..filled].copy_from_slice(&self.input.ahead()[..filled]);
        self.input.consume(filled);
        let mut hurry = Hurry::new(&self.connection.purse);
        while filled < length {
            filled += self.receive_into(&mut payload[filled..length], &mut hurry)?;
        }
        self.whole = None;
        if self.session.try_write(request.offset, &payload[..length]) {
            self.connection.purse.budget.keep(payload);
            drop(lease);
            return self.written(request);
        }
        self.may_wait(request, Command::Write, payload, Some(lease))
    }

    /// A write has been done without waiting.
    fn written(&mut self, request: &Request) -> Result<(), Close> {
        if is_durable(request, Command::Write) {
            return self.wait_for(request, Command::Write, Buffer::default(), None, true);
        }
        self.replies.done(request);
        self.answered(Command::Write, request);
        Ok(())
    }

    /// A hint to fetch: as much as it may bring in, one after the other.
    fn hint(&mut self, request: &Request) -> Result<(), Close> {
        let connection = Arc::clone(&self.connection);
        let waiting = connection.waiting_hints();
        if waiting >= MOST_HINTS {
            return self.perform(request, Command::Cache, Buffer::default(), None, false);
        }
        let most = connection.volume.export.most_fetched();
        let request = Request { length: request.length.min(most.max(1)), ..*request };
        let (command, payload) = (Command::Cache, Buffer::default());
        let job = Job {
            connection: Arc::clone(&connection),
            request,
            command,
            since: self.came,
            payload,
            lease: None,
            done: 0,
        };
        self.make_place()?;
        self.session.hand_over();
        let Some(job) = connection.take_hint(job) else { return Ok(()) };
        if let Err(job) = connection.volume.submit_fetch(job) {
            connection.next_hint();
            connection.release();
            return self.perform(&job.request, Command::Cache, Buffer::default(), None, false);
        }
        Ok(())
    }

    /// Memory for the data or the reply of a request. What has been answered does not wait for it.
    fn lease(&mut self, bytes: usize) -> Result<Lease, Close> {
        if let Some(lease) = self.connection.purse.try_take(bytes) {
            return Ok(lease);
        }
        self.flush()?;
        Ok(self.connection.purse.take(bytes))
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

    /// Does a request that may have to wait, or has it done. `lease`: the memory of a write's data, and of a long read's reply.
    fn may_wait(
        &mut self,
        request: &Request,
        command: Command,
        payload: Buffer,
        lease: Option<Lease>,
    ) -> Result<(), Close> {
        self.wait_for(request, command, payload, lease, command == Command::Flush)
    }

    /// Does what is left of a request, or has it done. `commit`: it is only to be made durable.
    fn wait_for(
        &mut self,
        request: &Request,
        command: Command,
        payload: Buffer,
        lease: Option<Lease>,
        commit: bool,
    ) -> Result<(), Close> {
        let alone = self.alone();
        if alone && self.serial >= self.config.trusted {
            self.perform(request, command, payload, lease, commit)?;
            self.serial = if self.connection.link.socket.readable() { 0 } else { self.serial.saturating_add(1) };
            return Ok(());
        }
        self.serial = if alone { self.serial + 1 } else { 0 };
        let lease = match lease {
            None if !commit => Some(self.lease(weight(request))?),
            lease => lease,
        };
        self.make_place()?;
        if !commit {
            self.session.hand_over();
        }
        let job = Job {
            connection: Arc::clone(&self.connection),
            request: *request,
            command,
            since: self.came,
            payload,
            lease,
            done: 0,
        };
        let volume = &self.connection.volume;
        let submitted = if commit { volume.submit_commit(job) } else { volume.submit(job) };
        if let Err(job) = submitted {
            let performed = self.perform(request, command, job.payload, job.lease, commit);
            self.connection.release();
            performed?;
        }
        Ok(())
    }

    /// Has one more request in flight, waiting for others if there are too many.
    fn make_place(&mut self) -> Result<(), Close> {
        if self.connection.in_flight() >= self.config.in_flight {
            // What has been answered does not wait for a place.
            self.flush()?;
            self.connection.wait_below(self.config.in_flight.max(1));
        }
        // A client that does not take its replies gets no more of them.
        self.connection.link.settle()?;
        self.connection.admit();
        Ok(())
    }

    /// Does a request on this thread. `commit`: it is only to be made durable.
    fn perform(
        &mut self,
        request: &Request,
        command: Command,
        payload: Buffer,
        lease: Option<Lease>,
        commit: bool,
    ) -> Result<(), Close> {
        if command == Command::Read && request.length as usize > self.short() {
            let mut reply = self.long_reply(request);
            perform(&mut *self.session, request, command, &payload, &mut reply, &mut self.counts);
            return Ok(self.connection.link.send(reply.parcel(lease))?);
        }
        let Self { connection, session, replies, counts, .. } = self;
        if commit || perform(&mut **session, request, command, &payload, replies, counts) {
            let committed = connection.volume.export.commit(from_ref(&range(request, command)));
            conclude(&committed, request, command, replies, counts);
        }
        connection.purse.budget.keep(payload);
        Ok(())
    }

    /// Sends what has been answered.
    fn flush(&mut self) -> Result<(), Close> {
        let counts = std::mem::take(&mut self.counts);
        let counters = &self.connection.volume.counters;
        counters.absorb(&counts);
        let answered = counts.requests.all();
        if answered > 0 {
            let took = u64::try_from(self.came.elapsed().as_nanos()).unwrap_or(u64::MAX);
            counters.request_time.add_many(took, answered);
        }
        if self.replies.len() > 0 {
            self.connection.link.send(self.replies.parcel(None))?;
        }
        Ok(())
    }

    /// Passes over the data of a write that is refused.
    fn discard(&mut self, left: u64) -> Result<(), Close> {
        let mut left = usize::try_from(left)
            .ok()
            .filter(|&left| left <= MOST_REFUSED)
            .ok_or_else(|| Close::Malformed(format!("{left} bytes of data follow a request")))?;
        self.begins(left);
        loop {
            let here = self.input.ahead().len().min(left);
            self.input.consume(here);
            left -= here;
            if left == 0 {
                self.whole = None;
                return Ok(());
            }
            self.flush()?;
            self.receive()?;
        }
    }

    /// Receives what has come, or waits for it.
    fn receive(&mut self) -> Result<(), Close> {
        self.connection.link.settle()?;
        self.session.rest();
        loop {
            // What is in flight needs a processor, and its reply is what the client waits for.
            let spin = (self.connection.in_flight() == 0).then_some(&self.spin);
            let wait = Wait { spin, deadline: self.deadline(), stop: self.stop };
            let received = self.input.fill(&self.connection.link, wait)?;
            if self.judge(received)? > 0 {
                self.came = Instant::now();
                return Ok(());
            }
        }
    }

    /// The same, into a buffer whose memory others may wait for.
    fn receive_into(&mut self, buffer: &mut [u8], hurry: &mut Hurry) -> Result<usize, Close> {
        let deadline = self.deadline();
        loop {
            let next = hurry.next();
            let first = deadline.map_or(next, |deadline| deadline.min(next));
            let wait = Wait { spin: None, deadline: Some(first), stop: self.stop };
            let received = self.connection.link.receive(&mut self.input.sealed, buffer, wait)?;
            let looked = received == Received::Nothing && Some(first) != deadline && !self.stop.told();
            let count = if looked { 0 } else { self.judge(received)? };
            if hurry.is_slow(count) {
                return Err(Close::Slow);
            }
            if count > 0 {
                return Ok(count);
            }
        }
    }

    /// Until when the client may send nothing.
    fn deadline(&self) -> Option<Instant> {
        match (self.whole, self.config.idle) {
            (Some(whole), _) => Some(whole.min(Instant::now() + self.config.message)),
            (None, idle) => idle.map(|idle| Instant::now() + idle),
        }
    }

    fn judge(&self, received: Received) -> Result<usize, Close> {
        match received {
            Received::Bytes(count) => Ok(count),
            Received::End if self.input.ahead().is_empty() => Err(Close::Finished),
            Received::End => Err(Close::Malformed("it ends in the middle of a request".into())),
            Received::Nothing if self.stop.told() => {
                self.connection.leave();
                // Those in flight are finished, and requests that come meanwhile are answered with ESHUTDOWN.
                if self.connection.in_flight() == 0 { Err(Close::Stopping) } else { Ok(0) }
            }
            Received::Nothing if self.whole.is_some() => Err(Close::Stalled),
            // It waits for replies.
            Received::Nothing if self.connection.in_flight() > 0 => Ok(0),
            Received::Nothing => Err(Close::Idle),
        }
    }
}
