//! An open directory, read where its reader is.

use crate::inode::{Tree, attributes};
use crate::nodes::Node;
use crate::protocol::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, OFlags, RawDir, SeekFrom, seek};
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Mutex, PoisonError};

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
    /// The kind of file, as in a mode; none where only a look at it tells.
    pub(crate) kind: u32,
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
            seek(&*self.fd, SeekFrom::Start(position))?;
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
            let entry = entry?;
            entries.push(Entry {
                number: entry.ino(),
                kind: match entry.file_type() {
                    FileType::Unknown => 0,
                    known => known.as_raw_mode(),
                },
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
