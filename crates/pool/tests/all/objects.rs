//! Objects come and go, and leave nothing behind.

use crate::common;

use common::{Zeroes, limit, wait_until};
use forebay_policy::Spec;
use forebay_pool::device::{Device, Fault, Faulty, MemoryDevice, Operation, Rule};
use forebay_pool::{Config, Durability, Error, Pool, Share, Together, Volume, VolumeConfig};
use std::collections::BTreeSet;
use std::io::IoSliceMut;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;

fn pool(policy: &str, frames: u64) -> Pool {
    let policy = Spec::parse(policy).expect("a policy");
    Pool::new(Config { dirty_age: Duration::from_secs(3600), ..Config::new(frames * PAGE, policy) }).expect("a pool")
}

fn attach(pool: &Pool, device: Arc<dyn Device>) -> Arc<Volume> {
    attach_with(pool, device, pool.count_together())
}

fn attach_with(pool: &Pool, device: Arc<dyn Device>, together: Together) -> Arc<Volume> {
    let config = VolumeConfig { readahead: 0, together: Some(together), ..VolumeConfig::new("file") };
    pool.attach(device, config)
}

fn memory(pages: u64) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(pages * PAGE))
}

#[test]
fn a_number_comes_back_when_nobody_knows_its_object_any_more() {
    for policy in ["lru", "clock-pro", "ubm", "dulo", "arc", "lru-sp"] {
        let pool = pool(policy, 32);
        let handle = pool.handle().expect("a handle");
        for round in 1..=100_u8 {
            let volume = attach(&pool, memory(64));
            // The pool's threads may hold the ones before for a moment.
            assert!(volume.id() < 40, "{policy}, round {round}: number {}", volume.id());
            for block in 0..64 {
                // What the one before had in its place is not read.
                assert_eq!(handle.read(&volume, block).expect("a read")[0], 0, "{policy}, round {round}");
                handle.write_at(&volume, block * PAGE, &[round], Durability::Flush).expect("a write");
            }
            pool.detach(&volume).expect("memory is written");
            let statistics = pool.statistics();
            assert_eq!((statistics.resident, statistics.ghosts, statistics.laundry, statistics.dirty), (0, 0, 0, 0));
        }
        drop(handle);
        pool.check_invariants();
    }
}

#[test]
fn a_volume_that_somebody_holds_keeps_its_number() {
    let pool = pool("lru", 32);
    let held = attach(&pool, memory(4));
    pool.detach(&held).expect("nothing is dirty");
    let next = attach(&pool, memory(4));
    assert_eq!((held.id(), next.id()), (0, 1));
    drop(held);
    assert_eq!(attach(&pool, memory(4)).id(), 0);
}

#[test]
fn use_after_detach_is_an_error() {
    let pool = pool("lru", 32);
    let volume = attach(&pool, memory(4));
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 0, &[1; 10], Durability::Flush).expect("a write");
    pool.detach(&volume).expect("memory is written");
    fn gone<T>(result: Result<T, Error>) -> bool {
        matches!(result, Err(Error::Detached { .. }))
    }
    assert!(gone(handle.read(&volume, 0)));
    assert!(gone(handle.write(&volume, 0)));
    assert!(gone(handle.read_at(&volume, 0, &mut [0; 10])));
    assert!(gone(handle.write_at(&volume, 0, &[1], Durability::Flush)));
    assert!(gone(handle.trim(&volume, 0, PAGE)));
    assert!(gone(handle.flush(&volume)) && gone(pool.flush_volume(&volume)) && gone(pool.detach(&volume)));
    assert!(handle.read_resident(&volume, 0).is_none() && !handle.read_at_if_resident(&volume, 0, &mut [0; 10]));
    pool.flush().expect("nothing is left");
    pool.check_invariants();
}

#[test]
fn what_is_discarded_is_never_written() {
    let device = Arc::new(MemoryDevice::new(64 * PAGE));
    let pool = pool("lru", 256);
    let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>);
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 0, &[7; 60 * PAGE as usize], Durability::Flush).expect("a write");
    assert_eq!(pool.statistics().dirty, 60);
    pool.discard(&volume).expect("nothing is held");
    assert_eq!((pool.statistics().dirty, pool.statistics().resident), (0, 0));
    pool.flush().expect("there is nothing to write");
    let mut stored = [1; 60 * PAGE as usize];
    device.read(0, &mut [IoSliceMut::new(&mut stored)]).expect("memory is read");
    assert!(stored == [0; 60 * PAGE as usize], "some of it was written");
    pool.check_invariants();
}

#[test]
fn what_is_discarded_goes_though_its_device_takes_no_writes() {
    let fails = Rule { operation: Some(Operation::Write), ..Rule::new(Fault::Error(libc::EIO)) };
    let pool = pool("lru", 256);
    let volume = attach(&pool, Arc::new(Faulty::new(MemoryDevice::new(64 * PAGE), vec![fails], 1)));
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 0, &[7; 60 * PAGE as usize], Durability::Flush).expect("a write");
    assert!(pool.detach(&volume).is_err(), "it cannot be made durable");
    let mut byte = [0];
    handle.read_at(&volume, 5 * PAGE, &mut byte).expect("it is still attached");
    assert_eq!(byte, [7]);
    pool.discard(&volume).expect("nothing is held");
    pool.flush().expect("there is nothing to write");
    pool.check_invariants();
}

#[test]
fn a_volume_whose_page_is_held_stays_attached() {
    let _limit = limit("a detach beside a reader");
    let pool = pool("lru", 32);
    let volume = attach(&pool, memory(4));
    let handle = pool.handle().expect("a handle");
    let pin = handle.read(&volume, 2).expect("a read");
    assert!(matches!(pool.detach(&volume), Err(Error::InUse { .. })));
    assert_eq!((pin[0], handle.read(&volume, 3).expect("it is still attached")[0]), (0, 0));
    std::thread::scope(|scope| {
        let detach = scope.spawn(|| pool.detach(&volume));
        wait_until("the volume goes", || matches!(handle.read(&volume, 1), Err(Error::Detached { .. })));
        drop(pin);
        detach.join().expect("no panic").expect("the page is let go");
    });
    pool.check_invariants();
}

#[test]
fn objects_that_come_and_go_beside_each_other_keep_their_bytes() {
    let _limit = limit("threads that attach and detach");
    for policy in ["lru", "clock-pro"] {
        let pool = pool(policy, 64);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let pool = &pool;
                scope.spawn(move || {
                    let handle = pool.handle().expect("a handle");
                    for round in 0..300_u32 {
                        let device = Arc::new(MemoryDevice::new(8 * PAGE));
                        let volume = attach(pool, Arc::clone(&device) as Arc<dyn Device>);
                        let mine = [thread + 1, round as u8];
                        for block in 0..8 {
                            handle.write_at(&volume, block * PAGE, &mine, Durability::Flush).expect("a write");
                        }
                        let mut found = [0; 2];
                        for block in 0..8 {
                            handle.read_at(&volume, block * PAGE, &mut found).expect("a read");
                            assert_eq!(found, mine);
                        }
                        pool.detach(&volume).expect("memory is written");
                        for block in 0..8 {
                            device.read(block * PAGE, &mut [IoSliceMut::new(&mut found)]).expect("memory is read");
                            assert_eq!(found, mine);
                        }
                    }
                });
            }
        });
        pool.check_invariants();
        // The pool's threads may hold some for a moment.
        let numbers = attach(&pool, memory(1)).id();
        assert!(numbers < 40, "{numbers} numbers are in use");
    }
}

#[test]
fn an_object_with_a_share_goes_and_its_number_gets_another() {
    let pool = pool("arc", 64);
    let handle = pool.handle().expect("a handle");
    for _ in 0..20 {
        let (one, other) = (attach(&pool, memory(256)), attach(&pool, memory(256)));
        pool.set_share(&one, Share { min: 8 * PAGE, max: 32 * PAGE }).expect("it fits");
        for block in 0..256 {
            assert_eq!(handle.read(&one, block).expect("a read")[0], 0);
            assert_eq!(handle.read(&other, block).expect("a read")[0], 0);
        }
        pool.detach(&one).expect("nothing is dirty");
        pool.check_invariants();
        pool.detach(&other).expect("nothing is dirty");
        assert!(one.id() < 40 && other.id() < 40);
    }
}

#[test]
fn objects_that_are_not_counted_by_themselves_are_counted_together() {
    let pool = pool("lru", 64);
    let counted =
        pool.attach(Arc::new(Zeroes::default()), VolumeConfig { readahead: 0, ..VolumeConfig::new("volume") });
    let [some, others] = [0; 2].map(|_| pool.count_together());
    let handle = pool.handle().expect("a handle");
    for _ in 0..3 {
        let file = attach_with(&pool, memory(4), some.clone());
        (0..4).for_each(|block| drop(handle.read(&file, block).expect("a read")));
        drop(handle.read(&counted, 1).expect("a read"));
        pool.detach(&file).expect("nothing is dirty");
    }
    let files = [0; 2].map(|_| attach_with(&pool, memory(4), others.clone()));
    files.iter().for_each(|file| handle.write_at(file, 0, &[7; PAGE as usize], Durability::Flush).expect("a write"));
    drop(handle);
    assert_eq!((some.statistics().dirty, others.statistics().dirty), (0, 2));
    pool.flush().expect("memory is written");
    assert_eq!((others.statistics().dirty, others.statistics().pages_written_back), (0, 2));
    let statistics = pool.statistics();
    assert_eq!(statistics.volumes.iter().map(|volume| &*volume.name).collect::<Vec<_>>(), ["volume"]);
    assert_eq!((some.statistics().misses, statistics.volumes[0].misses), (12, 1));
    assert_eq!((statistics.hits, statistics.misses), (2, 13 + others.statistics().misses));
}

#[test]
fn pages_that_leave_are_announced() {
    let pool = pool("lru", 64);
    let here = Arc::new(Mutex::new(BTreeSet::new()));
    let left = Arc::clone(&here);
    assert!(pool.on_leave(move |places| {
        let mut here = left.lock().expect("nobody panics");
        assert!(places.iter().all(|place| here.remove(&(place.object, place.block))), "only what is here leaves");
    }));
    assert!(!pool.on_leave(|_| ()), "there is one already");
    let handle = pool.handle().expect("a handle");
    let (one, other) = (attach(&pool, memory(256)), attach(&pool, memory(256)));
    for block in 0..256 {
        for volume in [&one, &other] {
            here.lock().expect("nobody panics").insert((volume.id(), block));
            if block % 3 == 0 {
                handle.write_at(volume, block * PAGE, &[1], Durability::Flush).expect("a write");
            } else {
                drop(handle.read(volume, block).expect("a read"));
            }
        }
    }
    pool.flush().expect("memory is written");
    let resident = |pool: &Pool| (pool.statistics().resident + pool.statistics().laundry) as usize;
    wait_until("the laundry is empty", || pool.statistics().laundry == 0);
    assert_eq!(here.lock().expect("nobody panics").len(), resident(&pool));
    handle.trim(&one, 0, 256 * PAGE).expect("memory is trimmed");
    assert_eq!(here.lock().expect("nobody panics").len(), resident(&pool));
    pool.detach(&other).expect("memory is written");
    assert!(here.lock().expect("nobody panics").is_empty());
}

#[test]
fn old_dirty_pages_of_many_objects_are_written_back() {
    let policy = Spec::parse("lru").expect("a policy");
    let config = Config { dirty_age: Duration::from_millis(20), ..Config::new(4096 * PAGE, policy) };
    let pool = Pool::new(config).expect("a pool");
    let handle = pool.handle().expect("a handle");
    let devices: Vec<_> = (0..1000).map(|_| Arc::new(MemoryDevice::new(PAGE))).collect();
    let volumes: Vec<_> = devices.iter().map(|device| attach(&pool, Arc::clone(device) as Arc<dyn Device>)).collect();
    for volume in &volumes {
        handle.write_at(volume, 5, &[7], Durability::Flush).expect("a write");
    }
    wait_until("all are clean", || pool.statistics().dirty == 0);
    // The last may still be on their way.
    wait_until("all are in storage", || {
        devices.iter().all(|device| {
            let mut stored = [0];
            device.read(5, &mut [IoSliceMut::new(&mut stored)]).expect("memory is read");
            stored == [7]
        })
    });
}
