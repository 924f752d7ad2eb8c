//! Programs say by `ioctl` what they will do with an open file.

use crate::mounted::{Mounted, pattern, wait_until};
use libc::{
    POSIX_FADV_DONTNEED as DONTNEED, POSIX_FADV_NORMAL as NORMAL, POSIX_FADV_RANDOM as RANDOM,
    POSIX_FADV_SEQUENTIAL as SEQUENTIAL, POSIX_FADV_WILLNEED as WILLNEED,
};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const PAGE: usize = 4096;

/// `FOREBAY_HINT` of include/forebay.h.
const HINT: libc::c_ulong = 0x4018_fb01;

fn ioctl(file: &File, request: libc::c_ulong, structure: &[u64]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the request's number says, which the structures here have.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), request as _, structure.as_ptr()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn hint(file: &File, offset: usize, length: usize, advice: i32) -> io::Result<()> {
    ioctl(file, HINT, &[offset as u64, length as u64, advice as u64])
}

/// A mount with a file of 100 pages, and that file, open.
fn with_file(readahead: u32) -> Option<(Mounted, File)> {
    let mounted = Mounted::start(|options, _| options.readahead = readahead)?;
    std::fs::write(mounted.below("file"), pattern(1, 100 * PAGE)).expect("a file below");
    let file = File::options().read(true).write(true).open(mounted.seen("file")).expect("it opens");
    Some((mounted, file))
}

#[test]
fn what_will_be_needed_is_read_ahead_and_what_will_not_leaves_written() {
    let Some((mounted, file)) = with_file(0) else { return };
    let resident = || mounted.pool.statistics().resident;
    hint(&file, 10 * PAGE, 20 * PAGE, WILLNEED).expect("a hint");
    wait_until("20 pages are read ahead", || resident() == 20);
    file.write_all_at(&pattern(2, PAGE), 12 * PAGE as u64).expect("a write");
    hint(&file, 10 * PAGE, 15 * PAGE, DONTNEED).expect("a hint");
    wait_until("15 pages have left", || resident() == 5);
    let below = std::fs::read(mounted.below("file")).expect("the file below");
    assert!(below[12 * PAGE..13 * PAGE] == pattern(2, PAGE), "the dirty page was written before it left");
    hint(&file, 0, 0, DONTNEED).expect("a hint");
    wait_until("the rest has left", || resident() == 0);
    hint(&file, 200 * PAGE, 0, WILLNEED).expect("a hint behind the end is none");
    drop(file);
    mounted.stop();
}

#[test]
fn an_open_file_is_read_ahead_as_its_user_says() {
    for (advice, ahead) in [(RANDOM, false), (SEQUENTIAL, true), (NORMAL, true)] {
        let Some((mounted, file)) = with_file(512 << 10) else { return };
        hint(&file, 0, 0, advice).expect("a hint");
        for page in 0..8 {
            file.read_exact_at(&mut [0; PAGE], page * PAGE as u64).expect("a read");
        }
        if ahead {
            wait_until("pages are read ahead", || mounted.pool.statistics().resident > 8);
        }
        assert_eq!(mounted.mount.statistics().pages_read_ahead > 0, ahead, "advice {advice}");
        drop(file);
        mounted.stop();
    }
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let Some((mounted, file)) = with_file(0) else { return };
    let errno =
        |request, structure: &[u64]| ioctl(&file, request, structure).expect_err("it is refused").raw_os_error();
    assert_eq!(errno(HINT, &[0, 0, 6]), Some(libc::EINVAL), "no such advice");
    assert_eq!(errno(HINT, &[0, 0, 1 << 32]), Some(libc::EINVAL), "the reserved part is not 0");
    assert_eq!(errno(0x4008_fb01, &[0]), Some(libc::EINVAL), "another size");
    assert_eq!(errno(0x4018_fb63, &[0, 0, 0]), Some(libc::ENOTTY), "another request");
    drop(file);
    mounted.stop();
}
