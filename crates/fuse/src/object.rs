//! A file's bytes: read and written through the pool.

use crate::device::{Files, LowerFile};
use crate::error::errno;
use crate::file_limit;
use crate::inode::Inode;
use crate::last_change::Below;
use crate::managing::Users;
use crate::privileges::Bare;
use crate::protocol::Errno;
use forebay_pool::device::Device;
use forebay_pool::{Durability, Handle, Pool, Volume, VolumeConfig};
use rustix::fs::{FallocateFlags, Statx};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A file with bytes in the pool, from the first time that it is opened until nothing of it is known there.
pub(crate) struct Object {
    /// The file's number for the kernel.
    pub(crate) number: u64,
    /// Its number for whoever watches, or [`UNNUMBERED`]: who watches keeps the name of each file that has a number.
    watched: AtomicU32,
    pub(crate) file: Arc<LowerFile>,
    pub(crate) volume: Arc<Volume>,
    pub(crate) users: Users,
    /// Shared by reads and writes within the file; held alone by what changes its length.
    shape: RwLock<()>,
    /// The kernel has copies of its pages, for programs that map it.
    mapped: AtomicBool,
    /// It waits among those that nobody has open.
    pub(crate) resting: AtomicBool,
    pub(crate) bare: Bare,
    /// It was made or emptied, and the file below has not got its contents since.
    fresh: AtomicBool,
    /// The number of its watch for changes below, or [`UNWATCHED`].
    watch: AtomicI32,
    /// It was changed below while it had changes of its own, which was said.
    conflict: AtomicBool,
}

/// The watch of a file that has none.
const UNWATCHED: i32 = -1;

/// Nobody who watches has asked for a file's number.
const UNNUMBERED: u32 = u32::MAX;

/// Whether a request could be done at once.
pub(crate) enum Done<T> {
    /// It is done.
    Now(T),
    /// It has to wait, and is to be asked for again where that harms nobody.
    Later,
}

/// What came of a look at the file below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Nobody else has changed it.
    Same,
    /// It is to be looked at again, once our own changes are written.
    Later,
    /// It has new contents.
    New,
}

/// What is to be true when a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The cache has the bytes; with write-through, the file below has them.
    Cached,
    /// The bytes are durable.
    Data,
    /// And so are all attributes.
    Everything,
}

impl Until {
    /// As a file was opened.
    pub(crate) fn of_flags(flags: i32) -> Self {
        match flags & libc::O_SYNC {
            libc::O_SYNC => Self::Everything,
            libc::O_DSYNC => Self::Data,
            _ => Self::Cached,
        }
    }
}

/// Bytes to be written. `wait`: as long as it takes.
pub(crate) struct Bytes<'d> {
    pub(crate) offset: u64,
    pub(crate) data: &'d [u8],
    pub(crate) until: Until,
    pub(crate) wait: bool,
}

impl Object {
    pub(crate) fn attach(
        pool: &Pool,
        (files, inode, number): (&Arc<Files>, &Arc<Inode>, u64),
        (name, config): (&Path, &VolumeConfig),
        write: bool,
    ) -> io::Result<Arc<Self>> {
        let made = inode.opened().is_some();
        let file = LowerFile::open(files, inode, name, write)?;
        let config = VolumeConfig { name: file.name().to_string(), ..config.clone() };
        let volume = pool.attach(files.device(&file), config);
        file.enter_pool(volume.id());
        let (mapped, resting) = (AtomicBool::new(false), AtomicBool::new(false));
        let (fresh, shape) = (AtomicBool::new(made), RwLock::new(()));
        Ok(Arc::new(Self {
            number,
            watched: AtomicU32::new(UNNUMBERED),
            file,
            volume,
            users: Users::default(),
            shape,
            mapped,
            resting,
            bare: Bare::default(),
            fresh,
            watch: AtomicI32::new(UNWATCHED),
            conflict: AtomicBool::new(false),
        }))
    }

    /// The number that the watch knows it by. The watch is asked for one by the name, if it has none.
    pub(crate) fn watched(&self, number: impl FnOnce(&str) -> u32) -> u32 {
        match self.watched.load(Ordering::Relaxed) {
            UNNUMBERED => {
                let given = number(&self.file.name());
                self.watched.store(given, Ordering::Relaxed);
                given
            }
            known => known,
        }
    }

    /// It has another name: whoever watches takes it for another file.
    pub(crate) fn rename(&self, name: &str) {
        self.file.rename(name);
        self.watched.store(UNNUMBERED, Ordering::Relaxed);
    }

    /// The kernel keeps copies of its pages from now on; whether that is new.
    pub(crate) fn map(&self) -> bool {
        !self.mapped.swap(true, Ordering::Relaxed)
    }

    /// Its changes below are noticed, by this watch.
    pub(crate) fn set_watch(&self, number: i32) {
        self.watch.store(number, Ordering::SeqCst);
    }

    /// Its watch, which is to be taken away.
    pub(crate) fn take_watch(&self) -> Option<i32> {
        let number = self.watch.swap(UNWATCHED, Ordering::SeqCst);
        (number != UNWATCHED).then_some(number)
    }

    fn within(&self, wait: bool) -> Option<RwLockReadGuard<'_, ()>> {
        if wait { Some(self.shape.read().unwrap_or_else(PoisonError::into_inner)) } else { self.shape.try_read().ok() }
    }

    fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.shape.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads up to the end of the file; how much there was.
    pub(crate) fn read(&self, handle: &Handle, offset: u64, room: &mut [u8], wait: bool) -> Result<Done<usize>, Errno> {
        let Some(_shape) = self.within(wait) else { return Ok(Done::Later) };
        let there = self.volume.len().saturating_sub(offset).min(room.len() as u64) as usize;
        let room = &mut room[..there];
        if there == 0 {
            // The end may have come nearer than `offset`.
        } else if wait {
            handle.read_at(&self.volume, offset, room).map_err(|error| errno(&error))?;
        } else if !handle.read_at_if_resident(&self.volume, offset, room) {
            return Ok(Done::Later);
        }
        Ok(Done::Now(there))
    }

    /// Writes; the file becomes longer if need be.
    pub(crate) fn write(&self, handle: &Handle, bytes: &Bytes<'_>) -> Result<Done<()>, Errno> {
        let end = bytes.offset.checked_add(bytes.data.len() as u64);
        let end = end.filter(|end| file_limit::allows(*end)).ok_or(Errno::EFBIG)?;
        let Some(shape) = self.within(bytes.wait) else { return Ok(Done::Later) };
        self.file.note_write();
        let written = if end <= self.volume.len() {
            self.put(handle, bytes)?
        } else {
            drop(shape);
            self.append(handle, bytes, end)?
        };
        if bytes.until == Until::Everything {
            self.file.sync(false)?;
        }
        Ok(written)
    }

    /// Writes what ends behind the end of the file. Nobody sees it longer without the bytes.
    fn append(&self, handle: &Handle, bytes: &Bytes<'_>, end: u64) -> Result<Done<()>, Errno> {
        let _alone = match self.shape.try_write() {
            Ok(alone) => alone,
            Err(_) if bytes.wait => self.alone(),
            Err(_) => return Ok(Done::Later),
        };
        let before = self.volume.len();
        // A dirty page found room as far as the file went then. Blocks below may be shorter than pages, so the rest of it may have none.
        if self.file.is_scarce() {
            if !bytes.wait {
                return Ok(Done::Later);
            } else if bytes.offset <= before {
                self.file.reserve(before, end - before)?;
            } else if self.volume.dirty_pages() > 0 {
                handle.flush(&self.volume).map_err(|error| errno(&error))?;
            }
        }
        self.lengthen(handle, end)?;
        let written = self.put(handle, bytes);
        if !matches!(written, Ok(Done::Now(()))) {
            handle.set_len(&self.volume, before).map_err(|error| errno(&error))?;
        }
        written
    }

    fn put(&self, handle: &Handle, &Bytes { offset, data, until, wait }: &Bytes<'_>) -> Result<Done<()>, Errno> {
        if !wait {
            let ready = handle.write_at_if_ready(&self.volume, offset, data);
            return Ok(if ready { Done::Now(()) } else { Done::Later });
        }
        let durability = if until == Until::Cached { Durability::Flush } else { Durability::Now };
        let written = handle.write_at(&self.volume, offset, data, durability);
        written.map(Done::Now).map_err(|error| errno(&error))
    }

    fn lengthen(&self, handle: &Handle, end: u64) -> Result<(), Errno> {
        if end > self.volume.len() { handle.set_len(&self.volume, end).map_err(|error| errno(&error)) } else { Ok(()) }
    }

    /// Gives the file below its new end, or takes the end back if that is refused.
    fn lengthen_below(&self, handle: &Handle, before: u64) -> Result<(), Errno> {
        let lengthened = self.file.lengthen();
        if lengthened.is_err() && before < self.volume.len() {
            handle.set_len(&self.volume, before).map_err(|error| errno(&error))?;
        }
        Ok(lengthened?)
    }

    /// Makes it as long as this, below, too.
    pub(crate) fn set_len(&self, handle: &Handle, length: u64) -> Result<(), Errno> {
        let _alone = self.alone();
        self.file.note_write();
        if length == 0 && !self.volume.is_empty() {
            self.fresh.store(true, Ordering::Relaxed);
        }
        let before = self.volume.len();
        // The last page found room up to that end. Longer, it would be written whole, and blocks behind the end may have no room.
        if length > before && self.file.is_scarce() && self.volume.dirty_pages() > 0 {
            handle.flush(&self.volume).map_err(|error| errno(&error))?;
        }
        handle.set_len(&self.volume, length).map_err(|error| errno(&error))?;
        self.lengthen_below(handle, before)?;
        // Nothing may have changed below: what it had of the file was still to be written.
        self.file.keep_times()?;
        Ok(())
    }

    /// Whether the file below is to get its contents when it is closed: it was made or emptied, and has not got any since; or little
    /// space was left.
    pub(crate) fn is_fresh(&self) -> bool {
        (self.fresh.load(Ordering::Relaxed) || self.file.is_scarce()) && self.has_unwritten()
    }

    /// Whether the file below lacks something of what it has here.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.volume.dirty_pages() > 0 || !self.file.is_caught_up()
    }

    /// Gives the file below the contents that it has here, if it has others. They are not durable by that.
    pub(crate) fn hand_over(&self, pool: &Pool) -> Result<(), Errno> {
        if !self.has_unwritten() {
            return Ok(());
        }
        self.file
            .hand_over(self.volume.dirty_bytes(), || pool.write_back(&self.volume))
            .map_err(|error| errno(&error))?;
        self.file.lengthen()?;
        self.fresh.store(false, Ordering::Relaxed);
        // Others write meanwhile: a program that was forked closes the file, too.
        let _alone = self.alone();
        if self.volume.dirty_pages() == 0 {
            self.file.note_written();
        }
        Ok(())
    }

    /// Makes what was written durable.
    pub(crate) fn sync(&self, handle: &Handle, data_only: bool) -> Result<(), Errno> {
        let synced = self.file.is_synced() && self.volume.dirty_pages() == 0;
        handle.flush(&self.volume).map_err(|error| errno(&error))?;
        // A flush that had something to do has made the bytes durable.
        if !data_only || synced {
            self.file.sync(data_only)?;
        }
        Ok(())
    }

    /// Allocates, punches or zeroes.
    pub(crate) fn allocate(
        &self,
        handle: &Handle,
        offset: u64,
        length: u64,
        flags: FallocateFlags,
    ) -> Result<(), Errno> {
        let keep = flags.contains(FallocateFlags::KEEP_SIZE);
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let way = flags - FallocateFlags::KEEP_SIZE;
        let _alone = self.alone();
        let before = self.volume.len();
        self.file.note_write();
        if way == FallocateFlags::PUNCH_HOLE || way == FallocateFlags::ZERO_RANGE {
            let there = end.min(before).saturating_sub(offset);
            let zeroes = way == FallocateFlags::ZERO_RANGE;
            if zeroes {
                // Refused here, if it is, before anything has changed: some file systems allocate, and do not zero. And what lies behind the end gets its space.
                self.file.allocate(flags | FallocateFlags::KEEP_SIZE, offset, length)?;
            }
            if there > 0 {
                let zeroed = handle.write_zeroes(&self.volume, offset, there, zeroes, Durability::Flush);
                zeroed.map_err(|error| errno(&error))?;
            }
        } else {
            // What the file below has behind the end of this one would not become part of it.
            self.file.allocate(flags | FallocateFlags::KEEP_SIZE, offset, length)?;
        }
        if !keep && end > before {
            self.lengthen(handle, end)?;
            self.lengthen_below(handle, before)?;
        }
        Ok(())
    }

    /// The next byte from `offset` on that lies in a hole, or does not.
    pub(crate) fn seek(&self, handle: &Handle, offset: u64, hole: bool) -> Result<u64, Errno> {
        let _alone = self.alone();
        let end = self.volume.len();
        if offset >= end {
            return Err(Errno::ENXIO);
        }
        let mut at = offset;
        while at < end {
            let extents = handle.extents(&self.volume, at, end - at).map_err(|error| errno(&error))?;
            for extent in extents {
                if extent.hole == hole {
                    return Ok(at);
                }
                at += extent.length;
            }
        }
        if hole { Ok(end) } else { Err(Errno::ENXIO) }
    }

    /// What its attributes are, by those of the file below.
    pub(crate) fn adjust(&self, found: &mut Statx) {
        let below = found.stx_size;
        found.stx_size = self.volume.len();
        if below < found.stx_size {
            // Written, and without a place yet.
            let waiting = self.volume.dirty_pages() * 8;
            found.stx_blocks =
                (found.stx_blocks + waiting).min(found.stx_size.div_ceil(4096) * 8).max(found.stx_blocks);
        }
        let (modified, changed) = self.file.last_change.times(found);
        (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec) = (modified.seconds, modified.nanoseconds);
        (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec) = (changed.seconds, changed.nanoseconds);
    }

    /// Looks whether others have changed the file below. Then its pages leave, and it gets that length. `wait`: for those who write to it.
    pub(crate) fn look_again(&self, pool: &Pool, handle: &Handle, wait: bool) -> io::Result<Looked> {
        match self.file.look()? {
            Below::Same => return Ok(Looked::Same),
            Below::Busy => return Ok(Looked::Later),
            Below::Changed(_) => {}
        }
        // Whoever writes between the look and the new length would lose what he wrote.
        let _alone = match self.shape.try_write() {
            Ok(alone) => alone,
            Err(_) if wait => self.alone(),
            Err(_) => return Ok(Looked::Later),
        };
        // Before the look: what is written back after it would have no place in the length that it finds, and be cut off.
        let has_unwritten = self.has_unwritten();
        let found = match self.file.look()? {
            Below::Same => return Ok(Looked::Same),
            Below::Busy => return Ok(Looked::Later),
            Below::Changed(found) => found,
        };
        if has_unwritten {
            if !self.conflict.swap(true, Ordering::Relaxed) {
                let name = self.file.name();
                tracing::warn!("{name}: changed below while it has unwritten changes of its own, which stay");
            }
            return Ok(Looked::Later);
        }
        self.conflict.store(false, Ordering::Relaxed);
        // First: the last page gets more bytes than it has.
        pool.drop_clean(&self.volume);
        self.file.last_change.accept(&found);
        if found.stx_size != self.volume.len() {
            handle.set_len(&self.volume, found.stx_size).map_err(io::Error::from)?;
        }
        Ok(Looked::New)
    }
}
