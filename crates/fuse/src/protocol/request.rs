//! What the kernel sends: one message is one request.
//!
//! A message is a header of 40 bytes (length, operation, number of the request, number of the file, who asks) and what its operation needs.
//! Numbers have the machine's byte order, names end with a zero byte. Layouts are those of `linux/fuse.h`.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

/// Bytes of a message before what its operation needs.
pub(crate) const HEADER: usize = 40;

/// Who asks. The identities are those by which the system judges access to files; the thread is 0 where the kernel itself asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) thread: u32,
}

impl Caller {
    /// The administrator, whose commands come by the control socket and not from the kernel.
    pub(crate) const ROOT: Self = Self { user: 0, group: 0, thread: 0 };
}

/// A request of the kernel.
#[derive(Debug)]
pub(crate) struct Request<'m> {
    /// No other request has this number.
    pub(crate) unique: u64,
    /// The file or directory that it is about, by the number that its lookup was answered with.
    pub(crate) node: u64,
    pub(crate) caller: Caller,
    pub(crate) operation: Operation<'m>,
}

/// What is asked for. `handle` is the number that an open was answered with.
#[derive(Debug)]
pub(crate) enum Operation<'m> {
    LookUp {
        name: &'m OsStr,
    },
    Forget {
        lookups: u64,
    },
    /// The numbers of files, and how many of their lookups are forgotten.
    ForgetMany(Forgotten<'m>),
    GetAttributes,
    /// With the time of birth.
    GetAllAttributes,
    SetAttributes(Box<SetAttributes>),
    ReadLink,
    MakeSymbolicLink {
        name: &'m OsStr,
        target: &'m OsStr,
    },
    MakeNode {
        name: &'m OsStr,
        mode: u32,
        device: u32,
        umask: u32,
    },
    MakeDirectory {
        name: &'m OsStr,
        mode: u32,
        umask: u32,
    },
    RemoveFile {
        name: &'m OsStr,
    },
    RemoveDirectory {
        name: &'m OsStr,
    },
    Rename {
        name: &'m OsStr,
        new_parent: u64,
        new_name: &'m OsStr,
        flags: u32,
    },
    Link {
        node: u64,
        name: &'m OsStr,
    },
    Open {
        flags: i32,
    },
    Create(Create<'m>),
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        by_program: bool,
    },
    Write(Write<'m>),
    /// How full the file system is.
    GetSpace,
    /// A descriptor is closed.
    Flush {
        handle: u64,
    },
    /// The last descriptor is closed.
    Release {
        handle: u64,
    },
    Sync {
        handle: u64,
        data_only: bool,
    },
    SetXattr {
        name: &'m OsStr,
        value: &'m [u8],
        flags: u32,
        drop_group_id: bool,
    },
    GetXattr {
        name: &'m OsStr,
        room: u32,
    },
    ListXattrs {
        room: u32,
    },
    RemoveXattr {
        name: &'m OsStr,
    },
    OpenDirectory,
    ReadDirectory {
        handle: u64,
        offset: u64,
        room: u32,
        attributes: bool,
    },
    ReleaseDirectory {
        handle: u64,
    },
    SyncDirectory {
        handle: u64,
    },
    SyncFileSystem,
    Access {
        mask: u32,
    },
    Control {
        handle: u64,
        command: u32,
        data: &'m [u8],
    },
    Allocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Seek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    Copy {
        handle: u64,
        offset: u64,
        to: u64,
        to_offset: u64,
        length: u64,
    },
    /// A signal has come to the thread that waits for this request.
    Interrupt {
        unique: u64,
    },
    Initialize(Initialize),
    /// The file system is unmounted.
    Destroy,
    /// None that is answered here.
    Unknown,
}

/// Attributes to be changed.
#[derive(Debug, Default)]
pub(crate) struct SetAttributes {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<SetTime>,
    pub(crate) modified: Option<SetTime>,
    /// It is done by an open file.
    pub(crate) by_handle: bool,
    /// The change takes set-user-id and set-group-id away.
    pub(crate) drop_privileges: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetTime {
    Now,
    /// Seconds since 1970, and nanoseconds that come on top.
    At(i64, u32),
}

/// A file to be made and opened. Without a name for now: `O_TMPFILE`.
#[derive(Debug)]
pub(crate) struct Create<'m> {
    pub(crate) name: Option<&'m OsStr>,
    pub(crate) flags: i32,
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

#[derive(Debug)]
pub(crate) struct Write<'m> {
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) data: &'m [u8],
    /// As the file was opened.
    pub(crate) flags: i32,
    /// The kernel hands back what programs have written to their maps.
    pub(crate) mapped: bool,
    /// The writer's rights are not enough to leave set-user-id and set-group-id.
    pub(crate) drop_privileges: bool,
}

/// What the kernel can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Initialize {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) capabilities: u64,
}

/// Files to be forgotten.
#[derive(Debug)]
pub(crate) struct Forgotten<'m>(&'m [u8]);

impl Iterator for Forgotten<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let mut fields = Fields(self.0);
        let next = Some((fields.long().ok()?, fields.long().ok()?));
        self.0 = fields.0;
        next
    }
}

/// A message that is no request: it is shorter than it says, or than its operation needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What is left of a message.
struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn bytes(&mut self, length: usize) -> Result<&'m [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_ne_bytes(*bytes))
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*bytes))
    }

    /// Passes over a number that is not needed, or over padding.
    fn skip(&mut self, length: usize) -> Result<(), Malformed> {
        self.bytes(length).map(drop)
    }

    fn name(&mut self) -> Result<&'m OsStr, Malformed> {
        let name = CStr::from_bytes_until_nul(self.0).map_err(|_| Malformed)?;
        self.0 = &self.0[name.count_bytes() + 1..];
        Ok(OsStr::from_bytes(name.to_bytes()))
    }
}

// Of `FUSE_SETATTR`: which fields are to be changed, and how.
const MODE: u32 = 1 << 0;
const USER: u32 = 1 << 1;
const GROUP: u32 = 1 << 2;
const SIZE: u32 = 1 << 3;
const ACCESSED: u32 = 1 << 4;
const MODIFIED: u32 = 1 << 5;
const BY_HANDLE: u32 = 1 << 6;
const ACCESSED_NOW: u32 = 1 << 7;
const MODIFIED_NOW: u32 = 1 << 8;
const DROP_PRIVILEGES: u32 = 1 << 11;

// Of `FUSE_READ` and `FUSE_WRITE`.
const READ_LOCK_OWNER: u32 = 1 << 1;
const WRITE_MAPPED: u32 = 1 << 0;
const WRITE_DROP_PRIVILEGES: u32 = 1 << 2;

/// Of `FUSE_FSYNC`.
const SYNC_DATA_ONLY: u32 = 1 << 0;

/// Of `FUSE_SETXATTR`: the access list is set by a process that may not keep set-group-id.
const XATTR_DROP_GROUP_ID: u32 = 1 << 0;

/// Of `FUSE_INIT`: there are more capabilities behind the first 32.
const MORE_CAPABILITIES: u32 = 1 << 30;

impl<'m> Request<'m> {
    /// Reads a message.
    ///
    /// # Errors
    /// The number of the request, if it has one, and that it cannot be read.
    pub(crate) fn read(message: &'m [u8]) -> Result<Self, (Option<u64>, Malformed)> {
        let mut fields = Fields(message);
        let head = |fields: &mut Fields<'_>| {
            let (length, code, unique, node) = (fields.word()?, fields.word()?, fields.long()?, fields.long()?);
            let caller = Caller { user: fields.word()?, group: fields.word()?, thread: fields.word()? };
            // Bytes of extensions behind the operation's, in units of eight; and padding.
            fields.skip(4)?;
            if length as usize == message.len() { Ok((code, unique, node, caller)) } else { Err(Malformed) }
        };
        let (code, unique, node, caller) = head(&mut fields).map_err(|malformed| (None, malformed))?;
        let operation = Operation::read(code, fields).map_err(|malformed| (Some(unique), malformed))?;
        Ok(Self { unique, node, caller, operation })
    }
}

impl<'m> Operation<'m> {
    fn read(code: u32, mut fields: Fields<'m>) -> Result<Self, Malformed> {
        let fields = &mut fields;
        Ok(match code {
            1 => Self::LookUp { name: fields.name()? },
            2 => Self::Forget { lookups: fields.long()? },
            3 => Self::GetAttributes,
            4 => Self::SetAttributes(Box::new(SetAttributes::read(fields)?)),
            5 => Self::ReadLink,
            6 => Self::MakeSymbolicLink { name: fields.name()?, target: fields.name()? },
            8 => {
                let (mode, device, umask) = (fields.word()?, fields.word()?, fields.word()?);
                fields.skip(4)?;
                Self::MakeNode { mode, device, umask, name: fields.name()? }
            }
            9 => Self::MakeDirectory { mode: fields.word()?, umask: fields.word()?, name: fields.name()? },
            10 => Self::RemoveFile { name: fields.name()? },
            11 => Self::RemoveDirectory { name: fields.name()? },
            12 => {
                let new_parent = fields.long()?;
                Self::Rename { new_parent, flags: 0, name: fields.name()?, new_name: fields.name()? }
            }
            13 => Self::Link { node: fields.long()?, name: fields.name()? },
            14 => Self::Open { flags: fields.word()? as i32 },
            15 => {
                let (handle, offset, size, how) = (fields.long()?, fields.long()?, fields.word()?, fields.word()?);
                Self::Read { handle, offset, size, by_program: how & READ_LOCK_OWNER != 0 }
            }
            16 => Self::Write(Write::read(fields)?),
            17 => Self::GetSpace,
            18 => Self::Release { handle: fields.long()? },
            20 => Self::Sync { handle: fields.long()?, data_only: fields.word()? & SYNC_DATA_ONLY != 0 },
            21 => {
                let (length, flags, how) = (fields.word()?, fields.word()?, fields.word()?);
                fields.skip(4)?;
                let (name, drop_group_id) = (fields.name()?, how & XATTR_DROP_GROUP_ID != 0);
                Self::SetXattr { name, value: fields.bytes(length as usize)?, flags, drop_group_id }
            }
            22 => {
                let room = fields.word()?;
                fields.skip(4)?;
                Self::GetXattr { room, name: fields.name()? }
            }
            23 => Self::ListXattrs { room: fields.word()? },
            24 => Self::RemoveXattr { name: fields.name()? },
            25 => Self::Flush { handle: fields.long()? },
            26 => Self::Initialize(Initialize::read(fields)?),
            27 => Self::OpenDirectory,
            28 | 44 => {
                let (handle, offset, room) = (fields.long()?, fields.long()?, fields.word()?);
                Self::ReadDirectory { handle, offset, room, attributes: code == 44 }
            }
            29 => Self::ReleaseDirectory { handle: fields.long()? },
            30 => Self::SyncDirectory { handle: fields.long()? },
            34 => Self::Access { mask: fields.word()? },
            35 | 51 => {
                let (flags, mode, umask) = (fields.word()? as i32, fields.word()?, fields.word()?);
                fields.skip(4)?;
                let name = if code == 35 { Some(fields.name()?) } else { None };
                Self::Create(Create { name, flags, mode, umask })
            }
            36 => Self::Interrupt { unique: fields.long()? },
            38 => Self::Destroy,
            39 => {
                let handle = fields.long()?;
                fields.skip(4)?;
                let command = fields.word()?;
                fields.skip(8)?;
                let length = fields.word()?;
                fields.skip(4)?;
                Self::Control { handle, command, data: fields.bytes(length as usize)? }
            }
            42 => {
                let count = fields.word()?;
                fields.skip(4)?;
                let length = (count as usize).checked_mul(16).ok_or(Malformed)?;
                Self::ForgetMany(Forgotten(fields.bytes(length)?))
            }
            43 => {
                let (handle, offset, length) = (fields.long()?, fields.long()?, fields.long()?);
                Self::Allocate { handle, offset, length, mode: fields.word()? }
            }
            45 => {
                let (new_parent, flags) = (fields.long()?, fields.word()?);
                fields.skip(4)?;
                Self::Rename { new_parent, flags, name: fields.name()?, new_name: fields.name()? }
            }
            46 => Self::Seek { handle: fields.long()?, offset: fields.long()?, whence: fields.word()? },
            47 => {
                let (handle, offset) = (fields.long()?, fields.long()?);
                fields.skip(8)?;
                Self::Copy { handle, offset, to: fields.long()?, to_offset: fields.long()?, length: fields.long()? }
            }
            50 => Self::SyncFileSystem,
            52 => Self::GetAllAttributes,
            _ => Self::Unknown,
        })
    }

    /// Whether the kernel sends it without the identity of a program.
    pub(crate) fn may_be_the_kernels(&self) -> bool {
        matches!(
            self,
            Self::Forget { .. }
                | Self::ForgetMany(_)
                | Self::Read { .. }
                | Self::Write(_)
                | Self::Sync { .. }
                | Self::Release { .. }
                | Self::ReadDirectory { .. }
                | Self::SyncDirectory { .. }
                | Self::ReleaseDirectory { .. }
                | Self::SyncFileSystem
                | Self::Interrupt { .. }
                | Self::Initialize(_)
                | Self::Destroy
        )
    }
}

impl SetAttributes {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let which = fields.word()?;
        // Padding, and the handle.
        fields.skip(12)?;
        let size = fields.long()?;
        // The owner of locks.
        fields.skip(8)?;
        let (accessed, modified) = (fields.long()? as i64, fields.long()? as i64);
        // The time of change, which the file system below sets.
        fields.skip(8)?;
        let (accessed, modified) = ((accessed, fields.word()?), (modified, fields.word()?));
        fields.skip(4)?;
        let mode = fields.word()?;
        fields.skip(4)?;
        let (user, group) = (fields.word()?, fields.word()?);
        let has = |bit| which & bit != 0;
        let time = |bit, now, (seconds, nanoseconds)| {
            has(bit).then(|| if has(now) { SetTime::Now } else { SetTime::At(seconds, nanoseconds) })
        };
        Ok(Self {
            mode: has(MODE).then_some(mode),
            user: has(USER).then_some(user),
            group: has(GROUP).then_some(group),
            size: has(SIZE).then_some(size),
            accessed: time(ACCESSED, ACCESSED_NOW, accessed),
            modified: time(MODIFIED, MODIFIED_NOW, modified),
            by_handle: has(BY_HANDLE),
            drop_privileges: has(DROP_PRIVILEGES),
        })
    }
}

impl<'m> Write<'m> {
    fn read(fields: &mut Fields<'m>) -> Result<Self, Malformed> {
        let (handle, offset, length, how) = (fields.long()?, fields.long()?, fields.word()?, fields.word()?);
        // The owner of locks.
        fields.skip(8)?;
        let flags = fields.word()? as i32;
        fields.skip(4)?;
        let data = fields.bytes(length as usize)?;
        let (mapped, drop_privileges) = (how & WRITE_MAPPED != 0, how & WRITE_DROP_PRIVILEGES != 0);
        Ok(Self { handle, offset, data, flags, mapped, drop_privileges })
    }
}

impl Initialize {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let (major, minor) = (fields.word()?, fields.word()?);
        // The kernel's readahead.
        fields.skip(4)?;
        let first = fields.word()?;
        let more = if first & MORE_CAPABILITIES != 0 { fields.word()? } else { 0 };
        Ok(Self { major, minor, capabilities: u64::from(more) << 32 | u64::from(first) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel sends it: operation 3 of file 5, by a thread of a user.
    fn message(code: u32, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        for word in [(HEADER + body.len()) as u32, code] {
            message.extend(word.to_ne_bytes());
        }
        for long in [77u64, 5] {
            message.extend(long.to_ne_bytes());
        }
        for word in [1000u32, 100, 4711, 0] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(body);
        message
    }

    fn body(longs: &[u64], rest: &[u8]) -> Vec<u8> {
        longs.iter().flat_map(|long| long.to_ne_bytes()).chain(rest.iter().copied()).collect()
    }

    #[test]
    fn a_write_has_its_bytes_and_the_kernel_s_marks() {
        // Handle, offset; size and marks; owner of locks; flags.
        let marks = u64::from(WRITE_DROP_PRIVILEGES) << 32 | 3;
        let message = message(16, &body(&[9, 4096, marks, 0, 0x8001], b"abc"));
        let Request { unique, node, caller, operation } = Request::read(&message).expect("a request");
        assert_eq!((unique, node, caller), (77, 5, Caller { user: 1000, group: 100, thread: 4711 }));
        let Operation::Write(write) = operation else { panic!("{operation:?}") };
        assert_eq!((write.handle, write.offset, write.data, write.flags), (9, 4096, &b"abc"[..], 0x8001));
        assert!(write.drop_privileges && !write.mapped);
    }

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let which = ACCESSED | MODIFIED | MODIFIED_NOW | DROP_PRIVILEGES;
        let before = -2i64 as u64;
        let nanoseconds = 500_000_000u64 << 32 | 7;
        let fields = body(&[which.into(), 0, 0, 0, before, before, 0, nanoseconds, 0, 0, 0], &[]);
        let message = message(4, &fields);
        let Operation::SetAttributes(changes) = Request::read(&message).expect("a request").operation else { panic!() };
        assert_eq!((changes.accessed, changes.modified), (Some(SetTime::At(-2, 7)), Some(SetTime::Now)));
        assert!(changes.drop_privileges && changes.mode.is_none() && changes.size.is_none());
    }

    #[test]
    fn a_message_that_is_cut_anywhere_is_no_request() {
        let name = b"name\0new name\0";
        let messages = [
            message(1, b"name\0"),
            message(12, &body(&[1], name)),
            message(21, &body(&[5, 0], b"user.a\0value")),
            message(42, &body(&[2, 1, 1, 2, 1], &[])),
        ];
        for whole in messages {
            assert!(Request::read(&whole).is_ok(), "{whole:?}");
            for length in 0..whole.len() {
                let mut cut = whole[..length].to_vec();
                assert!(Request::read(&cut).is_err(), "the header says that it is longer");
                if length >= HEADER {
                    cut[..4].copy_from_slice(&(length as u32).to_ne_bytes());
                    assert_eq!(Request::read(&cut).expect_err("it lacks bytes"), (Some(77), Malformed));
                }
            }
        }
    }
}
