//! What is known to go wrong in caches, each shown not to happen here.

use crate::common;

use common::{PATIENCE, limit, wait_until};
use forebay_policy::Spec;
use forebay_pool::device::{Device, Fault, Faulty, MemoryDevice, Operation, Rule, When};
use forebay_pool::{Config, Durability, Error, Pool, Volume, VolumeConfig};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;

/// A pool whose background writer has nothing to do: pages may be dirty for long.
fn pool(frames: u64, laundry: u32) -> Pool {
    let policy = Spec::parse("lru").expect("a policy");
    let dirty_age = Duration::from_secs(3600);
    Pool::new(Config { laundry, dirty_age, ..Config::new(frames * PAGE, policy) }).expect("a pool")
}

fn attach(pool: &Pool, device: Arc<dyn Device>) -> Arc<Volume> {
    pool.attach(device, VolumeConfig { readahead: 0, ..VolumeConfig::new("test") })
}

fn failing(operation: Operation, when: When) -> Rule {
    Rule { operation: Some(operation), when, ..Rule::new(Fault::Error(libc::EIO)) }
}

fn faulty(blocks: u64, rules: Vec<Rule>) -> Arc<Faulty<MemoryDevice>> {
    Arc::new(Faulty::new(MemoryDevice::new(blocks * PAGE), rules, 1))
}

fn stored(device: &dyn Device, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read(offset, &mut [IoSliceMut::new(&mut bytes)]).expect("memory is read");
    bytes
}

#[test]
fn storage_that_is_full_is_tried_once_in_a_while_and_at_once_when_space_is_given_back() {
    let _limit = limit("writers of a volume that is full");
    let pool = pool(64, 4);
    let full = Rule { operation: Some(Operation::Write), ..Rule::new(Fault::Error(libc::ENOSPC)) };
    let device = faulty(256, vec![full]);
    let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>);
    let handle = pool.handle().expect("a handle");
    let write = |block: u64| handle.write_at(&volume, block * PAGE, &[1; PAGE as usize], Durability::Flush);
    let attempts = || pool.statistics().volumes[0].device.writes;
    // Half of the pages may be dirty.
    (0..32).for_each(|block| write(block).expect("it is cached"));
    let begin = Instant::now();
    let mut failed = 0;
    while begin.elapsed() < Duration::from_secs(3) {
        write(32).expect_err("no more may be dirty");
        failed += 1;
    }
    // After 0.2, 0.4, 0.8 seconds and then each second; one attempt may be several requests.
    assert!((2..=8).contains(&failed), "{failed} attempts");
    assert!(attempts() <= 5 * failed, "{} requests for {failed} attempts", attempts());
    // Reads, and writes of pages that are dirty already, do not wait for it.
    let before = (attempts(), Instant::now());
    (100..228).for_each(|block| handle.read_at(&volume, block * PAGE, &mut [0]).expect("it is read"));
    assert!(before.1.elapsed() < Duration::from_secs(2) && attempts() < before.0 + 8, "{} requests", attempts());
    let _ = write(32);
    device.set(Vec::new());
    let freed = Instant::now();
    handle.trim(&volume, 200 * PAGE, PAGE).expect("space is given back");
    write(32).expect("it is tried at once");
    assert!(freed.elapsed() < Duration::from_millis(700), "{:?}", freed.elapsed());
    pool.flush_volume(&volume).expect_err("it tells of what failed, once");
    pool.flush_volume(&volume).expect("all is written");
}

/// A device that stops before it reads or writes, until it is let go on, and counts.
struct Gate {
    device: MemoryDevice,
    shut: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
    reads: AtomicU64,
}

impl Gate {
    fn new(blocks: u64) -> Arc<Self> {
        Arc::new(Self {
            device: MemoryDevice::new(blocks * PAGE),
            shut: Mutex::new(false),
            opened: Condvar::new(),
            waiting: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        })
    }

    fn set(&self, shut: bool) {
        *self.shut.lock().expect("nobody panics") = shut;
        self.opened.notify_all();
    }

    fn pass(&self) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let shut = self.shut.lock().expect("nobody panics");
        let (shut, _) = self.opened.wait_timeout_while(shut, PATIENCE, |shut| *shut).expect("nobody panics");
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if *shut { Err(io::Error::new(io::ErrorKind::TimedOut, "the test does not open the gate")) } else { Ok(()) }
    }

    fn wait_for_a_request(&self) {
        wait_until("a request comes to the gate", || self.waiting.load(Ordering::SeqCst) > 0);
    }
}

impl Device for Gate {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.pass()?;
        self.device.read(offset, buffers)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.pass()?;
        self.device.write(offset, buffers)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        self.device.write_zeroes(offset, length, allocate)
    }

    fn describe(&self) -> String {
        "gate".to_owned()
    }
}

#[test]
fn a_dirty_page_never_leaves_before_its_writeback() {
    const BLOCK: usize = 64 << 10;
    let device = Arc::new(MemoryDevice::new(512 * BLOCK as u64));
    let policy = Spec::parse("lru").expect("a policy");
    let pool = Pool::new(Config::new(8 << 20, policy).with_page_size(BLOCK as u32)).expect("a pool");
    let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>);
    let handle = pool.handle().expect("a handle");
    let bytes = |block: usize| -> Vec<u8> { (0..BLOCK).map(|at| (at * 31 + block * 7 + at / 251) as u8).collect() };
    for block in 0..512 {
        let offset = (block * BLOCK) as u64;
        handle.write_at(&volume, offset, &bytes(block), Durability::Flush).expect("a write");
    }
    handle.flush(&volume).expect("a flush");
    for block in 0..512 {
        assert!(stored(&*device, (block * BLOCK) as u64, BLOCK) == bytes(block), "block {block} is wrong");
    }
}

#[test]
fn extents_show_a_dirty_page_as_data() {
    let pool = pool(16, 1);
    let volume = attach(&pool, Arc::new(MemoryDevice::new(64 * PAGE)));
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 5 * PAGE + 7, &[1], Durability::Flush).expect("a write");
    let extents = handle.extents(&volume, 4 * PAGE, 4 * PAGE).expect("memory knows");
    let zero: Vec<(u64, bool)> = extents.iter().map(|extent| (extent.length, extent.zero)).collect();
    assert_eq!(zero, [(PAGE, true), (PAGE, false), (2 * PAGE, true)]);
}

#[test]
fn pages_never_have_more_frames_than_the_capacity_holds() {
    let policy = Spec::parse("lru").expect("a policy");
    let config = Config { most_capacity: 64 * PAGE, ..Config::new(64 * PAGE, policy) };
    let pool = Pool::new(config).expect("a pool");
    let volume = attach(&pool, Arc::new(MemoryDevice::new(256 * PAGE)));
    let handle = pool.handle().expect("a handle");
    for (round, frames) in [64, 8, 40, 16].into_iter().enumerate() {
        pool.resize(frames * PAGE).expect("nothing is held");
        for block in 0..256 {
            let data = [round as u8 + 1; PAGE as usize];
            handle.write_at(&volume, block * PAGE, &data, Durability::Flush).expect("a write");
            let statistics = pool.statistics();
            assert_eq!(statistics.capacity, frames * PAGE);
            let pages = u64::from(statistics.resident + statistics.laundry);
            assert!(pages <= frames, "{pages} pages in {frames} frames");
        }
    }
}

#[test]
fn concurrent_misses_of_one_page_read_it_once() {
    let _limit = limit("the readers of one page");
    let gate = Gate::new(64);
    let pool = pool(16, 1);
    let volume = attach(&pool, Arc::clone(&gate) as Arc<dyn Device>);
    gate.set(true);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let handle = pool.handle().expect("a handle");
                assert_eq!(handle.read(&volume, 3).expect("a read")[..], [0; PAGE as usize]);
            });
        }
        gate.wait_for_a_request();
        gate.set(false);
    });
    assert_eq!(gate.reads.load(Ordering::SeqCst), 1);
    let statistics = pool.statistics();
    assert_eq!((statistics.misses, statistics.hits), (1, 7));
}

#[test]
fn a_failed_writeback_is_told_to_one_flush_and_made_up_for_by_the_next() {
    let device = faulty(64, vec![failing(Operation::Write, When::Always)]);
    let pool = pool(16, 2);
    let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>);
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 0, &[7; 100], Durability::Flush).expect("a write");
    assert!(matches!(handle.flush(&volume), Err(Error::Device { operation: "writeback", .. })));
    assert_eq!(pool.statistics().dirty, 1);
    device.set(Vec::new());
    handle.flush(&volume).expect("the failure was told, and the device is well again");
    assert_eq!(stored(&*device, 0, 100), [7; 100]);
    assert_eq!(pool.statistics().dirty, 0);
}

#[test]
fn a_writeback_that_failed_a_writer_is_told_to_the_next_flush_too() {
    let device = faulty(64, vec![failing(Operation::Write, When::Always)]);
    let pool = pool(16, 1);
    let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>);
    let handle = pool.handle().expect("a handle");
    let write = |block: u64| handle.write_at(&volume, block * PAGE, &[7; PAGE as usize], Durability::Flush);
    let failed = (0..32).find(|&block| write(block).is_err());
    assert!(failed.is_some_and(|block| block <= 8), "the dirty limit is 8 pages; {failed:?}");
    device.set(Vec::new());
    assert!(handle.flush(&volume).is_err(), "earlier writes were acknowledged, and a writeback of theirs failed");
    handle.flush(&volume).expect("it was told, and the pages are written");
    assert_eq!(stored(&*device, 0, 8), [7; 8]);
}

#[test]
fn an_error_reaches_its_reader_and_a_later_read_succeeds() {
    let device = faulty(64, vec![failing(Operation::Read, When::Nth(1))]);
    let pool = pool(16, 1);
    let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>);
    let handle = pool.handle().expect("a handle");
    let read = || handle.read(&volume, 9).map(|pin| pin[0]);
    assert!(matches!(read(), Err(Error::Device { operation: "read", offset, .. }) if offset == 9 * PAGE));
    assert_eq!(read().expect("the device is well again"), 0);
}

#[test]
fn readers_go_on_while_writeback_fails_for_ever() {
    for laundry in [0, 1, 3] {
        let device = faulty(512, vec![failing(Operation::Write, When::Always)]);
        let pool = pool(16, laundry);
        let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>);
        let handle = pool.handle().expect("a handle");
        let write = |block: u64| handle.write_at(&volume, block * PAGE, &[7; PAGE as usize], Durability::Flush);
        let written = (0..64).take_while(|&block| write(block).is_ok()).count();
        assert!((1..=8).contains(&written), "{written} pages are dirty at most");
        let failed = device.struck();
        for block in 100..400 {
            assert_eq!(handle.read(&volume, block).expect("readers need no writeback")[0], 0);
        }
        let failed = device.struck() - failed;
        assert!(failed <= 40, "a device that has failed rests: it was asked {failed} times more");
        let mut byte = [0];
        handle.read_at(&volume, 0, &mut byte).expect("it is dirty, and was kept");
        assert_eq!(byte, [7]);
    }
}

#[test]
fn a_volume_that_fails_does_not_stop_writers_of_another() {
    let bad = faulty(64, vec![failing(Operation::Write, When::Always)]);
    let good = Arc::new(MemoryDevice::new(256 * PAGE));
    let pool = pool(16, 2);
    let (bad, good_volume) = (attach(&pool, bad), attach(&pool, Arc::clone(&good) as Arc<dyn Device>));
    let handle = pool.handle().expect("a handle");
    let write = |block: u64| handle.write_at(&bad, block * PAGE, &[7; PAGE as usize], Durability::Flush);
    assert!((0..64).any(|block| write(block).is_err()), "the dirty limit is reached");
    for block in 0..256 {
        let data = [block as u8; PAGE as usize];
        handle.write_at(&good_volume, block * PAGE, &data, Durability::Flush).expect("its device is well");
    }
    handle.flush(&good_volume).expect("its device is well");
    for block in 0..256 {
        assert_eq!(stored(&*good, block * PAGE, PAGE as usize), [block as u8; PAGE as usize]);
    }
}

#[test]
fn a_miss_fails_if_all_pages_are_pinned_and_succeeds_when_one_is_not() {
    let pool = pool(9, 1);
    let volume = attach(&pool, Arc::new(MemoryDevice::new(64 * PAGE)));
    let handle = pool.handle().expect("a handle");
    let mut pins: Vec<_> = (0..8).map(|block| handle.read(&volume, block).expect("there is a frame")).collect();
    assert!(matches!(handle.read(&volume, 8), Err(Error::AllPinned)));
    pins.pop();
    handle.read(&volume, 8).expect("there is a frame");
}

#[test]
fn a_resize_that_waits_for_held_pages_ends_when_a_later_one_takes_its_place() {
    let _limit = limit("the first resize");
    let pool = pool(32, 1);
    let volume = attach(&pool, Arc::new(MemoryDevice::new(64 * PAGE)));
    let handle = pool.handle().expect("a handle");
    let pins: Vec<_> = (0..16).map(|block| handle.read(&volume, block).expect("there is a frame")).collect();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| pool.resize(9 * PAGE));
        wait_until("the first resize begins", || pool.capacity() < 32 * PAGE);
        pool.resize(32 * PAGE).expect("growing waits for nothing");
        let told = first.join().expect("the first has ended");
        assert!(matches!(told, Err(Error::Superseded)), "{told:?}");
    });
    assert_eq!((pins.len(), pool.capacity()), (16, 32 * PAGE));
}

#[test]
fn without_a_laundry_a_miss_cleans_the_one_page_that_is_not_pinned() {
    let pool = pool(8, 0);
    let volume = attach(&pool, Arc::new(MemoryDevice::new(64 * PAGE)));
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 0, &[1], Durability::Flush).expect("a write");
    let pins: Vec<_> = (1..8).map(|block| handle.read(&volume, block).expect("there is a frame")).collect();
    handle.read(&volume, 8).expect("the dirty page can leave after its writeback");
    assert_eq!(pins.len(), 7);
}

#[test]
fn the_dirty_limit_follows_the_capacity() {
    let device = faulty(256, vec![failing(Operation::Write, When::Always)]);
    let pool = pool(64, 2);
    let volume = attach(&pool, device);
    pool.resize(16 * PAGE).expect("nothing is held");
    let handle = pool.handle().expect("a handle");
    let write = |block: u64| handle.write_at(&volume, block * PAGE, &[7; PAGE as usize], Durability::Flush);
    assert_eq!((0..64).take_while(|&block| write(block).is_ok()).count(), 8, "half of the 16 frames");
}

#[test]
fn a_writer_that_holds_the_only_dirty_pages_goes_on() {
    let pool = pool(9, 1);
    let volume = attach(&pool, Arc::new(MemoryDevice::new(64 * PAGE)));
    let handle = pool.handle().expect("a handle");
    for block in 0..4 {
        handle.write_at(&volume, block * PAGE, &[1], Durability::Flush).expect("a write");
    }
    // As many pages as may be dirty; none can be cleaned while they are held.
    let pins: Vec<_> = (0..5).map(|block| handle.write(&volume, block).expect("a frame")).collect();
    assert_eq!(pins.len(), 5);
}

#[test]
fn a_hit_completes_while_the_miss_of_another_thread_hangs() {
    let _limit = limit("a hit beside a miss that hangs");
    let gate = Gate::new(64);
    let pool = pool(16, 1);
    let volume = attach(&pool, Arc::clone(&gate) as Arc<dyn Device>);
    let handle = pool.handle().expect("a handle");
    handle.read(&volume, 1).expect("the gate is open");
    gate.set(true);
    std::thread::scope(|scope| {
        scope.spawn(|| pool.handle().expect("a handle").read(&volume, 2).map(drop).expect("a read"));
        gate.wait_for_a_request();
        assert_eq!(handle.read(&volume, 1).expect("it is resident").len(), PAGE as usize);
        gate.set(false);
    });
}

#[test]
fn a_miss_on_one_volume_completes_while_the_device_of_another_hangs() {
    let _limit = limit("misses on the volume that is well");
    let gate = Gate::new(64);
    let pool = pool(16, 1);
    let hanging = attach(&pool, Arc::clone(&gate) as Arc<dyn Device>);
    let well = attach(&pool, Arc::new(MemoryDevice::new(256 * PAGE)));
    let handle = pool.handle().expect("a handle");
    // Before there are so many dirty pages that the pool writes them back by itself.
    gate.set(true);
    for block in 0..4 {
        handle.write_at(&hanging, block * PAGE, &[7; PAGE as usize], Durability::Flush).expect("a write");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| pool.handle().expect("a handle").flush(&hanging).expect("a flush"));
        gate.wait_for_a_request();
        for block in 0..256 {
            handle.read(&well, block).expect("its device is well");
            handle.write_at(&well, block * PAGE, &[1], Durability::Flush).expect("its device is well");
        }
        gate.set(false);
    });
}

#[test]
fn a_flush_waits_for_a_page_that_is_being_written_while_its_writer_needs_a_frame() {
    let _limit = limit("a flush, and a writer that needs a frame");
    let pool = pool(9, 1);
    let volume = attach(&pool, Arc::new(MemoryDevice::new(256 * PAGE)));
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 0, &[1; 10], Durability::Flush).expect("a write");
    let mut pin = handle.write(&volume, 0).expect("it is resident");
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| pool.handle().expect("a handle").flush(&volume));
        pin[0] = 2;
        // Dirty pages fill the laundry, which its needer has to clean.
        let other = pool.handle().expect("a handle");
        for block in 1..200 {
            other.write_at(&volume, block * PAGE, &[3], Durability::Flush).expect("a frame");
        }
        pin.commit().expect("written behind");
        flush.join().expect("it does not panic").expect("a flush");
    });
}

#[test]
fn a_reader_may_take_a_page_twice_while_a_writer_waits_for_it() {
    let _limit = limit("a writer of a page that is read");
    let pool = pool(16, 1);
    let volume = attach(&pool, Arc::new(MemoryDevice::new(64 * PAGE)));
    let handle = pool.handle().expect("a handle");
    let pin = handle.read(&volume, 1).expect("a read");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let handle = pool.handle().expect("a handle");
            handle.write_at(&volume, PAGE, &[5], Durability::Flush)
        });
        // Often enough that the writer comes to wait in between.
        for _ in 0..2000 {
            assert_eq!(handle.read(&volume, 1).expect("a read")[0], 0);
            std::thread::yield_now();
        }
        drop(pin);
        writer.join().expect("it does not panic").expect("a write");
    });
}
