//! The requests of the transmission phase, and which of them an export may be asked.

use super::{Fields, REQUEST_MAGIC, transmission};
use crate::{Errno, Failure, Features, Limits};

/// The bytes of a request, before the data of a write.
pub(crate) const HEADER: usize = 28;

pub(crate) const FUA: u16 = 1 << 0;
pub(crate) const NO_HOLE: u16 = 1 << 1;
pub(crate) const DF: u16 = 1 << 2;
pub(crate) const REQ_ONE: u16 = 1 << 3;

/// A request as it came, nothing checked but the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// The client's name for it, which the reply repeats.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// The number that is there in place of the magic.
    pub(crate) fn parse(bytes: &[u8; HEADER]) -> Result<Self, u32> {
        let magic = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mut fields = Fields(&bytes[4..]);
        let request = (|| {
            Some(Self {
                flags: fields.u16()?,
                command: fields.u16()?,
                cookie: fields.u64()?,
                offset: fields.u64()?,
                length: fields.u32()?,
            })
        })();
        request.filter(|_| magic == REQUEST_MAGIC).ok_or(magic)
    }

    /// Whether a flag is set.
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The bytes of data that follow it.
    pub(crate) fn payload(&self) -> usize {
        if self.command == Command::Write as u16 { self.length as usize } else { 0 }
    }
}

/// What a client may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Command {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
    Trim = 4,
    Cache = 5,
    WriteZeroes = 6,
    BlockStatus = 7,
}

impl Command {
    const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Disconnect,
        Self::Flush,
        Self::Trim,
        Self::Cache,
        Self::WriteZeroes,
        Self::BlockStatus,
    ];
}

/// What a connection has agreed on, against which its requests are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) size: u64,
    pub(crate) features: Features,
    pub(crate) limits: Limits,
    /// Structured replies.
    pub(crate) structured: bool,
    /// `base:allocation`.
    pub(crate) allocation: bool,
}

impl Terms {
    /// The transmission flags that tell it. A read-only export says nothing of commands that would write.
    pub(crate) fn flags(&self) -> u16 {
        use transmission::*;
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_CACHE;
        flags |= if self.features.read_only { READ_ONLY } else { SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES };
        flags |= if self.features.rotational { ROTATIONAL } else { 0 };
        flags |= if self.features.multi_conn { CAN_MULTI_CONN } else { 0 };
        flags | if self.structured { SEND_DF } else { 0 }
    }

    /// What a request asks, if it may be asked.
    ///
    /// # Errors
    /// What to tell the client.
    pub(crate) fn check(&self, request: &Request) -> Result<Command, Failure> {
        let invalid = |message: String| Err(Failure { errno: Errno::Invalid, message });
        let Some(&command) = Command::ALL.get(usize::from(request.command)) else {
            return invalid(format!("there is no command {}", request.command));
        };
        // FUA is allowed with every command, as clients are known to set it on any.
        let (df, status) = (if self.structured { DF } else { 0 }, command == Command::BlockStatus);
        let known = FUA
            | match command {
                Command::Read => df,
                Command::WriteZeroes => NO_HOLE,
                Command::BlockStatus => REQ_ONE,
                _ => 0,
            };
        let Request { offset, length, .. } = *request;
        match command {
            Command::Disconnect => return Ok(command),
            _ if request.flags & !known != 0 => {
                return invalid(format!("flags {:#x} do not go with command {}", request.flags, request.command));
            }
            Command::Flush if (offset, length) != (0, 0) => {
                return invalid("a flush has no offset and no length".into());
            }
            Command::Flush => return Ok(command),
            _ => {}
        }
        let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && self.features.read_only {
            return Err(Failure { errno: Errno::NotPermitted, message: "the export is read-only".into() });
        }
        if status && !self.allocation {
            return invalid("block status needs base:allocation, which was not selected".into());
        }
        if length == 0 {
            return invalid("the length is 0".into());
        }
        if offset.checked_add(u64::from(length)).is_none_or(|end| end > self.size) {
            let errno = if writes && command != Command::Trim { Errno::NoSpace } else { Errno::Invalid };
            let message = format!("{length} bytes at {offset} do not lie within the export's {} bytes", self.size);
            return Err(Failure { errno, message });
        }
        let Limits { minimum, maximum, .. } = self.limits;
        if matches!(command, Command::Read | Command::Write) && length > maximum {
            return invalid(format!("{length} bytes are more than the {maximum} that one request may have"));
        }
        let unit = u64::from(minimum.max(1));
        if offset % unit != 0 || u64::from(length) % unit != 0 {
            return invalid(format!("offset {offset} or length {length} is not a multiple of {minimum}"));
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TERMS: Terms = Terms {
        size: 1 << 20,
        features: Features { read_only: false, multi_conn: true, rotational: false },
        limits: Limits { minimum: 1, preferred: 4096, maximum: 65536 },
        structured: true,
        allocation: true,
    };

    fn encode(request: &Request) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&request.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&request.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&request.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&request.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&request.length.to_be_bytes());
        bytes
    }

    fn request(command: Command, flags: u16, offset: u64, length: u32) -> Request {
        Request { flags, command: command as u16, cookie: 7, offset, length }
    }

    fn errno(terms: &Terms, request: Request) -> Option<Errno> {
        terms.check(&request).err().map(|failure| failure.errno)
    }

    #[test]
    fn a_request_is_28_bytes_behind_its_magic() {
        let bytes = *b"\x25\x60\x95\x13\0\x01\0\x06ABCDEFGH\0\0\0\0\0\0\x10\0\0\0\x02\0";
        let expected = Request { flags: FUA, command: 6, cookie: 0x4142_4344_4546_4748, offset: 4096, length: 512 };
        assert_eq!(Request::parse(&bytes), Ok(expected));
        assert_eq!(Request::parse(&[0xff; 28]), Err(u32::MAX));
    }

    #[test]
    fn only_a_write_is_followed_by_data() {
        for command in Command::ALL {
            let expected = if command == Command::Write { 512 } else { 0 };
            assert_eq!(request(command, 0, 0, 512).payload(), expected);
        }
    }

    #[test]
    fn flags_tell_what_may_be_asked() {
        assert_eq!(TERMS.flags(), 0b101_1110_1101);
        let read_only = Features { read_only: true, multi_conn: false, rotational: true };
        assert_eq!(Terms { features: read_only, structured: false, ..TERMS }.flags(), 0b100_0001_0111);
    }

    #[test]
    fn a_range_beyond_the_end_is_no_space_for_what_would_take_it_and_invalid_for_the_rest() {
        for (command, expected) in [
            (Command::Read, Errno::Invalid),
            (Command::Write, Errno::NoSpace),
            (Command::Trim, Errno::Invalid),
            (Command::WriteZeroes, Errno::NoSpace),
            (Command::Cache, Errno::Invalid),
            (Command::BlockStatus, Errno::Invalid),
        ] {
            assert_eq!(errno(&TERMS, request(command, 0, (1 << 20) - 511, 512)), Some(expected), "{command:?}");
            assert_eq!(errno(&TERMS, request(command, 0, u64::MAX, 512)), Some(expected), "{command:?}");
            assert_eq!(errno(&TERMS, request(command, 0, (1 << 20) - 512, 512)), None, "{command:?}");
            assert_eq!(errno(&TERMS, request(command, 0, 0, 0)), Some(Errno::Invalid), "{command:?} of nothing");
        }
    }

    #[test]
    fn each_flag_goes_with_its_command_alone_and_fua_with_all() {
        let owner = |flag| match flag {
            NO_HOLE => Command::WriteZeroes,
            DF => Command::Read,
            _ => Command::BlockStatus,
        };
        for command in Command::ALL.into_iter().filter(|&command| command != Command::Disconnect) {
            let length = if command == Command::Flush { 0 } else { 512 };
            assert_eq!(errno(&TERMS, request(command, FUA, 0, length)), None, "{command:?}");
            for flag in [NO_HOLE, DF, REQ_ONE] {
                let expected = if owner(flag) == command { None } else { Some(Errno::Invalid) };
                assert_eq!(errno(&TERMS, request(command, flag, 0, length)), expected, "{command:?} {flag:#x}");
            }
            assert_eq!(errno(&TERMS, request(command, 1 << 4, 0, length)), Some(Errno::Invalid), "fast zero");
        }
        let simple = Terms { structured: false, ..TERMS };
        assert_eq!(errno(&simple, request(Command::Read, DF, 0, 512)), Some(Errno::Invalid));
    }

    #[test]
    fn a_read_only_export_refuses_what_writes() {
        let terms = Terms { features: Features { read_only: true, ..TERMS.features }, ..TERMS };
        for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
            assert_eq!(errno(&terms, request(command, 0, 0, 512)), Some(Errno::NotPermitted));
        }
        assert_eq!(errno(&terms, request(Command::Flush, 0, 0, 0)), None);
    }

    #[test]
    fn the_sizes_of_requests_are_kept() {
        let terms = Terms { limits: Limits { minimum: 512, preferred: 4096, maximum: 1024 }, ..TERMS };
        assert_eq!(errno(&terms, request(Command::Read, 0, 512, 1024)), None);
        assert_eq!(errno(&terms, request(Command::Read, 0, 512, 1536)), Some(Errno::Invalid));
        assert_eq!(errno(&terms, request(Command::Trim, 0, 512, 1536)), None, "it carries no data");
        assert_eq!(errno(&terms, request(Command::Read, 0, 1, 512)), Some(Errno::Invalid));
        assert_eq!(errno(&terms, request(Command::Write, 0, 0, 511)), Some(Errno::Invalid));
    }

    #[test]
    fn status_unknown_commands_and_flushes_of_ranges_are_invalid() {
        let terms = Terms { allocation: false, ..TERMS };
        assert_eq!(errno(&terms, request(Command::BlockStatus, 0, 0, 512)), Some(Errno::Invalid));
        assert_eq!(errno(&TERMS, request(Command::Flush, 0, 0, 512)), Some(Errno::Invalid));
        assert_eq!(errno(&TERMS, Request { command: 8, ..request(Command::Read, 0, 0, 1) }), Some(Errno::Invalid));
        assert_eq!(terms.check(&request(Command::Disconnect, 0xffff, 1, 1)), Ok(Command::Disconnect));
    }

    proptest! {
        #[test]
        fn a_request_reads_back(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
            let request = Request { flags, command, cookie, offset, length };
            prop_assert_eq!(Request::parse(&encode(&request)), Ok(request));
        }

        #[test]
        fn what_passes_lies_within_the_export(flags in 0u16..32, command in 0u16..10, offset in 0u64..3 << 20, length in 0u32..3 << 20) {
            let request = Request { flags, command, cookie: 0, offset, length };
            if let Ok(command) = TERMS.check(&request) && !matches!(command, Command::Disconnect | Command::Flush) {
                prop_assert!(length > 0 && offset + u64::from(length) <= TERMS.size);
                prop_assert!(length <= TERMS.limits.maximum || !matches!(command, Command::Read | Command::Write));
            }
        }
    }
}
