//! What the kernel gets: each request is answered once.
//!
//! A request that is dropped unanswered, as a thread panics, is answered with `EIO`: no program waits for ever. Where the kernel wants an
//! answer no more, since its program was killed meanwhile, sending says so: what the answer would have handed over (a lookup, an open
//! file) is taken back then.

use super::channel::Channel;
use super::errno::Errno;
use super::under_way::UnderWay;
use crate::attributes::Attributes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the kernel may keep names and attributes before it asks again, in seconds.
const BELIEVED: u64 = 1;

/// Bytes of an answer's header, and the most that a fixed answer has behind it.
const HEADER: usize = 16;
const MOST_FIXED: usize = 288;

// What the answer to `FUSE_OPEN` says of the open file.
pub(crate) const DIRECT_IO: u32 = 1 << 0;
pub(crate) const KEEP_CACHE: u32 = 1 << 1;
pub(crate) const NO_FLUSH: u32 = 1 << 5;
pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// An open file, as an answer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) handle: u64,
    pub(crate) how: u32,
}

/// How full a file system is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) available: u64,
    pub(crate) files: u64,
    pub(crate) free_files: u64,
    pub(crate) block_size: u32,
    pub(crate) fragment_size: u32,
    pub(crate) longest_name: u32,
}

/// The kernel wants the answer no more.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what the answer has handed over is to be taken back"]
pub(crate) struct Unwanted(pub(crate) bool);

/// An answer to a request.
pub(crate) struct Reply {
    channel: Arc<Channel>,
    unique: u64,
    node: u64,
    received: Instant,
    answered: bool,
    /// The request has left the thread that received it.
    waits: Option<Arc<UnderWay>>,
}

/// Numbers of a fixed answer, one behind the other.
pub(super) struct Fixed {
    bytes: [u8; MOST_FIXED],
    length: usize,
}

impl Fixed {
    pub(super) fn new() -> Self {
        Self { bytes: [0; MOST_FIXED], length: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    pub(super) fn half(&mut self, number: u16) {
        self.put(&number.to_ne_bytes());
    }

    pub(super) fn word(&mut self, number: u32) {
        self.put(&number.to_ne_bytes());
    }

    pub(super) fn long(&mut self, number: u64) {
        self.put(&number.to_ne_bytes());
    }

    pub(super) fn zeroes(&mut self, count: usize) {
        self.length += count;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn attributes(&mut self, of: &Attributes) {
        for number in [of.number, of.size, of.blocks] {
            self.long(number);
        }
        for time in [of.accessed, of.modified, of.changed] {
            self.long(time.seconds as u64);
        }
        for time in [of.accessed, of.modified, of.changed] {
            self.word(time.nanoseconds);
        }
        for number in [of.mode, of.links, of.user, of.group, of.encoded_device(), of.block_size, 0] {
            self.word(number);
        }
    }

    /// `struct fuse_statx_out`.
    fn all_attributes(&mut self, of: &Attributes) {
        self.long(BELIEVED);
        self.zeroes(4 + 4 + 16);
        self.word(of.known());
        self.word(of.block_size);
        self.long(0);
        for number in [of.links, of.user, of.group] {
            self.word(number);
        }
        self.half(of.mode as u16);
        self.zeroes(2);
        for number in [of.number, of.size, of.blocks, 0] {
            self.long(number);
        }
        for time in [of.accessed, of.born.unwrap_or_default(), of.changed, of.modified] {
            self.long(time.seconds as u64);
            self.word(time.nanoseconds);
            self.zeroes(4);
        }
        self.word(of.device.0);
        self.word(of.device.1);
        self.zeroes(8 + 14 * 8);
    }

    /// `struct fuse_entry_out`.
    fn entry(&mut self, of: &Attributes) {
        self.long(of.number);
        // Numbers are not given twice, so all are of one generation.
        self.long(0);
        self.long(BELIEVED);
        self.long(BELIEVED);
        self.zeroes(8);
        self.attributes(of);
    }

    /// `struct fuse_open_out`.
    fn opened(&mut self, opened: Opened) {
        self.long(opened.handle);
        self.word(opened.how);
        self.zeroes(4);
    }
}

impl Reply {
    /// `node`: the file that the request is about; 0 for none.
    pub(super) fn new(channel: &Arc<Channel>, unique: u64, node: u64) -> Self {
        Self { channel: Arc::clone(channel), unique, node, received: Instant::now(), answered: false, waits: None }
    }

    /// For a request that is not answered.
    pub(super) fn none(channel: &Arc<Channel>) -> Self {
        Self { channel: Arc::clone(channel), unique: 0, node: 0, received: Instant::now(), answered: true, waits: None }
    }

    /// The request goes to another thread, which may wait; a thread of a program waits for the answer.
    pub(crate) fn hand_over(&mut self, under_way: &Arc<UnderWay>, thread: u32) {
        under_way.add(self.unique, self.node, &self.channel, thread);
        self.waits = Some(Arc::clone(under_way));
    }

    /// How long ago the request was received.
    pub(crate) fn age(&self) -> Duration {
        self.received.elapsed()
    }

    fn send(&mut self, error: i32, parts: [&[u8]; 2]) -> Unwanted {
        self.answered = true;
        if let Some(under_way) = self.waits.take() {
            under_way.remove(self.unique);
        }
        self.channel.answer(self.unique, error, parts)
    }

    /// Answers with a fixed structure.
    fn fixed(mut self, fill: impl FnOnce(&mut Fixed)) -> Unwanted {
        let mut fixed = Fixed::new();
        fill(&mut fixed);
        self.send(0, [fixed.bytes(), &[]])
    }

    /// Answers that it cannot be done. An error hands nothing over.
    pub(crate) fn error(mut self, errno: Errno) {
        let Unwanted(_) = self.send(-errno.code(), [&[], &[]]);
    }

    /// Answers that it is done, or why not.
    pub(crate) fn done(mut self, done: Result<(), Errno>) {
        match done {
            Ok(()) => {
                let Unwanted(_) = self.send(0, [&[], &[]]);
            }
            Err(errno) => self.error(errno),
        }
    }

    /// Answers with bytes: of a file, of names, or the target of a link.
    pub(crate) fn bytes(mut self, bytes: &[u8]) {
        let Unwanted(_) = self.send(0, [bytes, &[]]);
    }

    /// Answers with the entries of a directory. If the answer is unwanted, the lookups in it have not been made.
    pub(crate) fn entries(mut self, entries: &Entries) -> Unwanted {
        self.send(0, [&entries.bytes, &[]])
    }

    /// Answers with a number: so many bytes were written, or an attribute is so long.
    pub(crate) fn count(self, count: u32) {
        let Unwanted(_) = self.fixed(|fixed| {
            fixed.word(count);
            fixed.zeroes(4);
        });
    }

    /// Answers with a place in a file.
    pub(crate) fn offset(self, offset: u64) {
        let Unwanted(_) = self.fixed(|fixed| fixed.long(offset));
    }

    /// Answers a lookup, or that a name was made. If the answer is unwanted, the kernel does not know the file by it.
    pub(crate) fn entry(self, of: &Attributes) -> Unwanted {
        self.fixed(|fixed| fixed.entry(of))
    }

    /// Answers with a file that was made and opened.
    pub(crate) fn created(self, of: &Attributes, opened: Opened) -> Unwanted {
        self.fixed(|fixed| {
            fixed.entry(of);
            fixed.opened(opened);
        })
    }

    /// Answers that a file or directory is open.
    pub(crate) fn opened(self, opened: Opened) -> Unwanted {
        self.fixed(|fixed| fixed.opened(opened))
    }

    pub(crate) fn attributes(self, of: &Attributes) {
        let Unwanted(_) = self.fixed(|fixed| {
            fixed.long(BELIEVED);
            fixed.zeroes(8);
            fixed.attributes(of);
        });
    }

    /// With the time of birth.
    pub(crate) fn all_attributes(self, of: &Attributes) {
        let Unwanted(_) = self.fixed(|fixed| fixed.all_attributes(of));
    }

    pub(crate) fn space(self, of: &Space) {
        let Unwanted(_) = self.fixed(|fixed| {
            for number in [of.blocks, of.free, of.available, of.files, of.free_files] {
                fixed.long(number);
            }
            for number in [of.block_size, of.longest_name, of.fragment_size] {
                fixed.word(number);
            }
            fixed.zeroes(4 + 24);
        });
    }

    /// Answers an `ioctl` that hands nothing back.
    pub(crate) fn controlled(self) {
        let Unwanted(_) = self.fixed(|fixed| fixed.zeroes(16));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            let Unwanted(_) = self.send(-libc::EIO, [&[], &[]]);
        }
    }
}

/// The entries of a directory, as many as there is room for.
pub(crate) struct Entries {
    bytes: Vec<u8>,
    room: usize,
}

impl Entries {
    pub(crate) fn new(room: u32) -> Self {
        Self { bytes: Vec::with_capacity(room as usize), room: room as usize }
    }

    /// Adds a name, with the number and kind of its file and the place of the next name: `struct fuse_dirent`. `false`: there is no room.
    ///
    /// Where attributes are asked for (`struct fuse_direntplus`), `of` has them, and that counts as a lookup of the kernel; or they are
    /// all zeroes, which says that the name is all.
    pub(crate) fn add(&mut self, name: &[u8], file: (u64, u32), next: u64, of: Option<&Attributes>) -> bool {
        let mut fixed = Fixed::new();
        if let Some(of) = of {
            fixed.entry(of);
        }
        let (number, mode) = file;
        fixed.long(number);
        fixed.long(next);
        fixed.word(name.len() as u32);
        fixed.word((mode & libc::S_IFMT) >> 12);
        let length = (fixed.bytes().len() + name.len()).next_multiple_of(8);
        if self.bytes.len() + length > self.room {
            return false;
        }
        let end = self.bytes.len() + length;
        self.bytes.extend_from_slice(fixed.bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }
}

/// The header of an answer.
pub(super) fn header(length: usize, error: i32, unique: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&((HEADER + length) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}
