//! File systems whose files are steered, and their files by inode.
//!
//! The kernel's events name a file by device, inode and generation. [`FileSystem::open`] opens it by a file handle made of these, as the file system makes
//! them itself: ext2, ext3 and ext4 (`FILEID_INO32_GEN`), and XFS (the same with a longer inode). It needs `CAP_DAC_READ_SEARCH`; and `CAP_FOWNER`, by
//! which files of other users keep their time of access, and say what of them is in the cache.

use crate::bpf::error::effective_capabilities;
use crate::error::Error;
use crate::watch::FileId;
use rustix::fs::{AtFlags, FsWord, Mode, OFlags, StatxFlags, fstatfs, open, statx};
use rustix::io::Errno;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// `FILEID_INO32_GEN`: an inode of 32 bits and a generation.
const INODE_32: c_int = 1;
/// XFS: an inode of 64 bits and a generation.
const INODE_64: c_int = 0x81;

const EXT: FsWord = 0xef53;
const XFS: FsWord = 0x5846_5342;
const TMPFS: FsWord = 0x0102_1994;
const OVERLAY: FsWord = 0x794c_7630;
const FUSE: FsWord = 0x6573_5546;
const BTRFS: FsWord = 0x9123_683e;

/// The capabilities that are needed, by their bits.
const NEEDED: [(u32, &str); 2] = [(2, "CAP_DAC_READ_SEARCH"), (3, "CAP_FOWNER")];

/// How a file system makes handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handles {
    Ext,
    Xfs,
}

/// How one of its directories is come by.
#[derive(Debug)]
enum Way {
    /// It is open: the file system cannot be unmounted meanwhile.
    Open(OwnedFd),
    /// Where it is mounted.
    Place(PathBuf),
}

/// A file system, by way of one of its directories.
#[derive(Debug)]
pub(crate) struct FileSystem {
    way: Way,
    handles: Handles,
    device: u32,
}

impl FileSystem {
    /// The file system of a directory.
    ///
    /// # Errors
    /// It cannot be opened, or its files cannot be steered, and why.
    pub(crate) fn of(directory: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Place { place: directory.to_owned(), what: error.to_string() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(directory, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let kind = fstatfs(&opened).map_err(|error| failed(error.into()))?.f_type;
        let handles = match kind {
            EXT => Handles::Ext,
            XFS => Handles::Xfs,
            other => return Err(Error::Place { place: directory.to_owned(), what: refusal(other) }),
        };
        let stat = statx(&opened, c"", AtFlags::EMPTY_PATH, StatxFlags::INO).map_err(|error| failed(error.into()))?;
        Ok(Self { way: Way::Open(opened), handles, device: device(stat.stx_dev_major, stat.stx_dev_minor) })
    }

    /// The one that is mounted at a place, which anybody may unmount meanwhile.
    ///
    /// # Errors
    /// As for [`of`](Self::of).
    pub(crate) fn mounted_at(place: &Path) -> Result<Self, Error> {
        Ok(Self { way: Way::Place(place.to_owned()), ..Self::of(place)? })
    }

    /// Its device, as the kernel numbers it.
    pub(crate) fn device(&self) -> u32 {
        self.device
    }

    /// Opens a file for reading; nothing of it is read.
    ///
    /// # Errors
    /// `ESTALE` if there is no such file any more; `EPERM` without `CAP_DAC_READ_SEARCH`.
    pub(crate) fn open(&self, file: FileId) -> io::Result<OwnedFd> {
        #[repr(C)]
        struct Handle {
            bytes: u32,
            kind: c_int,
            handle: [u8; 12],
        }
        let mut handle = [0; 12];
        let (kind, bytes) = match (self.handles, u32::try_from(file.inode)) {
            (_, Ok(inode)) => {
                handle[..4].copy_from_slice(&inode.to_ne_bytes());
                handle[4..8].copy_from_slice(&file.generation.to_ne_bytes());
                (INODE_32, 8)
            }
            (Handles::Xfs, Err(_)) => {
                handle[..8].copy_from_slice(&file.inode.to_ne_bytes());
                handle[8..].copy_from_slice(&file.generation.to_ne_bytes());
                (INODE_64, 12)
            }
            (Handles::Ext, Err(_)) => return Err(io::ErrorKind::NotFound.into()),
        };
        let handle = Handle { bytes, kind, handle };
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOATIME | libc::O_NONBLOCK | libc::O_LARGEFILE;
        let there;
        let directory = match &self.way {
            Way::Open(directory) => directory,
            Way::Place(place) => {
                // If another one is mounted there now it does not know the handle, or knows another file by it.
                there = Self::of(place).map_err(|_| io::Error::from(Errno::STALE))?;
                match &there.way {
                    Way::Open(directory) if there.device == self.device => directory,
                    _ => return Err(Errno::STALE.into()),
                }
            }
        };
        // SAFETY: the handle is whole, with as many bytes as it says, and the kernel only reads it.
        let opened =
            unsafe { libc::syscall(libc::SYS_open_by_handle_at, directory.as_raw_fd(), &raw const handle, flags) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(opened as c_int) })
    }
}

/// Refuses a process that may not open the files of all users.
///
/// # Errors
/// Which capabilities it has not.
pub(crate) fn check_rights() -> Result<(), Error> {
    let missing = missing_rights(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    if missing.is_empty() { Ok(()) } else { Err(Error::Rights(missing)) }
}

fn missing_rights(status: &str) -> Vec<&'static str> {
    let effective = effective_capabilities(status).unwrap_or(u64::MAX);
    NEEDED.iter().filter(|(bit, _)| effective >> bit & 1 == 0).map(|(_, name)| *name).collect()
}

/// The inode, generation and device of an open file, and its bytes.
///
/// # Errors
/// The file system does not say.
pub(crate) fn identify(file: impl AsFd) -> io::Result<(FileId, u64)> {
    let wanted = StatxFlags::INO | StatxFlags::SIZE;
    let stat = statx(&file, c"", AtFlags::EMPTY_PATH, wanted)?;
    let mut generation: libc::c_int = 0;
    // SAFETY: the kernel writes one `int` there: the request is named for a `long`, and its handler writes an `int`.
    if unsafe { libc::ioctl(file.as_fd().as_raw_fd(), libc::FS_IOC_GETVERSION, &raw mut generation) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let device = device(stat.stx_dev_major, stat.stx_dev_minor);
    Ok((FileId { device, inode: stat.stx_ino, generation: generation.cast_unsigned() }, stat.stx_size))
}

fn device(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// Why files of this kind are not steered.
fn refusal(kind: FsWord) -> String {
    let what = match kind {
        TMPFS => "tmpfs: its pages are memory itself, and cannot leave",
        OVERLAY => "overlayfs: name the directories that lie below it, whose page cache it uses",
        FUSE => "a FUSE file system: name the directory behind it, or set the cache of the program that serves it",
        BTRFS => "btrfs: not supported yet; ext4 and XFS are",
        _ => "a file system that is not supported; ext4 and XFS are",
    };
    format!("it is on {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_that_are_missing_are_named() {
        let missing = |effective: u64| missing_rights(&format!("CapEff:\t{effective:016x}\n"));
        assert_eq!(missing(0), ["CAP_DAC_READ_SEARCH", "CAP_FOWNER"]);
        assert_eq!(missing(1 << 2), ["CAP_FOWNER"]);
        assert!(missing(1 << 2 | 1 << 3).is_empty() && missing_rights("").is_empty());
        let said = Error::Rights(missing(1 << 2)).to_string();
        assert!(said.ends_with("This process lacks CAP_FOWNER"), "{said}");
    }
}
