//! A connection's bytes, plain or under TLS, and the order in which replies go out.
//!
//! Whoever has a reply becomes the sender if there is none, and sends *without holding the lock*; meanwhile others leave theirs
//! in a queue, which the sender empties before it retires. So a client that takes nothing holds up the thread that receives its
//! requests, and no other: a worker only offers, and leaves what the socket does not take to a thread started for this one client.
//!
//! What waits in the queue is accounted for: by its lease, or, as short replies of the receiving thread, by the connection's
//! allowance, beyond which that thread waits. A client that does not take what is sent within its time is cut off.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustls::ServerConnection;

use crate::Config;
use crate::budget::{Lease, Purse};
use crate::buffer::{Buffer, SHORT};
use crate::socket::{Pace, Received, Socket, Wait};

/// Bytes sealed at a time.
const SEALED: usize = 64 << 10;

/// Locks, whatever a thread that panicked may have left: nothing is done under these locks that could.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes to be sent, with the memory that they are accounted for by.
pub(crate) struct Parcel<'a> {
    /// Given back before the bytes, which may then be kept in its place.
    lease: Option<Lease>,
    bytes: Bytes<'a>,
}

enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Owned { buffer: Buffer, start: usize, end: usize },
}

impl<'a> Parcel<'a> {
    pub(crate) fn borrowed(bytes: &'a [u8], lease: Option<Lease>) -> Self {
        Self { bytes: Bytes::Borrowed(bytes), lease }
    }

    /// The first bytes of a buffer.
    pub(crate) fn owned(buffer: Buffer, length: usize, lease: Option<Lease>) -> Self {
        Self { bytes: Bytes::Owned { buffer, start: 0, end: length }, lease }
    }

    /// What is still to be sent.
    fn rest(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Owned { buffer, start, end } => &buffer[*start..*end],
        }
    }

    fn sent(&mut self, count: usize) {
        match &mut self.bytes {
            Bytes::Borrowed(bytes) => *bytes = &bytes[count..],
            Bytes::Owned { start, .. } => *start += count,
        }
    }

    fn into_owned(self) -> Parcel<'static> {
        let bytes = match self.bytes {
            Bytes::Borrowed(bytes) => Bytes::Owned { buffer: Buffer::Heap(bytes.to_vec()), start: 0, end: bytes.len() },
            Bytes::Owned { buffer, start, end } => Bytes::Owned { buffer, start, end },
        };
        Parcel { bytes, lease: self.lease }
    }

    /// Adds a short one to a short one, so that they go out with one call.
    fn append(&mut self, other: Parcel<'_>) -> Result<(), Parcel<'static>> {
        let more = other.rest().len();
        match &mut self.bytes {
            Bytes::Owned { buffer: Buffer::Heap(bytes), end, .. } if *end == bytes.len() && *end + more <= SHORT => {
                bytes.extend(other.rest());
                *end += more;
                match (&mut self.lease, other.lease) {
                    (Some(lease), Some(other)) => lease.join(other),
                    (lease, other) => *lease = lease.take().or(other),
                }
                Ok(())
            }
            _ => Err(other.into_owned()),
        }
    }
}

/// A socket and its TLS.
pub(crate) struct Link {
    pub(crate) socket: Arc<dyn Socket>,
    pub(crate) tls: Option<Mutex<ServerConnection>>,
    /// How long the client may rest, and each message may take.
    config: Arc<Config>,
    /// When the handshake must be over.
    pub(crate) deadline: Option<Instant>,
    /// What the connection has of the memory of all, after the handshake.
    pub(crate) purse: Option<Arc<Purse>>,
    state: Mutex<State>,
    /// Told when the queue is empty or a turn has ended, if that is awaited.
    retired: Condvar,
    /// The socket did not take what a worker offered. Set by the sender, cleared under the lock when its turn ends.
    behind: AtomicBool,
    /// The connection is lost. Set under the lock.
    failed: AtomicBool,
}

#[derive(Default)]
struct State {
    sending: bool,
    queue: VecDeque<Parcel<'static>>,
    /// The bytes of the receiving thread in the queue that no lease accounts for.
    unleased: usize,
    /// The receiving thread waits for room in the queue, or for the end of the sender's turn.
    awaited: bool,
}

/// Ciphertext that has come and is not opened yet; the receiving thread's own.
#[derive(Default)]
pub(crate) struct Sealed {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Link {
    pub(crate) fn new(socket: Arc<dyn Socket>, config: &Arc<Config>) -> Self {
        Self {
            socket,
            tls: None,
            config: Arc::clone(config),
            deadline: None,
            purse: None,
            state: Mutex::default(),
            retired: Condvar::new(),
            behind: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// Receives what has come, or waits for it. One thread alone receives.
    pub(crate) fn receive(&self, sealed: &mut Sealed, buffer: &mut [u8], wait: Wait<'_>) -> io::Result<Received> {
        let Some(tls) = &self.tls else { return self.socket.receive(buffer, wait) };
        loop {
            let opened = open(&mut lock(tls), sealed, buffer);
            if lock(tls).wants_write() {
                self.send(Parcel::borrowed(&[], None))?;
            }
            if let Some(received) = opened? {
                return Ok(received);
            }
            sealed.bytes.resize(32 << 10, 0);
            match self.socket.receive(&mut sealed.bytes, wait)? {
                Received::Bytes(count) => (sealed.start, sealed.end) = (0, count),
                other => return Ok(other),
            }
        }
    }

    /// Sends, or leaves it to who is sending. For the receiving thread, which waits where that takes too much memory.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn send(&self, parcel: Parcel<'_>) -> io::Result<()> {
        let Some(mut parcel) = self.claim(parcel, true)? else { return Ok(()) };
        let mut sealed = Vec::new();
        loop {
            let sent = self.transmit(&mut parcel, &mut sealed, true).map(drop);
            self.finish(sent)?;
            match self.more() {
                Some(more) => parcel = more,
                None => return Ok(()),
            }
        }
    }

    /// Sends what goes without waiting, and leaves the rest to a thread of its own.
    pub(crate) fn offer(self: &Arc<Self>, parcel: Parcel<'_>) {
        // A lost connection is the receiving thread's to report.
        let Ok(Some(mut parcel)) = self.claim(parcel, false) else { return };
        let mut sealed = Vec::new();
        loop {
            match self.transmit(&mut parcel, &mut sealed, false) {
                Ok(true) => {}
                Ok(false) => return self.drain(parcel.into_owned(), sealed),
                Err(error) => return drop(self.finish(Err(error))),
            }
            match self.more() {
                Some(more) => parcel = more,
                None => return,
            }
        }
    }

    fn drain(self: &Arc<Self>, mut parcel: Parcel<'static>, mut sealed: Vec<u8>) {
        self.behind.store(true, Ordering::Relaxed);
        let link = Arc::clone(self);
        let thread = std::thread::Builder::new().name("nbd-drain".into()).spawn(move || {
            while link.finish(link.transmit(&mut parcel, &mut sealed, true).map(drop)).is_ok() {
                match link.more() {
                    Some(more) => parcel = more,
                    None => return,
                }
            }
        });
        if let Err(error) = thread {
            drop(self.finish(Err(error)));
        }
    }

    /// Waits until the client has taken what it left behind, before more is done for it.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn settle(&self) -> io::Result<()> {
        if self.behind.load(Ordering::Relaxed) {
            let mut state = lock(&self.state);
            while self.behind.load(Ordering::Relaxed) {
                state = self.wait_for_room(state);
            }
        }
        if self.failed() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Whether the connection is lost.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Says farewell under TLS, and closes.
    pub(crate) fn close(&self, polite: bool) {
        if let (true, Some(tls)) = (polite, &self.tls) {
            lock(tls).send_close_notify();
            // The client may be gone, and then nobody misses it.
            let _ = self.send(Parcel::borrowed(&[], None));
        }
        self.socket.close();
    }

    /// Becomes the sender, who gets the parcel back, or queues it for the one there is. `wait`: for room in the queue.
    fn claim<'a>(&self, parcel: Parcel<'a>, wait: bool) -> io::Result<Option<Parcel<'a>>> {
        let mut state = lock(&self.state);
        loop {
            if self.failed() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if !state.sending {
                state.sending = true;
                return Ok(Some(parcel));
            }
            let unleased = if parcel.lease.is_none() { parcel.rest().len() } else { 0 };
            if !wait || state.unleased == 0 || state.unleased + unleased <= self.config.allowance() {
                state.unleased += unleased;
                let apart = match state.queue.back_mut() {
                    Some(last) => last.append(parcel).err(),
                    None => Some(parcel.into_owned()),
                };
                state.queue.extend(apart);
                return Ok(None);
            }
            state = self.wait_for_room(state);
        }
    }

    fn wait_for_room<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.awaited = true;
        self.retired.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The sender's next bytes; without any its turn has ended.
    fn more(&self) -> Option<Parcel<'static>> {
        let mut state = lock(&self.state);
        let more = state.queue.pop_front();
        if more.is_none() {
            self.end_turn(&mut state);
        } else if state.queue.is_empty() {
            self.make_room(&mut state);
        }
        more
    }

    fn end_turn(&self, state: &mut State) {
        state.sending = false;
        self.behind.store(false, Ordering::Relaxed);
        self.make_room(state);
    }

    /// The queue is empty.
    fn make_room(&self, state: &mut State) {
        state.unleased = 0;
        if std::mem::take(&mut state.awaited) {
            self.retired.notify_all();
        }
    }

    /// Ends the connection, if the sender has failed.
    fn finish(&self, result: io::Result<()>) -> io::Result<()> {
        if result.is_err() {
            let mut state = lock(&self.state);
            self.failed.store(true, Ordering::Relaxed);
            state.queue.clear();
            self.end_turn(&mut state);
            drop(state);
            self.socket.close();
        }
        result
    }

    /// Sends a parcel, of which `sealed` is on its way: all of it if `wait`, else what goes at once. Whether that was all. The
    /// sender's alone.
    fn transmit(&self, parcel: &mut Parcel<'_>, sealed: &mut Vec<u8>, wait: bool) -> io::Result<bool> {
        let mut pace = self.pace(sealed.len() + parcel.rest().len());
        let mut push = |bytes: &[u8]| {
            if wait { self.socket.send(bytes, &mut pace).map(|()| bytes.len()) } else { self.socket.offer(bytes) }
        };
        let Some(tls) = &self.tls else {
            let sent = push(parcel.rest())?;
            parcel.sent(sent);
            return Ok(parcel.rest().is_empty());
        };
        loop {
            if sealed.is_empty() {
                let chunk = parcel.rest().len().min(SEALED);
                seal(&mut lock(tls), &parcel.rest()[..chunk], sealed)?;
                parcel.sent(chunk);
            }
            let sent = push(sealed)?;
            sealed.drain(..sent);
            if !sealed.is_empty() {
                return Ok(false);
            }
            if parcel.rest().is_empty() {
                return Ok(true);
            }
        }
    }

    fn pace(&self, bytes: usize) -> Pace<'_> {
        Pace::new(self.config.message, self.config.whole(bytes), self.deadline, self.purse.as_ref())
    }

    /// Agrees on TLS with the client; afterwards all goes through it.
    ///
    /// # Errors
    /// The client is gone, too late, or not acceptable.
    pub(crate) fn start_tls(
        &mut self,
        mut tls: ServerConnection,
        sealed: &mut Sealed,
        wait: Wait<'_>,
    ) -> io::Result<()> {
        tls.set_buffer_limit(None);
        while tls.is_handshaking() || tls.wants_write() {
            let mut out = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
            self.socket.send(&out, &mut self.pace(out.len()))?;
            if tls.is_handshaking() {
                sealed.bytes.resize(32 << 10, 0);
                match self.socket.receive(&mut sealed.bytes, wait)? {
                    Received::Bytes(count) => (sealed.start, sealed.end) = (0, count),
                    Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Received::Nothing => return Err(io::ErrorKind::TimedOut.into()),
                }
                while sealed.start < sealed.end {
                    if let Err(error) = feed(&mut tls, sealed) {
                        // The alert that says why.
                        let mut alert = Vec::new();
                        while tls.wants_write() {
                            tls.write_tls(&mut alert)?;
                        }
                        let _ = self.socket.send(&alert, &mut self.pace(alert.len()));
                        return Err(error);
                    }
                    if !tls.is_handshaking() {
                        break;
                    }
                }
            }
        }
        self.tls = Some(Mutex::new(tls));
        Ok(())
    }
}

/// Appends the ciphertext of some bytes, and what else TLS has to say.
fn seal(tls: &mut ServerConnection, bytes: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
    io::Write::write_all(&mut tls.writer(), bytes)?;
    while tls.wants_write() {
        tls.write_tls(sealed)?;
    }
    Ok(())
}

/// Gives TLS a piece of what has come.
fn feed(tls: &mut ServerConnection, sealed: &mut Sealed) -> io::Result<()> {
    let mut bytes = &sealed.bytes[sealed.start..sealed.end];
    sealed.start += tls.read_tls(&mut bytes)?;
    tls.process_new_packets().map_err(io::Error::other)?;
    Ok(())
}

/// Opens what has come: `None` if more is needed for a byte of it.
fn open(tls: &mut ServerConnection, sealed: &mut Sealed, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    loop {
        match io::Read::read(&mut tls.reader(), buffer) {
            Ok(0) => return Ok(Some(Received::End)),
            Ok(count) => return Ok(Some(Received::Bytes(count))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if sealed.start == sealed.end {
            return Ok(None);
        }
        feed(tls, sealed)?;
    }
}
