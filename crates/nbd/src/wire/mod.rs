//! The bytes of the protocol, as its public text has them (doc/proto.md of NetworkBlockDevice/nbd): numbers are big-endian.
//! Functions over slices, without input or output.

pub(crate) mod option;
pub(crate) mod reply;
pub(crate) mod request;

/// The first eight bytes of a server: `NBDMAGIC`.
pub(crate) const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: follows the first, and begins every option of a client.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins every reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins every request.
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins an extended request.
pub(crate) const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Begins a simple reply.
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Begins a chunk of an extended reply.
pub(crate) const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// The forms of requests and replies; a client asks for those above the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    #[default]
    Simple,
    /// Replies in chunks, that say what they are.
    Structured,
    /// The same, with lengths of 64 bits.
    Extended,
}

/// Handshake flags, of the server (16 bits) and the client (32 bits) alike.
pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
pub(crate) const NO_ZEROES: u16 = 1 << 1;

/// What may be asked of an export.
pub(crate) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// The strings of the protocol are no longer than this.
pub(crate) const STRING_LIMIT: usize = 4096;

/// A reader of big-endian numbers from the front of a slice; `None` once it is too short.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string behind its length.
    pub(crate) fn string(&mut self) -> Result<&'a str, &'static str> {
        let length = self.u32().ok_or("the option is too short")? as usize;
        let bytes = self.bytes(length).ok_or("a string is longer than the option")?;
        text(bytes)
    }
}

/// A name or query.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, &'static str> {
    if bytes.len() > STRING_LIMIT {
        return Err("a string is longer than 4096 bytes");
    }
    std::str::from_utf8(bytes).map_err(|_| "a string is not UTF-8")
}
