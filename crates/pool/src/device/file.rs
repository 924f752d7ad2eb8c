//! A regular file or a block device.
//!
//! Where the file system lets us, transfers bypass the kernel's page cache (O_DIRECT): the pool is the cache. They must be
//! aligned; what is not (the tail of a file whose length is no multiple of the block size, buffers of other callers) goes through
//! the page cache by a second descriptor. Both see the same bytes, for Linux keeps them so: before a direct read it
//! writes back what the page cache holds dirty of that range, before a direct write too, and it drops these pages
//! before and after. What it does not order on block devices (file systems do) is a buffered write beside a direct one in one
//! page of the cache: the page cannot be dropped then, and is written back later with what it held of the other's bytes; the
//! kernel says "Page cache invalidation failure on direct I/O". So a buffered write has the device for itself.

use super::latch::Latch;
use super::lock::keep_out;
use super::pieces::{append, cut, cut_mut, total, within, writable, write_zeroes};
use super::ring::{RINGS, Transfer};
use super::{Device, Extent, Reserved, Space};
use rustix::fs::{AtFlags, FallocateFlags, SeekFrom, StatxFlags, fallocate, fstatfs, seek, statx};
use rustix::io::{Errno, preadv, pwritev};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Writes are refused, and others may open it so, too.
    pub read_only: bool,
    /// Bypass the kernel's page cache where that works.
    pub direct: bool,
    /// Make many transfers at once by io_uring where the kernel lets us.
    pub ring: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { read_only: false, direct: true, ring: true }
    }
}

/// A regular file or block device. Its length is that at opening, or when it was last measured.
pub struct FileDevice {
    path: PathBuf,
    options: FileOptions,
    len: AtomicU64,
    /// Its file system makes holes.
    punches: bool,
    /// Holds the lock on the file as long as it is open.
    buffered: File,
    direct: Result<Direct, String>,
    failed: Latch,
    /// Of a regular file that is written.
    space: Option<Space>,
    /// Shared by direct writes, held alone by buffered ones beside which there may be direct ones.
    mixed: RwLock<()>,
}

/// A descriptor that bypasses the page cache, and what it asks for.
struct Direct {
    file: File,
    /// Offsets and lengths are multiples of this.
    block: u64,
    /// Buffers begin at multiples of this.
    memory: usize,
}

/// The file system in memory (`TMPFS_MAGIC` of `statfs(2)`).
const TMPFS: u32 = 0x0102_1994;

/// The most extents told at once.
const MOST_EXTENTS: usize = 1024;

impl FileDevice {
    /// Opens what is there. Of two of which one would write the file, the second is refused, QEMU's programs among them.
    ///
    /// # Errors
    /// What cannot be done, with the path.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        let failed =
            |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{}: {what}: {error}", path.display()));
        let kind = std::fs::metadata(&path).map_err(|error| failed("cannot be opened", error))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "name a regular file or a block device");
            return Err(failed("cannot be a volume", error));
        }
        let mut open = OpenOptions::new();
        open.read(true).write(!options.read_only);
        let hint = if options.read_only { "cannot be opened" } else { "cannot be opened for writing" };
        let mut buffered = open.open(&path).map_err(|error| failed(hint, error))?;
        match keep_out(&buffered, options.read_only) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let written = if options.read_only { "is written elsewhere" } else { "is open elsewhere already" };
                return Err(failed(written, error));
            }
            Err(error) => tracing::warn!("{}: cannot be locked against other writers: {error}", path.display()),
        }
        // Of a block device the end is its length too, which its metadata do not tell.
        let len = buffered.seek(io::SeekFrom::End(0)).map_err(|error| failed("has no length", error))?;
        let direct = if options.direct {
            Direct::open(&path, &open, len)
        } else {
            Err("it was not asked to bypass the page cache".to_owned())
        };
        // Behind the end, where there is nothing to lose. A block device refuses that, and may be slow at it.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punches = kind.is_file() && !options.read_only && fallocate(&buffered, flags, len, 1).is_ok();
        // The ring hands each write to a thread of the kernel where storage is memory.
        let in_memory = fstatfs(&buffered).is_ok_and(|told| told.f_type as u32 == TMPFS);
        let options = FileOptions { ring: options.ring && !in_memory, ..options };
        let space = (kind.is_file() && !options.read_only).then(|| Space::new(&buffered)).transpose();
        let space = space.map_err(|error| failed("its file system does not answer", error))?;
        Ok(Self {
            path,
            options,
            len: AtomicU64::new(len),
            punches,
            buffered,
            direct,
            failed: Latch::default(),
            space,
            mixed: RwLock::new(()),
        })
    }

    /// Why it goes through the kernel's page cache, if it does.
    pub fn why_buffered(&self) -> Option<&str> {
        self.direct.as_ref().err().map(String::as_str)
    }

    /// How many bytes from the beginning of a request can bypass the page cache.
    fn direct_length<'a>(&self, offset: u64, buffers: impl Iterator<Item = &'a [u8]>) -> u64 {
        let Ok(direct) = &self.direct else { return 0 };
        let mut length = 0;
        if offset.is_multiple_of(direct.block) {
            for buffer in buffers.filter(|buffer| !buffer.is_empty()) {
                if !buffer.as_ptr().addr().is_multiple_of(direct.memory) {
                    break;
                }
                let rest = buffer.len() as u64 % direct.block;
                length += buffer.len() as u64 - rest;
                if rest > 0 {
                    break;
                }
            }
        }
        length
    }

    /// Where all transfers of a batch go that need no care: the direct descriptor, if there is one.
    fn main(&self) -> &File {
        self.direct.as_ref().map_or(&self.buffered, |direct| &direct.file)
    }

    /// Whether a run can go to the main descriptor as it is.
    fn plain(&self, offset: u64, run: &[u8]) -> bool {
        self.direct.is_err() || self.direct_length(offset, std::iter::once(run)) == run.len() as u64
    }

    fn write_buffered(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let _alone = self.direct.is_ok().then(|| self.mixed.write().unwrap_or_else(|poisoned| poisoned.into_inner()));
        write_all(&self.buffered, offset, buffers)
    }

    fn write_direct(&self, direct: &Direct, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let _shared = self.mixed.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        write_all(&direct.file, offset, buffers)
    }

    /// The first of these ways that the file system knows; whether one is.
    fn allocate(&self, offset: u64, length: u64, ways: &[FallocateFlags]) -> io::Result<bool> {
        for way in ways {
            loop {
                match fallocate(&self.buffered, *way | FallocateFlags::KEEP_SIZE, offset, length) {
                    Ok(()) => return Ok(true),
                    Err(Errno::INTR) => {}
                    // Block devices answer EINVAL to what is not whole blocks.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(false)
    }
}

impl Direct {
    /// The descriptor, or why there is none.
    fn open(path: &Path, options: &OpenOptions, len: u64) -> Result<Self, String> {
        let refused = |error: io::Error| format!("the file system refuses O_DIRECT: {error}");
        let file = options.clone().custom_flags(libc::O_DIRECT).open(path).map_err(refused)?;
        let told = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
        let told = told.filter(|told| told.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
        let (block, memory) = match told {
            Some(told) if told.stx_dio_offset_align == 0 => {
                return Err("the file system has no O_DIRECT here".to_owned());
            }
            Some(told) => (u64::from(told.stx_dio_offset_align), told.stx_dio_mem_align.max(1) as usize),
            // An older kernel does not tell; no block size of today is greater.
            None => (4096, 4096),
        };
        if len >= block {
            let mut room = vec![0; block as usize + memory];
            let start = room.as_ptr().addr().next_multiple_of(memory) - room.as_ptr().addr();
            let room = &mut room[start..start + block as usize];
            read_all(&file, 0, &mut [IoSliceMut::new(room)]).map_err(refused)?;
        }
        Ok(Self { file, block, memory })
    }
}

impl Device for FileDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn measure(&self) -> io::Result<u64> {
        let found = seek(&self.buffered, SeekFrom::End(0))?;
        self.len.fetch_max(found, Ordering::AcqRel);
        Ok(found)
    }

    /// Of a regular file.
    fn set_len(&self, length: u64) -> io::Result<()> {
        writable(self, 0, 0)?;
        let _alone = self.mixed.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.buffered.set_len(length)?;
        self.len.store(length, Ordering::Release);
        Ok(())
    }

    fn read_only(&self) -> bool {
        self.options.read_only
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let direct = self.direct_length(offset, buffers.iter().map(|buffer| &**buffer));
        if direct == length {
            return read_all(self.main(), offset, buffers);
        } else if direct == 0 {
            return read_all(&self.buffered, offset, buffers);
        }
        let mut parts = cut_mut(buffers, [direct, length - direct]);
        read_all(self.main(), offset, &mut parts[0])?;
        read_all(&self.buffered, offset + direct, &mut parts[1])
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = total(buffers);
        writable(self, offset, length)?;
        let length_direct = self.direct_length(offset, buffers.iter().map(|buffer| &**buffer));
        match &self.direct {
            Ok(direct) if length_direct == length => self.write_direct(direct, offset, buffers),
            Ok(direct) if length_direct > 0 => {
                let parts = cut(buffers, [length_direct, length - length_direct]);
                self.write_direct(direct, offset, &parts[0])?;
                self.write_buffered(offset + length_direct, &parts[1])
            }
            _ => self.write_buffered(offset, buffers),
        }
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        let fits = |(offset, run): &(u64, IoSliceMut<'_>)| {
            within(self, *offset, run.len() as u64).is_ok() && self.plain(*offset, run)
        };
        let together: Vec<bool> = runs.iter().map(fits).collect();
        let mut transfers: Vec<_> = runs.iter_mut().zip(&together).filter(|(_, together)| **together).collect();
        let mut transfers: Vec<_> =
            transfers.iter_mut().map(|((offset, run), _)| Transfer::Read(*offset, run)).collect();
        let answers = self.in_ring(&mut transfers);
        drop(transfers);
        let mut answers = answers.into_iter().flatten();
        let read = |((offset, run), together): (&mut (u64, IoSliceMut<'_>), bool)| {
            let done = moved(together.then(|| answers.next()).flatten(), run.len())?;
            if done < run.len() {
                self.read(*offset + done as u64, &mut [IoSliceMut::new(&mut run[done..])])
            } else {
                Ok(())
            }
        };
        runs.iter_mut().zip(together).map(read).collect()
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        let fits = |(offset, run): &(u64, IoSlice<'_>)| {
            writable(self, *offset, run.len() as u64).is_ok() && self.plain(*offset, run)
        };
        let together: Vec<bool> = runs.iter().map(fits).collect();
        let plain = runs.iter().zip(&together).filter(|(_, together)| **together);
        let mut transfers: Vec<_> = plain.map(|((offset, run), _)| Transfer::Write(*offset, run)).collect();
        let answers = {
            let _shared = self.mixed.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            self.in_ring(&mut transfers)
        };
        let mut answers = answers.into_iter().flatten();
        let write = |((offset, run), together): (&(u64, IoSlice<'_>), bool)| {
            let done = moved(together.then(|| answers.next()).flatten(), run.len())?;
            if done < run.len() { self.write(*offset + done as u64, &[IoSlice::new(&run[done..])]) } else { Ok(()) }
        };
        runs.iter().zip(together).map(write).collect()
    }

    fn flush(&self) -> io::Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        // One descriptor's is enough: it is the file that is made durable, and the drive's cache behind it.
        self.failed.flush(&self.describe(), || self.buffered.sync_data())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        writable(self, offset, length)?;
        if length > 0 {
            self.allocate(offset, length, &[FallocateFlags::PUNCH_HOLE])?;
        }
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        writable(self, offset, length)?;
        let ways: &[_] = match allocate {
            true => &[FallocateFlags::ZERO_RANGE],
            false => &[FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE],
        };
        if length == 0 || self.allocate(offset, length, ways)? {
            return Ok(());
        }
        write_zeroes(self, offset, length)
    }

    fn zeroes_fast(&self) -> bool {
        self.punches
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        within(self, offset, length)?;
        let (mut at, end) = (offset, offset + length);
        let mut extents = Vec::new();
        while at < end && extents.len() < MOST_EXTENTS {
            let hole = match seek(&self.buffered, SeekFrom::Data(at)) {
                Ok(data) => data > at,
                Err(Errno::NXIO) => true,
                // Block devices, and file systems that do not tell.
                Err(_) => {
                    append(&mut extents, Extent { length: end - at, hole: false, zero: false });
                    break;
                }
            };
            let next = if hole { SeekFrom::Data(at) } else { SeekFrom::Hole(at) };
            // Behind the last data there is no more; a file that changes meanwhile must not keep us here.
            let next = seek(&self.buffered, next).unwrap_or(end).clamp(at, end);
            let next = if next == at { end } else { next };
            append(&mut extents, Extent { length: next - at, hole, zero: hole });
            at = next;
        }
        Ok(extents)
    }

    fn spaces(&self) -> Vec<Space> {
        self.space.iter().cloned().collect()
    }

    fn reserve(&self, offset: u64, length: u64) -> io::Result<Reserved> {
        self.space.as_ref().map_or(Ok(Reserved::Plenty), |space| space.reserve(&self.buffered, offset, length))
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}

impl FileDevice {
    /// What the ring answers to each transfer; nothing where it is not worth it or there is none.
    fn in_ring(&self, transfers: &mut [Transfer<'_>]) -> Option<Vec<io::Result<usize>>> {
        if !self.options.ring || transfers.len() < 2 {
            return None;
        }
        RINGS.transfer(self.main().as_fd(), transfers)
    }
}

/// How many bytes of a run are done: what is not is tried again without the ring, as is what the ring does not do.
fn moved(answer: Option<io::Result<usize>>, length: usize) -> io::Result<usize> {
    match answer {
        None => Ok(0),
        Some(Ok(moved)) => Ok(moved.min(length)),
        Some(Err(error)) => match error.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN | libc::EINVAL | libc::EOPNOTSUPP | libc::ECANCELED) => Ok(0),
            _ => Err(error),
        },
    }
}

fn read_all(file: &File, mut offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    let mut rest: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    let mut rest = &mut rest[..];
    IoSliceMut::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        // It takes as many buffers as the kernel does.
        match preadv(file, rest, offset) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has become shorter since it was opened"));
            }
            Ok(read) => {
                offset += read as u64;
                IoSliceMut::advance_slices(&mut rest, read);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn write_all(file: &File, mut offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
    let mut rest = buffers.to_vec();
    let mut rest = &mut rest[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match pwritev(file, rest, offset) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "it takes no more bytes")),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
