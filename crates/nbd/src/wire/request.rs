//! The requests of the transmission phase, and which of them an export may be asked.

use super::{EXTENDED_REQUEST_MAGIC, Fields, Form, REQUEST_MAGIC, transmission};
use crate::{Errno, Failure, Features, Limits};

/// The bytes of a request, before its data.
pub(crate) fn header(form: Form) -> usize {
    if form == Form::Extended { 32 } else { 28 }
}

pub(crate) const FUA: u16 = 1 << 0;
pub(crate) const NO_HOLE: u16 = 1 << 1;
pub(crate) const DF: u16 = 1 << 2;
pub(crate) const REQ_ONE: u16 = 1 << 3;
pub(crate) const FAST_ZERO: u16 = 1 << 4;
/// Of extended requests: the length is that of the data that follow.
pub(crate) const PAYLOAD_LEN: u16 = 1 << 5;

/// A request as it came, nothing checked but the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// The client's name for it, which the reply repeats.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The bytes of data that follow it.
    pub(crate) payload: u64,
}

impl Request {
    /// Reads the header of a request.
    ///
    /// # Errors
    /// The number that is there in place of the magic.
    pub(crate) fn parse(bytes: &[u8], form: Form) -> Result<Self, u32> {
        let extended = form == Form::Extended;
        let expected = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        let mut fields = Fields(bytes);
        let magic = fields.u32().unwrap_or_default();
        let request = (|| {
            let (flags, command) = (fields.u16()?, fields.u16()?);
            let (cookie, offset) = (fields.u64()?, fields.u64()?);
            let length = if extended { fields.u64()? } else { fields.u32()?.into() };
            let data = if extended { flags & PAYLOAD_LEN != 0 } else { command == Command::Write as u16 };
            Some(Self { flags, command, cookie, offset, length, payload: if data { length } else { 0 } })
        })();
        request.filter(|_| magic == expected).ok_or(magic)
    }

    /// Whether a flag is set.
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
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
    /// The form of requests and replies.
    pub(crate) form: Form,
    /// `base:allocation`.
    pub(crate) allocation: bool,
}

impl Terms {
    /// The transmission flags that tell it. A read-only export says nothing of commands that would write.
    pub(crate) fn flags(&self) -> u16 {
        use transmission::*;
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_CACHE;
        flags |= if self.features.read_only { READ_ONLY } else { SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES };
        let fast_zero = self.features.fast_zero && !self.features.read_only;
        flags |= if fast_zero { SEND_FAST_ZERO } else { 0 };
        flags |= if self.features.rotational { ROTATIONAL } else { 0 };
        flags |= if self.features.multi_conn { CAN_MULTI_CONN } else { 0 };
        flags | if self.form >= Form::Structured { SEND_DF } else { 0 }
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
        let df = if self.form >= Form::Structured { DF } else { 0 };
        let payload = if self.form == Form::Extended { PAYLOAD_LEN } else { 0 };
        let known = FUA
            | match command {
                Command::Read => df,
                Command::Write => payload,
                Command::WriteZeroes if self.features.fast_zero => NO_HOLE | FAST_ZERO,
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
        if command == Command::BlockStatus && !self.allocation {
            return invalid("block status needs base:allocation, which was not selected".into());
        }
        if length == 0 {
            return invalid("the length is 0".into());
        }
        if command == Command::Write && request.payload == 0 {
            return invalid("a write needs the flag that data follow".into());
        }
        if request.has(FAST_ZERO) && request.has(NO_HOLE) {
            let message = "zeroes that keep their space are not written faster than data".into();
            return Err(Failure { errno: Errno::NotSupported, message });
        }
        if offset.checked_add(length).is_none_or(|end| end > self.size) {
            let errno = if writes && command != Command::Trim { Errno::NoSpace } else { Errno::Invalid };
            let message = format!("{length} bytes at {offset} do not lie within the export's {} bytes", self.size);
            return Err(Failure { errno, message });
        }
        let Limits { minimum, maximum, .. } = self.limits;
        if matches!(command, Command::Read | Command::Write) && length > maximum.into() {
            return invalid(format!("{length} bytes are more than the {maximum} that one request may have"));
        }
        let unit = u64::from(minimum.max(1));
        if offset % unit != 0 || length % unit != 0 {
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
        features: Features { read_only: false, multi_conn: true, rotational: false, fast_zero: false },
        limits: Limits { minimum: 1, preferred: 4096, maximum: 65536 },
        form: Form::Structured,
        allocation: true,
    };

    fn encode(request: &Request, form: Form) -> Vec<u8> {
        let extended = form == Form::Extended;
        let mut bytes = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC }.to_be_bytes().to_vec();
        bytes.extend(request.flags.to_be_bytes());
        bytes.extend(request.command.to_be_bytes());
        bytes.extend(request.cookie.to_be_bytes());
        bytes.extend(request.offset.to_be_bytes());
        bytes.extend(&request.length.to_be_bytes()[if extended { 0 } else { 4 }..]);
        bytes
    }

    fn request(command: Command, flags: u16, offset: u64, length: u64) -> Request {
        let payload = if command == Command::Write { length } else { 0 };
        Request { flags, command: command as u16, cookie: 7, offset, length, payload }
    }

    fn errno(terms: &Terms, request: Request) -> Option<Errno> {
        terms.check(&request).err().map(|failure| failure.errno)
    }

    #[test]
    fn a_request_is_28_or_32_bytes_behind_its_magic() {
        let bytes = b"\x25\x60\x95\x13\0\x01\0\x06ABCDEFGH\0\0\0\0\0\0\x10\0\0\0\x02\0";
        let cookie = 0x4142_4344_4546_4748;
        let expected = Request { flags: FUA, command: 6, cookie, offset: 4096, length: 512, payload: 0 };
        assert_eq!(Request::parse(bytes, Form::Simple), Ok(expected));
        assert_eq!(Request::parse(bytes, Form::Extended), Err(REQUEST_MAGIC));
        assert_eq!(Request::parse(&[0xff; 28], Form::Structured), Err(u32::MAX));
        let bytes = b"\x21\xe4\x1c\x71\0\x01\0\x06ABCDEFGH\0\0\0\0\0\0\x10\0\0\0\0\x05\0\0\x02\0";
        let expected = Request { length: 0x5_0000_0200, ..expected };
        assert_eq!(Request::parse(bytes, Form::Extended), Ok(expected));
        assert_eq!(Request::parse(&bytes[..28], Form::Simple), Err(EXTENDED_REQUEST_MAGIC));
    }

    #[test]
    fn a_write_is_followed_by_data_and_an_extended_request_if_it_says_so() {
        for command in Command::ALL {
            let parsed = |form, flags| {
                let parsed = Request::parse(&encode(&request(command, flags, 0, 512), form), form);
                parsed.expect("a request").payload
            };
            assert_eq!(parsed(Form::Simple, 0), if command == Command::Write { 512 } else { 0 });
            assert_eq!((parsed(Form::Extended, 0), parsed(Form::Extended, PAYLOAD_LEN)), (0, 512));
        }
    }

    #[test]
    fn extended_writes_alone_have_data_and_lengths_have_64_bits() {
        let terms = Terms { form: Form::Extended, size: 1 << 40, ..TERMS };
        assert_eq!(errno(&terms, request(Command::Write, PAYLOAD_LEN, 0, 512)), None);
        assert_eq!(errno(&TERMS, request(Command::Write, PAYLOAD_LEN, 0, 512)), Some(Errno::Invalid));
        let without = Request { payload: 0, ..request(Command::Write, 0, 0, 512) };
        assert_eq!(errno(&terms, without), Some(Errno::Invalid));
        for command in [Command::Trim, Command::WriteZeroes, Command::BlockStatus, Command::Cache] {
            assert_eq!(errno(&terms, request(command, 0, 5, 5 << 30)), None, "{command:?}");
            assert_eq!(errno(&terms, request(command, PAYLOAD_LEN, 0, 512)), Some(Errno::Invalid), "{command:?}");
        }
        assert_eq!(errno(&terms, request(Command::Read, 0, 0, 5 << 30)), Some(Errno::Invalid));
    }

    #[test]
    fn fast_zeroes_are_for_exports_that_have_them_and_make_holes() {
        let terms = Terms { features: Features { fast_zero: true, ..TERMS.features }, ..TERMS };
        assert_eq!(terms.flags(), 0b1101_1110_1101);
        assert_eq!(errno(&terms, request(Command::WriteZeroes, FAST_ZERO, 0, 512)), None);
        let filled = request(Command::WriteZeroes, FAST_ZERO | NO_HOLE, 0, 512);
        assert_eq!(errno(&terms, filled), Some(Errno::NotSupported));
        assert_eq!(errno(&terms, request(Command::Trim, FAST_ZERO, 0, 512)), Some(Errno::Invalid));
        let read_only = Terms { features: Features { read_only: true, ..terms.features }, ..terms };
        assert_eq!(read_only.flags() & transmission::SEND_FAST_ZERO, 0);
    }

    #[test]
    fn flags_tell_what_may_be_asked() {
        assert_eq!(TERMS.flags(), 0b101_1110_1101);
        let read_only = Features { read_only: true, multi_conn: false, rotational: true, fast_zero: false };
        assert_eq!(Terms { features: read_only, form: Form::Simple, ..TERMS }.flags(), 0b100_0001_0111);
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
        let simple = Terms { form: Form::Simple, ..TERMS };
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
        fn a_request_reads_back(flags: u16, command: u16, cookie: u64, offset: u64, length: u64) {
            for form in [Form::Simple, Form::Extended] {
                let (length, data) = match form {
                    Form::Extended => (length, flags & PAYLOAD_LEN != 0),
                    _ => (length >> 32, command == Command::Write as u16),
                };
                let request = Request { flags, command, cookie, offset, length, payload: if data { length } else { 0 } };
                let bytes = encode(&request, form);
                prop_assert_eq!(bytes.len(), header(form));
                prop_assert_eq!(Request::parse(&bytes, form), Ok(request));
            }
        }

        #[test]
        fn what_passes_lies_within_the_export(flags in 0u16..32, command in 0u16..10, offset in 0u64..3 << 20, length in 0u64..3 << 20) {
            let request = Request { flags, command, cookie: 0, offset, length, payload: length };
            if let Ok(command) = TERMS.check(&request) && !matches!(command, Command::Disconnect | Command::Flush) {
                prop_assert!(length > 0 && offset + length <= TERMS.size);
                prop_assert!(length <= TERMS.limits.maximum.into() || !matches!(command, Command::Read | Command::Write));
            }
        }
    }
}
