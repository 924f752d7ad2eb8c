//! The cache is the memory that files take: neither the kernel's copies of the mount nor those of the tree below come on top. One test alone in its
//! process, whose memory it measures.

#[path = "mount/mounted.rs"]
mod mounted;

use mounted::{Mounted, pattern};
use std::fs::{self, File};
use std::os::fd::AsRawFd;

/// Pages of a file that the kernel caches.
fn cached(file: &File) -> usize {
    let length = file.metadata().expect("attributes").len() as usize;
    // SAFETY: the system chooses where, and nothing is read or written there.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED);
    let mut pages = vec![0u8; length.div_ceil(4096)];
    // SAFETY: the range has just been mapped, and there is a byte for each of its pages; then it goes.
    unsafe {
        assert_eq!(libc::mincore(start, length, pages.as_mut_ptr()), 0);
        assert_eq!(libc::munmap(start, length), 0);
    }
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

fn resident_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("the kernel tells");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

#[test]
fn neither_the_mount_nor_the_tree_below_is_in_the_page_cache() {
    const LENGTH: usize = 32 << 20;
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let data = pattern(1, LENGTH);
    let before = resident_bytes();
    // No multiple of a page: its end goes through the page cache.
    fs::write(mounted.seen("file"), &data[1..]).expect("a file");
    let file = File::open(mounted.seen("file")).expect("it opens");
    file.sync_all().expect("a flush");
    assert!(fs::read(mounted.seen("file")).expect("a read") == data[1..]);
    let below = File::open(mounted.below("file")).expect("it opens below");
    assert_eq!((cached(&file), cached(&below)), (0, 0), "pages of the kernel");
    let grown = resident_bytes().saturating_sub(before);
    // The cache of 1 MiB, buffers of requests and of writeback, and the test's own threads.
    assert!(grown < 24 << 20, "{} MiB for 32 MiB of bytes", grown >> 20);
    drop(file);
    mounted.stop();
}
