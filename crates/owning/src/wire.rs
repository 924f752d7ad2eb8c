//! The messages: 24 bytes each, in the byte order of the machine. `include/forebay_manager.h` has the same for C.

/// The protocol's version.
pub const VERSION: u32 = 1;

/// Bytes of a message.
pub const LENGTH: usize = 24;

/// Kinds of messages.
pub mod kind {
    /// To the cache, and first: `file` is the version, `first` the process managed (0: the sender), `count` the low-water mark of the list.
    pub const REGISTER: u32 = 1;
    /// To the cache: manage a file. `first` is a descriptor of the sender, open on the mount.
    pub const ADD: u32 = 2;
    /// To the cache: `count` blocks of `file` from `first` on go before others, behind those given up so far.
    pub const GIVE_UP: u32 = 3;
    /// To the cache: the list is emptied, as before another is sent.
    pub const TAKE_BACK: u32 = 4;
    /// Answers `REGISTER`: `file` is the version, `first` the bytes of a block, `count` the pages of the cache.
    pub const READY: u32 = 101;
    /// Answers `ADD`: `file` is the file's number from now on, `first` its blocks, `count` the descriptor.
    pub const FILE: u32 = 102;
    /// The process missed `count` blocks of `file` from `first` on, which were admitted.
    pub const ADMITTED: u32 = 103;
    /// As many were read ahead for the process.
    pub const READ_AHEAD: u32 = 104;
    /// The process hit as many.
    pub const HIT: u32 = 105;
    /// As many left the cache.
    pub const EVICTED: u32 = 106;
    /// The list has fallen below the low-water mark: it has `first` blocks.
    pub const LOW: u32 = 107;
    /// `count` events were lost here, as they came faster than they were read.
    pub const LOST: u32 = 108;
    /// A message of kind `first` was refused, and the connection ends. `file` is the [`Reason`](super::Reason), `count` what it speaks of.
    pub const REFUSED: u32 = 109;
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// The cache speaks another version: `count`.
    Version = 1,
    /// The first message must be `REGISTER`, and no other.
    Order = 2,
    /// There is no such process, or it is another user's.
    Process = 3,
    /// The process has a manager already.
    Managed = 4,
    /// The policy of the cache takes no managers.
    Policy = 5,
    /// The descriptor is no open file of this mount.
    Descriptor = 6,
    /// There are `count` connections, or files of a manager, already.
    TooMany = 7,
    /// No file has this number.
    File = 8,
    /// More than `count` blocks at once.
    TooLong = 9,
    /// There is no such message.
    Unknown = 10,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// One of [`kind`].
    pub kind: u32,
    /// A file's number, or what the kind says.
    pub file: u32,
    /// The first block, or what the kind says.
    pub first: u64,
    /// How many, or what the kind says.
    pub count: u64,
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.file.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.first.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.count.to_ne_bytes());
        bytes
    }

    /// The message of these bytes: all are one, if perhaps of an unknown kind.
    pub fn decode(bytes: &[u8; LENGTH]) -> Self {
        let [a, b, c, d, e, f, g, h, first @ .., i, j, k, l, m, n, o, p] = *bytes;
        Self {
            kind: u32::from_ne_bytes([a, b, c, d]),
            file: u32::from_ne_bytes([e, f, g, h]),
            first: u64::from_ne_bytes(first),
            count: u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        }
    }

    /// That a message is refused.
    pub(crate) fn refused(of: u32, reason: Reason, count: u64) -> Self {
        Self { kind: kind::REFUSED, file: reason as u32, first: of.into(), count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_bytes() {
        let message = Message { kind: kind::GIVE_UP, file: 7, first: 1 << 40 | 3, count: u64::MAX };
        assert_eq!(Message::decode(&message.encode()), message);
    }

    #[test]
    fn the_header_for_c_has_the_same_numbers() {
        let header = include_str!("../../../include/forebay_manager.h");
        let defined = |name: &str| {
            let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define FOREBAY_MANAGER_{name} ")));
            line.and_then(|value| value.split_whitespace().next()?.parse::<u32>().ok())
        };
        for (name, number) in [
            ("VERSION", VERSION),
            ("REGISTER", kind::REGISTER),
            ("ADD", kind::ADD),
            ("GIVE_UP", kind::GIVE_UP),
            ("TAKE_BACK", kind::TAKE_BACK),
            ("READY", kind::READY),
            ("FILE", kind::FILE),
            ("ADMITTED", kind::ADMITTED),
            ("READ_AHEAD", kind::READ_AHEAD),
            ("HIT", kind::HIT),
            ("EVICTED", kind::EVICTED),
            ("LOW", kind::LOW),
            ("LOST", kind::LOST),
            ("REFUSED", kind::REFUSED),
        ] {
            assert_eq!(defined(name), Some(number), "{name}");
        }
    }
}
