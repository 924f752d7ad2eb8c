use crate::{can_watch, events, has, ranges, watch};
use forebay_kernel::watch::{Event, Kind};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

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

/// Reads a file whose pages are there, past its end, too. What is seen of it, and the events that were lost.
fn read_past_the_end() -> (Vec<(Kind, u64, u32)>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 5 * PAGE + 100);
    let mut watch = watch(folder.path());
    let mut buffer = vec![0; 100 * PAGE];
    file.read_at(&mut buffer[..1], (2 * PAGE) as u64).unwrap();
    file.read_at(&mut buffer[..2], PAGE as u64 - 1).unwrap();
    file.read_at(&mut buffer, 0).unwrap();
    file.read_at(&mut buffer, (6 * PAGE) as u64).unwrap();
    (ranges(&events(&mut watch, &path)), watch.lost())
}

#[test]
fn a_read_gives_its_pages_up_to_the_files_end() {
    if !can_watch() {
        return;
    }
    // A page that is added was reclaimed by the kernel between the write and the read, as DAMON does.
    let mut tries = (0..4).map(|_| read_past_the_end());
    let undisturbed = tries.find(|(seen, _)| seen.iter().all(|(kind, ..)| *kind != Kind::Added));
    let (seen, lost) = undisturbed.expect("one of four whose pages the kernel leaves alone");
    assert_eq!(seen, [(Kind::Read, 2, 1), (Kind::Read, 0, 2), (Kind::Read, 0, 6)]);
    assert_eq!(lost, 0);
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

#[test]
fn the_same_page_twice_running_is_one_use() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 3 * PAGE);
    let mut watch = watch(folder.path());
    let mut buffer = [0; 3 * PAGE];
    for (bytes, at) in [(100, 0), (100, 100), (PAGE, PAGE - 50), (10, 2 * PAGE - 10), (PAGE, 2 * PAGE), (1, 0)] {
        file.read_exact_at(&mut buffer[..bytes], at as u64).unwrap();
    }
    let expected = [(Kind::Read, 0, 1), (Kind::Read, 1, 1), (Kind::Read, 2, 1), (Kind::Read, 0, 1)];
    assert_eq!(ranges(&events(&mut watch, &path)), expected);
}

#[test]
fn a_long_read_is_one_event() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 300 * PAGE);
    let mut watch = watch(folder.path());
    file.read_exact_at(&mut vec![0; 299 * PAGE], PAGE as u64).unwrap();
    assert_eq!(ranges(&events(&mut watch, &path)), [(Kind::Read, 1, 299)]);
}

#[test]
fn what_is_sent_to_another_file_is_read() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 3 * PAGE + 10);
    let to = File::create(folder.path().join("copy")).unwrap();
    let mut watch = watch(folder.path());
    // SAFETY: a call without addresses.
    let sent = unsafe { libc::sendfile(to.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), 4 * PAGE) };
    assert_eq!(sent, 3 * PAGE as isize + 10);
    assert_eq!(ranges(&events(&mut watch, &path)), [(Kind::Read, 0, 4)]);
}

#[test]
fn a_mapping_that_faults_uses_its_page() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 64 * PAGE);
    let mut watch = watch(folder.path());
    if !has(&watch, "mm_filemap_map_pages") {
        return;
    }
    // SAFETY: a new mapping of a file that is long enough, unmapped below.
    let byte = unsafe {
        let fd = file.as_raw_fd();
        let address = libc::mmap(std::ptr::null_mut(), 64 * PAGE, libc::PROT_READ, libc::MAP_SHARED, fd, 0);
        assert_ne!(address, libc::MAP_FAILED);
        let byte = address.cast::<u8>().add(40 * PAGE).read_volatile();
        libc::munmap(address, 64 * PAGE);
        byte
    };
    assert_eq!(byte, 7);
    let events = events(&mut watch, &path);
    let covers = |event: &Event| (event.first..event.first + u64::from(event.count)).contains(&40);
    assert!(events.iter().any(|event| event.kind == Kind::Mapped && covers(event)), "{events:?}");
}

#[test]
fn a_write_gives_its_pages() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    make(&path, 2 * PAGE);
    let mut watch = watch(folder.path());
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[1; 10], PAGE as u64 - 5).unwrap();
    let events = events(&mut watch, &path);
    let of = |kind| ranges(&events.iter().filter(|event| event.kind == kind).copied().collect::<Vec<_>>());
    let pages: u32 = of(Kind::Dirtied).iter().map(|(_, _, count)| count).sum();
    assert!(pages >= 2, "{events:?}");
    if has(&watch, "generic_perform_write") {
        assert_eq!(of(Kind::Write), [(Kind::Write, 0, 2)]);
    }
}

#[test]
fn users_and_processes_are_named() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    make(&path, PAGE);
    let mut watch = watch(folder.path());
    let mut cat = Command::new("cat").arg(&path).stdout(Stdio::null()).spawn().unwrap();
    assert!(cat.wait().unwrap().success());
    let events = events(&mut watch, &path);
    let read = events.iter().find(|event| event.kind == Kind::Read).expect("cat reads the file");
    assert_eq!((read.process, read.user, read.own), (cat.id(), 0, false));
}
