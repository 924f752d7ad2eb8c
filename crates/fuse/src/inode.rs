//! The tree below: its files by what they are, never by a path that a rename breaks.
//!
//! An inode keeps the descriptor by which it was found. Where the process may open file handles (root, and a file system that has them),
//! few of those descriptors stay: of the others' inodes the handle is kept, so that a million known files need no million descriptors.

use crate::claim::Claim;
use crate::mount::Options;
use crate::recent::{Closable, Recent};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Path descriptors and file descriptors that are kept open, of those that can be opened again.
const MOST_PATHS: usize = 4096;
const MOST_FILES: usize = 2048;

/// What is asked of an inode.
pub(crate) const ATTRIBUTES: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The directory that is mounted elsewhere, and how what is in it is opened.
pub(crate) struct Tree {
    source: PathBuf,
    pub(crate) prefix: PathBuf,
    root: OwnedFd,
    /// What keeps other mounts out.
    _claim: Claim,
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
    /// It had names when it was found. Some file systems do not count them.
    named: bool,
    /// The mount whose handles can be opened.
    mount: Option<i32>,
    kept: Mutex<Kept>,
    used: AtomicBool,
    /// It has no name any more, as far as is known: no handle opens it then, so its descriptor stays.
    deleted: AtomicBool,
}

/// By what an inode is found again: there is a descriptor, or a handle.
struct Kept {
    /// A path descriptor, or one that was opened as the file was made.
    fd: Option<Arc<OwnedFd>>,
    /// `fd` reads and writes the file, and nobody has taken it for that.
    opened: bool,
    /// From when a descriptor was closed.
    handle: Option<Handle>,
}

#[derive(Clone, PartialEq, Eq)]
struct Handle {
    kind: i32,
    bytes: Box<[u8]>,
}

impl Tree {
    /// Opens the directory, for this mount alone unless it only reads.
    ///
    /// # Errors
    /// What cannot be done, with the path.
    pub(crate) fn open(options: &Options, source: &Path) -> io::Result<Self> {
        let failed = |error: Errno| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{}: cannot be opened: {error}", source.display()))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(source, flags, Mode::empty()).map_err(failed)?;
        let claim = Claim::new(&root, options.read_only)?;
        let limit = raise_descriptor_limit() / options.mounts;
        let superuser = geteuid().is_root();
        let mount = handle_of(root.as_fd()).filter(|(handle, _)| open_handle(&root, handle, OFlags::PATH).is_ok());
        Ok(Self {
            source: source.to_owned(),
            prefix: options.prefix.clone(),
            root,
            _claim: claim,
            mount: mount.map(|(_, mount)| mount),
            superuser,
            paths: Recent::new(MOST_PATHS.min(limit / 4)),
            files: MOST_FILES.min(limit / 4),
            direct: AtomicBool::new(options.direct),
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

    /// The inode of a descriptor, which it has for now. `opened`: that is open for reading and writing.
    pub(crate) fn inode(&self, fd: &Arc<OwnedFd>, opened: bool, found: &Statx) -> Arc<Inode> {
        let (place, named) = (place_of(found), found.stx_nlink > 0);
        let kept = Mutex::new(Kept { fd: Some(Arc::clone(fd)), opened, handle: None });
        let (used, deleted) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Inode { place, named, mount: self.mount, kept, used, deleted })
    }

    /// Gives an inode a descriptor, if it has none.
    pub(crate) fn keep(&self, inode: &Arc<Inode>, fd: &Arc<OwnedFd>) {
        let mut kept = inode.kept();
        if kept.fd.is_none() {
            kept.fd = Some(Arc::clone(fd));
            drop(kept);
            self.list(inode);
        }
    }

    /// An inode has a descriptor now, which is closed when others are used and this is not.
    pub(crate) fn list(&self, inode: &Arc<Inode>) {
        if self.reopens() {
            self.paths.add(Arc::downgrade(inode));
        }
    }

    /// A descriptor of an inode, to be used as a path descriptor.
    ///
    /// # Errors
    /// It has gone, behind our back.
    pub(crate) fn path(&self, inode: &Arc<Inode>) -> io::Result<Arc<OwnedFd>> {
        inode.used.store(true, Ordering::Relaxed);
        let mut kept = inode.kept();
        if let Some(fd) = &kept.fd {
            return Ok(Arc::clone(fd));
        }
        let handle = kept.handle.as_ref().ok_or(Errno::STALE)?;
        let fd = Arc::new(open_handle(&self.root, handle, OFlags::PATH | OFlags::NOFOLLOW)?);
        kept.fd = Some(Arc::clone(&fd));
        drop(kept);
        self.list(inode);
        Ok(fd)
    }

    /// Opens an inode's bytes or entries.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn open_inode(&self, inode: &Arc<Inode>, flags: OFlags) -> io::Result<OwnedFd> {
        reopen(self.path(inode)?.as_fd(), flags)
    }

    /// Opens a file's bytes, past the page cache if the file system lets them. Answers whether it does, and whether they can be written.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn open_file(&self, inode: &Arc<Inode>, writable: bool) -> io::Result<(Arc<OwnedFd>, bool, bool)> {
        let direct = self.direct.load(Ordering::Relaxed);
        if let Some(fd) = inode.take_opened() {
            let direct = direct && rustix::fs::fcntl_setfl(&fd, OFlags::DIRECT).is_ok();
            return Ok((fd, direct, true));
        }
        let access = OFlags::NOCTTY | if writable { OFlags::RDWR } else { OFlags::RDONLY };
        if direct {
            match self.open_inode(inode, access | OFlags::DIRECT) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.direct.store(false, Ordering::Relaxed),
                opened => return opened.map(|fd| (Arc::new(fd), true, writable)),
            }
        }
        self.open_inode(inode, access).map(|fd| (Arc::new(fd), false, writable))
    }

    /// A file's name as it is now, for messages, rules and traces: its path below the directory, behind the prefix.
    pub(crate) fn name_of(&self, fd: BorrowedFd<'_>) -> PathBuf {
        self.prefix.join(self.path_below(fd))
    }

    /// A file's path below the directory, as it is now.
    pub(crate) fn path_below(&self, fd: BorrowedFd<'_>) -> PathBuf {
        let path = std::fs::read_link(proc_path(fd)).unwrap_or_default();
        path.strip_prefix(&self.source).map_or_else(|_| path.clone(), Path::to_owned)
    }
}

impl Inode {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another inode cannot have its number, since a descriptor holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.kept().fd.is_some()
    }

    /// Whether it is the inode of a descriptor of the same place.
    pub(crate) fn is(&self, fd: BorrowedFd<'_>) -> bool {
        let kept = self.kept();
        kept.fd.is_some() || handle_of(fd).is_some_and(|(handle, _)| Some(&handle) == kept.handle.as_ref())
    }

    /// The descriptor that reads and writes it, if it was opened as the file was made and nobody has taken it yet.
    pub(crate) fn opened(&self) -> Option<Arc<OwnedFd>> {
        let kept = self.kept();
        if kept.opened { kept.fd.clone() } else { None }
    }

    /// The same, which is taken then.
    fn take_opened(&self) -> Option<Arc<OwnedFd>> {
        let mut kept = self.kept();
        if std::mem::take(&mut kept.opened) { kept.fd.clone() } else { None }
    }

    /// Who has made it has closed it: the descriptor of then may go, as any other.
    pub(crate) fn closed(&self) {
        self.kept().opened = false;
    }

    /// Whether its last name has gone, as far as is known.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Whether it has no name, as a look at it says.
    pub(crate) fn is_gone(&self) -> bool {
        let fd = if self.is_deleted() { self.kept().fd.clone() } else { None };
        fd.is_some_and(|fd| attributes(fd.as_fd()).is_ok_and(|found| found.stx_nlink == 0))
    }

    /// Refuses what was deleted behind our back, and may be opened by nobody any more: the kernel then looks at the name again.
    pub(crate) fn check_named(&self, found: &Statx) -> io::Result<()> {
        if self.named && found.stx_nlink == 0 && !self.is_deleted() { Err(Errno::STALE.into()) } else { Ok(()) }
    }

    /// Takes note that it has got a name.
    pub(crate) fn named(&self) {
        self.deleted.store(false, Ordering::Relaxed);
    }

    /// Takes note that its last name has gone. No handle opens it now: this descriptor does.
    pub(crate) fn delete(&self, fd: &Arc<OwnedFd>) {
        self.kept().fd.get_or_insert_with(|| Arc::clone(fd));
        self.deleted.store(true, Ordering::Relaxed);
    }
}

impl Closable for Inode {
    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    fn close(&self) {
        let mut kept = self.kept();
        // Who has made the file and has it open needs its descriptor, even if others delete the file below.
        if self.is_deleted() || kept.opened {
            return;
        }
        if let (None, Some(fd)) = (&kept.handle, &kept.fd) {
            kept.handle =
                handle_of(fd.as_fd()).filter(|(_, mount)| Some(*mount) == self.mount).map(|(handle, _)| handle);
        }
        if kept.handle.is_some() {
            kept.fd = None;
        }
    }
}

/// What is known of an open file or path descriptor.
pub(crate) fn attributes(fd: BorrowedFd<'_>) -> io::Result<Statx> {
    Ok(statx(fd, c"", AtFlags::EMPTY_PATH, ATTRIBUTES)?)
}

/// What is known of a name in a directory.
pub(crate) fn attributes_at(parent: &OwnedFd, name: &OsStr) -> io::Result<Statx> {
    Ok(statx(parent, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, ATTRIBUTES)?)
}

/// Device and number.
pub(crate) fn place_of(found: &Statx) -> (u64, u64) {
    (rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino)
}

/// A path descriptor of a name in a directory.
pub(crate) fn find(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
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
