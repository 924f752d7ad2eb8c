//! Every device is compared with plain bytes under random requests.

use forebay_pool::device::{
    Delayed, Device, Faulty, FileDevice, FileOptions, Joined, Limited, Limits, MemoryDevice, NewVolume, ObjectDevice,
    Timing, Volatile,
};
use proptest::prelude::*;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// No multiple of any block, stripe or object, so that each device has a tail.
const LENGTH: u64 = 300_077;

#[derive(Clone, Debug)]
enum Request {
    /// Into, or from, buffers of these shares of the length, `skew` bytes off their alignment.
    Read {
        range: Range<u64>,
        parts: usize,
        skew: usize,
    },
    Write {
        range: Range<u64>,
        parts: usize,
        skew: usize,
        seed: u8,
    },
    ReadMany {
        ranges: Vec<Range<u64>>,
        skew: usize,
    },
    WriteMany {
        ranges: Vec<Range<u64>>,
        skew: usize,
        seed: u8,
    },
    Trim(Range<u64>),
    WriteZeroes(Range<u64>, bool),
    Extents(Range<u64>),
    Flush,
}

/// A range that is aligned to pages, to sectors or not at all, and often ends at the device's end.
fn range(len: u64) -> impl Strategy<Value = Range<u64>> {
    let unit = prop_oneof![Just(4096_u64), Just(512), Just(1)];
    (unit, 0..len, 0..70_000_u64, prop::bool::weighted(0.2)).prop_map(move |(unit, start, length, to_end)| {
        let (start, length) = (start / unit * unit, length / unit * unit);
        if to_end { start.max((len - 70_000) / unit * unit)..len } else { start..(start + length).min(len) }
    })
}

/// Ranges that do not overlap.
fn ranges(len: u64) -> impl Strategy<Value = Vec<Range<u64>>> {
    prop::collection::vec(range(len), 0..100).prop_map(|ranges| {
        let mut apart: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            if apart.iter().all(|other| other.end <= range.start || range.end <= other.start) {
                apart.push(range);
            }
        }
        apart
    })
}

fn request(len: u64) -> impl Strategy<Value = Request> {
    let (range, ranges) = (|| range(len), || ranges(len));
    let skew = || prop_oneof![3 => Just(0_usize), 1 => 1..512_usize];
    prop_oneof![
        4 => (range(), 1..5_usize, skew()).prop_map(|(range, parts, skew)| Request::Read { range, parts, skew }),
        4 => (range(), 1..5_usize, skew(), any::<u8>())
            .prop_map(|(range, parts, skew, seed)| Request::Write { range, parts, skew, seed }),
        2 => (ranges(), skew()).prop_map(|(ranges, skew)| Request::ReadMany { ranges, skew }),
        2 => (ranges(), skew(), any::<u8>()).prop_map(|(ranges, skew, seed)| Request::WriteMany { ranges, skew, seed }),
        1 => range().prop_map(Request::Trim),
        1 => (range(), any::<bool>()).prop_map(|(range, allocate)| Request::WriteZeroes(range, allocate)),
        1 => range().prop_map(Request::Extents),
        1 => Just(Request::Flush),
    ]
}

/// Memory whose first byte lies `skew` behind a multiple of 4096.
struct Room {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Room {
    fn new(length: u64, skew: usize) -> Self {
        let length = usize::try_from(length).expect("test devices are small");
        let bytes = vec![0xEE; length + 4096 + skew];
        let start = bytes.as_ptr().addr().next_multiple_of(4096) - bytes.as_ptr().addr() + skew;
        Self { bytes, start, length }
    }

    fn of(content: &[u8], skew: usize) -> Self {
        let mut room = Self::new(content.len() as u64, skew);
        room.all_mut().copy_from_slice(content);
        room
    }

    fn all(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    fn all_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// How long each of `parts` buffers is: sectors if there are as many.
fn share(length: usize, parts: usize) -> usize {
    (length / parts).next_multiple_of(512).max(1)
}

/// What a device ought to hold.
struct Model {
    bytes: Vec<u8>,
    /// May read as zero too.
    trimmed: Vec<bool>,
}

impl Model {
    fn new(len: u64) -> Self {
        Self { bytes: vec![0; len as usize], trimmed: vec![false; len as usize] }
    }

    fn write(&mut self, range: &Range<u64>, content: &[u8]) {
        let range = range.start as usize..range.end as usize;
        self.bytes[range.clone()].copy_from_slice(content);
        self.trimmed[range].fill(false);
    }

    fn check(&self, range: &Range<u64>, found: &[u8]) {
        for (at, found) in (range.start as usize..).zip(found) {
            let right = *found == self.bytes[at] || self.trimmed[at] && *found == 0;
            assert!(right, "byte {at} is {found}, not {}", self.bytes[at]);
        }
    }
}

fn content(range: &Range<u64>, seed: u8) -> Vec<u8> {
    range.clone().map(|at| (at as u8).wrapping_mul(31) ^ (at >> 9) as u8 ^ seed).collect()
}

fn read(device: &dyn Device, range: &Range<u64>, parts: usize, skew: usize) -> io::Result<Vec<u8>> {
    let mut room = Room::new(range.end - range.start, skew);
    let share = share(room.length, parts);
    let mut buffers: Vec<_> = room.all_mut().chunks_mut(share).map(IoSliceMut::new).collect();
    device.read(range.start, &mut buffers)?;
    Ok(room.all().to_vec())
}

fn play(device: &dyn Device, requests: &[Request]) -> io::Result<()> {
    let len = device.len();
    let mut model = Model::new(len);
    for request in requests {
        match request {
            Request::Read { range, parts, skew } => model.check(range, &read(device, range, *parts, *skew)?),
            Request::Write { range, parts, skew, seed } => {
                let room = Room::of(&content(range, *seed), *skew);
                let share = share(room.length, *parts);
                let buffers: Vec<_> = room.all().chunks(share).map(IoSlice::new).collect();
                device.write(range.start, &buffers)?;
                model.write(range, room.all());
            }
            Request::ReadMany { ranges, skew } => {
                let mut rooms: Vec<_> = ranges.iter().map(|range| Room::new(range.end - range.start, *skew)).collect();
                let runs = ranges.iter().zip(&mut rooms);
                let mut runs: Vec<_> =
                    runs.map(|(range, room)| (range.start, IoSliceMut::new(room.all_mut()))).collect();
                let answers = device.read_many(&mut runs);
                assert_eq!(answers.len(), ranges.len());
                answers.into_iter().collect::<io::Result<()>>()?;
                ranges.iter().zip(&rooms).for_each(|(range, room)| model.check(range, room.all()));
            }
            Request::WriteMany { ranges, skew, seed } => {
                let rooms: Vec<_> = ranges.iter().map(|range| Room::of(&content(range, *seed), *skew)).collect();
                let runs = ranges.iter().zip(&rooms);
                let runs: Vec<_> = runs.map(|(range, room)| (range.start, IoSlice::new(room.all()))).collect();
                let answers = device.write_many(&runs);
                assert_eq!(answers.len(), ranges.len());
                answers.into_iter().collect::<io::Result<()>>()?;
                ranges.iter().zip(&rooms).for_each(|(range, room)| model.write(range, room.all()));
            }
            Request::Trim(range) => {
                device.trim(range.start, range.end - range.start)?;
                model.trimmed[range.start as usize..range.end as usize].fill(true);
            }
            Request::WriteZeroes(range, allocate) => {
                device.write_zeroes(range.start, range.end - range.start, *allocate)?;
                model.write(range, &vec![0; (range.end - range.start) as usize]);
            }
            Request::Extents(range) => {
                let extents = device.extents(range.start, range.end - range.start)?;
                let mut at = range.start;
                for extent in extents {
                    let told = at..at + extent.length;
                    assert!(extent.length > 0 && told.end <= range.end, "{extent:?} in {range:?}");
                    if extent.zero {
                        assert!(read(device, &told, 1, 0)?.iter().all(|byte| *byte == 0), "{extent:?} at {at}");
                    }
                    at = told.end;
                }
                assert!(at > range.start || range.is_empty(), "nothing is told of {range:?}");
            }
            Request::Flush => device.flush()?,
        }
    }
    model.check(&(0..len), &read(device, &(0..len), 1, 0)?);
    refuses_what_is_outside(device);
    model.check(&(0..len), &read(device, &(0..len), 3, 1)?);
    device.flush()
}

fn refuses_what_is_outside(device: &dyn Device) {
    let outside = |answer: io::Result<()>| {
        assert_eq!(answer.expect_err("it lies outside").kind(), io::ErrorKind::InvalidInput);
    };
    let (mut room, mut inside) = ([0xEE; 2], [0; 1]);
    for offset in [device.len() - 1, device.len(), u64::MAX] {
        outside(device.read(offset, &mut [IoSliceMut::new(&mut room)]));
        outside(device.write(offset, &[IoSlice::new(&room)]));
        outside(device.trim(offset, 2));
        outside(device.write_zeroes(offset, 2, false));
        outside(device.extents(offset, 2).map(drop));
        let mut runs = [(0, IoSliceMut::new(&mut inside)), (offset, IoSliceMut::new(&mut room))];
        let mut answers = device.read_many(&mut runs);
        outside(answers.remove(1));
        assert!(answers[0].is_ok());
        outside(device.write_many(&[(offset, IoSlice::new(&room))]).remove(0));
    }
}

fn file(directory: &Path, length: u64, options: FileOptions) -> FileDevice {
    let path = directory.join("volume");
    std::fs::File::create(&path).and_then(|file| file.set_len(length)).expect("the disk has room");
    FileDevice::open(path, options).expect("it was made")
}

fn memory(length: u64) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(length))
}

struct AtOnce;

impl Timing for AtOnce {
    fn service(&mut self, _begin: Duration, _offset: u64, _length: u64, _write: bool) -> Duration {
        Duration::ZERO
    }
}

/// Lets random requests loose on a device made anew each time.
fn compare<D: Device>(cases: u32, make: impl Fn(&Path) -> D) {
    compare_at(LENGTH, cases, make);
}

/// The same for devices of another length.
fn compare_at<D: Device>(len: u64, cases: u32, make: impl Fn(&Path) -> D) {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let requests = prop::collection::vec(request(len), 1..30);
    let played = runner.run(&requests, |requests| {
        let directory = tempfile::tempdir()?;
        let device = make(directory.path());
        assert_eq!(device.len(), len);
        Ok(play(&device, &requests)?)
    });
    played.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn memory_holds_what_was_written() {
    compare(256, |_| MemoryDevice::new(LENGTH));
}

#[test]
fn a_file_through_the_page_cache_holds_what_was_written() {
    let options = FileOptions { direct: false, ..FileOptions::default() };
    compare(64, |directory| file(directory, LENGTH, options));
}

#[test]
fn a_file_past_the_page_cache_holds_what_was_written() {
    compare(64, |directory| {
        let device = file(directory, LENGTH, FileOptions::default());
        if let Some(why) = device.why_buffered() {
            eprintln!("not past the page cache: {why}");
        }
        device
    });
}

#[test]
fn a_file_without_a_ring_holds_what_was_written() {
    compare(32, |directory| file(directory, LENGTH, FileOptions { ring: false, ..FileOptions::default() }));
}

#[test]
fn objects_in_memory_hold_what_was_written() {
    let new = NewVolume { length: LENGTH, object_size: 16_384 };
    compare(64, |_| ObjectDevice::open("memory:///volume", new.into()).expect("a volume in memory"));
}

#[test]
fn objects_in_a_directory_hold_what_was_written() {
    let new = NewVolume { length: LENGTH, object_size: 65_536 };
    compare(8, |directory| {
        ObjectDevice::open(&format!("file://{}/volume", directory.display()), new.into()).expect("the disk has room")
    });
}

#[test]
fn devices_in_a_row_hold_what_was_written() {
    compare(128, |directory| {
        let last: Arc<dyn Device> = Arc::new(file(directory, LENGTH - 170_000, FileOptions::default()));
        Joined::concatenated(vec![memory(100_000), memory(0), memory(70_000), last]).expect("three devices")
    });
}

#[test]
fn devices_in_stripes_hold_what_was_written() {
    // 24 whole stripes of the shortest, three times.
    compare_at(24 * 4096 * 3, 128, |directory| {
        let last: Arc<dyn Device> = Arc::new(file(directory, 110_000, FileOptions::default()));
        Joined::striped(vec![memory(200_000), memory(100_077), last], 4096).expect("three devices")
    });
}

#[test]
fn a_delay_of_nothing_changes_nothing() {
    compare(64, |_| Delayed::new(MemoryDevice::new(LENGTH), Box::new(AtOnce)));
}

#[test]
fn a_limit_that_is_not_reached_changes_nothing() {
    compare(32, |_| Limited::new(MemoryDevice::new(LENGTH), Limits::default()).expect("no limit is 0"));
}

#[test]
fn no_fault_and_no_crash_change_nothing() {
    compare(64, |directory| Faulty::new(Volatile::new(file(directory, LENGTH, FileOptions::default())), Vec::new(), 1));
}
