//! Pins that are owned: they outlive their handle, go to other threads, and hold their page as borrowed ones do.

use crate::common;

use common::limit;
use forebay_policy::Spec;
use forebay_pool::device::{Device, MemoryDevice};
use forebay_pool::{Config, Durability, Error, OwnedPin, Pool, Volume, VolumeConfig, WriteMode, WritePin};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: u64 = 4096;
const BLOCKS: u64 = 64;

/// A pool of 8 frames in front of a device whose blocks are filled with their numbers.
fn pool(mode: WriteMode) -> (Pool, Arc<Volume>, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(BLOCKS * PAGE));
    for block in 0..BLOCKS {
        device.write(block * PAGE, &[IoSlice::new(&[block as u8; PAGE as usize])]).expect("memory is written");
    }
    let policy = Spec::parse("lru").expect("a policy");
    let pool = Pool::new(Config { laundry: 1, ..Config::new(9 * PAGE, policy) }).expect("a pool");
    let config = VolumeConfig { readahead: 0, mode, ..VolumeConfig::new("test") };
    let volume = pool.attach(Arc::clone(&device) as Arc<dyn Device>, config);
    (pool, volume, device)
}

fn owned(pool: &Pool, volume: &Arc<Volume>, block: u64) -> OwnedPin {
    let handle = pool.handle().expect("a handle");
    handle.read(volume, block).expect("a read").into_owned()
}

#[test]
fn an_owned_pin_holds_its_page_after_its_handle_has_gone() {
    let (pool, volume, _) = pool(WriteMode::Back);
    let pin = owned(&pool, &volume, 7);
    let handle = pool.handle().expect("a handle");
    for block in 20..BLOCKS {
        drop(handle.read(&volume, block).expect("a read"));
    }
    assert!(handle.read_resident(&volume, 7).is_some(), "it is no victim");
    assert!(std::thread::spawn(move || pin.iter().all(|&byte| byte == 7)).join().expect("no panic"));
    for block in 20..BLOCKS {
        drop(handle.read(&volume, block).expect("a read"));
    }
    assert!(handle.read_resident(&volume, 7).is_none(), "it has left as soon as the pin was dropped");
    pool.check_invariants();
}

#[test]
fn pages_under_owned_pins_are_no_victims_and_an_object_does_not_go() {
    let _limit = limit("all frames are pinned");
    let (pool, volume, _) = pool(WriteMode::Back);
    let pins: Vec<OwnedPin> = (0..8).map(|block| owned(&pool, &volume, block)).collect();
    let handle = pool.handle().expect("a handle");
    assert!(matches!(handle.read(&volume, 20), Err(Error::AllPinned)));
    assert!(matches!(pool.detach(&volume), Err(Error::InUse { .. })));
    drop(pins);
    assert_eq!(handle.read(&volume, 20).expect("a read")[0], 20);
    pool.detach(&volume).expect("nothing is held");
    pool.check_invariants();
}

#[test]
fn an_owned_pin_keeps_its_bytes_when_the_pool_has_gone() {
    let (pool, volume, _) = pool(WriteMode::Back);
    let pin = owned(&pool, &volume, 9);
    pool.close().expect("nothing is dirty");
    drop(volume);
    assert_eq!(*pin, [9; PAGE as usize]);
}

#[test]
fn an_owned_write_ends_on_any_thread_as_a_borrowed_one() {
    for mode in [WriteMode::Back, WriteMode::Through] {
        let (pool, volume, device) = pool(mode);
        let begin = |block| -> WritePin<'static> {
            let handle = pool.handle().expect("a handle");
            handle.write(&volume, block).expect("a write").into_owned()
        };
        let (mut committed, mut dropped) = (begin(3), begin(4));
        std::thread::spawn(move || {
            committed[5] = 100;
            committed.commit().expect("it is kept, or written");
            dropped[5] = 101;
        })
        .join()
        .expect("no panic");
        pool.flush().expect("a flush");
        let mut bytes = [0; 2 * PAGE as usize];
        device.read(3 * PAGE, &mut [IoSliceMut::new(&mut bytes)]).expect("memory is read");
        assert_eq!([bytes[4], bytes[5], bytes[PAGE as usize + 5]], [3, 100, 101], "{mode:?}");
        pool.check_invariants();
    }
}

#[test]
fn nobody_writes_to_a_page_while_its_pin_changes_hands() {
    let _limit = limit("a writer and readers with owned pins take turns");
    let (pool, volume, _) = pool(WriteMode::Back);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let handle = pool.handle().expect("a handle");
            for round in 0..3000_u32 {
                let bytes = [round as u8; PAGE as usize];
                handle.write_at(&volume, 5 * PAGE, &bytes, Durability::Flush).expect("a write");
            }
            done.store(true, Ordering::SeqCst);
        });
        let (pool, volume, done) = (&pool, &volume, &done);
        for _ in 0..2 {
            scope.spawn(move || {
                let handle = pool.handle().expect("a handle");
                while !done.load(Ordering::SeqCst) {
                    let pin = handle.read(volume, 5).expect("a read").into_owned();
                    let first = pin[0];
                    assert!(pin.iter().all(|&byte| byte == first), "the page changed under a pin");
                }
            });
        }
    });
    pool.check_invariants();
}
