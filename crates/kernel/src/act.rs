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

/// `cachestat`, since Linux 6.5.
const CACHESTAT: libc::c_long = 451;

/// Pages that are looked at at once: 1 GiB.
const LOOK: u64 = 1 << 18;

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

/// Shows the ranges of pages of a file of this many bytes that are in the cache.
///
/// # Errors
/// The file cannot be mapped.
pub(crate) fn look(file: impl AsFd, bytes: u64, show: &mut dyn FnMut(Range<u64>)) -> io::Result<()> {
    let file = file.as_fd();
    let pages = bytes.div_ceil(PAGE);
    // An empty cache is known soon. An old kernel does not say.
    if pages == 0 || cached(file, &(0..pages)).is_ok_and(|cached| cached.there == 0) {
        return Ok(());
    }
    let mut there = vec![0u8; LOOK.min(pages) as usize];
    let mut run: Option<Range<u64>> = None;
    for start in (0..pages).step_by(LOOK as usize) {
        let count = LOOK.min(pages - start) as usize;
        let length = count * PAGE as usize;
        // SAFETY: a new mapping at addresses of the kernel's choice touches no memory that is in use, and nothing is read by it.
        let address = unsafe { mmap(null_mut(), length, ProtFlags::empty(), MapFlags::SHARED, file, start * PAGE) }?;
        // SAFETY: the mapping is `length` bytes long, and there is a byte for each of its pages.
        let looked = unsafe { libc::mincore(address, length, there.as_mut_ptr()) };
        let error = io::Error::last_os_error();
        // SAFETY: it was mapped above, and nobody else has its address.
        unsafe { munmap(address, length) }?;
        if looked != 0 {
            return Err(error);
        }
        for (page, _) in (start..).zip(&there[..count]).filter(|(_, there)| **there & 1 == 1) {
            match &mut run {
                Some(run) if run.end == page => run.end += 1,
                _ => run.replace(page..page + 1).into_iter().for_each(&mut *show),
            }
        }
    }
    run.into_iter().for_each(show);
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
}
