//! Open files, for one turn: to open one by its inode costs as much as to let ten pages leave.
//!
//! A file that is open here keeps its space when it is deleted, its file system mounted, and leases from being given. So all are closed at the end of a turn, which takes a
//! millisecond or less.

use crate::file_system::FileSystem;
use crate::watch::FileId;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most that are open.
const MOST: usize = 256;

/// Files that are open.
#[derive(Default)]
pub(crate) struct Descriptors {
    open: HashMap<FileId, OwnedFd, RandomState>,
}

impl Descriptors {
    /// The file, which is opened if it is not open.
    ///
    /// # Errors
    /// Those of [`FileSystem::open`].
    pub(crate) fn get(&mut self, system: &FileSystem, file: FileId) -> io::Result<BorrowedFd<'_>> {
        if !self.open.contains_key(&file) {
            if self.open.len() >= MOST {
                self.open.clear();
            }
            self.open.insert(file, system.open(file)?);
        }
        Ok(self.open[&file].as_fd())
    }

    /// Closes all.
    pub(crate) fn close(&mut self) {
        self.open.clear();
    }
}
