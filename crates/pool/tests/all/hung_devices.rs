//! A device that hangs holds up those who use it, and nobody else.

use crate::common;

use common::{Zeroes, limit, wait_until};
use forebay_policy::Spec;
use forebay_pool::device::{Device, MemoryDevice};
use forebay_pool::{Config, Durability, Hint, Pool, Volume, VolumeConfig};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const PATIENCE: Duration = Duration::from_secs(30);

/// A device whose writes and flushes wait while it hangs.
struct Moody {
    memory: MemoryDevice,
    hangs: Mutex<bool>,
    changed: Condvar,
    enduring: AtomicUsize,
}

impl Moody {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryDevice::new(256 * PAGE),
            hangs: Mutex::new(false),
            changed: Condvar::new(),
            enduring: AtomicUsize::new(0),
        })
    }

    fn hang(&self, hangs: bool) {
        *self.hangs.lock().expect("nobody panics") = hangs;
        self.changed.notify_all();
    }

    fn endure(&self) -> io::Result<()> {
        self.enduring.fetch_add(1, Ordering::SeqCst);
        let hangs = self.hangs.lock().expect("nobody panics");
        let (hangs, _) = self.changed.wait_timeout_while(hangs, 4 * PATIENCE, |hangs| *hangs).expect("nobody panics");
        self.enduring.fetch_sub(1, Ordering::SeqCst);
        if *hangs { Err(io::Error::new(io::ErrorKind::TimedOut, "the test lets it hang")) } else { Ok(()) }
    }

    fn holds(&self, offset: u64, byte: u8) -> bool {
        let mut found = [0];
        self.memory.read(offset, &mut [IoSliceMut::new(&mut found)]).expect("memory is read");
        found == [byte]
    }
}

impl Device for Moody {
    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        self.memory.read(offset, buffers)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.endure()?;
        self.memory.write(offset, buffers)
    }

    fn flush(&self) -> io::Result<()> {
        self.endure()
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.memory.trim(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        self.memory.write_zeroes(offset, length, allocate)
    }

    fn describe(&self) -> String {
        "moody".to_owned()
    }
}

/// A pool with a volume that hangs, of which pages are dirty, and one that is well.
struct Scene {
    sick_device: Arc<Moody>,
    well_device: Arc<Moody>,
    sick: Arc<Volume>,
    well: Arc<Volume>,
    pool: Pool,
}

impl Scene {
    fn new(dirty_age: Duration) -> Self {
        Self::with_dirty_limit(dirty_age, 0.5)
    }

    fn with_dirty_limit(dirty_age: Duration, dirty_limit: f64) -> Self {
        let config = Config { dirty_age, dirty_limit, ..Config::new(64 * PAGE, Spec::parse("lru").expect("a policy")) };
        let pool = Pool::new(config).expect("a pool");
        let attach = |name: &str, device: &Arc<Moody>| {
            let config = VolumeConfig { readahead: 0, ..VolumeConfig::new(name) };
            pool.attach(Arc::clone(device) as Arc<dyn Device>, config)
        };
        let (sick_device, well_device) = (Moody::new(), Moody::new());
        let (sick, well) = (attach("sick", &sick_device), attach("well", &well_device));
        sick_device.hang(true);
        let scene = Self { sick_device, well_device, sick, well, pool };
        for block in 0..8 {
            scene.write(&scene.sick, block);
        }
        scene
    }

    fn write(&self, volume: &Arc<Volume>, block: u64) {
        let handle = self.pool.handle().expect("a handle");
        handle.write_at(volume, block * PAGE, &[7; PAGE as usize], Durability::Flush).expect("it is cached");
    }
}

/// Zeroes whose reads, but for the first of each stream, wait while the gate is shut.
struct Gated {
    zeroes: Zeroes,
    shut: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
}

impl Gated {
    fn open(&self) {
        *self.shut.lock().expect("nobody panics") = false;
        self.opened.notify_all();
    }
}

impl Device for Gated {
    fn len(&self) -> u64 {
        self.zeroes.len()
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        if !offset.is_multiple_of(STREAM) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let shut = self.shut.lock().expect("nobody panics");
            drop(self.opened.wait_timeout_while(shut, 4 * PATIENCE, |shut| *shut).expect("nobody panics"));
        }
        self.zeroes.read(offset, buffers)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.zeroes.write(offset, buffers)
    }

    fn flush(&self) -> io::Result<()> {
        self.zeroes.flush()
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.zeroes.trim(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        self.zeroes.write_zeroes(offset, length, allocate)
    }

    fn describe(&self) -> String {
        "gated".to_owned()
    }
}

/// How far streams on it are apart.
const STREAM: u64 = 1 << 20;

#[test]
fn a_page_that_waits_behind_the_readahead_of_another_device_is_read_by_who_needs_it() {
    let _limit = limit("a volume is read while all readers of the pool hang in another");
    let pool = Pool::new(Config::new(4 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool");
    let gated = Gated {
        zeroes: Zeroes::default(),
        shut: Mutex::new(true),
        opened: Condvar::new(),
        waiting: AtomicUsize::new(0),
    };
    let gated = Arc::new(gated);
    let attach = |name, device| pool.attach(device, VolumeConfig { readahead: 64 << 10, ..VolumeConfig::new(name) });
    let sick = attach("sick", Arc::clone(&gated) as Arc<dyn Device>);
    let (well, going) = (attach("well", Arc::new(Zeroes::default())), attach("going", Arc::new(Zeroes::default())));
    let handle = pool.handle().expect("a handle");
    let mut bytes = [0; PAGE as usize];
    handle.hint(&sick, Hint::Sequential).expect("a hint");
    for stream in 0..6 {
        handle.read_at(&sick, stream * STREAM, &mut bytes).expect("the first page of a stream, and the first window");
        handle
            .read_at(&sick, stream * STREAM + PAGE, &mut bytes)
            .expect("a page of that, behind which the next one begins");
    }
    wait_until("all readers hang", || gated.waiting.load(Ordering::SeqCst) == 4);
    for block in 0..100 {
        handle.read_at(&well, block * PAGE, &mut bytes).expect("a read");
        handle.write_at(&well, (block + 2) * PAGE + 5, b"parts", Durability::Flush).expect("a write");
    }
    handle.trim(&well, 0, 120 * PAGE).expect("a trim of what waits to be read");
    handle.read_at(&going, 0, &mut bytes).expect("a read, and the first window");
    let first_window = pool.statistics().volumes[2].pages_read_ahead;
    handle.read_at(&going, PAGE, &mut bytes).expect("a read");
    assert!(pool.statistics().volumes[2].pages_read_ahead == first_window && pool.is_reading_ahead());
    pool.detach(&going).expect("what waits to be read is dropped");
    drop(handle);
    gated.open();
    wait_until("all is read", || !pool.is_reading_ahead());
    pool.check_invariants();
    pool.close().expect("nothing fails");
}

#[test]
fn pages_of_a_healthy_volume_are_written_back_while_another_hangs() {
    let _limit = limit("pages of a healthy volume are written back while another hangs");
    let scene = Scene::new(Duration::from_millis(20));
    std::thread::sleep(Duration::from_millis(500));
    scene.write(&scene.well, 3);
    wait_until("the healthy page is in storage", || scene.well_device.holds(3 * PAGE, 7));
    assert!(!scene.sick_device.holds(0, 7), "the other device hangs");
    scene.sick_device.hang(false);
    wait_until("the other's is in storage", || scene.sick_device.holds(0, 7));
}

#[test]
fn a_flush_within_a_limit_names_what_hangs_and_flushes_the_rest() {
    let _limit = limit("a flush within a limit names what hangs and flushes the rest");
    let scene = Scene::new(PATIENCE);
    scene.write(&scene.well, 3);
    let failed = scene.pool.flush_within(Duration::from_millis(300));
    let names: Vec<&str> = failed.iter().map(|(volume, _)| volume.name()).collect();
    assert_eq!(names, ["sick"]);
    let error = failed[0].1.to_string();
    assert!(error.contains("volume sick: flush") && error.contains("the device hangs"), "{error}");
    assert!(scene.well_device.holds(3 * PAGE, 7));
    // Dropped while it hangs, for which it has been waited already.
    let Scene { pool, sick_device, sick, well, .. } = scene;
    let begin = Instant::now();
    drop((pool, sick, well));
    assert!(begin.elapsed() < PATIENCE, "the pool is dropped at once");
    sick_device.hang(false);
}

#[test]
fn healthy_volumes_are_read_and_written_though_the_dirty_pages_of_another_cannot_be() {
    let _limit = limit("healthy volumes are read and written though the dirty pages of another cannot be");
    let scene = Scene::new(PATIENCE);
    // As many as may be dirty, and more in the laundry than it takes.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (8..40).for_each(|block| scene.write(&scene.sick, block)));
        let handle = scene.pool.handle().expect("a handle");
        for block in (0..256).chain(0..256) {
            let mut byte = [1];
            handle.read_at(&scene.well, block * PAGE, &mut byte).expect("it is read");
            assert_eq!(byte, [0]);
        }
        drop(handle);
        (0..64).for_each(|block| scene.write(&scene.well, block));
        scene.pool.flush_volume(&scene.well).expect("it is well");
        assert!((0..64).all(|block| scene.well_device.holds(block * PAGE, 7)));
        scene.sick_device.hang(false);
        writer.join().expect("no panic");
    });
    scene.pool.close().expect("both are well");
    assert!((0..40).all(|block| scene.sick_device.holds(block * PAGE, 7)));
}

#[test]
fn healthy_volumes_go_on_though_all_pages_that_may_be_dirty_are_another_s() {
    let _limit = limit("healthy volumes go on though all pages that may be dirty are another s");
    let scene = Scene::with_dirty_limit(PATIENCE, 1.0);
    std::thread::scope(|scope| {
        // In one request, so that it could take all frames at once.
        let writer = scope.spawn(|| {
            let handle = scene.pool.handle().expect("a handle");
            handle.write_at(&scene.sick, 0, &[7; 128 * PAGE as usize], Durability::Flush).expect("it is written");
        });
        wait_until("pages are written back", || scene.sick_device.enduring.load(Ordering::SeqCst) > 0);
        // The writer goes on as far as it may.
        std::thread::sleep(Duration::from_millis(500));
        let (tell, told) = channel();
        let going_on = &scene;
        scope.spawn(move || {
            let handle = going_on.pool.handle().expect("a handle");
            for block in 0..64 {
                handle.read_at(&going_on.well, block * PAGE, &mut [0]).expect("it is read");
                going_on.write(&going_on.well, block);
            }
            tell.send(()).expect("the test listens");
        });
        let done = told.recv_timeout(PATIENCE);
        scene.sick_device.hang(false);
        assert_eq!(done, Ok(()), "the healthy volume waits for the other");
        writer.join().expect("no panic");
    });
}

#[test]
fn a_miss_that_can_have_no_frame_fails_in_the_end_while_a_device_hangs() {
    let _limit = limit("a miss that can have no frame fails in the end while a device hangs");
    let scene = Scene::new(Duration::from_millis(20));
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let reading = &scene;
        scope.spawn(move || {
            let handle = reading.pool.handle().expect("a handle");
            // All that is not dirty.
            let mut pins = Vec::new();
            let mut pin = |block| handle.read(&reading.well, block).map(|pin| pins.push(pin));
            let error = (0..64).find_map(|block| pin(block).err());
            tell.send(error.map(|error| error.to_string())).expect("the test listens");
        });
        let error = told.recv_timeout(PATIENCE);
        scene.sick_device.hang(false);
        let error = error.expect("it ends").expect("it fails");
        assert!(error.contains("volume sick: writeback") && error.contains("hangs"), "{error}");
    });
}

#[test]
fn a_change_of_the_capacity_ends_while_a_device_hangs() {
    let _limit = limit("a change of the capacity ends while a device hangs");
    let scene = Scene::new(Duration::from_millis(20));
    let error = scene.pool.resize(8 * PAGE).expect_err("dirty pages would take all frames");
    assert!(error.to_string().contains("volume sick: writeback"), "{error}");
    assert!(scene.pool.capacity() > 8 * PAGE, "a frame is left to clean pages");
    let handle = scene.pool.handle().expect("a handle");
    for block in 0..64 {
        handle.read_at(&scene.well, block * PAGE, &mut [0]).expect("it is read");
    }
    drop(handle);
    scene.pool.resize(64 * PAGE).expect("what was there before");
    scene.sick_device.hang(false);
    scene.pool.close().expect("both are well");
}

#[test]
fn figures_are_told_and_volumes_attached_while_a_flush_hangs() {
    let _limit = limit("figures are told and volumes attached while a flush hangs");
    let scene = Scene::new(PATIENCE);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| scene.pool.flush());
        wait_until("the flush is in the device", || scene.sick_device.enduring.load(Ordering::SeqCst) > 0);
        let (tell, told) = channel();
        let pool = &scene.pool;
        scope.spawn(move || {
            pool.attach(Moody::new(), VolumeConfig::new("another"));
            tell.send(pool.statistics().volumes.len()).expect("the test listens");
        });
        let volumes = told.recv_timeout(PATIENCE);
        scene.sick_device.hang(false);
        assert_eq!(volumes, Ok(3));
        flush.join().expect("no panic").expect("all are well");
    });
}

#[test]
fn a_reader_waits_for_no_flush_though_the_pages_that_could_leave_are_dirty() {
    let _limit = limit("a reader waits for no flush though the pages that could leave are dirty");
    let scene = Scene::new(PATIENCE);
    scene.sick_device.hang(false);
    scene.pool.flush().expect("all are well");
    scene.sick_device.hang(true);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| scene.pool.flush_volume(&scene.sick));
        wait_until("the flush is in the device", || scene.sick_device.enduring.load(Ordering::SeqCst) > 0);
        // More than the laundry takes, and fewer than are written in the background.
        (0..12).for_each(|block| scene.write(&scene.sick, block));
        let (tell, told) = channel();
        let reading = &scene;
        scope.spawn(move || {
            let handle = reading.pool.handle().expect("a handle");
            for block in 12..256 {
                handle.read_at(&reading.sick, block * PAGE, &mut [0]).expect("it is read");
            }
            tell.send(()).expect("the test listens");
        });
        let read = told.recv_timeout(PATIENCE);
        scene.sick_device.hang(false);
        assert_eq!(read, Ok(()), "the reader waits for the flush");
        flush.join().expect("no panic").expect("it is well");
    });
}

#[test]
fn no_page_is_written_ahead_while_another_would_have_to_be_written_first() {
    let scene = Scene::with_dirty_limit(PATIENCE, 8.0 / 64.0);
    let handle = scene.pool.handle().expect("a handle");
    let volume = scene.pool.attach(Moody::new(), VolumeConfig::new("in order"));
    drop(handle.read(&volume, 0).expect("a page"));
    wait_until("what is read ahead is there", || !scene.pool.is_reading_ahead());
    assert!(handle.write_ahead(&volume, 1).is_none(), "as many pages are dirty as may be");
    scene.pool.set_dirty_limit(0.5).expect("a limit");
    assert!(handle.write_ahead(&volume, 1).is_some(), "more may be");
    scene.sick_device.hang(false);
}

#[test]
fn where_hanging_devices_have_all_copies_others_write_pages_from_where_they_lie() {
    const LARGE: u64 = 256 << 10;
    let _limit = limit("a page is written while another device hangs with all copies");
    let spec = Spec::parse("lru").expect("a policy");
    let config = Config::new(16 * LARGE, spec).with_page_size(LARGE as u32);
    let pool = Pool::new(Config { copies: 1, dirty_age: 4 * PATIENCE, ..config }).expect("a pool");
    let (sick_device, well_device) = (Moody::new(), Moody::new());
    let attach = |name: &str, device: &Arc<Moody>| {
        pool.attach(Arc::clone(device) as Arc<dyn Device>, VolumeConfig { readahead: 0, ..VolumeConfig::new(name) })
    };
    let (sick, well) = (attach("sick", &sick_device), attach("well", &well_device));
    let write = |volume: &Arc<Volume>, byte: u8| {
        let handle = pool.handle().expect("a handle");
        handle.write_at(volume, 0, &[byte; LARGE as usize], Durability::Flush).expect("it is cached");
    };
    write(&sick, 1);
    write(&well, 2);
    sick_device.hang(true);
    well_device.hang(true);
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| pool.flush_volume(&sick));
        wait_until("it hangs with the copy", || sick_device.enduring.load(Ordering::SeqCst) == 1);
        let flushed = scope.spawn(|| pool.flush_volume(&well));
        wait_until("the other is written, too", || well_device.enduring.load(Ordering::SeqCst) == 1);
        let mut read = [0];
        pool.handle().expect("a handle").read_at(&well, LARGE - 1, &mut read).expect("readers do not wait");
        assert_eq!(read, [2]);
        let writer = scope.spawn(|| write(&well, 3));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!writer.is_finished(), "its page stays as it is until it is written");
        well_device.hang(false);
        flushed.join().expect("no panic").expect("it is written");
        writer.join().expect("no panic");
        assert!(well_device.holds(LARGE - 1, 2), "what the flush was to write");
        pool.flush_volume(&well).expect("it is written again, without a wait");
        assert!(well_device.holds(LARGE - 1, 3));
        sick_device.hang(false);
        hanging.join().expect("no panic").expect("it is well again");
    });
    assert!(sick_device.holds(0, 1));
    pool.check_invariants();
}
