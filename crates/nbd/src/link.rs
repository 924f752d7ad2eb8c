//! A connection's bytes, plain or under TLS, and the order in which replies go out.
//!
//! Whoever has a reply becomes the sender if there is none, and sends *without holding the lock*; meanwhile others leave theirs
//! in a queue, which the sender empties before it retires. So a client that takes nothing holds up the thread that receives its
//! requests, and no other: a worker only offers, and leaves what the socket does not take to a thread started for this one client.

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConnection;

use crate::socket::{Received, Socket, Wait};

/// Bytes sealed at a time.
const SEALED: usize = 256 << 10;

/// Locks, whatever a thread that panicked may have left: nothing is done under these locks that could.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A socket and its TLS.
pub(crate) struct Link {
    pub(crate) socket: Arc<dyn Socket>,
    pub(crate) tls: Option<Mutex<ServerConnection>>,
    state: Mutex<State>,
    /// Told when a sender's turn has ended whose client was behind.
    retired: Condvar,
    /// The socket did not take what a worker offered. Set by the sender, cleared under the lock when its turn ends.
    behind: AtomicBool,
}

#[derive(Default)]
struct State {
    sending: bool,
    queue: Vec<u8>,
    failed: bool,
}

/// Ciphertext that has come and is not opened yet; the receiving thread's own.
#[derive(Default)]
pub(crate) struct Sealed {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Link {
    pub(crate) fn new(socket: Arc<dyn Socket>) -> Self {
        Self { socket, tls: None, state: Mutex::default(), retired: Condvar::new(), behind: AtomicBool::new(false) }
    }

    /// Receives what has come, or waits for it. One thread alone receives.
    pub(crate) fn receive(&self, sealed: &mut Sealed, buffer: &mut [u8], wait: Wait<'_>) -> io::Result<Received> {
        let Some(tls) = &self.tls else { return self.socket.receive(buffer, wait) };
        loop {
            let opened = open(&mut lock(tls), sealed, buffer);
            if lock(tls).wants_write() {
                self.send(&[])?;
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

    /// Sends, or leaves it to who is sending.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        if !self.claim(bytes)? {
            return Ok(());
        }
        let mut result = self.send_now(bytes);
        while result.is_ok()
            && let Some(more) = self.more()
        {
            result = self.send_now(&more);
        }
        self.finish(result)
    }

    /// Sends what goes without waiting, and leaves the rest to a thread of its own.
    pub(crate) fn offer(self: &Arc<Self>, bytes: &[u8]) {
        // A lost connection is the receiving thread's to report.
        let Ok(true) = self.claim(bytes) else { return };
        let mut next = Cow::Borrowed(bytes);
        loop {
            let result = self.seal(&next).and_then(|bytes| Ok((self.socket.offer(&bytes)?, bytes)));
            match result {
                Ok((sent, bytes)) if sent < bytes.len() => return self.drain(bytes[sent..].to_vec()),
                Ok(_) => {}
                Err(error) => return drop(self.finish(Err(error))),
            }
            match self.more() {
                Some(more) => next = Cow::Owned(more),
                None => return,
            }
        }
    }

    fn drain(self: &Arc<Self>, rest: Vec<u8>) {
        self.behind.store(true, Ordering::Relaxed);
        let link = Arc::clone(self);
        let thread = std::thread::Builder::new().name("nbd-drain".into()).spawn(move || {
            let mut result = link.socket.send(&rest);
            while result.is_ok()
                && let Some(more) = link.more()
            {
                result = link.send_now(&more);
            }
            drop(link.finish(result));
        });
        if let Err(error) = thread {
            drop(self.finish(Err(error)));
        }
    }

    /// Waits until the client has taken what it left behind, before more is received from it.
    pub(crate) fn settle(&self) {
        if self.behind.load(Ordering::Relaxed) {
            let mut state = lock(&self.state);
            while self.behind.load(Ordering::Relaxed) {
                state = self.retired.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Says farewell under TLS, and closes.
    pub(crate) fn close(&self, polite: bool) {
        if let (true, Some(tls)) = (polite, &self.tls) {
            lock(tls).send_close_notify();
            // The client may be gone, and then nobody misses it.
            let _ = self.send(&[]);
        }
        self.socket.close();
    }

    /// Becomes the sender, or queues the bytes for the one there is.
    fn claim(&self, bytes: &[u8]) -> io::Result<bool> {
        let mut state = lock(&self.state);
        if state.failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if state.sending {
            state.queue.extend(bytes);
            return Ok(false);
        }
        state.sending = true;
        Ok(true)
    }

    /// The sender's next bytes; without any its turn has ended.
    fn more(&self) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        if state.queue.is_empty() {
            self.end_turn(&mut state);
            return None;
        }
        Some(std::mem::take(&mut state.queue))
    }

    fn end_turn(&self, state: &mut State) {
        state.sending = false;
        if self.behind.swap(false, Ordering::Relaxed) {
            self.retired.notify_all();
        }
    }

    /// Ends the connection, if the sender has failed.
    fn finish(&self, result: io::Result<()>) -> io::Result<()> {
        if result.is_err() {
            let mut state = lock(&self.state);
            state.failed = true;
            state.queue = Vec::new();
            self.end_turn(&mut state);
            drop(state);
            self.socket.close();
        }
        result
    }

    /// The sender's alone.
    fn send_now(&self, bytes: &[u8]) -> io::Result<()> {
        if self.tls.is_none() {
            return self.socket.send(bytes);
        }
        let mut chunks = bytes.chunks(SEALED);
        self.socket.send(&self.seal(chunks.next().unwrap_or_default())?)?;
        chunks.try_for_each(|chunk| self.socket.send(&self.seal(chunk)?))
    }

    fn seal<'a>(&self, bytes: &'a [u8]) -> io::Result<Cow<'a, [u8]>> {
        let Some(tls) = &self.tls else { return Ok(Cow::Borrowed(bytes)) };
        let mut tls = lock(tls);
        io::Write::write_all(&mut tls.writer(), bytes)?;
        let mut sealed = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 64);
        while tls.wants_write() {
            tls.write_tls(&mut sealed)?;
        }
        Ok(Cow::Owned(sealed))
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
            self.socket.send(&out)?;
            if tls.is_handshaking() {
                sealed.bytes.resize(32 << 10, 0);
                match self.socket.receive(&mut sealed.bytes, Wait { spin: Duration::ZERO, ..wait })? {
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
                        let _ = self.socket.send(&alert);
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
