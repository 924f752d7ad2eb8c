//! What hints do, and that they change no byte.

use crate::common;

use forebay_policy::Spec;
use forebay_pool::device::{Device, MemoryDevice};
use forebay_pool::{Config, Durability, Hint, Pool, Share, Volume, VolumeConfig};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const BLOCKS: u64 = 100;

/// The bytes of a block, other than those of all others.
fn contents(block: u64) -> Vec<u8> {
    (0..PAGE).map(|at| (block * 7 + at / 16) as u8).collect()
}

/// A pool of 16 frames in front of a device with different bytes in each block.
fn pool() -> (Pool, Arc<Volume>, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(BLOCKS * PAGE));
    for block in 0..BLOCKS {
        device.write(block * PAGE, &[IoSlice::new(&contents(block))]).expect("memory is written");
    }
    let policy = Spec::parse("lru").expect("a policy");
    let pool = Pool::new(Config { laundry: 1, ..Config::new(17 * PAGE, policy) }).expect("a pool");
    let volume = pool.attach(Arc::clone(&device) as Arc<dyn Device>, VolumeConfig::new("test"));
    (pool, volume, device)
}

#[test]
fn what_is_used_once_passes_by_the_cache() {
    let (pool, volume, _) = pool();
    let handle = pool.handle().expect("a handle");
    handle.hint(&volume, Hint::Random).expect("a hint");
    for block in 0..16 {
        drop(handle.read(&volume, block).expect("a read"));
    }
    let scan = pool.handle().expect("a handle");
    scan.hint(&volume, Hint::Once).expect("a hint");
    // From the midst of a resident page to the midst of an absent one.
    let mut bytes = vec![0; (80 * PAGE) as usize];
    scan.read_at(&volume, 12 * PAGE + 100, &mut bytes).expect("a read");
    let all: Vec<u8> = (12..93).flat_map(contents).collect();
    assert!(bytes == all[100..100 + bytes.len()], "the bytes are the device's");
    assert!((0..16).all(|block| handle.read_resident(&volume, block).is_some()), "what was resident still is");
    assert!((16..100).all(|block| handle.read_resident(&volume, block).is_none()), "nothing was admitted");
}

#[test]
fn what_is_read_once_is_never_older_than_what_was_written() {
    // Enough frames that the page table is nearly half full, and entries stand beside their place.
    let policy = Spec::parse("lru").expect("a policy");
    let pool = Pool::new(Config::new(500 * PAGE, policy)).expect("a pool");
    let volume = pool.attach(Arc::new(MemoryDevice::new(4000 * PAGE)), VolumeConfig::new("test"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Pages come and go, so that entries move.
        scope.spawn(|| {
            let handle = pool.handle().expect("a handle");
            for block in (64..4000).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                drop(handle.read(&volume, block).expect("a read"));
            }
        });
        let (writer, reader) = (pool.handle().expect("a handle"), pool.handle().expect("a handle"));
        reader.hint(&volume, Hint::Once).expect("a hint");
        let mut bytes = [0; 8];
        for written in 0..60_000_u64 {
            let offset = written % 64 * PAGE;
            writer.write_at(&volume, offset, &written.to_le_bytes(), Durability::Flush).expect("a write");
            for _ in 0..20 {
                reader.read_at(&volume, offset, &mut bytes).expect("a read");
                if u64::from_le_bytes(bytes) != written {
                    done.store(true, Ordering::Relaxed);
                    panic!("write {written} was acknowledged, and {} was read", u64::from_le_bytes(bytes));
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_not_needed_leaves_after_its_writeback() {
    let (pool, volume, device) = pool();
    let handle = pool.handle().expect("a handle");
    // While pages are read ahead a look without the lock may miss what is there.
    handle.hint(&volume, Hint::Random).expect("a hint");
    handle.write_at(&volume, 3 * PAGE + 5, b"dirty", Durability::Flush).expect("a write");
    drop(handle.read(&volume, 4).expect("a read"));
    handle.hint(&volume, Hint::DoNotNeed { offset: 0, length: 4 * PAGE }).expect("a hint");
    common::wait_until("pages leave", || pool.statistics().resident == 1);
    assert!(handle.read_resident(&volume, 3).is_none());
    assert!(handle.read_resident(&volume, 4).is_some(), "it is outside the range");
    let mut stored = [0; 5];
    device.read(3 * PAGE + 5, &mut [IoSliceMut::new(&mut stored)]).expect("memory is read");
    assert_eq!(&stored, b"dirty");
}

/// The blocks of 0 to 31 that are resident when the program's cache has evicted block 0, and 15 others are read once.
fn resident_after_an_eviction_above(policy: &str, hits: u32, dirty: bool) -> Vec<u64> {
    let policy = Spec::parse(policy).expect("a policy");
    let pool = Pool::new(Config { laundry: 1, ..Config::new(17 * PAGE, policy) }).expect("a pool");
    let volume = pool.attach(Arc::new(MemoryDevice::new(BLOCKS * PAGE)), VolumeConfig::new("test"));
    let handle = pool.handle().expect("a handle");
    handle.hint(&volume, Hint::Random).expect("a hint");
    for block in 0..16 {
        drop(handle.read(&volume, block).expect("a read"));
    }
    // Of block 50 no one knows.
    for offset in [0, 50 * PAGE] {
        handle.hint(&volume, Hint::EvictedAbove { offset, length: 100, hits, dirty }).expect("a hint");
    }
    let beyond = Hint::EvictedAbove { offset: BLOCKS * PAGE - 1, length: 2, hits, dirty };
    assert!(handle.hint(&volume, beyond).is_err(), "beyond the end");
    for block in 16..31 {
        drop(handle.read(&volume, block).expect("a read"));
    }
    assert!(handle.read_resident(&volume, 50).is_none(), "a hint brings nothing in");
    let resident = (0..31).filter(|&block| handle.read_resident(&volume, block).is_some()).collect();
    drop(handle);
    pool.check_invariants();
    resident
}

#[test]
fn what_is_evicted_above_counts_as_the_policy_has_it() {
    let (first, last) = (vec![0], vec![15]);
    let others = |kept: &[u64]| [kept, &(16..31).collect::<Vec<_>>()].concat();
    // A clean page is used now.
    assert_eq!(resident_after_an_eviction_above("lru", 9, false), others(&first));
    assert_eq!(resident_after_an_eviction_above("lru", 9, true), others(&last));
    // MQ counts the hits of either, and such a page is in a higher queue than those read once.
    assert_eq!(resident_after_an_eviction_above("mq:lifetime=1000", 9, false), others(&first));
    assert_eq!(resident_after_an_eviction_above("mq:lifetime=1000", 9, true), others(&first));
    assert_eq!(resident_after_an_eviction_above("fifo", 9, false), others(&last));
}

#[test]
fn what_is_evicted_above_reaches_the_policy_of_a_volume_with_a_share() {
    let policy = Spec::parse("lru").expect("a policy");
    let pool = Pool::new(Config { laundry: 1, ..Config::new(33 * PAGE, policy) }).expect("a pool");
    let volume = pool.attach(Arc::new(MemoryDevice::new(BLOCKS * PAGE)), VolumeConfig::new("test"));
    pool.set_share(&volume, Share { min: 16 * PAGE, max: 16 * PAGE }).expect("a share");
    let handle = pool.handle().expect("a handle");
    handle.hint(&volume, Hint::Random).expect("a hint");
    for block in 0..16 {
        drop(handle.read(&volume, block).expect("a read"));
    }
    handle.hint(&volume, Hint::EvictedAbove { offset: 0, length: PAGE, hits: 1, dirty: false }).expect("a hint");
    for block in 16..31 {
        drop(handle.read(&volume, block).expect("a read"));
    }
    assert!(handle.read_resident(&volume, 0).is_some() && handle.read_resident(&volume, 1).is_none());
}

#[test]
fn what_will_be_needed_becomes_resident() {
    let (pool, volume, _) = pool();
    let handle = pool.handle().expect("a handle");
    handle.hint(&volume, Hint::WillNeed { offset: 10 * PAGE, length: 4 * PAGE }).expect("a hint");
    let deadline = Instant::now() + Duration::from_secs(60);
    for block in 10..14 {
        while handle.read_resident(&volume, block).is_none() {
            assert!(Instant::now() < deadline, "block {block} is never fetched");
            std::thread::yield_now();
        }
        assert_eq!(*handle.read(&volume, block).expect("a read"), contents(block));
    }
    assert_eq!(pool.statistics().volumes[0].pages_read_ahead, 4);
}

#[test]
fn what_is_fetched_is_there_and_ends_where_no_frame_is_left() {
    let (pool, volume, _) = pool();
    let handle = pool.handle().expect("a handle");
    assert!(handle.fetch(&volume, 10 * PAGE + 5, 4 * PAGE).expect("within the volume"));
    assert!((10..15).all(|block| handle.read_resident(&volume, block).is_some()));
    assert!(handle.fetch(&volume, 10 * PAGE, 5 * PAGE).expect("within the volume"), "what is there is fetched");
    assert!(handle.fetch(&volume, (BLOCKS - 1) * PAGE, 2 * PAGE).is_err(), "beyond the end");
    let pins: Vec<_> = (20..36).map(|block| handle.read(&volume, block).expect("a read")).collect();
    assert!(!handle.fetch(&volume, 50 * PAGE, 4 * PAGE).expect("within the volume"), "all frames are pinned");
    drop(pins);
}
