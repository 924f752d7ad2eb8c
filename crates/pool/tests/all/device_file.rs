//! What is particular to files and to objects: who may open them, how they end, what is kept.

use forebay_pool::device::{
    Bounded, Device, Extent, FileDevice, FileOptions, Limited, Limits, MemoryDevice, NewVolume, ObjectDevice,
    ObjectOptions,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const READ_ONLY: FileOptions = FileOptions { read_only: true, direct: true, ring: true };

fn file(length: u64) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("volume");
    std::fs::File::create(&path).and_then(|file| file.set_len(length)).expect("the disk has room");
    (directory, path)
}

fn open(path: &PathBuf) -> FileDevice {
    FileDevice::open(path, FileOptions::default()).expect("it can be opened")
}

fn read(device: &dyn Device, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read(offset, &mut [IoSliceMut::new(&mut bytes)]).expect("it can be read");
    bytes
}

#[test]
fn a_file_has_one_writer_or_several_readers() {
    let (_directory, path) = file(8192);
    let first = open(&path);
    for options in [FileOptions::default(), READ_ONLY] {
        let error = FileDevice::open(&path, options).err().expect("it has a writer");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains(&*path.display().to_string()), "{error}");
    }
    drop(first);
    let readers = [(); 2].map(|()| FileDevice::open(&path, READ_ONLY).expect("readers are welcome"));
    FileDevice::open(&path, FileOptions::default()).err().expect("it has readers");
    drop(readers);
    open(&path);
}

#[test]
fn what_is_opened_for_reading_is_not_changed() {
    let (_directory, path) = file(8192);
    let device = FileDevice::open(&path, READ_ONLY).expect("it can be opened");
    assert!(device.read_only());
    let refused = |answer: io::Result<()>| {
        assert_eq!(answer.expect_err("it is read-only").kind(), io::ErrorKind::PermissionDenied);
    };
    refused(device.write(0, &[IoSlice::new(b"bytes")]));
    refused(device.write_many(&[(0, IoSlice::new(b"bytes"))]).remove(0));
    refused(device.trim(0, 4096));
    refused(device.write_zeroes(0, 4096, true));
    device.flush().expect("there is nothing to flush");
}

#[test]
fn zeroes_are_fast_where_holes_can_be_made_and_finding_out_changes_nothing() {
    let (_directory, path) = file(8192);
    let device = open(&path);
    if device.zeroes_fast() {
        device.write(0, &[IoSlice::new(&[1; 8192])]).expect("it lies in the file");
        device.write_zeroes(0, 4096, false).expect("it lies in the file");
        assert_eq!(device.extents(0, 8192).expect("known")[0], Extent { length: 4096, hole: true, zero: true });
    }
    assert_eq!((device.len(), std::fs::metadata(&path).expect("it is there").len()), (8192, 8192));
    let limits = Limits { bytes_per_second: Some(1), requests_per_second: None, burst: Duration::from_secs(1) };
    let limited = Limited::new(MemoryDevice::new(4096), limits).expect("a limit");
    assert!(limited.zeroes_fast(), "zeroes are no bytes");
    assert!(Bounded::new(Arc::new(limited), Duration::from_secs(30)).zeroes_fast());
    drop(device);
    assert!(!FileDevice::open(&path, READ_ONLY).expect("it can be opened").zeroes_fast());
}

#[test]
fn what_is_no_file_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    for path in [directory.path().to_path_buf(), directory.path().join("missing"), PathBuf::from("/dev/null")] {
        let error = FileDevice::open(&path, FileOptions::default()).err().expect("it is no file");
        assert!(error.to_string().contains(&*path.display().to_string()), "{error}");
    }
}

#[test]
fn a_file_that_became_shorter_is_an_error_not_zeroes() {
    let (_directory, path) = file(65_536);
    let device = open(&path);
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(4096)).expect("it can be cut");
    let mut bytes = vec![0; 8192];
    let error = device.read(0, &mut [IoSliceMut::new(&mut bytes)]).expect_err("half of it is gone");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn the_holes_of_a_file_are_told() {
    let (_directory, path) = file(4 << 20);
    let device = open(&path);
    device.write(1 << 20, &[IoSlice::new(&[1; 65_536])]).expect("the disk has room");
    let extents = device.extents(0, 4 << 20).expect("it can be asked");
    let hole = |length| Extent { length, hole: true, zero: true };
    let data = |length| Extent { length, hole: false, zero: false };
    if extents == [data(4 << 20)] {
        eprintln!("skipped: this file system does not tell of holes");
        return;
    }
    assert_eq!(extents, [hole(1 << 20), data(65_536), hole((3 << 20) - 65_536)]);
    device.trim(1 << 20, 65_536).expect("it can be trimmed");
    assert_eq!(device.extents(0, 4 << 20).expect("it can be asked"), [hole(4 << 20)]);
}

#[test]
fn more_buffers_than_the_kernel_takes_at_once_are_read_and_written() {
    let (_directory, path) = file(3000 * 512);
    let device = open(&path);
    let bytes: Vec<Vec<u8>> = (0..3000_u32).map(|number| vec![number as u8; 512]).collect();
    let buffers: Vec<_> = bytes.iter().map(|part| IoSlice::new(part)).collect();
    device.write(0, &buffers).expect("the disk has room");
    let mut found = vec![vec![0; 512]; 3000];
    let mut buffers: Vec<_> = found.iter_mut().map(|part| IoSliceMut::new(part)).collect();
    device.read(0, &mut buffers).expect("it was written");
    assert_eq!(found, bytes);
}

/// One thread writes past the page cache, one through it, each its own sectors of the same pages.
/// (On a block device the kernel does not order these; on a file it would without us.)
#[test]
fn neighbours_in_a_page_do_not_undo_each_other() {
    const SECTORS: u64 = 64;
    let (_directory, path) = file(SECTORS * 512);
    let device = open(&path);
    let write = |first: u64, skew: usize| {
        let bytes = vec![0_u8; 512 + 4096 + skew];
        let start = bytes.as_ptr().addr().next_multiple_of(4096) - bytes.as_ptr().addr() + skew;
        let mut bytes = bytes;
        for round in 1..=60 {
            bytes[start..start + 512].fill(round);
            for sector in (first..SECTORS).step_by(2) {
                device.write(sector * 512, &[IoSlice::new(&bytes[start..start + 512])]).expect("the disk has room");
            }
            for sector in (first..SECTORS).step_by(2) {
                assert_eq!(read(&device, sector * 512, 512), [round; 512], "sector {sector}");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(0, 0));
        scope.spawn(|| write(1, 1));
    });
    assert_eq!(read(&device, 0, SECTORS as usize * 512), [60; SECTORS as usize * 512]);
}

#[test]
fn what_was_written_is_there_when_the_volume_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}/volume", directory.path().display());
    let new = NewVolume { length: 100_000, object_size: 8192 };
    let missing = ObjectDevice::open(&url, ObjectOptions::default()).err().expect("it was not made yet");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let device = ObjectDevice::open(&url, new.into()).expect("the disk has room");
    device.write(99_000, &[IoSlice::new(&[7; 1000])]).expect("the disk has room");
    device.flush().expect("it is durable");
    drop(device);
    let device = ObjectDevice::open(&url, ObjectOptions::default()).expect("it was made");
    assert_eq!((device.len(), read(&device, 99_000, 1000)), (100_000, vec![7; 1000]));
    let other = ObjectDevice::open(&url, NewVolume::new(100_000).into()).err().expect("its objects are smaller");
    assert_eq!(other.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn of_two_that_open_a_volume_of_files_the_second_is_let_in_only_if_both_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}/volume", directory.path().display());
    let open = |read_only| ObjectDevice::open(&url, ObjectOptions { read_only, ..NewVolume::new(100_000).into() });
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        let holder = open(first).expect("nobody else has it");
        let error = open(second).err();
        assert_eq!(error.is_none(), first && second, "read-only: {first}, then {second}: {error:?}");
        assert!(error.is_none_or(|error| error.to_string().contains("is open elsewhere already")));
        drop(holder);
    }
    let reader = open(true).expect("the others have gone");
    assert!(reader.read_only() && reader.write(0, &[IoSlice::new(&[1])]).is_err());
}

#[test]
fn trimmed_objects_are_holes_and_take_no_space() {
    let new = NewVolume { length: 40_000, object_size: 8192 };
    let device = ObjectDevice::open("memory:///volume", new.into()).expect("a volume in memory");
    device.write(0, &[IoSlice::new(&[1; 40_000])]).expect("memory has room");
    device.trim(4096, 35_904).expect("it can be trimmed");
    let extents = device.extents(0, 40_000).expect("it can be asked");
    let (data, hole) =
        (Extent { length: 8192, hole: false, zero: false }, Extent { length: 31_808, hole: true, zero: true });
    assert_eq!(extents, [data, hole]);
}

#[test]
fn a_url_or_manifest_that_is_wrong_is_refused_with_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}", directory.path().display());
    let manifests =
        ["", "{}", r#"{"version":2,"length":1,"object_size":4096}"#, r#"{"version":1,"length":1,"object_size":0}"#];
    for manifest in manifests {
        std::fs::write(directory.path().join("manifest.json"), manifest).expect("the disk has room");
        let error = ObjectDevice::open(&url, ObjectOptions::default()).err().expect("the manifest is wrong");
        assert!(error.to_string().starts_with(&url) && error.kind() == io::ErrorKind::InvalidInput, "{error}");
    }
    for url in ["volume", "ftp://host/volume", "file://host/volume"] {
        let error = ObjectDevice::open(url, NewVolume::new(1).into()).err().expect("the URL is wrong");
        assert!(error.to_string().starts_with(url), "{error}");
    }
}

#[test]
fn threads_write_one_device_at_once() {
    let devices: [Box<dyn Device>; 2] = [
        Box::new(MemoryDevice::new(1 << 20)),
        Box::new(
            ObjectDevice::open("memory:///volume", NewVolume { length: 1 << 20, object_size: 65_536 }.into())
                .expect("memory"),
        ),
    ];
    for device in devices {
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let device = &device;
                // Pages in turn: all threads change every object.
                let write = move |page: u64| {
                    device.write(page * 4096, &[IoSlice::new(&[thread as u8 + 1; 4096])]).expect("memory has room");
                };
                scope.spawn(move || (0..256).filter(|page| page % 4 == thread).for_each(write));
            }
        });
        for page in 0..256 {
            assert_eq!(read(&device, page * 4096, 4096), [(page % 4) as u8 + 1; 4096], "page {page}");
        }
    }
}
