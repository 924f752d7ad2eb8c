//! Keeps a directory or control group to one `forebay steer`: of two, each would drop what the other wants to keep.
//!
//! A mark is an advisory lock of one byte of the directory (`F_OFD_SETLK` of fcntl(2)), so it goes with its process. All are read locks, as no directory can be
//! opened for writing. One byte says that the directory is steered, another that one below it is. Each process sets its marks, and then asks for those of others. Of
//! two that start together, both may see the other: then both take their marks back, and try again.

use crate::error::Error;
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The bytes: not those of mounts, which may show what is steered.
const STEERED: libc::off_t = 0x0f0_7eba_0010;
const BELOW: libc::off_t = STEERED + 1;

/// How often it is tried, and the least pause between.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// What is marked, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Claim(#[allow(dead_code, reason = "the locks go with the descriptors")] Vec<File>);

impl Claim {
    /// Marks a place that is to be steered, and what lies above it.
    ///
    /// # Errors
    /// Another process steers it, or what lies above or below it.
    pub(crate) fn new(place: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Usage(format!("{}: {error}", place.display()));
        let whole = place.canonicalize().map_err(failed)?;
        let mut tried = 0;
        loop {
            let (mut held, mut in_the_way) = (Vec::new(), None);
            for (index, directory) in whole.ancestors().enumerate() {
                // Those above that cannot be opened, or have no locks, keep no marks.
                let Some(opened) = opened(directory) else { continue };
                let (own, against): (_, &[_]) =
                    if index == 0 { (STEERED, &[STEERED, BELOW]) } else { (BELOW, &[STEERED]) };
                let _ = lock(&opened, libc::F_OFD_SETLK, own);
                if against.iter().any(|byte| lock(&opened, libc::F_OFD_GETLK, *byte).unwrap_or(false)) {
                    in_the_way = Some(directory.to_owned());
                }
                held.push(File::from(opened));
            }
            let Some(other) = in_the_way else { return Ok(Self(held)) };
            drop(held);
            tried += 1;
            if tried == TRIES {
                return Err(refusal(place, &whole, &other));
            }
            // Two that start together are not to meet again.
            std::thread::sleep(PAUSE + Duration::from_millis(u64::from(std::process::id() % 17)));
        }
    }
}

fn refusal(place: &Path, whole: &PathBuf, other: &PathBuf) -> Error {
    let (place, other_place) = (place.display(), other.display());
    Error::InUse(if whole == other {
        format!("{place}: it, or a directory in it, is steered by another forebay steer already: stop that one first")
    } else {
        format!(
            "{place}: {other_place}, in which it lies, is steered by another forebay steer already: stop that one first"
        )
    })
}

fn opened(directory: &Path) -> Option<OwnedFd> {
    open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Sets a mark by `F_OFD_SETLK`, or asks for another's by `F_OFD_GETLK`: whether there is one.
fn lock(directory: &OwnedFd, command: libc::c_int, byte: libc::off_t) -> io::Result<bool> {
    // SAFETY: plain numbers, for which zeroes are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // A write lock would be refused by the read lock that is a mark.
    let kind = if command == libc::F_OFD_GETLK { libc::F_WRLCK } else { libc::F_RDLCK };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (byte, 1);
    // SAFETY: the descriptor is open, and `lock` is what both commands read and write.
    if unsafe { libc::fcntl(directory.as_raw_fd(), command, &raw mut lock) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_steered_once_and_neighbours_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        ["a/b", "c"].iter().for_each(|name| std::fs::create_dir_all(place(name)).unwrap());
        let refused = |name: &str| Claim::new(&place(name)).unwrap_err().to_string();
        let below = Claim::new(&place("a/b")).unwrap();
        let beside = Claim::new(&place("c")).unwrap();
        assert!(refused("a/b").contains("a/b: it, or a directory in it, is steered by another"));
        assert!(refused("a").contains("a: it, or a directory in it"));
        drop(below);
        let above = Claim::new(&place("a")).unwrap();
        assert!(refused("a/b").contains(&format!("{}, in which it lies, is steered", place("a").display())));
        drop((above, beside));
        assert!(Claim::new(&place("a/b")).is_ok());
        let missing = Claim::new(&place("no")).unwrap_err();
        assert!(missing.is_usage() && missing.to_string().contains("no: No such file"), "{missing}");
    }
}
