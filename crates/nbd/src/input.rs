//! What has come from a client and is not used yet.

use crate::error::Close;
use crate::link::{Link, Sealed};
use crate::socket::{Received, Wait};

/// A buffer into which as much is received at a time as there is: many requests with one call.
pub(crate) struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    pub(crate) sealed: Sealed,
}

impl Input {
    /// The most that can be ahead.
    pub(crate) const CAPACITY: usize = 64 << 10;

    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; Self::CAPACITY].into(), start: 0, end: 0, sealed: Sealed::default() }
    }

    /// What is there.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Passes over some of it.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Receives more behind what is there, which must leave room.
    pub(crate) fn fill(&mut self, link: &Link, wait: Wait<'_>) -> std::io::Result<Received> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let received = link.receive(&mut self.sealed, &mut self.bytes[self.end..], wait)?;
        if let Received::Bytes(count) = received {
            self.end += count;
        }
        Ok(received)
    }

    /// Receives until there are `count` bytes, at most the capacity.
    pub(crate) fn need(&mut self, count: usize, link: &Link, wait: Wait<'_>) -> Result<(), Close> {
        while self.ahead().len() < count {
            match self.fill(link, wait)? {
                Received::Bytes(_) => {}
                Received::End if self.ahead().is_empty() => return Err(Close::Finished),
                Received::End => return Err(Close::Malformed("it ends in the middle of a message".into())),
                Received::Nothing if wait.stop.told() => return Err(Close::Stopping),
                Received::Nothing => return Err(Close::Late),
            }
        }
        Ok(())
    }
}
