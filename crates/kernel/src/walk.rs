//! The regular files below a directory, on its own file system, a few at a time.

use crate::file_system::identify;
use crate::watch::FileId;
use rustix::fs::{Mode, OFlags, open};
use std::fs::{self, ReadDir};
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// Files that are to be visited.
pub(crate) struct Walk {
    folders: Vec<ReadDir>,
    device: Option<u64>,
}

impl Walk {
    /// The files below a directory. What cannot be read is left out.
    pub(crate) fn new(directory: &Path) -> Self {
        let device = fs::metadata(directory).ok().map(|found| found.dev());
        Self { folders: fs::read_dir(directory).into_iter().collect(), device }
    }

    /// Visits files until some time: each open, with its identity, its bytes and how many names it has. `true`: these were all.
    pub(crate) fn go_on(&mut self, until: Instant, visit: &mut dyn FnMut(BorrowedFd<'_>, FileId, u64, u64)) -> bool {
        while let Some(folder) = self.folders.last_mut() {
            if Instant::now() >= until {
                return false;
            }
            let Some(entry) = folder.next() else {
                self.folders.pop();
                continue;
            };
            let Some((entry, found)) = entry.ok().and_then(|entry| entry.metadata().ok().map(|found| (entry, found)))
            else {
                continue;
            };
            if Some(found.dev()) != self.device {
                continue;
            }
            if found.is_dir() {
                self.folders.extend(fs::read_dir(entry.path()));
            } else if found.is_file() {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOATIME;
                let Ok(file) = open(entry.path(), flags, Mode::empty()) else { continue };
                if let Ok((id, bytes)) = identify(&file) {
                    visit(file.as_fd(), id, bytes, found.nlink());
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_visits_each_file_below_once_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("folders");
        for (name, bytes) in [("one", 1), ("a/two", 2), ("a/b/three", 3)] {
            fs::write(folder.path().join(name), vec![0; bytes]).expect("a file");
        }
        fs::hard_link(folder.path().join("one"), folder.path().join("a/one again")).expect("a link");
        std::os::unix::fs::symlink("one", folder.path().join("a link")).expect("a link");
        let mut walk = Walk::new(folder.path());
        let mut seen = Vec::new();
        let mut visit = |_: BorrowedFd<'_>, _: FileId, bytes, links| seen.push((bytes, links));
        assert!(!walk.go_on(Instant::now(), &mut visit), "no time is given to it");
        while !walk.go_on(Instant::now() + Duration::from_millis(1), &mut visit) {}
        seen.sort_unstable();
        assert_eq!(seen, [(1, 2), (1, 2), (2, 1), (3, 1)]);
    }
}
