//! Random operations of several threads on a pool over a failing device, compared with plain bytes.
//!
//! What is right is known in spite of concurrency because each thread writes bytes of its own: pages are shared, bytes are not. Half
//! of the regions of the volume are cut into cells, dealt to the threads in turn; of the others each belongs to one thread.

use forebay_policy::Spec;
use forebay_pool::device::{Device, Fault, Faulty, MemoryDevice, Operation, Rule, Tear, Volatile, When};
use forebay_pool::{Config, Durability, Error, Handle, Hint, Pool, Volume, VolumeConfig, WriteMode};
use proptest::prelude::*;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Blocks in a region, and in a volume, whose last block is short.
const REGION: u64 = 8;
const BLOCKS: u64 = 96;

const MOST_FRAMES: u64 = 64;
/// The fewest frames that the policy has; one for each thread's pin and load, and some to spare.
const FEWEST_FRAMES: u64 = 8;

#[derive(Clone, Debug)]
enum Step {
    Read(Place),
    ReadIfResident(Place),
    ReadPinned(Place),
    Write(Place, Durability),
    WriteIfReady(Place),
    WritePinned(Place),
    Trim(Place),
    WriteZeroes(Place, bool, Durability),
    Flush,
    WillNeed(Place),
    DoNotNeed(Place),
    EvictedAbove(Place, u32),
    Advise(Hint),
    Extents(Place),
    Resize(u64),
}

/// A range, as shares of 2^16 of what a thread may ask for.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u16,
    length: u16,
    /// To whole pages.
    aligned: bool,
}

#[derive(Clone, Debug)]
struct Setting {
    policy: usize,
    page_size: u32,
    frames: u64,
    laundry: u32,
    dirty_limit: f64,
    dirty_age: Duration,
    request_pages: u32,
    mode: WriteMode,
    readahead: u32,
    rules: Vec<Rule>,
    seed: u64,
}

fn place() -> impl Strategy<Value = Place> {
    (any::<u16>(), any::<u16>(), any::<bool>()).prop_map(|(start, length, aligned)| Place { start, length, aligned })
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![4 => Just(Durability::Flush), 1 => Just(Durability::Now)]
}

fn step() -> impl Strategy<Value = Step> {
    let hints = [Hint::Normal, Hint::Sequential, Hint::Random];
    prop_oneof![
        8 => place().prop_map(Step::Read),
        2 => place().prop_map(Step::ReadIfResident),
        4 => place().prop_map(Step::ReadPinned),
        12 => (place(), durability()).prop_map(|(place, durability)| Step::Write(place, durability)),
        3 => place().prop_map(Step::WriteIfReady),
        4 => place().prop_map(Step::WritePinned),
        2 => place().prop_map(Step::Trim),
        2 => (place(), any::<bool>(), durability()).prop_map(|(place, keep, now)| Step::WriteZeroes(place, keep, now)),
        2 => Just(Step::Flush),
        1 => place().prop_map(Step::WillNeed),
        1 => (place(), 0..10u32).prop_map(|(place, hits)| Step::EvictedAbove(place, hits)),
        1 => place().prop_map(Step::DoNotNeed),
        1 => prop::sample::select(hints.to_vec()).prop_map(Step::Advise),
        1 => place().prop_map(Step::Extents),
        1 => (FEWEST_FRAMES..=MOST_FRAMES - 4).prop_map(Step::Resize),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let operations =
        [Operation::Read, Operation::Write, Operation::Flush, Operation::Trim, Operation::WriteZeroes].map(Some);
    let fault = prop_oneof![
        3 => Just(Fault::Error(libc::EIO)),
        1 => (0..9000_u64).prop_map(Fault::ShortRead),
        1 => (0..9000_u64).prop_map(|bytes| Fault::TornWrite(Tear::Prefix(bytes))),
        1 => Just(Fault::TornWrite(Tear::Sectors)),
        1 => Just(Fault::Stall(Duration::from_micros(300))),
    ];
    let when = prop_oneof![
        (1..8_u64).prop_map(When::Every),
        (0.05..0.5).prop_map(When::Chance),
        (1..20_u64).prop_map(When::Nth)
    ];
    let range = prop_oneof![Just(0..u64::MAX), (0..100_000_u64).prop_map(|start| start..start + 40_000)];
    (prop::sample::select(operations.to_vec()), fault, when, range).prop_map(|(operation, fault, when, range)| {
        let operation = operation.filter(|_| matches!(fault, Fault::Error(_)));
        Rule { operation, range, when, ..Rule::new(fault) }
    })
}

fn policies() -> Vec<Spec> {
    Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect()
}

fn setting() -> impl Strategy<Value = Setting> {
    let cache = (0..policies().len(), prop_oneof![4 => Just(4096_u32), 1 => Just(65_536)], 0..=4_u32);
    let frames = FEWEST_FRAMES..=MOST_FRAMES - 4;
    let dirty = (prop::sample::select(vec![0.05, 0.5, 1.0]), prop::sample::select(vec![0, 5000]));
    let mode = prop_oneof![3 => Just(WriteMode::Back), 1 => Just(WriteMode::Through)];
    let volume = (mode, prop::sample::select(vec![0, 128 << 10]));
    let faults = (prop_oneof![Just(Vec::new()), prop::collection::vec(rule(), 1..4)], any::<u64>());
    (cache, frames, dirty, 1..=8_u32, volume, faults).prop_map(
        |(
            (policy, page_size, laundry),
            frames,
            (dirty_limit, age),
            request_pages,
            (mode, readahead),
            (rules, seed),
        )| {
            let dirty_age = Duration::from_millis(age);
            Setting {
                policy,
                page_size,
                frames,
                laundry,
                dirty_limit,
                dirty_age,
                request_pages,
                mode,
                readahead,
                rules,
                seed,
            }
        },
    )
}

type TestDevice = Faulty<Volatile<Arc<MemoryDevice>>>;

/// One pool with one volume, its device, and who owns which bytes.
struct World {
    pool: Pool,
    volume: Arc<Volume>,
    storage: Arc<MemoryDevice>,
    device: Arc<TestDevice>,
    page_size: u64,
    laundry: u64,
    threads: u64,
    faults: bool,
}

impl World {
    fn new(setting: &Setting, threads: u64) -> Self {
        let page_size = u64::from(setting.page_size);
        let laundry = u64::from(setting.laundry);
        let storage = Arc::new(MemoryDevice::new(BLOCKS * page_size - 1000));
        let device = Faulty::new(Volatile::new(Arc::clone(&storage)), setting.rules.clone(), setting.seed);
        let device = Arc::new(device);
        let policy = policies().swap_remove(setting.policy);
        let config = Config {
            most_capacity: MOST_FRAMES * page_size,
            laundry: setting.laundry,
            dirty_limit: setting.dirty_limit,
            dirty_age: setting.dirty_age,
            request: setting.request_pages * setting.page_size,
            ..Config::new((setting.frames + laundry) * page_size, policy).with_page_size(setting.page_size)
        };
        let config = Config { laundry: setting.laundry, ..config };
        let pool = Pool::new(config).expect("the setting makes sense");
        let named = VolumeConfig::new("test");
        let volume = VolumeConfig { mode: setting.mode, readahead: setting.readahead, ..named };
        let volume = pool.attach(Arc::clone(&device) as Arc<dyn Device>, volume);
        Self { pool, volume, storage, device, page_size, laundry, threads, faults: !setting.rules.is_empty() }
    }

    fn owner(&self, at: u64) -> u64 {
        let region = at / (REGION * self.page_size);
        if region.is_multiple_of(2) { at / (self.page_size / 8) % self.threads } else { region / 2 % self.threads }
    }

    /// The bytes from `at` on that belong to its owner, in one piece: a cell or a region.
    fn piece(&self, at: u64) -> Range<u64> {
        let region = REGION * self.page_size;
        let size = if (at / region).is_multiple_of(2) { self.page_size / 8 } else { region };
        at / size * size..((at / size + 1) * size).min(self.volume.len())
    }

    /// Any range of a few pages.
    fn any(&self, place: Place) -> Range<u64> {
        self.within(place, 0..self.volume.len())
    }

    fn within(&self, place: Place, whole: Range<u64>) -> Range<u64> {
        let length = whole.end - whole.start;
        let unit = if place.aligned && length > self.page_size { self.page_size } else { 1 };
        let start = whole.start + ((length * u64::from(place.start)) >> 16) / unit * unit;
        let most = whole.end.min(start + 10 * self.page_size) - start;
        let length = ((most * u64::from(place.length)) >> 16) + 1;
        start..(start + length.next_multiple_of(unit)).min(whole.end)
    }

    /// A range that belongs to a thread: the first such piece from the place on.
    fn own(&self, place: Place, thread: u64) -> Range<u64> {
        let mut at = self.any(place).start;
        while self.owner(at) != thread {
            at = self.piece(at).end % self.volume.len();
        }
        self.within(place, self.piece(at))
    }
}

/// What a thread knows of its bytes.
struct Worker<'w> {
    world: &'w World,
    handle: Handle,
    thread: u64,
    bytes: Vec<u8>,
    /// Bytes whose last write failed are unknown: some value of their owner's, or zero.
    known: Vec<bool>,
    writes: u64,
}

impl<'w> Worker<'w> {
    fn new(world: &'w World, thread: u64) -> Self {
        let length = world.volume.len() as usize;
        let handle = world.pool.handle().expect("a handle");
        Self { world, handle, thread, bytes: vec![0; length], known: vec![true; length], writes: 0 }
    }

    /// Bytes that nobody has written so before, marked with their owner.
    fn data(&mut self, range: &Range<u64>) -> Vec<u8> {
        self.writes += 1;
        let salt = self.writes.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let byte = |at: u64| ((self.thread + 1) << 5 | (at.wrapping_mul(salt | 1) ^ salt) >> 40 & 31) as u8;
        range.clone().map(byte).collect()
    }

    fn check(&self, offset: u64, bytes: &[u8], when: &str) {
        for (at, &byte) in (offset..).zip(bytes) {
            let owner = self.world.owner(at);
            if owner == self.thread && self.known[at as usize] {
                assert_eq!(byte, self.bytes[at as usize], "byte {at} of thread {owner} {when}");
            } else {
                let marked = byte == 0 || u64::from(byte >> 5) == owner + 1;
                assert!(marked, "byte {at} of thread {owner} holds {byte} {when}");
            }
        }
    }

    /// What was to be written is known if it succeeded.
    fn written(&mut self, range: Range<u64>, data: &[u8], result: Result<(), Error>) {
        let succeeded = self.allow(result);
        let range = range.start as usize..range.end as usize;
        self.bytes[range.clone()].copy_from_slice(data);
        self.known[range].fill(succeeded);
    }

    /// Only a failing device is a reason to fail.
    fn allow<T>(&self, result: Result<T, Error>) -> bool {
        if let Err(error) = &result {
            assert!(self.world.faults && matches!(error, Error::Device { .. }), "{error}");
        }
        result.is_ok()
    }

    fn step(&mut self, step: &Step) {
        let World { volume, page_size, pool, .. } = self.world;
        match *step {
            Step::Read(place) => {
                let range = self.world.any(place);
                let mut buffer = vec![0xff; (range.end - range.start) as usize];
                if self.allow(self.handle.read_at(volume, range.start, &mut buffer)) {
                    self.check(range.start, &buffer, "as read");
                }
            }
            Step::ReadIfResident(place) => {
                let range = self.world.any(place);
                let mut buffer = vec![0xff; (range.end - range.start) as usize];
                if self.handle.read_at_if_resident(volume, range.start, &mut buffer) {
                    self.check(range.start, &buffer, "as read at once");
                }
            }
            Step::ReadPinned(place) => {
                let block = self.world.any(place).start / page_size;
                let pin = self.handle.read(volume, block);
                if let Ok(pin) = &pin {
                    let length = (volume.len() - block * page_size).min(*page_size) as usize;
                    self.check(block * page_size, &pin[..length], "as pinned");
                }
                self.allow(pin);
            }
            Step::Write(place, durability) => {
                let range = self.world.own(place, self.thread);
                let data = self.data(&range);
                let result = self.handle.write_at(volume, range.start, &data, durability);
                self.written(range, &data, result);
            }
            Step::WriteIfReady(place) => {
                let range = self.world.own(place, self.thread);
                let data = self.data(&range);
                if self.handle.write_at_if_ready(volume, range.start, &data) {
                    self.written(range, &data, Ok(()));
                } else if self.world.faults {
                    self.known[range.start as usize..range.end as usize].fill(false);
                }
            }
            Step::WritePinned(place) => {
                let range = self.world.own(place, self.thread);
                let block = range.start / page_size;
                let range = range.start..range.end.min((block + 1) * page_size);
                let data = self.data(&range);
                let start = (range.start - block * page_size) as usize;
                let result = self.handle.write(volume, block).and_then(|mut pin| {
                    pin[start..start + data.len()].copy_from_slice(&data);
                    pin.commit()
                });
                self.written(range, &data, result);
            }
            Step::Trim(place) => {
                let range = self.world.own(place, self.thread);
                self.allow(self.handle.trim(volume, range.start, range.end - range.start));
                self.known[range.start as usize..range.end as usize].fill(false);
            }
            Step::WriteZeroes(place, allocate, durability) => {
                let range = self.world.own(place, self.thread);
                let length = range.end - range.start;
                let result = self.handle.write_zeroes(volume, range.start, length, allocate, durability);
                self.written(range, &vec![0; length as usize], result);
            }
            Step::Flush => {
                self.allow(self.handle.flush(volume));
            }
            Step::WillNeed(place) => {
                let range = self.world.any(place);
                let hint = Hint::WillNeed { offset: range.start, length: range.end - range.start };
                self.allow(self.handle.hint(volume, hint));
            }
            Step::DoNotNeed(place) => {
                let range = self.world.any(place);
                let hint = Hint::DoNotNeed { offset: range.start, length: range.end - range.start };
                self.allow(self.handle.hint(volume, hint));
            }
            Step::EvictedAbove(place, hits) => {
                let range = self.world.any(place);
                let (offset, length) = (range.start, range.end - range.start);
                let hint = Hint::EvictedAbove { offset, length, hits, dirty: hits % 2 == 0 };
                self.allow(self.handle.hint(volume, hint));
            }
            Step::Advise(hint) => {
                self.allow(self.handle.hint(volume, hint));
            }
            Step::Extents(place) => {
                let range = self.world.any(place);
                let extents = self.handle.extents(volume, range.start, range.end - range.start).expect("memory knows");
                let mut at = range.start;
                for extent in extents {
                    let own = |at: &u64| self.world.owner(*at) == self.thread && self.known[*at as usize];
                    let zero = |at: u64| self.bytes[at as usize] == 0;
                    let agrees = !extent.zero || (at..at + extent.length).filter(own).all(zero);
                    assert!(agrees, "{extent:?} at {at} has data");
                    at += extent.length;
                }
            }
            Step::Resize(frames) => {
                let result = pool.resize((frames + self.world.laundry) * page_size);
                if !matches!(result, Err(Error::Superseded)) || self.world.threads == 1 {
                    self.allow(result);
                }
            }
        }
        let statistics = pool.statistics();
        let pages = u64::from(statistics.resident + statistics.laundry);
        assert!(pages <= MOST_FRAMES, "{pages} pages have frames");
    }
}

/// Runs the steps of each thread, and compares what is in storage after a flush.
fn run(setting: &Setting, steps: &[Vec<Step>]) {
    let world = World::new(setting, steps.len() as u64);
    let mut workers: Vec<Worker<'_>> = (0..world.threads).map(|thread| Worker::new(&world, thread)).collect();
    std::thread::scope(|scope| {
        for (worker, steps) in workers.iter_mut().zip(steps) {
            scope.spawn(move || steps.iter().for_each(|step| worker.step(step)));
        }
    });
    world.device.set(Vec::new());
    // The first flush may tell of an earlier failure.
    let told = world.pool.flush();
    assert!(told.is_ok() || world.faults, "{told:?}");
    world.pool.flush().expect("no fault is left");
    let statistics = world.pool.statistics();
    assert_eq!(statistics.dirty, 0, "pages are dirty after a flush");
    let mut stored = vec![0; world.volume.len() as usize];
    world.storage.read(0, &mut [IoSliceMut::new(&mut stored)]).expect("memory is read");
    for worker in &mut workers {
        worker.check(0, &stored, "in storage");
        let mut seen = vec![0; stored.len()];
        worker.handle.read_at(&world.volume, 0, &mut seen).expect("no fault is left");
        assert_eq!(seen, stored, "the cache and its storage differ after a flush");
    }
    drop(workers);
    world.pool.close().expect("no fault is left");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn several_threads_read_what_they_wrote_and_a_flush_stores_it(
        setting in setting(),
        steps in prop::collection::vec(prop::collection::vec(step(), 1..120), 2..=4),
    ) {
        run(&setting, &steps);
    }

    #[test]
    fn one_thread_reads_what_it_wrote_and_a_flush_stores_it(
        setting in setting(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        run(&setting, &[steps]);
    }
}

proptest! {
    // Each runs under all policies.
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_keeps_the_bytes_of_two_threads(
        setting in setting(),
        steps in prop::collection::vec(prop::collection::vec(step(), 40), 2),
    ) {
        let page_size = 4096;
        for policy in 0..policies().len() {
            run(&Setting { policy, page_size, ..setting.clone() }, &steps);
        }
    }
}
