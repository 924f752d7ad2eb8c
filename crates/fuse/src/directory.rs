//! An open directory, read where its reader is.

use crate::inode::{Tree, attributes};
use crate::nodes::Node;
use fuser::{Errno, FileAttr, FileType, INodeNo};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{OFlags, RawDir, SeekFrom, seek};
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

/// Bytes of entries that are read at once.
const ROOM: usize = 32 << 10;

pub(crate) struct Directory {
    pub(crate) fd: Arc<OwnedFd>,
    stream: Mutex<Stream>,
}

#[derive(Default)]
struct Stream {
    /// Entries that have been read, the next one last.
    entries: Vec<Entry>,
    /// Where the next one begins, as the file system counts.
    position: u64,
}

pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    pub(crate) name: OsString,
    /// Where the one behind it begins.
    pub(crate) next: u64,
}

impl Directory {
    pub(crate) fn open(tree: &Tree, node: &Node) -> Result<Self, Errno> {
        let fd = tree.open_inode(&node.inode, OFlags::RDONLY | OFlags::DIRECTORY)?;
        node.inode.check_named(&attributes(fd.as_fd())?)?;
        Ok(Self { fd: Arc::new(fd), stream: Mutex::default() })
    }

    /// Hands entries out from a position on, until one is not taken or there are no more.
    pub(crate) fn read(&self, position: u64, mut take: impl FnMut(&Entry) -> bool) -> Result<(), Errno> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if position != stream.position || position == 0 {
            stream.entries.clear();
            seek(&*self.fd, SeekFrom::Start(position)).map_err(std::io::Error::from)?;
            stream.position = position;
        }
        loop {
            if stream.entries.is_empty() {
                stream.entries = self.more()?;
                if stream.entries.is_empty() {
                    return Ok(());
                }
            }
            while let Some(entry) = stream.entries.pop() {
                if !take(&entry) {
                    stream.entries.push(entry);
                    return Ok(());
                }
                stream.position = entry.next;
            }
        }
    }

    /// The next entries, the first one last.
    fn more(&self) -> Result<Vec<Entry>, Errno> {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut raw = RawDir::new(&*self.fd, &mut room);
        let mut entries = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(std::io::Error::from)?;
            entries.push(Entry {
                number: entry.ino(),
                kind: kind_of(entry.file_type()),
                name: OsString::from_vec(entry.file_name().to_bytes().to_vec()),
                next: entry.next_entry_cookie(),
            });
            if raw.is_buffer_empty() {
                break;
            }
        }
        entries.reverse();
        Ok(entries)
    }
}

impl Entry {
    /// What is known of it without a look.
    pub(crate) fn bare_attributes(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo(self.number),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: self.kind,
            perm: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 0,
            flags: 0,
        }
    }
}

fn kind_of(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Kind;
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        // The kernel asks again where it matters.
        Kind::RegularFile | Kind::Unknown => FileType::RegularFile,
    }
}
