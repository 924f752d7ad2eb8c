//! A file of the tree below, as the device behind the pool.
//!
//! - **Length.** The file is as long as its user has made it ([`Device::len`]). The one below may be shorter until its last pages are
//!   written back: what it does not have reads as zeroes. A flush makes both equal.
//! - **Times.** A writeback would make the file below younger than its user knows it, so the time of modification is put right after it.
//! - **Page cache.** Transfers bypass the kernel's where the file system lets them; the unaligned end of a write goes through it, and is
//!   dropped. Files of other file systems are dropped behind.
//! - **Descriptors** are opened when needed and stay while somebody has the file open. Of the others, few stay.

use crate::behind::Behind;
use crate::credentials::as_writer;
use crate::descriptors::Descriptors;
use crate::inode::{Inode, Tree, attributes, proc_path};
use crate::last_change::{Below, LastChange};
use crate::layouts::Layouts;
use crate::protocol::UnderWay;
use crate::recent::{Closable, Recent};
use forebay_pool::WriteMode;
use forebay_pool::device::{Device, Extent, Reserved, Space};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify::{self, WatchFlags};
use rustix::fs::{FallocateFlags, SeekFrom, Statx, seek};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

/// How far the file below may stay behind before it is made longer at once: so a length that it cannot have is refused in time.
const BEHIND: u64 = 64 << 20;

/// The most extents that are answered at once.
const MOST_EXTENTS: usize = 1024;

/// Puts something between the pool and a file, of which it gets the number: a delay, or faults.
pub type Wrap = Box<dyn Fn(Arc<dyn Device>, u64) -> Arc<dyn Device> + Send + Sync>;

/// What the files of a mount have in common.
pub(crate) struct Files {
    pub(crate) tree: Arc<Tree>,
    pub(crate) mode: WriteMode,
    pub(crate) wrap: Option<Wrap>,
    /// Requests that wait for transfers.
    pub(crate) under_way: Arc<UnderWay>,
    /// The space of the directory's own file system.
    pub(crate) space: Space,
    /// Those with descriptors that nobody has open.
    pub(crate) idle: Recent<LowerFile>,
    /// Those that were handed over and are not on the disk yet.
    pub(crate) behind: Behind,
    /// Where they lie on their disks, if the policy goes by that.
    pub(crate) layouts: Option<Arc<Layouts>>,
    /// One that is known no more was not made durable.
    pub(crate) forgotten: AtomicBool,
}

impl Files {
    /// A file as the pool is to see it.
    pub(crate) fn device(&self, file: &Arc<LowerFile>) -> Arc<dyn Device> {
        let device = Arc::clone(file) as Arc<dyn Device>;
        match &self.wrap {
            Some(wrap) => wrap(device, file.inode.place.1),
            None => device,
        }
    }
}

/// A file below.
pub(crate) struct LowerFile {
    me: Weak<LowerFile>,
    files: Arc<Files>,
    inode: Arc<Inode>,
    /// Its number in the pool, from when it has one.
    object: OnceLock<u32>,
    name: RwLock<Arc<str>>,
    descriptors: Mutex<Option<Arc<Descriptors>>>,
    used: AtomicBool,
    /// It is among those whose descriptors may be closed.
    listed: AtomicBool,
    /// How many have it open.
    users: AtomicUsize,
    /// As its user has made it.
    length: AtomicU64,
    /// The file below was changed since it was last made durable.
    unsynced: AtomicBool,
    pub(crate) last_change: LastChange,
    failures: Mutex<Failures>,
    /// The error of the first sync that failed since it was emptied last: what was written before it may be lost, and no later sync can
    /// know.
    failed_sync: AtomicI32,
    /// Bytes of it have become dirty while little space was left, or none could be reserved.
    scarce: AtomicBool,
    /// Up to here space may have been reserved behind the end of the file below.
    reserved: AtomicU64,
    /// How many hand it over by way of the page cache below now.
    handing_over: AtomicUsize,
    /// Write-locked by the thread that waits for this file's bytes behind, read-locked by threads that sync it. The kernel reports a failed write to one of them alone.
    settling: RwLock<()>,
}

/// Writebacks that failed: everybody who has the file open then learns of it, once.
#[derive(Default)]
struct Failures {
    count: u64,
    errno: i32,
    /// How many of them somebody knows of.
    known: u64,
}

impl LowerFile {
    pub(crate) fn open(files: &Arc<Files>, inode: &Arc<Inode>, name: &Path, write: bool) -> io::Result<Arc<Self>> {
        let made = inode.opened();
        let (descriptors, found) = Descriptors::open(&files.tree, inode, write)?;
        match made {
            // Who has made it has it, whatever others have done to its name.
            Some(fd) if found.stx_nlink == 0 => inode.delete(&fd),
            Some(_) => {}
            None => inode.check_named(&found)?,
        }
        let name = name.display().to_string();
        Ok(Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            files: Arc::clone(files),
            inode: Arc::clone(inode),
            object: OnceLock::new(),
            name: RwLock::new(name.into()),
            descriptors: Mutex::new(Some(Arc::new(descriptors))),
            used: AtomicBool::new(true),
            listed: AtomicBool::new(false),
            users: AtomicUsize::new(0),
            length: AtomicU64::new(found.stx_size),
            unsynced: AtomicBool::new(false),
            last_change: LastChange::new(&found),
            failures: Mutex::default(),
            failed_sync: AtomicI32::new(0),
            scarce: AtomicBool::new(false),
            reserved: AtomicU64::new(0),
            handing_over: AtomicUsize::new(0),
            settling: RwLock::default(),
        }))
    }

    /// Its path below the mounted directory, as programs on the mount have named it last.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// It has another name.
    pub(crate) fn rename(&self, name: &str) {
        *self.name.write().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    pub(crate) fn inode(&self) -> &Arc<Inode> {
        &self.inode
    }

    /// Its disk's number.
    pub(crate) fn disk(&self) -> u32 {
        self.inode.place.0 as u32
    }

    /// It has this number in the pool.
    pub(crate) fn enter_pool(&self, object: u32) {
        if let (Some(layouts), Some(me)) = (&self.files.layouts, self.me.upgrade()) {
            layouts.enter(*self.object.get_or_init(|| object), &me);
        }
    }

    /// Some of its blocks were freed: what is known of them is dropped.
    fn forget_layout(&self) {
        if let (Some(layouts), Some(&object)) = (&self.files.layouts, self.object.get()) {
            layouts.forget(object);
        }
    }

    fn descriptors(&self, write: bool) -> io::Result<Arc<Descriptors>> {
        self.used.store(true, Ordering::Relaxed);
        let mut open = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.as_ref().filter(|open| open.writable || !write) {
            return Ok(Arc::clone(open));
        }
        let descriptors = Arc::new(Descriptors::open(&self.files.tree, &self.inode, write)?.0);
        *open = Some(Arc::clone(&descriptors));
        drop(open);
        if !self.in_use() {
            self.list();
        }
        Ok(descriptors)
    }

    /// Somebody opens it.
    ///
    /// # Errors
    /// It cannot be opened so.
    pub(crate) fn enter(&self, write: bool) -> io::Result<()> {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.descriptors(write).map(drop).inspect_err(|_| self.leave())
    }

    /// Somebody closes it.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.list();
        }
    }

    /// Its descriptors may be closed when there are many.
    fn list(&self) {
        if !self.listed.swap(true, Ordering::SeqCst) {
            self.files.idle.add(Weak::clone(&self.me));
        }
    }

    /// Whether somebody has it open.
    pub(crate) fn in_use(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }

    /// The file below, open for reading at least.
    pub(crate) fn open_below(&self) -> io::Result<Arc<Descriptors>> {
        self.descriptors(false)
    }

    /// Its attributes below.
    pub(crate) fn attributes(&self) -> io::Result<Statx> {
        attributes(self.descriptors(false)?.main.as_fd())
    }

    /// Its user writes to it.
    pub(crate) fn note_write(&self) {
        if self.files.mode == WriteMode::Back {
            self.last_change.note_write();
        }
    }

    /// Whether others have changed the file below since we last did.
    pub(crate) fn look(&self) -> io::Result<Below> {
        self.last_change.look(|| self.attributes())
    }

    /// Has inotify watch the file below; the watch's number.
    pub(crate) fn watch(&self, inotify: &OwnedFd, events: WatchFlags) -> io::Result<i32> {
        let descriptors = self.descriptors(false)?;
        Ok(inotify::add_watch(inotify, proc_path(descriptors.main.as_fd()), events)?)
    }

    /// Changes the file below.
    fn change<T>(&self, alone: bool, work: impl FnOnce(&Descriptors) -> io::Result<T>) -> io::Result<T> {
        let descriptors = self.descriptors(true)?;
        self.unsynced.store(true, Ordering::SeqCst);
        let changed = self.last_change.make(descriptors.main.as_fd(), alone, || work(&descriptors));
        self.files.under_way.note_transfer();
        changed
    }

    /// Cuts the file below where it ends: that changes nothing but what a cut takes away.
    pub(crate) fn touch_length(&self) -> io::Result<()> {
        self.change(true, |descriptors| {
            let length = attributes(descriptors.main.as_fd())?.stx_size;
            Ok(rustix::fs::ftruncate(&descriptors.main, length)?)
        })
    }

    /// Puts the time of modification right below.
    pub(crate) fn keep_times(&self) -> io::Result<()> {
        self.change(false, |_| Ok(()))
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_failure(&self, error: &io::Error) {
        let mut failures = self.failures();
        failures.count += 1;
        failures.errno = error.raw_os_error().unwrap_or(libc::EIO);
    }

    /// The failures that somebody who opens it now need not learn of, as others have.
    pub(crate) fn failures_known(&self) -> u64 {
        self.failures().known
    }

    /// The last failure since `known`, which is known then.
    pub(crate) fn failure_since(&self, known: &AtomicU64) -> Option<io::Error> {
        let mut failures = self.failures();
        failures.known = failures.count;
        let new = known.swap(failures.count, Ordering::Relaxed) < failures.count;
        new.then(|| io::Error::from_raw_os_error(failures.errno))
    }

    /// Makes the file below as long as this one.
    pub(crate) fn lengthen(&self) -> io::Result<()> {
        if self.is_caught_up() {
            return Ok(());
        }
        self.change(true, |descriptors| {
            // Who makes it shorter sets the length first, and then waits here.
            let length = self.length.load(Ordering::Acquire);
            if attributes(descriptors.main.as_fd())?.stx_size < length {
                rustix::fs::ftruncate(&descriptors.main, length)?;
            }
            Ok(())
        })
    }

    /// Makes the file below as long as this one, and durable. `data_only`: of its attributes only those that its bytes need.
    ///
    /// After a failed sync Linux takes the pages for written that it could not write, and says so at the next one. Their bytes have
    /// left this cache as clean. So the failure stays, until the file is emptied.
    pub(crate) fn sync(&self, data_only: bool) -> io::Result<()> {
        let _settled = self.settling.read().unwrap_or_else(PoisonError::into_inner);
        let kept = self.failed_sync.load(Ordering::SeqCst);
        if kept != 0 {
            return Err(io::Error::from_raw_os_error(kept));
        }
        let synced = self.lengthen().and_then(|()| {
            let descriptors = self.descriptors(false)?;
            // Before: what is written meanwhile is for the next one.
            self.unsynced.store(false, Ordering::SeqCst);
            let sync = if data_only { rustix::fs::fdatasync } else { rustix::fs::fsync };
            if let Err(error) = sync(descriptors.main.as_fd()) {
                self.unsynced.store(true, Ordering::SeqCst);
                let error = io::Error::from(error);
                self.keep_failure(&error);
                return Err(error);
            }
            descriptors.drop_behind();
            Ok(())
        });
        match synced {
            Err(error) if is_gone(&error) => Ok(()),
            synced => synced.inspect_err(|error| self.note_failure(error)),
        }
    }

    /// Hands over to the file system below what `write` writes, `bytes` in all: to its page cache, if there is room.
    pub(crate) fn hand_over<E>(&self, bytes: u64, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let behind = &self.files.behind;
        // Where space may lack its lack is to be known now.
        if self.is_scarce() || !behind.take_room(bytes) {
            return write();
        }
        self.handing_over.fetch_add(1, Ordering::SeqCst);
        let written = write();
        self.handing_over.fetch_sub(1, Ordering::SeqCst);
        match (self.me.upgrade(), self.descriptors(true)) {
            (Some(me), Ok(descriptors)) => {
                behind.add(&me, descriptors, bytes);
                // A thread that deletes the file may have asked for it to be forgotten before it was added.
                if self.inode.is_deleted() {
                    behind.forget(&me);
                }
            }
            _ => behind.give_back(bytes),
        }
        written
    }

    /// Waits until the disk has what was handed over. What it refuses is lost: the kernel takes it for written.
    pub(crate) fn finish_writing(&self, descriptors: &Descriptors) {
        let _alone = self.settling.write().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = descriptors.finish_writing() {
            self.note_failure(&error);
            self.keep_failure(&error);
        }
    }

    fn keep_failure(&self, error: &io::Error) {
        if is_gone(error) || error.kind() == io::ErrorKind::Interrupted {
            return;
        }
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        if self.failed_sync.swap(errno, Ordering::SeqCst) == 0 {
            let name = self.name();
            tracing::error!(
                "{name}: what was written did not become durable: {error}; no fsync of it succeeds until it is emptied"
            );
        }
    }

    /// Whether bytes of it may find no space, although they were taken.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::Relaxed)
    }

    /// All of it has found its space.
    pub(crate) fn note_written(&self) {
        self.scarce.store(false, Ordering::Relaxed);
    }

    /// Whether what was written to it may be lost below.
    pub(crate) fn failed_to_sync(&self) -> bool {
        self.failed_sync.load(Ordering::SeqCst) != 0
    }

    /// Whether nothing of it is to be made durable.
    pub(crate) fn is_synced(&self) -> bool {
        !self.unsynced.load(Ordering::SeqCst)
    }

    /// Whether the file below is as long as this one.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.last_change.size() >= self.len()
    }

    /// `fallocate` of the file below.
    pub(crate) fn allocate(&self, flags: FallocateFlags, offset: u64, length: u64) -> io::Result<()> {
        self.change(false, |descriptors| {
            let allocate = || Ok(rustix::fs::fallocate(&descriptors.main, flags, offset, length)?);
            as_writer(self.files.tree.superuser(), allocate)
        })
    }

    fn write_runs(&self, runs: &[(u64, &[IoSlice<'_>])]) -> Vec<io::Result<()>> {
        let mut results = Vec::new();
        let changed = self.change(false, |descriptors| {
            let to_cache = self.handing_over.load(Ordering::SeqCst) > 0;
            let write = if to_cache { Descriptors::write_to_cache } else { Descriptors::write };
            results = runs.iter().map(|(offset, run)| write(descriptors, *offset, run)).collect();
            Ok(())
        });
        if let Err(error) = changed {
            let answer = || if is_gone(&error) { Ok(()) } else { Err(again(&error)) };
            results = runs.iter().map(|_| answer()).collect();
        }
        results.iter().filter_map(|result| result.as_ref().err()).for_each(|error| self.note_failure(error));
        results
    }
}

impl Drop for LowerFile {
    fn drop(&mut self) {
        if let (Some(layouts), Some(&object)) = (&self.files.layouts, self.object.get()) {
            layouts.leave(object, self);
        }
        if self.is_synced() || self.inode.is_deleted() {
            return;
        }
        if self.inode.place.0 == self.files.space.device() {
            self.files.forgotten.store(true, Ordering::SeqCst);
        } else {
            // Another file system, mounted in the tree, which the flush of this one does not reach. A failure is in the log.
            let _ = self.sync(true);
        }
    }
}

/// Whether the file below was deleted behind our back: nobody wants its bytes any more.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESTALE)
}

/// An error for several.
fn again(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Closable for LowerFile {
    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    fn close(&self) {
        self.listed.store(false, Ordering::SeqCst);
        let mut descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.in_use() {
            *descriptors = None;
        }
    }
}

impl Device for LowerFile {
    fn len(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// A farther end is the file's below only when that comes to it, or lies too far behind.
    fn set_len(&self, length: u64) -> io::Result<()> {
        let before = self.length.swap(length, Ordering::AcqRel);
        if length == 0 {
            // What was lost is wanted no more.
            self.failed_sync.store(0, Ordering::SeqCst);
        }
        let below = self.last_change.size();
        let set = if length < below.max(self.reserved.load(Ordering::Acquire)) {
            self.reserved.store(length, Ordering::Release);
            self.change(false, |descriptors| {
                rustix::fs::ftruncate(&descriptors.main, length)?;
                // One that makes the file longer leaves what was reserved behind its new end: ext4 frees that where the length stays. An allocation
                // that is refused has taken all that was left.
                if length > below { Ok(rustix::fs::ftruncate(&descriptors.main, length)?) } else { Ok(()) }
            })
        } else if length - below > BEHIND {
            self.lengthen()
        } else {
            Ok(())
        };
        if length < below {
            self.forget_layout();
        }
        set.inspect_err(|_| self.length.store(before, Ordering::Release))
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let read = self.descriptors(false)?.read(offset, buffers);
        self.files.under_way.note_transfer();
        read
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.write_runs(&[(offset, buffers)]).remove(0)
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        let runs: Vec<_> = runs.iter().map(|(offset, run)| (*offset, std::slice::from_ref(run))).collect();
        self.write_runs(&runs)
    }

    fn flush(&self) -> io::Result<()> {
        if self.is_synced() && self.is_caught_up() { Ok(()) } else { self.sync(true) }
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.write_zeroes(offset, length, false)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        let way = if allocate { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
        let written = self.allocate(way | FallocateFlags::KEEP_SIZE, offset, length);
        if !allocate {
            self.forget_layout();
        }
        written
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        let descriptors = self.descriptors(false)?;
        let (mut at, end) = (offset, offset + length);
        let mut extents = Vec::new();
        while at < end && extents.len() < MOST_EXTENTS {
            let data = match seek(&descriptors.main, SeekFrom::Data(at)) {
                Ok(data) => data.min(end),
                // None from here on.
                Err(Errno::NXIO) => end,
                Err(error) => return Err(error.into()),
            };
            if data > at {
                extents.push(Extent { length: data - at, hole: true, zero: true });
                at = data;
                continue;
            }
            let hole = seek(&descriptors.main, SeekFrom::Hole(at))?.min(end);
            extents.push(Extent { length: hole - at, hole: false, zero: false });
            at = hole;
        }
        Ok(extents)
    }

    fn spaces(&self) -> Vec<Space> {
        // A tree may have file systems mounted in it.
        if self.inode.place.0 == self.files.space.device() {
            return vec![self.files.space.clone()];
        }
        let of_other = self.descriptors(false).and_then(|descriptors| Space::new(&descriptors.main));
        of_other.into_iter().collect()
    }

    fn reserve(&self, offset: u64, length: u64) -> io::Result<Reserved> {
        let spaces = self.spaces();
        let Some(space) = spaces.first() else { return Ok(Reserved::Unknown) };
        let descriptors = self.descriptors(true)?;
        self.reserved.fetch_max(offset + length, Ordering::AcqRel);
        // It may allocate, which changes the file below.
        let reserve = || as_writer(self.files.tree.superuser(), || space.reserve(&descriptors.main, offset, length));
        let reserved = self.last_change.make(descriptors.main.as_fd(), false, reserve)?;
        // A range that has its space may need more for its place in the file's map, as it is written.
        self.scarce.fetch_or(reserved != Reserved::Plenty, Ordering::Relaxed);
        Ok(reserved)
    }

    fn describe(&self) -> String {
        self.name().to_string()
    }
}
