//! The tree below: its files by what they are, never by a path that a rename breaks.
//!
//! An inode is known by its file handle where the process may open those (root, and a file system that has them): then its descriptor
//! may be closed and opened again, so that a million known files need no million descriptors. Elsewhere a path descriptor is kept.

use crate::recent::{Closable, Recent};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use std::ffi::CStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Path descriptors and file descriptors that are kept open, of those that can be opened again.
const MOST_PATHS: usize = 4096;
const MOST_FILES: usize = 2048;

/// What is asked of an inode.
pub(crate) const ATTRIBUTES: StatxFlags = StatxFlags::BASIC_STATS;

/// The directory that is mounted elsewhere, and how what is in it is opened.
pub(crate) struct Tree {
    source: PathBuf,
    root: OwnedFd,
    /// The mount whose handles can be opened; none can without.
    mount: Option<i32>,
    superuser: bool,
    paths: Recent<Inode>,
    files: usize,
    /// Files bypass the page cache, until the file system refuses that.
    direct: AtomicBool,
}

/// A file, directory or whatever else is in the tree.
pub(crate) struct Inode {
    /// Device and number. A handle tells apart those that have had one number after the other.
    pub(crate) place: (u64, u64),
    handle: Option<Handle>,
    path: Mutex<Option<Arc<OwnedFd>>>,
    used: AtomicBool,
    /// It has no name any more: no handle opens it, so its path descriptor stays.
    deleted: AtomicBool,
}

#[derive(Clone, PartialEq, Eq)]
struct Handle {
    kind: i32,
    bytes: Box<[u8]>,
}

impl Tree {
    /// Opens the directory.
    ///
    /// # Errors
    /// What cannot be done, with the path.
    pub(crate) fn open(source: &Path, direct: bool) -> io::Result<Self> {
        let failed = |error: Errno| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{}: cannot be opened: {error}", source.display()))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(source, flags, Mode::empty()).map_err(failed)?;
        let limit = raise_descriptor_limit();
        let superuser = geteuid().is_root();
        let mount = handle_of(root.as_fd()).filter(|(handle, _)| open_handle(&root, handle, OFlags::PATH).is_ok());
        Ok(Self {
            source: source.to_owned(),
            root,
            mount: mount.map(|(_, mount)| mount),
            superuser,
            paths: Recent::new(MOST_PATHS.min(limit / 4)),
            files: MOST_FILES.min(limit / 4),
            direct: AtomicBool::new(direct),
        })
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Whether the process can do everything.
    pub(crate) fn superuser(&self) -> bool {
        self.superuser
    }

    /// Whether an inode without descriptors can be opened again.
    pub(crate) fn reopens(&self) -> bool {
        self.mount.is_some()
    }

    /// How many files that nobody uses may stay open.
    pub(crate) fn most_files(&self) -> usize {
        self.files
    }

    /// The inode of a path descriptor or an open file.
    pub(crate) fn inode(&self, fd: BorrowedFd<'_>, place: (u64, u64)) -> io::Result<Arc<Inode>> {
        let handle = handle_of(fd).filter(|(_, mount)| Some(*mount) == self.mount).map(|(handle, _)| handle);
        let path = if handle.is_some() { None } else { Some(Arc::new(reopen(fd, OFlags::PATH)?)) };
        let (used, deleted) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Arc::new(Inode { place, handle, path: Mutex::new(path), used, deleted }))
    }

    /// Keeps a path descriptor of an inode that has none, for its next use.
    pub(crate) fn keep(&self, inode: &Arc<Inode>, fd: OwnedFd) {
        let mut path = inode.path();
        if path.is_none() {
            *path = Some(Arc::new(fd));
            drop(path);
            self.paths.add(Arc::downgrade(inode));
        }
    }

    /// A path descriptor of an inode.
    ///
    /// # Errors
    /// It has gone, behind our back.
    pub(crate) fn path(&self, inode: &Arc<Inode>) -> io::Result<Arc<OwnedFd>> {
        inode.used.store(true, Ordering::Relaxed);
        let mut path = inode.path();
        if let Some(path) = &*path {
            return Ok(Arc::clone(path));
        }
        let handle = inode.handle.as_ref().ok_or(Errno::STALE)?;
        let fd = Arc::new(open_handle(&self.root, handle, OFlags::PATH | OFlags::NOFOLLOW)?);
        *path = Some(Arc::clone(&fd));
        drop(path);
        self.paths.add(Arc::downgrade(inode));
        Ok(fd)
    }

    /// Opens an inode's bytes or entries.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn open_inode(&self, inode: &Arc<Inode>, flags: OFlags) -> io::Result<OwnedFd> {
        match &inode.handle {
            Some(handle) if !inode.is_deleted() => open_handle(&self.root, handle, flags),
            _ => reopen(self.path(inode)?.as_fd(), flags),
        }
    }

    /// The same of a file, which bypasses the page cache if the file system lets it; whether it does.
    pub(crate) fn open_file(&self, inode: &Arc<Inode>, flags: OFlags) -> io::Result<(OwnedFd, bool)> {
        if self.direct.load(Ordering::Relaxed) {
            match self.open_inode(inode, flags | OFlags::DIRECT) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.direct.store(false, Ordering::Relaxed),
                opened => return opened.map(|fd| (fd, true)),
            }
        }
        self.open_inode(inode, flags).map(|fd| (fd, false))
    }

    /// Makes a file that was opened without care bypass the page cache; whether it does.
    pub(crate) fn make_direct(&self, fd: BorrowedFd<'_>) -> bool {
        self.direct.load(Ordering::Relaxed)
            && rustix::fs::fcntl_getfl(fd).and_then(|flags| rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT)).is_ok()
    }

    /// A file's path below the directory, as it is now: for messages and traces.
    pub(crate) fn name_of(&self, fd: BorrowedFd<'_>) -> PathBuf {
        let path = std::fs::read_link(proc_path(fd)).unwrap_or_default();
        path.strip_prefix(&self.source).map_or_else(|_| path.clone(), Path::to_owned)
    }
}

impl Inode {
    fn path(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another inode cannot have its number, since a descriptor holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.path().is_some()
    }

    /// Whether it is the inode of a descriptor.
    pub(crate) fn is(&self, fd: BorrowedFd<'_>) -> bool {
        self.handle.is_some() && handle_of(fd).is_some_and(|(handle, _)| Some(&handle) == self.handle.as_ref())
    }

    /// Whether both stand for the same file, of equal places.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.is_held() || self.handle.is_some() && self.handle == other.handle
    }

    /// Whether its last name has gone.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Takes note that its last name has gone. No handle opens it now: this path descriptor does.
    pub(crate) fn delete(&self, fd: &Arc<OwnedFd>) {
        *self.path() = Some(Arc::clone(fd));
        self.deleted.store(true, Ordering::Relaxed);
    }
}

impl Closable for Inode {
    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    fn close(&self) {
        let mut path = self.path();
        if self.handle.is_some() && !self.is_deleted() {
            *path = None;
        }
    }
}

/// What is known of an open file or path descriptor.
pub(crate) fn attributes(fd: BorrowedFd<'_>) -> io::Result<Statx> {
    Ok(statx(fd, c"", AtFlags::EMPTY_PATH, ATTRIBUTES)?)
}

/// Device and number.
pub(crate) fn place_of(found: &Statx) -> (u64, u64) {
    (rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino)
}

/// A path descriptor of a name in a directory.
pub(crate) fn find(parent: BorrowedFd<'_>, name: &std::ffi::OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name.as_bytes(), flags, Mode::empty())?)
}

/// The path under which the kernel finds a descriptor of this process, itself and nothing behind it.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Opens the file of a path descriptor.
fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(proc_path(fd), flags | OFlags::CLOEXEC, Mode::empty())?)
}

#[repr(C)]
struct RawHandle {
    head: libc::file_handle,
    bytes: [u8; libc::MAX_HANDLE_SZ as usize],
}

impl RawHandle {
    fn new(kind: i32, bytes: &[u8]) -> Self {
        // SAFETY: plain integers, for which zero is a value.
        let mut raw: Self = unsafe { std::mem::zeroed() };
        raw.head.handle_bytes = bytes.len() as u32;
        raw.head.handle_type = kind;
        raw.bytes[..bytes.len()].copy_from_slice(bytes);
        raw
    }
}

/// The handle of a descriptor's file, and its mount; none where the file system has no handles.
fn handle_of(fd: BorrowedFd<'_>) -> Option<(Handle, i32)> {
    let mut raw = RawHandle::new(0, &[]);
    raw.head.handle_bytes = libc::MAX_HANDLE_SZ as u32;
    let mut mount = 0;
    let empty: &CStr = c"";
    // SAFETY: the handle has room for as many bytes as it says, the most there can be; the other pointers are to a string and an integer.
    let done = unsafe {
        libc::name_to_handle_at(
            fd.as_raw_fd(),
            empty.as_ptr(),
            (&raw mut raw).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    let bytes = raw.bytes.get(..raw.head.handle_bytes as usize)?;
    (done == 0).then(|| (Handle { kind: raw.head.handle_type, bytes: bytes.into() }, mount))
}

fn open_handle(mount: &OwnedFd, handle: &Handle, flags: OFlags) -> io::Result<OwnedFd> {
    let mut raw = RawHandle::new(handle.kind, &handle.bytes);
    let flags = (flags | OFlags::CLOEXEC).bits() as i32;
    // SAFETY: the handle has as many bytes as it says, and the kernel only reads it.
    let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets the process have as many descriptors as it may; how many.
fn raise_descriptor_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(1 << 20);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }).is_ok();
    usize::try_from(if raised { most } else { current.unwrap_or(most) }).unwrap_or(usize::MAX)
}
