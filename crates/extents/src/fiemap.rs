//! Asking a file system where a file lies (FIEMAP).

use crate::Run;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The most extents of a file that are asked for: the rest of it has no known place.
const MOST_OF_FILE: usize = 4096;
/// Extents that one call asks for.
const AT_ONCE: usize = 128;

/// `FS_IOC_FIEMAP`, and what it takes and gives (`linux/fiemap.h`).
const FIEMAP: libc::Ioctl = 0xc020_660b;
/// The last extent of a file.
const LAST: u32 = 0x1;
/// It is nowhere, or not known where; not written yet; packed with others; not at the beginning of a block; within the inode.
const NOWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

#[repr(C)]
struct Asked {
    header: Header,
    found: [Found; AT_ONCE],
}

/// Where a file lies: its runs of pages of `page` bytes, in order. Skips what has no place.
///
/// # Errors
/// The file system does not say it.
pub fn runs_of(file: impl AsFd, page: u64) -> io::Result<Box<[Run]>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut asked = Box::new(Asked { header: Header::default(), found: [Found::default(); AT_ONCE] });
    let mut start = 0;
    for _ in 0..MOST_OF_FILE / AT_ONCE {
        asked.header = Header { start, length: u64::MAX - start, room: AT_ONCE as u32, ..Header::default() };
        // SAFETY: behind the header there is room for as many extents as it says, and the kernel writes no more.
        if unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FIEMAP, &raw mut *asked) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = &asked.found[..AT_ONCE.min(asked.header.mapped as usize)];
        let Some(last) = mapped.last() else { break };
        for found in mapped.iter().filter(|found| found.flags & NOWHERE == 0) {
            let first = found.logical / page;
            let run = Run {
                first,
                pages: (found.logical + found.length).div_ceil(page) - first,
                block: found.physical / page,
            };
            match runs.last_mut() {
                Some(last) if last.first + last.pages == first && last.block + last.pages == run.block => {
                    last.pages += run.pages;
                }
                _ => runs.push(run),
            }
        }
        let next = last.logical.saturating_add(last.length);
        if last.flags & LAST != 0 || next <= start {
            break;
        }
        start = next;
    }
    Ok(runs.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const PAGE: u64 = 4096;

    #[test]
    fn a_file_lies_where_the_file_system_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let file =
            File::options().read(true).write(true).create_new(true).open(folder.path().join("file")).expect("a file");
        file.write_all_at(&[1; 3 * PAGE as usize], 0).expect("it is written");
        file.write_all_at(&[1; 10], 100 * PAGE).expect("it is written");
        file.sync_all().expect("it is durable");
        let runs = match runs_of(&file, PAGE) {
            Ok(runs) => runs,
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) && std::env::var_os("CI").is_none() => {
                eprintln!("skipped: this file system does not say where files lie");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let pages: u64 = runs.iter().map(|run| run.pages).sum();
        assert!(pages == 4 && runs.iter().all(|run| run.block > 0), "{runs:?}");
        assert_eq!(runs.last().map(|run| run.first), Some(100));
    }
}
