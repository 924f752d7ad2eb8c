//! What the programs write into the ring, and what a reader gets.

/// A file, as the kernel knows it. An inode's number is used anew once its file is deleted: then the generation differs,
/// on file systems that have one (ext4, XFS, btrfs).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId {
    /// The file system: the kernel's `s_dev`, which is `major << 20 | minor`. The `st_dev` of `stat(2)` is written otherwise
    /// and, on btrfs, another number.
    pub device: u32,
    /// The inode's number.
    pub inode: u64,
    /// The inode's generation: 0 on file systems that have none.
    pub generation: u32,
}

/// The kernel's number of a file system, from the `st_dev` that `stat(2)` gives.
pub fn kernel_device(st_dev: u64) -> u32 {
    libc::major(st_dev) << 20 | libc::minor(st_dev) & 0xf_ffff
}

/// What happened to pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A program reads them, by `read(2)`, `sendfile(2)` and the like. Pages that were absent make `Added`, too, before or after it.
    Read,
    /// A program writes them.
    Write,
    /// A mapping of the file faults: one page; or the pages around one, which are mapped with it if they are in the page cache.
    Mapped,
    /// They came into the page cache, as one folio.
    Added,
    /// They left the page cache, as one folio.
    Removed,
    /// They became dirty, as one folio.
    Dirtied,
}

impl Kind {
    /// All kinds, each at its number.
    pub(super) const ALL: [Kind; 6] =
        [Kind::Read, Kind::Write, Kind::Mapped, Kind::Added, Kind::Removed, Kind::Dirtied];
}

/// Something that happened to pages of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// To which file.
    pub file: FileId,
    /// The first page: its byte offset in the file divided by the machine's page size.
    pub first: u64,
    /// How many pages. For `Added`, `Removed` and `Dirtied`, `1 << order`.
    pub count: u32,
    /// The folio's order: it has `1 << order` pages. 0 for `Read`, `Write` and `Mapped`.
    pub order: u8,
    /// The process, by the number that it has outside of all PID namespaces (`tgid`). A kernel thread for some events.
    pub process: u32,
    /// The name of the thread, which is most often that of its program, up to a zero byte.
    pub program: [u8; PROGRAM],
    /// The process's user id, by the number that it has outside of all user namespaces.
    pub user: u32,
    /// The number of the process's control group, by the hierarchy of [`GroupsBy`](super::GroupsBy). It is the inode's
    /// number of the group's directory. 0 where no groups are used.
    pub group: u64,
    /// `Removed` because the kernel needed memory: not by a truncation, a deletion or `posix_fadvise(2)`.
    pub reclaim: bool,
    /// Done by this very process.
    pub own: bool,
    /// The file's verdict was known, and so was the group's where it counted. Otherwise the reader should judge
    /// the file, or the group: until then each use makes an event.
    pub judged: bool,
}

/// Bits of the record's flags.
pub(super) const JUDGED: u8 = 1;
pub(super) const RECLAIM: u8 = 2;
pub(super) const OWN: u8 = 4;

/// Where the fields of a record lie, in bytes: what the programs write, and [`Event::decode`] reads.
pub(super) mod field {
    pub(crate) const INODE: i16 = 0;
    pub(crate) const FIRST: i16 = 8;
    pub(crate) const GROUP: i16 = 16;
    pub(crate) const DEVICE: i16 = 24;
    pub(crate) const GENERATION: i16 = 28;
    pub(crate) const COUNT: i16 = 32;
    pub(crate) const PROCESS: i16 = 36;
    pub(crate) const USER: i16 = 40;
    pub(crate) const KIND: i16 = 44;
    pub(crate) const ORDER: i16 = 45;
    pub(crate) const FLAGS: i16 = 46;
    pub(crate) const THREAD: i16 = 48;
    pub(crate) const PROGRAM: i16 = 56;
}

/// Bytes of a thread's name.
pub(super) const PROGRAM: usize = 16;

/// Bytes of a record.
pub(super) const RECORD: usize = 56 + PROGRAM;

impl Event {
    /// The name of the thread, if it has one.
    pub fn program(&self) -> Option<&str> {
        let name = self.program.split(|&byte| byte == 0).next().unwrap_or_default();
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    /// Reads a record: its event, and the thread's number. `None` if it is none of ours.
    pub(super) fn decode(record: &[u8; RECORD]) -> Option<(Event, u32)> {
        let byte = |at: i16| record[at as usize];
        let word = |at: i16| {
            let at = at as usize;
            u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
        };
        let long = |at: i16| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&record[at as usize..at as usize + 8]);
            u64::from_ne_bytes(bytes)
        };
        let flags = byte(field::FLAGS);
        let mut program = [0; PROGRAM];
        program.copy_from_slice(&record[field::PROGRAM as usize..]);
        let event = Event {
            kind: *Kind::ALL.get(byte(field::KIND) as usize)?,
            file: FileId {
                device: word(field::DEVICE),
                inode: long(field::INODE),
                generation: word(field::GENERATION),
            },
            first: long(field::FIRST),
            count: word(field::COUNT),
            order: byte(field::ORDER),
            process: word(field::PROCESS),
            program,
            user: word(field::USER),
            group: long(field::GROUP),
            reclaim: flags & RECLAIM != 0,
            own: flags & OWN != 0,
            judged: flags & JUDGED != 0,
        };
        Some((event, word(field::THREAD)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_an_unknown_kind_is_none() {
        let mut record = [0; RECORD];
        record[field::KIND as usize] = Kind::Removed as u8;
        record[field::FLAGS as usize] = RECLAIM | OWN;
        let (event, _) = Event::decode(&record).unwrap();
        assert_eq!((event.kind, event.reclaim, event.own, event.judged), (Kind::Removed, true, true, false));
        record[field::KIND as usize] = Kind::ALL.len() as u8;
        assert_eq!(Event::decode(&record), None);
    }

    #[test]
    fn kinds_have_the_numbers_that_the_programs_write() {
        assert!(Kind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
    }

    #[test]
    fn a_file_systems_number_is_the_kernels() {
        assert_eq!(kernel_device(libc::makedev(254, 3)), 254 << 20 | 3);
        assert_eq!(kernel_device(libc::makedev(0, 0x12345)), 0x12345);
    }
}
