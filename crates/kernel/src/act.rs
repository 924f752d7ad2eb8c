//! What is done to the kernel's cache: pages leave it, dirty ones are written, and it says which are there. No byte of a file is read.

use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// The bytes of a page.
const PAGE: u64 = 4096;

/// Bytes that are read ahead by one call. The kernel reads no more than what the disk takes at once, and says nothing of that.
const AT_ONCE: u64 = 64 << 10;

/// `cachestat`, since Linux 6.5.
const CACHESTAT: libc::c_long = 451;

/// Pages that are looked at one by one. Of more, it is counted first how many are there.
const LOOK: u64 = 512;

/// What of a range of a file is in the cache, in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cached {
    /// Pages there.
    pub there: u64,
    /// Of these, dirty.
    pub dirty: u64,
    /// Of these, being written.
    pub writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Lets clean, unmapped folios that lie in the range as a whole leave the cache. Others stay, without an error.
///
/// # Errors
/// The file is of no kind that has pages.
pub(crate) fn drop_pages(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<()> {
    let length = NonZeroU64::new((pages.end - pages.start) * PAGE);
    Ok(fadvise(file, pages.start * PAGE, length, Advice::DontNeed)?)
}

/// Has the kernel read the first bytes of a file ahead.
///
/// # Errors
/// The system's.
pub(crate) fn read_ahead(file: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    for start in (0..bytes).step_by(AT_ONCE as usize) {
        fadvise(file, start, NonZeroU64::new(AT_ONCE.min(bytes - start)), Advice::WillNeed)?;
    }
    Ok(())
}

/// Starts the writeback of dirty pages, and does not wait for it.
///
/// # Errors
/// The system's. Those of the writeback itself are left to whoever has written.
pub(crate) fn start_writeback(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<()> {
    let at = |page: u64| i64::try_from(page * PAGE).unwrap_or(i64::MAX);
    let (start, length) = (at(pages.start), at(pages.end - pages.start));
    // SAFETY: a call without pointers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), start, length, libc::SYNC_FILE_RANGE_WRITE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What of a range is in the cache.
///
/// # Errors
/// `ENOSYS` before Linux 6.5.
pub(crate) fn cached(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<Cached> {
    #[repr(C)]
    struct Bytes {
        offset: u64,
        length: u64,
    }
    let range = Bytes { offset: pages.start * PAGE, length: (pages.end - pages.start) * PAGE };
    let mut cached = Cached::default();
    // SAFETY: the kernel reads the one and writes the other, both as long as it expects.
    match unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut cached, 0) } {
        0 => Ok(cached),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the clean folios of a range leave, as [`drop_pages`] does, and no dirty page be written by that. Returns whether there are dirty ones.
///
/// # Errors
/// Those of [`drop_pages`].
pub(crate) fn drop_clean(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<bool> {
    let mut ranges = vec![pages.clone()];
    let mut dirty = false;
    while let Some(range) = ranges.pop() {
        // An old kernel does not say, and writes what is dirty before it drops the others.
        let cached = cached(file, &range).unwrap_or_default();
        if cached.dirty == 0 {
            drop_pages(file, &range)?;
        } else if cached.dirty == cached.there {
            dirty = true;
        } else {
            let middle = range.start + (range.end - range.start) / 2;
            ranges.extend([middle..range.end, range.start..middle]);
        }
    }
    Ok(dirty)
}

/// Shows the ranges of pages of a file of this many bytes that are in the cache. The work grows with the pages that are there, and not with the file's length.
///
/// # Errors
/// The file cannot be mapped.
pub(crate) fn look(file: impl AsFd, bytes: u64, show: &mut dyn FnMut(Range<u64>)) -> io::Result<()> {
    let file = file.as_fd();
    let mut run: Option<Range<u64>> = None;
    let mut add = |pages: Range<u64>| match &mut run {
        Some(run) if run.end == pages.start => run.end = pages.end,
        _ => run.replace(pages).into_iter().for_each(&mut *show),
    };
    let whole = 0..bytes.div_ceil(PAGE);
    let mut ranges = vec![whole];
    while let Some(range) = ranges.pop() {
        let count = range.end - range.start;
        // An old kernel does not say.
        match cached(file, &range).ok().map(|cached| cached.there) {
            _ if count == 0 => {}
            Some(0) => {}
            Some(there) if there == count => add(range),
            _ if count > LOOK => {
                let middle = range.start + (count / 2).next_multiple_of(LOOK);
                ranges.extend([middle..range.end, range.start..middle]);
            }
            _ => look_at_each(file, range, &mut add)?,
        }
    }
    run.into_iter().for_each(show);
    Ok(())
}

/// Shows which of at most [`LOOK`] pages are in the cache.
fn look_at_each(file: BorrowedFd<'_>, pages: Range<u64>, show: &mut dyn FnMut(Range<u64>)) -> io::Result<()> {
    let mut there = [0u8; LOOK as usize];
    let length = ((pages.end - pages.start) * PAGE) as usize;
    // SAFETY: a new mapping at addresses of the kernel's choice touches no memory that is in use, and nothing is read by it.
    let address = unsafe { mmap(null_mut(), length, ProtFlags::empty(), MapFlags::SHARED, file, pages.start * PAGE) }?;
    // SAFETY: the mapping is `length` bytes long, and there is a byte for each of its pages.
    let looked = unsafe { libc::mincore(address, length, there.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: it was mapped above, and nobody else has its address.
    unsafe { munmap(address, length) }?;
    if looked != 0 {
        return Err(error);
    }
    pages.zip(there).filter(|(_, there)| there & 1 == 1).for_each(|(page, _)| show(page..page + 1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn what_is_there_is_found_and_leaves() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[1; 40 * PAGE as usize]).expect("a write");
        let there = |file: &File| {
            let mut pages = Vec::new();
            look(file, 40 * PAGE - 5, &mut |range| pages.extend(range)).expect("a look");
            pages
        };
        let all: Vec<u64> = (0..40).collect();
        assert_eq!(there(&file), all);
        drop_pages(file.as_fd(), &(0..40)).expect("a call");
        assert_eq!(there(&file), all, "dirty pages stay");
        start_writeback(file.as_fd(), &(0..40)).expect("a call");
        file.sync_all().expect("a flush");
        drop_pages(file.as_fd(), &(0..40)).expect("a call");
        assert!(there(&file).is_empty());
        assert_eq!(file.read(&mut [0]).expect("the end"), 0);
    }
    #[test]
    fn a_page_here_and_there_in_a_file_of_terabytes_is_found_soon() {
        let file = tempfile::tempfile().expect("a file");
        let (bytes, pages) = (1 << 43, [0, 5, 6, 1 << 20, (1 << 31) - 2, (1 << 31) - 1]);
        file.set_len(bytes).expect("a hole");
        pages
            .iter()
            .for_each(|page| std::os::unix::fs::FileExt::write_all_at(&file, b"x", page * PAGE).expect("a write"));
        let (mut seen, mut ranges) = (Vec::new(), 0);
        look(&file, bytes, &mut |range| {
            ranges += 1;
            seen.extend(range);
        })
        .expect("a look");
        assert_eq!((seen, ranges), (pages.to_vec(), 4));
    }

    #[test]
    fn clean_pages_leave_beside_dirty_ones_which_are_not_written() {
        let file = tempfile::tempfile().expect("a file");
        let write = |page: u64| std::os::unix::fs::FileExt::write_all_at(&file, &[1; PAGE as usize], page * PAGE);
        (0..40).for_each(|page| write(page).expect("a write"));
        file.sync_all().expect("a flush");
        write(7).expect("a write");
        assert!(drop_clean(file.as_fd(), &(0..40)).expect("a call"));
        let found = cached(file.as_fd(), &(0..40)).expect("a call");
        assert!(found.dirty == 1 && found.there < 40, "{found:?}");
        file.sync_all().expect("a flush");
        assert!(!drop_clean(file.as_fd(), &(0..40)).expect("a call"));
        assert_eq!(cached(file.as_fd(), &(0..40)).expect("a call").there, 0);
    }
}
