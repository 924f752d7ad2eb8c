//! The descriptors of a file below, and transfers through them.

use crate::inode::{ATTRIBUTES, Inode, Tree};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Advice, AtFlags, OFlags, Statx, StatxFlags, fadvise, fcntl_getfl, fcntl_setfl, statx};
use rustix::io::{Errno, pread, preadv, pwritev};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the aligned buffer for what is not aligned.
const BOUNCE: usize = 64 << 10;

/// What a kernel that does not say asks for at most.
const ALIGNMENT: usize = 4096;

pub(crate) struct Descriptors {
    pub(crate) main: Arc<OwnedFd>,
    /// What transfers past the page cache are multiples of, if `main` bypasses it. Buffers begin there, too.
    direct: Option<usize>,
    /// Held by whoever writes through the page cache, as the end of a write that is not aligned must.
    ends: Mutex<()>,
    /// Something of it may be in the page cache.
    cached: AtomicBool,
    pub(crate) writable: bool,
}

impl Descriptors {
    /// Opens a file; what is known of it then.
    pub(crate) fn open(tree: &Tree, inode: &Arc<Inode>, writable: bool) -> io::Result<(Self, Statx)> {
        let (main, direct, writable) = tree.open_file(inode, writable)?;
        Self::new(main, direct, writable)
    }

    /// `direct`: it bypasses the page cache.
    fn new(main: Arc<OwnedFd>, direct: bool, writable: bool) -> io::Result<(Self, Statx)> {
        let found = statx(&main, c"", AtFlags::EMPTY_PATH, ATTRIBUTES | StatxFlags::DIOALIGN)?;
        let says = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        let alignment = if says { found.stx_dio_offset_align.max(found.stx_dio_mem_align) as usize } else { ALIGNMENT };
        let direct = (direct && alignment > 0).then_some(alignment);
        let cached = AtomicBool::new(direct.is_none());
        Ok((Self { main, direct, ends: Mutex::default(), cached, writable }, found))
    }

    /// Drops what is clean from the page cache, if something of it may be there.
    pub(crate) fn drop_behind(&self) {
        if self.cached.swap(self.direct.is_none(), Ordering::Relaxed) {
            let _ = fadvise(&self.main, 0, None, Advice::DontNeed);
        }
    }

    /// How many bytes of a buffer bypass the page cache when they are transferred at this offset.
    fn direct_length(&self, offset: u64, buffer: &[u8]) -> usize {
        match self.direct {
            None => buffer.len(),
            Some(alignment)
                if offset.is_multiple_of(alignment as u64) && buffer.as_ptr().addr().is_multiple_of(alignment) =>
            {
                buffer.len() - buffer.len() % alignment
            }
            Some(_) => 0,
        }
    }

    /// How many of the buffers at the start of a request can be transferred at once.
    fn together<'b>(&self, mut offset: u64, buffers: impl Iterator<Item = &'b [u8]>) -> usize {
        let fits = |buffer: &&[u8]| {
            let fits = self.direct_length(offset, buffer) == buffer.len();
            offset += buffer.len() as u64;
            fits
        };
        buffers.take_while(fits).count()
    }

    /// Fills buffers; what the file does not have is zero.
    pub(crate) fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let together = self.together(offset, buffers.iter().map(|buffer| &**buffer));
        let (whole, mut rest) = buffers.split_at_mut(together);
        let mut at = offset;
        if !whole.is_empty() {
            at += whole.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
            // The file's end comes with what is before it: a request of its own would take as long once more.
            if let [end] = rest
                && let Some(alignment) = self.direct
                && end.len() <= BOUNCE
            {
                let mut room = Bounce::new(end.len(), alignment);
                let whole = whole.iter_mut().map(|buffer| IoSliceMut::new(buffer));
                self.read_all(offset, &mut whole.chain([IoSliceMut::new(room.bytes())]).collect::<Vec<_>>())?;
                let length = end.len();
                end.copy_from_slice(&room.bytes()[..length]);
                at += length as u64;
                rest = &mut [];
            } else {
                self.read_all(offset, whole)?;
            }
        }
        for buffer in rest {
            self.read_by_copy(at, buffer)?;
            at += buffer.len() as u64;
        }
        if self.direct.is_none() {
            let _ = fadvise(&self.main, offset, NonZeroU64::new(at - offset), Advice::DontNeed);
        }
        Ok(())
    }

    fn read_all(&self, mut offset: u64, mut buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        IoSliceMut::advance_slices(&mut buffers, 0);
        while !buffers.is_empty() {
            let read = again(|| preadv(&self.main, buffers, offset))?;
            IoSliceMut::advance_slices(&mut buffers, read);
            offset += read as u64;
            // The file's end: behind it there is no aligned place to go on from.
            if read == 0 || self.direct.is_some_and(|alignment| !offset.is_multiple_of(alignment as u64)) {
                buffers.iter_mut().for_each(|buffer| buffer.fill(0));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads what is not aligned.
    fn read_by_copy(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let alignment = self.direct.unwrap_or(1);
        let mut room = Bounce::new(BOUNCE, alignment);
        let room = room.bytes();
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let skipped = (at % alignment as u64) as usize;
            let wanted = (skipped + buffer.len() - done).next_multiple_of(alignment).min(BOUNCE);
            let read = again(|| pread(&self.main, &mut room[..wanted], at - skipped as u64))?;
            let part = read.saturating_sub(skipped).min(buffer.len() - done);
            buffer[done..done + part].copy_from_slice(&room[skipped..skipped + part]);
            done += part;
            if read < wanted {
                buffer[done..].fill(0);
                break;
            }
        }
        Ok(())
    }

    /// Writes buffers. What is not aligned goes through the page cache.
    pub(crate) fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let together = self.together(offset, buffers.iter().map(|buffer| &**buffer));
        let (whole, rest) = buffers.split_at(together);
        write_all(&self.main, offset, whole)?;
        let mut at = offset + whole.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        for buffer in rest {
            let direct = self.direct_length(at, buffer);
            write_all(&self.main, at, &[IoSlice::new(&buffer[..direct])])?;
            at += direct as u64;
            let end = &buffer[direct..];
            if !end.is_empty() {
                self.write_end(at, end)?;
                at += end.len() as u64;
            }
        }
        if self.direct.is_none() {
            let _ = fadvise(&self.main, offset, NonZeroU64::new(at - offset), Advice::DontNeed);
        }
        Ok(())
    }

    /// Writes buffers through the page cache, where they stay.
    pub(crate) fn write_to_cache(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.through_cache(|| write_all(&self.main, offset, buffers))
    }

    /// Has the disk asked to take what was written to the page cache.
    pub(crate) fn begin_writing(&self) {
        // What fails shows when it is waited for.
        let _ = self.sync_range(libc::SYNC_FILE_RANGE_WRITE);
    }

    /// Waits until the disk has what was written to the page cache. That is not durable. An error is returned once: afterwards the kernel takes the
    /// bytes for written.
    pub(crate) fn finish_writing(&self) -> io::Result<()> {
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        self.sync_range(all)
    }

    /// All of the file.
    fn sync_range(&self, how: libc::c_uint) -> io::Result<()> {
        // SAFETY: it takes a descriptor and numbers.
        let done = unsafe { libc::sync_file_range(self.main.as_raw_fd(), 0, 0, how) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn write_end(&self, offset: u64, end: &[u8]) -> io::Result<()> {
        let written = self.through_cache(|| write_all(&self.main, offset, &[IoSlice::new(end)]));
        let _ = fadvise(&self.main, offset, NonZeroU64::new(end.len() as u64), Advice::DontNeed);
        written
    }

    /// Writes through the page cache: by the same descriptor, as a second one might be refused. Others that transfer meanwhile may go
    /// through it, too, which is as right.
    fn through_cache(&self, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _alone = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        self.cached.store(true, Ordering::Relaxed);
        if self.direct.is_none() {
            return write();
        }
        let flags = fcntl_getfl(&self.main)?;
        fcntl_setfl(&self.main, flags - OFlags::DIRECT)?;
        let written = write();
        fcntl_setfl(&self.main, flags)?;
        written
    }
}

/// A buffer for what is not aligned.
struct Bounce {
    memory: Vec<u8>,
    bytes: Range<usize>,
}

impl Bounce {
    /// As many bytes, rounded up to the alignment, and aligned.
    fn new(length: usize, alignment: usize) -> Self {
        let length = length.next_multiple_of(alignment);
        let memory = vec![0; length + alignment];
        let start = memory.as_ptr().addr().next_multiple_of(alignment) - memory.as_ptr().addr();
        Self { memory, bytes: start..start + length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.bytes.clone()]
    }
}

fn write_all(fd: impl AsFd, mut offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
    let mut buffers = buffers.to_vec();
    let mut buffers = &mut buffers[..];
    IoSlice::advance_slices(&mut buffers, 0);
    while !buffers.is_empty() {
        let written = again(|| pwritev(&fd, buffers, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut buffers, written);
        offset += written as u64;
    }
    Ok(())
}

/// Repeats a call that a signal has interrupted.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return Ok(answer?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, open};
    use std::fmt::Write;

    /// The system calls by which this thread has read, and one more.
    fn reads() -> u64 {
        let counted = std::fs::read_to_string("/proc/thread-self/io").expect("the system counts");
        let line = counted.lines().find_map(|line| line.strip_prefix("syscr: "));
        line.expect("it counts reads").parse().expect("a number")
    }

    #[test]
    fn the_end_of_a_file_comes_with_what_is_before_it() {
        const PAGE: usize = 4096;
        let mut text = String::new();
        (0..5000).for_each(|number| write!(text, "{number} ").expect("memory takes it"));
        for end in [0, 1, 511, 512, 4095] {
            let text = &text.as_bytes()[..3 * PAGE + end];
            // Where tests are built, file systems know direct I/O.
            let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
            std::fs::write(file.path(), text).expect("it is written");
            let fd = open(file.path(), OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).expect("direct I/O");
            let (descriptors, _) = Descriptors::new(Arc::new(fd), true, false).expect("it is there");
            let mut room = Bounce::new(4 * PAGE, PAGE);
            let mut buffers: Vec<_> = room.bytes()[..text.len()].chunks_mut(PAGE).map(IoSliceMut::new).collect();
            let before = reads();
            let counting = reads() - before;
            let before = reads();
            descriptors.read(0, &mut buffers).expect("a read");
            assert_eq!(reads() - before, counting + 1, "one request, with an end of {end} bytes");
            drop(buffers);
            assert_eq!(&room.bytes()[..text.len()], text);
        }
    }
}
