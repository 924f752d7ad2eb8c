//! A client that says what it is told to, one request after the other.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::io::{ErrorKind, Read, Write};

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const CACHE: u16 = 5;
pub(crate) const TRIM: u16 = 4;

/// A flag of requests.
pub(crate) const FUA: u16 = 1;

pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ESHUTDOWN: u32 = 108;

/// What a request came to: data, or an error's number.
pub(crate) type Outcome = Result<Vec<u8>, u32>;

/// An option with its data.
pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

pub(crate) struct Client<S> {
    stream: S,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream }
    }

    /// Chooses an export, without structured replies.
    pub(crate) fn enter(stream: S, export: &str) -> Self {
        let mut client = Self::new(stream);
        assert_eq!(client.expect(18), b"NBDMAGICIHAVEOPT\0\x03");
        client.raw(&3u32.to_be_bytes());
        client.choose(export);
        client
    }

    pub(crate) fn choose(&mut self, export: &str) {
        self.raw(&option(1, export.as_bytes()));
        self.expect(10);
    }

    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes it");
    }

    pub(crate) fn expect(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("the server says more");
        bytes
    }

    /// Whether the server has closed, with nothing more to say.
    pub(crate) fn ended(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            // Those are of a client that has waited in vain.
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    pub(crate) fn send(&mut self, command: u16, cookie: u64, offset: u64, length: u32, data: &[u8]) {
        self.send_with(0, command, cookie, offset, length, data);
    }

    /// The same with flags.
    pub(crate) fn send_with(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u32, data: &[u8]) {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.raw(&request);
    }

    /// The cookie and outcome of the next reply, which has `length` bytes of data if it is well.
    pub(crate) fn receive(&mut self, length: usize) -> (u64, Outcome) {
        let head = self.expect(16);
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let cookie = head[8..].iter().fold(0, |cookie, &byte| cookie << 8 | u64::from(byte));
        (cookie, if error == 0 { Ok(self.expect(length)) } else { Err(error) })
    }

    /// A request and its outcome, while none other is answered.
    pub(crate) fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> Outcome {
        self.send(command, 77, offset, length, data);
        let (cookie, outcome) = self.receive(if command == READ { length as usize } else { 0 });
        assert_eq!(cookie, 77);
        outcome
    }
}
