//! Bytes in and out, with spinning, deadlines and a way to be called off.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use crate::budget::{Hurry, Purse};
use crate::spin::{PAUSES, Spin};

/// How often a connection checks, once the server stops, whether it can end.
const MOMENT: Duration = Duration::from_millis(5);

/// Calls off what waits, once and for all.
#[derive(Debug)]
pub(crate) struct Stop {
    told: AtomicBool,
    /// Readable for everybody from the moment that the writing end is dropped.
    waiting: io::PipeReader,
    writer: Mutex<Option<io::PipeWriter>>,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        let (waiting, writer) = io::pipe()?;
        Ok(Self { told: AtomicBool::new(false), waiting, writer: Mutex::new(Some(writer)) })
    }

    pub(crate) fn tell(&self) {
        self.told.store(true, Ordering::SeqCst);
        if let Ok(mut writer) = self.writer.lock() {
            *writer = None;
        }
    }

    pub(crate) fn told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Waits until a descriptor is readable. `false`: the server stops, or the deadline has passed. If the server was stopping before, it waits for
    /// a moment only.
    pub(crate) fn wait_readable(&self, fd: impl AsFd, deadline: Option<Instant>) -> io::Result<bool> {
        let mut fds = [PollFd::new(&fd, PollFlags::IN), PollFd::new(&self.waiting, PollFlags::IN)];
        // Once the server stops, the pipe would end every wait at once. The deadline may have been set before.
        let moment = self.told().then(|| Instant::now() + MOMENT);
        let watched = if moment.is_some() { 1 } else { 2 };
        let deadline = deadline.into_iter().chain(moment).min();
        Ok(wait(&mut fds[..watched], deadline)? && !fds[0].revents().is_empty())
    }

    /// Waits until a descriptor is readable, or it is told; also if it was told before.
    pub(crate) fn wait_readable_or_stop(&self, fd: impl AsFd) -> io::Result<bool> {
        let mut fds = [PollFd::new(&fd, PollFlags::IN), PollFd::new(&self.waiting, PollFlags::IN)];
        Ok(wait(&mut fds, None)? && !fds[0].revents().is_empty())
    }
}

/// Waits until one of several descriptors is ready; `false` at the deadline.
fn wait(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(fds, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(ready) => return Ok(ready > 0),
        }
    }
}

/// How long to wait for bytes.
#[derive(Clone, Copy)]
pub(crate) struct Wait<'a> {
    /// Whether to ask again and again before sleeping.
    pub(crate) spin: Option<&'a Spin<'a>>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) stop: &'a Stop,
}

/// How fast the other side must take a message.
pub(crate) struct Pace<'a> {
    /// It may take nothing for so long.
    rest: Duration,
    /// The message as a whole may take so long.
    whole: Duration,
    /// When it must be over in any case. Counted from the first time that it is not taken at once.
    until: Option<Instant>,
    /// Whose memory it holds.
    purse: Option<&'a Arc<Purse>>,
    waiting: Option<Waiting>,
}

/// A message that was not taken at once.
struct Waiting {
    /// When it must be over.
    until: Instant,
    /// When something more must have been taken.
    rest: Instant,
    hurry: Option<Hurry>,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(
        rest: Duration,
        whole: Duration,
        deadline: Option<Instant>,
        purse: Option<&'a Arc<Purse>>,
    ) -> Self {
        Self { rest, whole, until: deadline, purse, waiting: None }
    }

    /// Some bytes more have been taken, and not all. When to look again; `None`: it takes too long.
    fn next(&mut self, taken: usize) -> Option<Instant> {
        let now = Instant::now();
        let waiting = self.waiting.get_or_insert_with(|| {
            let end = now + self.whole;
            Waiting {
                until: self.until.map_or(end, |deadline| deadline.min(end)),
                rest: now + self.rest,
                hurry: self.purse.map(Hurry::new),
            }
        });
        if taken > 0 {
            waiting.rest = now + self.rest;
        }
        let end = waiting.until.min(waiting.rest);
        let slow = waiting.hurry.as_mut().is_some_and(|hurry| hurry.is_slow(taken));
        let next = waiting.hurry.as_ref().map_or(end, |hurry| end.min(hurry.next()));
        (now < end && !slow).then_some(next)
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes(usize),
    /// The other side has closed.
    End,
    /// Told to stop, or the deadline has passed.
    Nothing,
}

/// A stream socket, or what stands for one in a test.
pub(crate) trait Socket: Send + Sync {
    /// Takes what has come, or waits for it.
    fn receive(&self, buffer: &mut [u8], wait: Wait<'_>) -> io::Result<Received>;

    /// Sends all, if need be waiting for the other side to take it, as long as it keeps the pace.
    fn send(&self, bytes: &[u8], pace: &mut Pace<'_>) -> io::Result<()>;

    /// Sends what goes without waiting, and says how much it was.
    fn offer(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Whether something has come.
    fn readable(&self) -> bool;

    /// Ends both directions; whoever waits returns.
    fn close(&self);
}

/// A socket of the system: TCP or unix.
pub(crate) struct SystemSocket(pub(crate) OwnedFd);

impl SystemSocket {
    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        loop {
            return match rustix::net::recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => Ok(Some(Received::End)),
                Ok((count, _)) => Ok(Some(Received::Bytes(count))),
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
    }
}

impl Socket for SystemSocket {
    fn receive(&self, buffer: &mut [u8], wait: Wait<'_>) -> io::Result<Received> {
        if let Some(received) = self.take(buffer)? {
            return Ok(received);
        }
        if let Some(turn) = wait.spin.and_then(Spin::turn) {
            while turn.goes_on() {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
                if let Some(received) = self.take(buffer)? {
                    turn.end(true);
                    return Ok(received);
                }
            }
            turn.end(false);
        }
        let begin = Instant::now();
        while wait.stop.wait_readable(&self.0, wait.deadline)? {
            if let Some(received) = self.take(buffer)? {
                wait.spin.into_iter().for_each(|spin| spin.slept(begin.elapsed()));
                return Ok(received);
            }
        }
        Ok(Received::Nothing)
    }

    fn send(&self, mut bytes: &[u8], pace: &mut Pace<'_>) -> io::Result<()> {
        loop {
            let taken = self.offer(bytes)?;
            bytes = &bytes[taken..];
            if bytes.is_empty() {
                return Ok(());
            }
            let Some(next) = pace.next(taken) else {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take what it has asked for"));
            };
            wait(&mut [PollFd::new(&self.0, PollFlags::OUT)], Some(next))?;
        }
    }

    fn offer(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::net::send(&self.0, &bytes[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }

    fn readable(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn close(&self) {
        // It may be closed already, which is what is wanted.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_that_begins_after_the_stop_ends_after_a_moment_or_with_bytes() {
        let (socket, mut other) = UnixStream::pair().expect("a pair");
        let stop = Stop::new().expect("a pipe");
        stop.tell();
        let (answer, answered) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let nothing = stop.wait_readable(&socket, None).expect("a wait");
            io::Write::write_all(&mut other, b"x").expect("a byte");
            let something = stop.wait_readable(&socket, None).expect("a wait");
            let _ = answer.send((nothing, something));
        });
        let waited =
            answered.recv_timeout(Duration::from_secs(30)).expect("it waits for ever: nobody calls it off again");
        assert_eq!(waited, (false, true));
    }
}
