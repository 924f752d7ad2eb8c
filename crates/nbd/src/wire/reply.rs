//! The replies of the transmission phase, gathered in a buffer that is sent whole.

use std::sync::Arc;

use super::request::Request;
use super::{
    EXTENDED_REPLY_MAGIC, Form, SIMPLE_REPLY_MAGIC, STRING_LIMIT, STRUCTURED_REPLY_MAGIC, option::BASE_ALLOCATION_ID,
};
use crate::budget::{Budget, Lease};
use crate::buffer::{Buffer, SHORT};
use crate::link::Parcel;
use crate::{Extent, Failure};

const DONE: u16 = 1 << 0;
const NONE: u16 = 0;
const OFFSET_DATA: u16 = 1;
const BLOCK_STATUS: u16 = 5;
const BLOCK_STATUS_EXTENDED: u16 = 6;
const ERROR: u16 = 1 << 15 | 1;

const HOLE: u32 = 1 << 0;
const ZERO: u32 = 1 << 1;

/// The most bytes before the data of a reply.
const MOST_HEAD: usize = 32 + 8;

/// The most extents in one reply; the protocol lets a server tell less than was asked.
pub(crate) const EXTENTS: usize = 8192;

/// Replies in the order in which they go out. The storage keeps its initialised bytes, so that room for data that is going to be
/// overwritten is not zeroed each time.
#[derive(Default)]
pub(crate) struct Replies {
    storage: Buffer,
    length: usize,
    /// What was agreed on.
    form: Form,
}

impl Replies {
    pub(crate) fn new(form: Form) -> Self {
        Self { storage: Buffer::default(), length: 0, form }
    }

    /// What is to be sent.
    #[cfg(test)]
    fn bytes(&self) -> &[u8] {
        &self.storage[..self.length]
    }

    /// How much that is.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Forgets what follows the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Forgets all, for a connection that agreed on a form.
    pub(crate) fn reset(&mut self, form: Form) {
        self.length = 0;
        self.form = form;
    }

    /// What is to be sent, and is accounted for by `lease` until it is. Long storage goes with it; short storage is kept for the next.
    pub(crate) fn parcel(&mut self, lease: Option<Lease>) -> Parcel<'_> {
        let length = std::mem::take(&mut self.length);
        if self.storage.len() > SHORT {
            return Parcel::owned(std::mem::take(&mut self.storage), length, lease);
        }
        Parcel::borrowed(&self.storage[..length], lease)
    }

    /// Makes room for the data of a long reply, whose memory has been taken.
    pub(crate) fn make_room(&mut self, request: &Request, budget: &Arc<Budget>) {
        let length = request.length as usize + MOST_HEAD;
        if length > SHORT && self.length == 0 {
            self.storage = budget.buffer(length);
        }
    }

    fn room(&mut self, count: usize) -> &mut [u8] {
        let start = self.length;
        self.length += count;
        if self.storage.len() < self.length {
            let grown = (2 * self.storage.len()).min(SHORT);
            let mut storage = vec![0; self.length.max(grown)];
            storage[..start].copy_from_slice(&self.storage[..start]);
            self.storage = Buffer::Heap(storage);
        }
        &mut self.storage[start..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    fn simple(&mut self, request: &Request, error: u32) {
        self.push(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        self.push(&error.to_be_bytes());
        self.push(&request.cookie.to_be_bytes());
    }

    /// The head of a chunk that is the whole reply.
    fn chunk(&mut self, kind: u16, request: &Request, length: usize) {
        let extended = self.form == Form::Extended;
        let mut head = [0; 32];
        let magic = if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        head[..4].copy_from_slice(&magic.to_be_bytes());
        head[4..6].copy_from_slice(&DONE.to_be_bytes());
        head[6..8].copy_from_slice(&kind.to_be_bytes());
        head[8..16].copy_from_slice(&request.cookie.to_be_bytes());
        if extended {
            head[16..24].copy_from_slice(&request.offset.to_be_bytes());
            head[24..].copy_from_slice(&(length as u64).to_be_bytes());
            self.push(&head);
        } else {
            head[16..20].copy_from_slice(&(length as u32).to_be_bytes());
            self.push(&head[..20]);
        }
    }

    /// A reply with the data that was asked for, whose bytes the caller fills in.
    pub(crate) fn data(&mut self, request: &Request) -> &mut [u8] {
        let count = request.length as usize;
        if self.form == Form::Simple {
            self.simple(request, 0);
        } else {
            self.chunk(OFFSET_DATA, request, count + 8);
            self.push(&request.offset.to_be_bytes());
        }
        self.room(count)
    }

    /// A reply that all is well, to a request that gives nothing back. Those may be simple beside structured ones, and a client
    /// takes a simple one with fewer calls.
    pub(crate) fn done(&mut self, request: &Request) {
        if self.form == Form::Extended { self.chunk(NONE, request, 0) } else { self.simple(request, 0) }
    }

    /// A reply that it has failed.
    pub(crate) fn error(&mut self, request: &Request, failure: &Failure) {
        let errno = failure.errno as u32;
        if self.form == Form::Simple {
            return self.simple(request, errno);
        }
        let whole = &failure.message;
        let end = (0..=whole.len().min(STRING_LIMIT)).rev().find(|&end| whole.is_char_boundary(end));
        let message = &whole[..end.unwrap_or(0)];
        self.chunk(ERROR, request, 6 + message.len());
        self.push(&errno.to_be_bytes());
        self.push(&(message.len() as u16).to_be_bytes());
        self.push(message.as_bytes());
    }

    /// A reply with what is known of the range that was asked for: neighbours of one kind make one extent, and what lies beyond
    /// the range is left out.
    pub(crate) fn status(&mut self, request: &Request, extents: &[Extent], one: bool) {
        let mut told: Vec<(u64, u32)> = Vec::new();
        let most = if one { 1 } else { EXTENTS };
        let mut left = request.length;
        for extent in extents {
            let length = extent.length.min(left);
            let flags = if extent.hole { HOLE } else { 0 } | if extent.zero { ZERO } else { 0 };
            left -= length;
            if length == 0 {
                continue;
            }
            let full = told.len() == most;
            match told.last_mut() {
                Some(last) if last.1 == flags => last.0 += length,
                _ if full => break,
                _ => told.push((length, flags)),
            }
        }
        if told.is_empty() {
            // At least one is due, and no flag promises nothing.
            told.push((request.length, 0));
        }
        if self.form == Form::Extended {
            self.chunk(BLOCK_STATUS_EXTENDED, request, 8 + 16 * told.len());
            self.push(&BASE_ALLOCATION_ID.to_be_bytes());
            self.push(&(told.len() as u32).to_be_bytes());
            for (length, flags) in told {
                self.push(&length.to_be_bytes());
                self.push(&u64::from(flags).to_be_bytes());
            }
        } else {
            self.chunk(BLOCK_STATUS, request, 4 + 8 * told.len());
            self.push(&BASE_ALLOCATION_ID.to_be_bytes());
            for (length, flags) in told {
                // Within the request, whose length has 32 bits.
                self.push(&(length as u32).to_be_bytes());
                self.push(&flags.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;
    use proptest::prelude::*;

    /// A request for this many bytes from 9 on.
    fn asked(length: u64) -> Request {
        Request { flags: 0, command: 0, cookie: 0x4142_4344_4546_4748, offset: 9, length, payload: 0 }
    }

    fn replies(form: Form, fill: impl FnOnce(&mut Replies)) -> Vec<u8> {
        let mut replies = Replies::new(form);
        fill(&mut replies);
        replies.bytes().to_vec()
    }

    #[test]
    fn a_simple_reply_is_magic_error_and_cookie() {
        assert_eq!(replies(Form::Simple, |r| r.done(&asked(0))), b"\x67\x44\x66\x98\0\0\0\0ABCDEFGH");
        let failure = Failure { errno: Errno::NoSpace, message: "full".into() };
        assert_eq!(replies(Form::Simple, |r| r.error(&asked(0), &failure)), b"\x67\x44\x66\x98\0\0\0\x1cABCDEFGH");
        assert_eq!(
            replies(Form::Simple, |r| r.data(&asked(3)).copy_from_slice(b"xyz")),
            b"\x67\x44\x66\x98\0\0\0\0ABCDEFGHxyz"
        );
    }

    #[test]
    fn a_structured_reply_is_one_chunk_that_is_done_and_a_simple_one_where_it_says_nothing() {
        assert_eq!(replies(Form::Structured, |r| r.done(&asked(0))), b"\x67\x44\x66\x98\0\0\0\0ABCDEFGH");
        let failure = Failure { errno: Errno::NotSupported, message: "no".into() };
        assert_eq!(
            replies(Form::Structured, |r| r.error(&asked(0), &failure)),
            b"\x66\x8e\x33\xef\0\x01\x80\x01ABCDEFGH\0\0\0\x08\0\0\0\x5f\0\x02no"
        );
        assert_eq!(
            replies(Form::Structured, |r| r.data(&asked(3)).copy_from_slice(b"xyz")),
            b"\x66\x8e\x33\xef\0\x01\0\x01ABCDEFGH\0\0\0\x0b\0\0\0\0\0\0\0\x09xyz"
        );
    }

    #[test]
    fn a_status_joins_neighbours_and_ends_with_the_range() {
        let extent = |length, hole, zero| Extent { length, hole, zero };
        let extents =
            [extent(5, false, false), extent(3, false, false), extent(4, true, true), extent(u64::MAX, false, true)];
        assert_eq!(
            replies(Form::Structured, |r| r.status(&asked(16), &extents, false)),
            b"\x66\x8e\x33\xef\0\x01\0\x05ABCDEFGH\0\0\0\x1c\0\0\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x04\0\0\0\x03\0\0\0\x04\0\0\0\x02"
        );
        assert_eq!(
            replies(Form::Structured, |r| r.status(&asked(16), &extents, true)),
            b"\x66\x8e\x33\xef\0\x01\0\x05ABCDEFGH\0\0\0\x0c\0\0\0\x01\0\0\0\x08\0\0\0\0"
        );
        assert_eq!(
            replies(Form::Structured, |r| r.status(&asked(16), &[], false)),
            b"\x66\x8e\x33\xef\0\x01\0\x05ABCDEFGH\0\0\0\x0c\0\0\0\x01\0\0\0\x10\0\0\0\0"
        );
    }

    #[test]
    fn an_extended_reply_repeats_the_offset_and_has_lengths_of_64_bits() {
        let head = |kind: u8, length: u8| {
            [b"\x6e\x8a\x27\x8c\0\x01\0", &[kind][..], b"ABCDEFGH\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0", &[length]].concat()
        };
        assert_eq!(replies(Form::Extended, |r| r.done(&asked(0))), head(0, 0));
        assert_eq!(
            replies(Form::Extended, |r| r.data(&asked(3)).copy_from_slice(b"xyz")),
            [&head(1, 11)[..], b"\0\0\0\0\0\0\0\x09xyz"].concat()
        );
        let extents =
            [Extent { length: 5 << 30, hole: true, zero: true }, Extent { length: 7, hole: false, zero: false }];
        assert_eq!(
            replies(Form::Extended, |r| r.status(&asked((5 << 30) + 7), &extents, false)),
            [
                &head(6, 40)[..],
                b"\0\0\0\x01\0\0\0\x02\0\0\0\x01\x40\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0"
            ]
            .concat()
        );
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Failure { errno: Errno::Io, message: "é".repeat(4000) };
        let bytes = replies(Form::Structured, |r| r.error(&asked(0), &failure));
        assert_eq!(bytes.len(), 20 + 6 + 4096);
        assert!(std::str::from_utf8(&bytes[26..]).is_ok());
    }

    #[test]
    fn a_reply_that_is_taken_back_leaves_the_ones_before() {
        let mut replies = Replies::new(Form::Simple);
        replies.done(&asked(0));
        let mark = replies.len();
        replies.data(&asked(4096));
        replies.truncate(mark);
        replies.done(&Request { cookie: 3, ..asked(0) });
        assert_eq!(replies.len(), 32);
        assert_eq!(replies.bytes()[31], 3);
    }

    proptest! {
        #[test]
        fn a_status_never_tells_more_than_the_range(length in 1u32.., lengths: Vec<u64>, one: bool) {
            let extents: Vec<_> =
                lengths.iter().map(|&length| Extent { length, hole: length % 2 == 0, zero: length % 3 == 0 }).collect();
            let bytes = replies(Form::Structured, |r| r.status(&asked(length.into()), &extents, one));
            let told = bytes[24..].as_chunks::<8>().0.iter().map(|pair| u64::from(u32::from_be_bytes([pair[0], pair[1], pair[2], pair[3]])));
            let told: Vec<_> = told.collect();
            prop_assert!(!told.is_empty() && told.iter().all(|&length| length > 0));
            prop_assert!(told.iter().sum::<u64>() <= u64::from(length));
            prop_assert!(!one || told.len() == 1);
        }
    }
}
