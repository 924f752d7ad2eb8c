//! Files that the program maps privately: which ones are paged, and what is read of them.

use crate::heap::PART;
use forebay_pool::device::Device;
use forebay_run_shared::TrafficCounters;
use rustix::fs::{AtFlags, FileType, OFlags, Statx, StatxFlags, fcntl_getfl, fstat, fstatfs, makedev, statx};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Kinds of file systems, as `statfs(2)` has them.
const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58f6;

/// A part of a file that the program maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    descriptor: i32,
    /// Where it begins in the file.
    start: u64,
    /// Which file that is.
    device: u64,
    inode: u64,
}

impl Asked {
    /// What is to be mapped, of `length` bytes; `None`: it is to be the system's, or an error that the system knows.
    pub(crate) fn new(descriptor: i32, start: i64, length: usize) -> Option<Self> {
        let start = u64::try_from(start).ok().filter(|start| start.is_multiple_of(PART as u64))?;
        if descriptor < 0 {
            return None;
        }
        // SAFETY: it is only asked what it is, which a number that is no open file bears.
        let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let status = fstat(file).ok().filter(|status| FileType::from_raw_mode(status.st_mode).is_file())?;
        // Pages behind the file's end are SIGBUS until the file has grown: the system knows when.
        let size = u64::try_from(status.st_size).ok()?.next_multiple_of(PART as u64);
        let fits = start.checked_add(length as u64).is_some_and(|end| end <= size);
        let how = fcntl_getfl(file).ok()?;
        // What bypasses the system's cache cannot be read in parts.
        let readable = how & OFlags::ACCMODE != OFlags::WRONLY && !how.intersects(OFlags::PATH | OFlags::DIRECT);
        // Files in memory that have no name (`memfd_create`) are ways to have the same memory twice.
        let kind = fstatfs(file).ok()?.f_type;
        let memory = kind == HUGETLBFS || kind == TMPFS && status.st_nlink == 0;
        let asked = Self { descriptor, start, device: status.st_dev, inode: status.st_ino };
        (fits && readable && !memory).then_some(asked)
    }

    /// The same open file, for a thread whose files are not the program's. It stays open when the program closes it, and needs no right to open it.
    fn take(self) -> io::Result<File> {
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        let file = File::from(pidfd_getfd(process, self.descriptor, PidfdGetfdFlags::empty())?);
        let status = known(&file)?;
        let device = makedev(status.stx_dev_major, status.stx_dev_minor);
        // The numbers are those of the first thread, and of this moment.
        if (device, status.stx_ino) == (self.device, self.inode) {
            Ok(file)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

/// What is known here of a file, without asking a storage elsewhere, which may hang.
fn known(file: &File) -> io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(statx(file, c"", flags, StatxFlags::INO | StatxFlags::SIZE)?)
}

/// A part of a file, which is read.
pub(crate) struct Window {
    file: File,
    start: u64,
    length: u64,
    page: u64,
    traffic: Arc<TrafficCounters>,
}

impl Window {
    pub(crate) fn new(asked: Asked, length: u64, page: u64, traffic: Arc<TrafficCounters>) -> io::Result<Self> {
        Ok(Self { file: asked.take()?, start: asked.start, length, page, traffic })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Where it begins in the file.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// How much of it lies before the end that the file has now, in whole pages of the system.
    pub(crate) fn there(&self) -> io::Result<u64> {
        let end = known(&self.file)?.stx_size.next_multiple_of(PART as u64);
        Ok(end.saturating_sub(self.start).min(self.length))
    }

    /// Reads bytes. Those behind the file's end are zeroes to the end of their page; whole pages behind it are an error.
    pub(crate) fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.file.read_at(buffer, self.start + offset) {
                Ok(0) if offset.next_multiple_of(self.page) < offset + buffer.len() as u64 => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter"));
                }
                Ok(0) => {
                    buffer.fill(0);
                    return Ok(());
                }
                Ok(read) => (offset, buffer) = (offset + read as u64, &mut buffer[read..]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn refused<T>(&self) -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is mapped privately"))
    }
}

impl Device for Window {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read(&self, mut offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let first = offset / self.page;
        for buffer in buffers {
            self.read_at(offset, buffer)?;
            offset += buffer.len() as u64;
        }
        self.traffic.file_read.add(offset.div_ceil(self.page) - first);
        self.traffic.file_reads.add(1);
        Ok(())
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        self.refused()
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        self.refused()
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        self.refused()
    }

    fn describe(&self) -> String {
        "a mapped file".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    const PAGE: usize = PART;

    /// A file of so many bytes, each its page's number, on a disk.
    fn file(length: usize) -> File {
        let file = tempfile::tempfile_in("/var/tmp").expect("a file");
        let bytes: Vec<u8> = (0..length).map(|at| (at / PAGE) as u8).collect();
        file.write_all_at(&bytes, 0).expect("there is room");
        file
    }

    #[test]
    fn what_cannot_be_read_as_a_file_on_a_disk_is_the_systems() {
        let there = file(3 * PAGE + 100);
        let asked = |file: &File, start, length| Asked::new(file.as_raw_fd(), start, length).is_some();
        assert!(asked(&there, 0, 4 * PAGE) && asked(&there, PAGE as i64, 3 * PAGE));
        assert!(!asked(&there, PAGE as i64, 4 * PAGE), "a page is behind the end");
        assert!(!asked(&there, 512, PAGE) && !asked(&there, -(PAGE as i64), PAGE));
        assert!(Asked::new(-1, 0, PAGE).is_none() && Asked::new(i32::MAX, 0, PAGE).is_none());
        let own = format!("/proc/self/fd/{}", there.as_raw_fd());
        assert!(!asked(&File::options().write(true).open(own).expect("it is opened"), 0, PAGE));
        assert!(!asked(&File::open("/dev/zero").expect("there is one"), 0, PAGE));
        let memory = File::from(rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("a file"));
        memory.set_len(4 * PAGE as u64).expect("there is memory");
        assert!(!asked(&memory, 0, PAGE));
    }

    #[test]
    fn the_last_page_ends_in_zeroes_and_what_is_cut_off_is_an_error() {
        let traffic = Arc::new(TrafficCounters::default());
        let file = file(6 * PAGE + 100);
        let asked = Asked::new(file.as_raw_fd(), PAGE as i64, 6 * PAGE).expect("it can be mapped");
        let page = PAGE as u64;
        let window = Window::new(asked, 6 * page, page, Arc::clone(&traffic)).expect("it is had");
        let mut bytes = vec![9; 6 * PAGE];
        window.read(0, &mut [IoSliceMut::new(&mut bytes)]).expect("it is read");
        assert!((0..5 * PAGE + 100).all(|at| bytes[at] == (1 + at / PAGE) as u8));
        assert!(bytes[5 * PAGE + 100..].iter().all(|&byte| byte == 0));
        assert_eq!((traffic.file_read.get(), traffic.file_reads.get()), (6, 1));
        file.set_len(3 * page + 1).expect("it becomes shorter");
        assert_eq!(window.there().expect("it is asked"), 3 * page);
        assert!(window.read_at(0, &mut bytes[..3 * PAGE]).is_ok() && bytes[2 * PAGE] == 3 && bytes[2 * PAGE + 1] == 0);
        assert!(
            window.read_at(0, &mut bytes[..4 * PAGE]).is_err() && window.read_at(3 * page, &mut bytes[..1]).is_err()
        );
        let large = Window::new(asked, 6 * page, 4 * page, traffic).expect("it is had");
        assert!(large.read_at(0, &mut bytes[..4 * PAGE]).is_ok(), "its first page begins before the end");
        assert!(large.read_at(4 * page, &mut bytes[..2 * PAGE]).is_err());
    }
}
