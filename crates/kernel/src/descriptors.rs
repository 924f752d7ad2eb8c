//! Open files, for a while: to open one by its inode costs as much as to let ten pages leave.
//!
//! A file that is open here keeps its space when it is deleted, and its file system mounted. So a descriptor is closed within [`IDLE`] of its last use, and
//! one of a deleted file at the next [`tend`](Descriptors::tend), which is called every 250 ms.

use crate::file_system::FileSystem;
use crate::watch::FileId;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long one stays open that is not used.
const IDLE: Duration = Duration::from_secs(1);
/// The most that are open.
const MOST: usize = 256;

/// Files that are open.
#[derive(Default)]
pub(crate) struct Descriptors {
    open: HashMap<FileId, (OwnedFd, Instant), RandomState>,
}

impl Descriptors {
    /// The file, which is opened if it is not open.
    ///
    /// # Errors
    /// Those of [`FileSystem::open`].
    pub(crate) fn get(&mut self, system: &FileSystem, file: FileId, now: Instant) -> io::Result<BorrowedFd<'_>> {
        if !self.open.contains_key(&file) {
            if self.open.len() >= MOST {
                self.close_half();
            }
            let opened = system.open(file)?;
            self.open.insert(file, (opened, now));
        }
        let open = self.open.get_mut(&file).expect("it is open");
        open.1 = now;
        Ok(open.0.as_fd())
    }

    /// Closes those that were not used lately, or whose file has no name any more.
    pub(crate) fn tend(&mut self, now: Instant) {
        self.open.retain(|_, (file, used)| {
            now.saturating_duration_since(*used) < IDLE && rustix::fs::fstat(&*file).is_ok_and(|stat| stat.st_nlink > 0)
        });
    }

    /// Closes the half that was used the longest ago.
    fn close_half(&mut self) {
        let mut times: Vec<Instant> = self.open.values().map(|&(_, used)| used).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        self.open.retain(|_, (_, used)| *used > middle);
    }
}
