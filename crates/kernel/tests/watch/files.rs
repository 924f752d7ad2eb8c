use crate::{can_watch, events, ranges, watch};
use forebay_kernel::watch::Kind;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

pub(crate) const PAGE: usize = 4096;

/// Writes a file of so many bytes, and makes it durable: its pages are clean.
pub(crate) fn make(path: &std::path::Path, bytes: usize) -> File {
    std::fs::write(path, vec![7; bytes]).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    file
}

/// Drops the file's clean pages from the page cache.
pub(crate) fn drop_pages(file: &File) {
    // SAFETY: a call without addresses.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
}

#[test]
fn a_read_gives_its_pages_up_to_the_files_end() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 5 * PAGE + 100);
    let mut watch = watch(folder.path());
    let mut buffer = vec![0; 100 * PAGE];
    file.read_at(&mut buffer[..1], (2 * PAGE) as u64).unwrap();
    file.read_at(&mut buffer[..2], PAGE as u64 - 1).unwrap();
    file.read_at(&mut buffer, 0).unwrap();
    file.read_at(&mut buffer, (6 * PAGE) as u64).unwrap();
    let events = events(&mut watch, &path);
    assert_eq!(ranges(&events), [(Kind::Read, 2, 1), (Kind::Read, 0, 2), (Kind::Read, 0, 6)]);
    assert_eq!(watch.lost(), 0);
}

#[test]
fn pages_are_seen_to_come_and_go() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 3 * PAGE);
    drop_pages(&file);
    let mut watch = watch(folder.path());
    file.read_at(&mut vec![0; 3 * PAGE], 0).unwrap();
    drop_pages(&file);
    let events = events(&mut watch, &path);
    let pages = |kind| {
        let of_kind = events.iter().filter(move |event| event.kind == kind);
        let mut pages: Vec<u64> = of_kind.flat_map(|event| event.first..event.first + u64::from(event.count)).collect();
        pages.sort_unstable();
        pages
    };
    assert_eq!(pages(Kind::Added), [0, 1, 2], "{events:?}");
    assert_eq!(pages(Kind::Read), [0, 1, 2], "{events:?}");
    assert_eq!(pages(Kind::Removed), [0, 1, 2], "{events:?}");
    assert!(events.iter().all(|event| event.own && !event.reclaim && !event.judged), "{events:?}");
    assert!(events.iter().all(|event| event.order == event.count.trailing_zeros() as u8 || event.kind == Kind::Read));
}
