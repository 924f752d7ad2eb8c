//! The regular files below a directory, on its own file system, a few at a time.
//!
//! Whoever may write to a directory can put a symbolic link in the place of what is looked at. So each name is opened from the descriptor of its directory, no link
//! is followed, and what was opened is asked what it is.

use crate::file_system::identify;
use crate::watch::FileId;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Directories that are open at a time, each in the one before.
const DEEPEST: usize = 256;

/// Files that are to be visited.
pub(crate) struct Walk {
    folders: Vec<Dir>,
    device: u64,
}

impl Walk {
    /// The files below an open directory. What cannot be read is left out.
    pub(crate) fn new(directory: impl AsFd) -> Self {
        let opened = open(directory.as_fd(), c".", OFlags::DIRECTORY);
        let mut walk = Self { folders: Vec::new(), device: opened.as_ref().map_or(0, |(_, found)| found.st_dev) };
        walk.add(opened);
        walk
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
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            // One that is mounted automatically is not mounted for this.
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
            let Some(folder) = folder.fd().ok().filter(|_| name != c"." && name != c"..") else { continue };
            let Some(found) = statat(folder, name, flags).ok().filter(|found| found.st_dev == self.device) else {
                continue;
            };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => {
                    let opened = open(folder, name, OFlags::DIRECTORY);
                    self.add(opened);
                }
                FileType::RegularFile => {
                    if let Some((file, found)) = open(folder, name, OFlags::NONBLOCK | OFlags::NOATIME)
                        && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
                        && found.st_dev == self.device
                        && let Ok((id, bytes)) = identify(&file)
                    {
                        #[allow(clippy::useless_conversion, reason = "it is narrower on other processors")]
                        let links = u64::from(found.st_nlink);
                        visit(file.as_fd(), id, bytes, links);
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// What is in a directory comes next, if that is on the file system.
    fn add(&mut self, opened: Option<(OwnedFd, Stat)>) {
        let Some((directory, _)) = opened.filter(|(_, found)| found.st_dev == self.device) else { return };
        if self.folders.len() == DEEPEST {
            tracing::debug!("what lies more than {DEEPEST} directories deep is found when it is used");
            return;
        }
        self.folders.extend(Dir::new(directory));
    }
}

/// Opens what a directory has under a name, if that is no symbolic link, and says what it is.
fn open(folder: BorrowedFd<'_>, name: &CStr, kind: OFlags) -> Option<(OwnedFd, Stat)> {
    let flags = kind | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::empty()).ok()?;
    let found = fstat(&opened).ok()?;
    Some((opened, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn walk(directory: &Path) -> Walk {
        Walk::new(File::open(directory).expect("a directory"))
    }

    /// Bytes and names of all files below a directory.
    fn all(directory: &Path) -> Vec<(u64, u64)> {
        let (mut walk, mut seen) = (walk(directory), Vec::new());
        let mut visit = |_: BorrowedFd<'_>, _: FileId, bytes, links| seen.push((bytes, links));
        while !walk.go_on(Instant::now() + Duration::from_secs(1), &mut visit) {}
        seen.sort_unstable();
        seen
    }

    #[test]
    fn it_visits_each_file_below_once_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("folders");
        for (name, bytes) in [("one", 1), ("a/two", 2), ("a/b/three", 3)] {
            fs::write(folder.path().join(name), vec![0; bytes]).expect("a file");
        }
        fs::hard_link(folder.path().join("one"), folder.path().join("a/one again")).expect("a link");
        symlink("one", folder.path().join("a link")).expect("a link");
        let mut walk = walk(folder.path());
        let mut seen = Vec::new();
        let mut visit = |_: BorrowedFd<'_>, _: FileId, bytes, links| seen.push((bytes, links));
        assert!(!walk.go_on(Instant::now(), &mut visit), "no time is given to it");
        while !walk.go_on(Instant::now() + Duration::from_millis(1), &mut visit) {}
        seen.sort_unstable();
        assert_eq!(seen, [(1, 2), (1, 2), (2, 1), (3, 1)]);
    }

    #[test]
    fn a_directory_or_file_that_is_swapped_for_a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        ["inside/directory", "outside"].iter().for_each(|name| fs::create_dir_all(path(name)).expect("a folder"));
        for (name, bytes) in [("inside/directory/in", 1), ("inside/file", 1), ("outside/out", 7)] {
            fs::write(path(name), vec![0; bytes]).expect("a file");
        }
        symlink(path("outside"), path("inside/link")).expect("a link");
        symlink(path("outside/out"), path("inside/file link")).expect("a link");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for (one, other) in [("directory", "link"), ("file", "file link")] {
                        let [one, other] = [one, other].map(|name| path("inside").join(name));
                        renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).expect("they change places");
                    }
                }
            });
            let outside = (0..5000).flat_map(|_| all(&path("inside"))).filter(|(bytes, _)| *bytes == 7).count();
            stop.store(true, Ordering::Relaxed);
            assert_eq!(outside, 0);
        });
    }

    #[test]
    fn so_deep_a_tree_takes_few_descriptors() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut deepest = OwnedFd::from(File::open(folder.path()).expect("a directory"));
        for _ in 0..2 * DEEPEST {
            rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).expect("a folder");
            deepest = openat(&deepest, "d", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it is there");
        }
        fs::write(folder.path().join("file"), "1").expect("a file");
        let mut walk = walk(folder.path());
        assert!(!walk.go_on(Instant::now(), &mut |_, _, _, _| {}), "no time is given to it");
        let mut most = 0;
        let mut files = 0;
        while !walk.go_on(Instant::now() + Duration::from_micros(50), &mut |_, _, _, _| files += 1) {
            most = most.max(walk.folders.len());
        }
        assert!(most <= DEEPEST && files == 1, "{most} directories were open, {files} files found");
    }
}
