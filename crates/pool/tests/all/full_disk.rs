//! Sparse volumes in file systems that are full: a write fails while nothing is lost yet. Each test mounts a small file system that no other process sees.

use crate::common::limit;
use forebay_policy::Spec;
use forebay_pool::device::{Device, FileDevice, FileOptions, Joined};
use forebay_pool::{Config, Durability, Error, Handle, Pool, Volume, VolumeConfig, WriteMode};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BLOCK: u64 = 64 * KIB;

/// Runs a test beside a file system in memory, of that size, in a folder. Elsewhere than as root the test says that it is skipped; in CI that is a
/// failure.
fn on_small_disk(size: u64, test: impl FnOnce(&Path) + Send) {
    let _limit = limit("a test on a full disk");
    let folder = tempfile::tempdir().expect("a folder");
    let run = || {
        // SAFETY: the thread's own view of mounts is changed, which concerns no memory.
        let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) };
        if unshared.is_err() {
            let why = "skipped: only root mounts a small disk\n";
            assert!(std::env::var_os("CI").is_none(), "CI skips nothing: {why}");
            return std::io::stderr().write_all(why.as_bytes()).expect("standard error can be written to");
        }
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("mounts stay here");
        let options = std::ffi::CString::new(format!("size={size}")).expect("no zero in it");
        mount("none", folder.path(), "tmpfs", MountFlags::empty(), options.as_c_str()).expect("it is mounted");
        test(folder.path());
    };
    // The mount goes with the thread.
    std::thread::scope(|scope| scope.spawn(run).join()).expect("the test holds");
}

fn sparse(path: PathBuf, size: u64) -> PathBuf {
    File::create(&path).and_then(|file| file.set_len(size)).expect("a file");
    path
}

fn device(path: &Path) -> Arc<dyn Device> {
    Arc::new(FileDevice::open(path, FileOptions::default()).expect("a device"))
}

/// A pool that writes nothing back in the background while its dirty pages are few.
fn pool(capacity: u64) -> Pool {
    let mut config = Config::new(capacity, Spec::parse("lru").expect("a policy"));
    config.dirty_age = std::time::Duration::from_secs(3600);
    Pool::new(config).expect("a pool")
}

/// The bytes of a block that say which it is.
fn content(block: u64) -> Vec<u8> {
    (block + 1).to_le_bytes().repeat(BLOCK as usize / 8)
}

fn write(handle: &Handle, volume: &Arc<Volume>, block: u64) -> Result<(), Error> {
    let data = content(block);
    if handle.write_at_if_ready(volume, block * BLOCK, &data) {
        return Ok(());
    }
    handle.write_at(volume, block * BLOCK, &data, Durability::Flush)
}

/// Writes blocks until one is refused; those that were taken.
fn fill(handle: &Handle, volume: &Arc<Volume>, blocks: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut taken = Vec::new();
    for block in blocks {
        match write(handle, volume, block) {
            Ok(()) => taken.push(block),
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC, "{error}");
                return taken;
            }
        }
    }
    panic!("no write was refused, and {} were taken", taken.len());
}

fn check(path: &Path, blocks: &[u64]) {
    let file = File::open(path).expect("the file");
    for &block in blocks {
        let mut found = vec![0; BLOCK as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut found, block * BLOCK).expect("the block");
        assert!(found == content(block), "block {block} of {}", path.display());
    }
}

fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).expect("the file").blocks() * 512
}

#[test]
fn a_write_fails_where_the_file_system_is_full_and_those_taken_before_become_durable() {
    for mode in [WriteMode::Back, WriteMode::Through] {
        on_small_disk(16 * MIB, |disk| {
            let path = sparse(disk.join("volume"), 64 * MIB);
            let pool = pool(64 * MIB);
            let volume = pool.attach(device(&path), VolumeConfig { mode, ..VolumeConfig::new("volume") });
            let handle = pool.handle().expect("a handle");
            let taken = fill(&handle, &volume, 0..64 * MIB / BLOCK);
            assert!(taken.len() as u64 * BLOCK > 15 * MIB, "{} blocks are taken", taken.len());
            handle.flush(&volume).expect("what was taken has its space");
            write(&handle, &volume, taken[0]).expect("it has its space");
            check(&path, &taken);
            handle.trim(&volume, 0, MIB).expect("a trim");
            fill(&handle, &volume, 512..640);
            handle.flush(&volume).expect("it has the space of what was trimmed");
        });
    }
}

#[test]
fn what_was_taken_while_there_was_plenty_keeps_its_space() {
    // The first 36 MiB are below the margin of 64 MiB. None of them is written back before the disk is full.
    on_small_disk(100 * MIB, |disk| {
        let paths = ["one", "two", "three"].map(|name| sparse(disk.join(name), 256 * MIB));
        let pool = pool(512 * MIB);
        let joined: Arc<dyn Device> =
            Arc::new(Joined::striped(vec![device(&paths[1]), device(&paths[2])], BLOCK).expect("stripes"));
        let volumes = [device(&paths[0]), joined].map(|device| pool.attach(device, VolumeConfig::new("volume")));
        let taken: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let fill = |volume, first: u64| {
                let pool = &pool;
                scope.spawn(move || {
                    let handle = pool.handle().expect("a handle");
                    fill(&handle, volume, (first..256 * MIB / BLOCK).step_by(2))
                })
            };
            let threads = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(volume, first)| fill(&volumes[volume], first));
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let blocks: usize = taken.iter().map(Vec::len).sum();
        assert!(blocks as u64 * BLOCK > 95 * MIB, "{blocks} blocks are taken");
        volumes.iter().for_each(|volume| pool.flush_volume(volume).expect("what was taken has its space"));
        taken[..2].iter().for_each(|blocks| check(&paths[0], blocks));
        let handle = pool.handle().expect("a handle");
        for &block in taken[2..].iter().flatten() {
            let mut found = vec![0; BLOCK as usize];
            handle.read_at(&volumes[1], block * BLOCK, &mut found).expect("it can be read");
            assert!(found == content(block), "block {block}");
        }
    });
}

#[test]
fn holes_that_are_read_take_no_space_and_a_file_that_has_its_space_is_written_on_a_full_disk() {
    on_small_disk(16 * MIB, |disk| {
        let (holes, whole) = (sparse(disk.join("holes"), 64 * MIB), sparse(disk.join("whole"), 8 * MIB));
        let allocate = |path: &Path, length| {
            fallocate(File::options().write(true).open(path).expect("a file"), FallocateFlags::empty(), 0, length)
        };
        allocate(&whole, 8 * MIB).expect("it has its space");
        let pool = pool(64 * MIB);
        let attach = |path| pool.attach(device(path), VolumeConfig::new("volume"));
        let (holes_volume, whole_volume) = (attach(&holes), attach(&whole));
        let handle = pool.handle().expect("a handle");
        let mut data = vec![1; 4 * MIB as usize];
        for offset in (0..64 * MIB).step_by(data.len()) {
            handle.read_at(&holes_volume, offset, &mut data).expect("it is read");
        }
        write(&handle, &holes_volume, 0).expect("there is room");
        handle.flush(&holes_volume).expect("there is room");
        assert_eq!(allocated(&holes), BLOCK, "one block is written");
        allocate(&sparse(disk.join("rest"), 0), 7 * MIB).expect("it takes what is left");
        fill(&handle, &holes_volume, 1..1000);
        // Dirty pages of the other volume do not hinder it.
        let blocks: Vec<u64> = (0..8 * MIB / BLOCK).collect();
        blocks.iter().for_each(|&block| write(&handle, &whole_volume, block).expect("it has its space"));
        pool.flush_volume(&whole_volume).expect("it has its space");
        check(&whole, &blocks);
        pool.flush_volume(&holes_volume).expect("what was taken has its space");
    });
}

#[test]
fn pages_that_are_held_for_writing_find_room_first() {
    on_small_disk(MIB, |disk| {
        let path = sparse(disk.join("volume"), 8 * MIB);
        let pool = pool(16 * MIB);
        let volume = pool.attach(device(&path), VolumeConfig::new("volume"));
        let handle = pool.handle().expect("a handle");
        let refused = (0..2048).find_map(|block| match handle.write(&volume, block) {
            Ok(mut page) => {
                page.fill(1);
                None
            }
            Err(error) => Some(error),
        });
        assert_eq!(refused.as_ref().map(Error::errno), Some(libc::ENOSPC), "{refused:?}");
        pool.flush_volume(&volume).expect("what was taken has its space");
    });
}

/// The free bytes are sampled for 50 ms. Without a new sample every later write over dirty pages would go to a thread that may wait.
#[test]
fn writes_over_dirty_pages_are_ready_again_once_one_of_them_has_looked_below() {
    on_small_disk(256 * MIB, |folder| {
        let pool = pool(16 * MIB);
        let device = device(&sparse(folder.join("disk"), 8 * MIB));
        let volume = pool.attach(device, VolumeConfig::new("disk"));
        let handle = pool.handle().expect("a handle");
        let write = || handle.write_at(&volume, 0, &content(0), Durability::Flush).expect("there is space");
        write();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!handle.write_at_if_ready(&volume, 0, &content(0)), "the sample is old");
        // A pause of the machine may make the next sample old, too.
        let is_ready = || {
            write();
            handle.write_at_if_ready(&volume, 0, &content(0))
        };
        assert!((0..100).any(|_| is_ready()), "no write of 100 was ready right after one that looked below");
    });
}
