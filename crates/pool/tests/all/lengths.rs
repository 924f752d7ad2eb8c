//! Volumes that are made longer and shorter.

use crate::common;

use common::limit;
use forebay_policy::Spec;
use forebay_pool::device::{Device, FileDevice, FileOptions, MemoryDevice, Volatile};
use forebay_pool::{Config, Durability, Error, Pool, Volume, VolumeConfig, WriteMode};
use proptest::prelude::*;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;
const MOST: u64 = 12 * PAGE;

fn pool(frames: u64) -> Pool {
    let policy = Spec::parse("clock-pro").expect("a policy");
    let dirty_age = Duration::from_millis(1);
    Pool::new(Config { laundry: 1, dirty_age, dirty_limit: 1.0, ..Config::new(frames * PAGE, policy) }).expect("a pool")
}

fn attach(pool: &Pool, device: Arc<dyn Device>, mode: WriteMode) -> Arc<Volume> {
    pool.attach(device, VolumeConfig { mode, ..VolumeConfig::new("test") })
}

fn stored(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; device.len() as usize];
    device.read(0, &mut [IoSliceMut::new(&mut bytes)]).expect("it is read");
    bytes
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64),
    WholePin(u64),
    Read(u64, u64),
    Length(u64),
    Trim(u64, u64),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || prop_oneof![0..MOST, (0..MOST / PAGE).prop_map(|block| block * PAGE)];
    let range = || (place(), 1..3 * PAGE);
    let step = prop_oneof![
        4 => range().prop_map(|(start, length)| Step::Write(start, length)),
        1 => (0..MOST / PAGE).prop_map(Step::WholePin),
        3 => range().prop_map(|(start, length)| Step::Read(start, length)),
        3 => place().prop_map(Step::Length),
        1 => range().prop_map(|(start, length)| Step::Trim(start, length)),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..60)
}

/// Does the steps on a volume and on plain bytes, which are equal all the while, and in storage at the end.
fn compare(steps: &[Step], device: &Arc<dyn Device>, frames: u64, mode: WriteMode) {
    let pool = pool(frames);
    let volume = attach(&pool, Arc::clone(device), mode);
    let handle = pool.handle().expect("a handle");
    let mut bytes = stored(&**device);
    for (step, byte) in steps.iter().zip((1..=255).cycle()) {
        let end = volume.len();
        assert_eq!((end, bytes.len() as u64), (device.len(), end));
        let within = |start: u64, length: u64| (start.min(end)..(start + length).min(end), start + length <= end);
        match *step {
            Step::Write(start, length) => {
                let (range, whole) = within(start, length);
                let data = vec![byte; length as usize];
                let written = handle.write_at(&volume, start, &data, Durability::Flush);
                assert_eq!(written.is_ok(), whole, "{written:?}");
                if whole {
                    bytes[range.start as usize..range.end as usize].fill(byte);
                }
            }
            // A program may write behind the end of the last page.
            Step::WholePin(block) => match handle.write(&volume, block) {
                Ok(mut pin) => {
                    pin.fill(byte);
                    pin.commit().expect("the device is well");
                    let page = within(block * PAGE, PAGE).0;
                    bytes[page.start as usize..page.end as usize].fill(byte);
                }
                Err(error) => assert!(matches!(error, Error::OutOfRange { .. }) && block * PAGE >= end, "{error}"),
            },
            Step::Read(start, length) => {
                let (range, whole) = within(start, length);
                let mut found = vec![0; length as usize];
                let read = handle.read_at(&volume, start, &mut found);
                assert_eq!(read.is_ok(), whole, "{read:?}");
                assert!(!whole || found == bytes[range.start as usize..range.end as usize], "{step:?}");
            }
            Step::Length(length) => {
                handle.set_len(&volume, length).expect("the device can");
                bytes.resize(length as usize, 0);
            }
            Step::Trim(start, length) => {
                let (range, whole) = within(start, length);
                if whole {
                    handle.write_zeroes(&volume, start, length, false, Durability::Flush).expect("the device is well");
                    bytes[range.start as usize..range.end as usize].fill(0);
                }
            }
            Step::Flush => {
                handle.flush(&volume).expect("the device is well");
                assert!(stored(&**device) == bytes);
            }
        }
    }
    handle.flush(&volume).expect("nothing was written behind the end");
    assert!(stored(&**device) == bytes);
    let mut found = vec![0; bytes.len()];
    handle.read_at(&volume, 0, &mut found).expect("a read");
    assert!(found == bytes);
    drop(handle);
    // Background writeback holds pages for moments.
    pool.detach(&volume).expect("the device is well");
    pool.check_invariants();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_of_changing_length_is_equal_to_plain_bytes(steps in steps(), start in 0..MOST, through: bool) {
        let mode = if through { WriteMode::Through } else { WriteMode::Back };
        compare(&steps, &(Arc::new(MemoryDevice::new(start)) as Arc<dyn Device>), 8, mode);
        compare(&steps, &(Arc::new(Volatile::new(MemoryDevice::new(start))) as Arc<dyn Device>), 32, mode);
    }
}

#[test]
fn a_file_is_as_long_as_its_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, [7; 10_000]).expect("a file");
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(&path, FileOptions::default()).expect("it opens"));
    let steps = [Step::Write(8000, 2000), Step::Length(20_000), Step::Write(19_999, 1), Step::Read(9000, 11_000)];
    let more = [Step::Length(9000), Step::WholePin(2), Step::Length(12_288), Step::Read(8192, 4096), Step::Length(0)];
    compare(&[&steps[..], &more, &[Step::Length(5)]].concat(), &device, 8, WriteMode::Back);
    assert_eq!(std::fs::read(&path).expect("it is there"), [0; 5]);
}

#[test]
fn dirty_pages_behind_the_end_are_never_written() {
    let device = Arc::new(MemoryDevice::new(64 * PAGE));
    let pool = Pool::new(Config::new(256 * PAGE, Spec::parse("lru").expect("a policy"))).expect("a pool");
    let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>, WriteMode::Back);
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 0, &[7; 60 * PAGE as usize], Durability::Flush).expect("a write");
    handle.set_len(&volume, 10 * PAGE + 100).expect("memory can");
    assert_eq!(pool.statistics().dirty, 11);
    handle.flush(&volume).expect("memory is written");
    assert_eq!(pool.statistics().volumes[0].device.written_bytes, 10 * PAGE + 100);
    assert!(stored(&*device) == vec![7; (10 * PAGE + 100) as usize]);
}

#[test]
fn a_length_that_the_device_refuses_changes_nothing() {
    let pool = pool(32);
    let volume = attach(&pool, Arc::new(common::Zeroes::default()), WriteMode::Back);
    let handle = pool.handle().expect("a handle");
    handle.write_at(&volume, 5 * PAGE, &[7], Durability::Flush).expect("a write");
    assert!(matches!(handle.set_len(&volume, PAGE), Err(Error::Device { operation: "change of length", .. })));
    assert_eq!((volume.len(), handle.read(&volume, 5).expect("it is there")[0]), (1 << 50, 7));
}

#[test]
fn readers_and_writers_bear_an_end_that_moves() {
    let _limit = limit("readers and writers beside changes of the length");
    for mode in [WriteMode::Back, WriteMode::Through] {
        let device = Arc::new(MemoryDevice::new(MOST));
        let pool = pool(16);
        let volume = attach(&pool, Arc::clone(&device) as Arc<dyn Device>, mode);
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (pool, volume) = (&pool, &volume);
                scope.spawn(move || {
                    let handle = pool.handle().expect("a handle");
                    let bears = |result: Result<(), Error>| {
                        assert!(matches!(result, Ok(()) | Err(Error::OutOfRange { .. })), "{result:?}");
                    };
                    for round in 0..3000 {
                        let start = round * 7919 % (MOST - 3 * PAGE);
                        let mut found = vec![0; 2 * PAGE as usize + 100];
                        match thread {
                            0 => bears(handle.write_at(volume, start, &found, Durability::Flush)),
                            1 => bears(handle.write_at(volume, start / PAGE * PAGE, &found, Durability::Flush)),
                            _ => {
                                bears(handle.read_at(volume, start, &mut found));
                                assert!(found.iter().all(|&byte| byte == 0), "nobody writes anything else");
                            }
                        }
                    }
                });
            }
            let handle = pool.handle().expect("a handle");
            for round in 0..600 {
                handle.set_len(&volume, round * 2503 % MOST).expect("memory can");
            }
        });
        pool.flush().expect("nothing is written behind the end");
        assert_eq!(device.len(), volume.len());
        pool.detach(&volume).expect("memory is written");
        pool.check_invariants();
    }
}
