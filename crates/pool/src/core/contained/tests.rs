use super::faulty::{ALL, At, Fault, Faulty};
use crate::core::frames::Frames;
use crate::core::memory::Memory;
use crate::device::{Device, MemoryDevice};
use crate::{Config, Durability, Error, Handle, Hint, Pool, Share, Volume, VolumeConfig};
use forebay_policy::guest::{Guest, Host};
use forebay_policy::managers::Manager;
use forebay_policy::{Spec, Uncontrolled};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const FRAMES: u64 = 64;
const BLOCKS: u64 = 240;
const THREADS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// The pool's own memory, which asks for uses as an address space does.
struct Asking(Frames);

impl Memory for Asking {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }

    fn pointer(&self, frame: u32) -> *mut u8 {
        self.0.pointer(frame)
    }

    fn retire(&self, frame: u32) {
        self.0.retire(frame);
    }

    fn awaits_uses(&self) -> bool {
        true
    }
}

/// Two volumes with their devices.
type Volumes = [(Arc<Volume>, Arc<MemoryDevice>); 2];

/// A pool of two volumes, of which the second has a share if `shared`.
fn pool(policy: &str, shared: bool) -> (Pool<Asking>, Volumes) {
    let spec = Spec::parse(policy).expect("a policy");
    let config =
        Config { laundry: 4, shares: 1, ..Config::new(FRAMES * PAGE, spec) }.with_most_capacity(2 * FRAMES * PAGE);
    let memory = Frames::new(config.most_frames(), PAGE as usize, false).expect("memory");
    let pool = Pool::with_memory(config, Arc::new(Asking(memory))).expect("a pool");
    let volumes = ["one", "two"].map(|name| {
        let device = Arc::new(MemoryDevice::new(BLOCKS * PAGE));
        let config = VolumeConfig { readahead: 4 * PAGE as u32, ..VolumeConfig::new(name) };
        (pool.attach(Arc::clone(&device) as Arc<dyn Device>, config), device)
    });
    if shared {
        pool.set_share(&volumes[1].0, Share { min: 10 * PAGE, max: 40 * PAGE }).expect("the share fits");
    }
    (pool, volumes)
}

/// What a thread has written: the first byte of each of its blocks, in both volumes.
type Written = Vec<[u8; 2]>;

/// Reads, writes and gives up blocks of its own for this many steps; every byte that it reads is what it wrote.
fn use_blocks(handle: &Handle<Asking>, volumes: [&Arc<Volume>; 2], thread: u64, steps: u32, written: &mut Written) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(thread);
    let own = BLOCKS / THREADS;
    let (mut block, mut bytes) = (0, [0; PAGE as usize]);
    for step in 0..steps {
        let drawn = random.next_u64();
        let of = (drawn >> 32) as usize % 2;
        // Often the next one, so that pages are read ahead, and often one of a few.
        block = match drawn % 4 {
            0 => drawn >> 8,
            1 => (drawn >> 8) % 9,
            _ => block + 1,
        } % own;
        let (volume, offset) = (volumes[of], (thread * own + block) * PAGE);
        let known = &mut written[block as usize][of];
        match drawn >> 16 & 15 {
            0..=4 => {
                *known = drawn as u8;
                handle.write_at(volume, offset, &[*known; PAGE as usize], Durability::Flush).expect("a write");
            }
            5 => {
                *known = 0;
                handle.write_zeroes(volume, offset, PAGE, false, Durability::Flush).expect("zeroes");
            }
            6 => {
                let hint = Hint::EvictedAbove { offset, length: PAGE, hits: 2, dirty: false };
                handle.hint(volume, hint).expect("a hint");
            }
            _ => {
                handle.read_at(volume, offset, &mut bytes).expect("a read");
                assert!(bytes == [*known; PAGE as usize], "thread {thread}, step {step}, block {block}");
            }
        }
    }
}

/// Has threads use the pool while its size changes, volumes come and go, managers are named and figures are read.
fn use_pool(pool: &Pool<Asking>, volumes: &Volumes, written: &mut [Written]) {
    let both = [&volumes[0].0, &volumes[1].0];
    let running = AtomicU32::new(THREADS as u32);
    std::thread::scope(|scope| {
        for (thread, written) in (0..).zip(written) {
            let running = &running;
            scope.spawn(move || {
                let handle = pool.handle().expect("a handle");
                use_blocks(&handle, both, thread, 1500, written);
                drop(handle);
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut round = 0;
        // At least as often as a call is awaited.
        while round < 8 || running.load(Ordering::SeqCst) > 0 && round < 1000 {
            round += 1;
            pool.resize((FRAMES + 20) * PAGE).expect("it grows");
            // The cache is full, so that pages have to leave.
            let handle = pool.handle().expect("a handle");
            (0..BLOCKS).for_each(|block| drop(handle.read(both[0], block).expect("a read")));
            drop(handle);
            pool.resize(FRAMES * PAGE).expect("it shrinks");
            let _ = pool.manage(None, Some(both[0]), Some(Manager::Mru));
            let statistics = pool.statistics();
            assert!(statistics.resident <= statistics.policy_frames);
            pool.drop_clean(both[round % 2]);
            let other = pool.attach(Arc::new(MemoryDevice::new(9 * PAGE)), VolumeConfig::new("other"));
            let handle = pool.handle().expect("a handle");
            (0..9).for_each(|block| drop(handle.read(&other, block).expect("a read")));
            drop(handle);
            pool.detach(&other).expect("memory is written");
        }
    });
}

/// All that was written is in storage after a flush, and the pool's state is whole.
fn check(pool: &Pool<Asking>, volumes: &Volumes, written: &[Written]) {
    let deadline = Instant::now() + PATIENCE;
    while pool.is_reading_ahead() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: readahead ends");
        std::thread::sleep(Duration::from_millis(1));
    }
    pool.flush().expect("it is durable");
    pool.check_invariants();
    let mut bytes = [0; PAGE as usize];
    for (at, known) in written.iter().flatten().enumerate() {
        for ((_, device), known) in volumes.iter().zip(known) {
            device.read(at as u64 * PAGE, &mut [IoSliceMut::new(&mut bytes)]).expect("memory is read");
            assert!(bytes == [*known; PAGE as usize], "block {at} in storage");
        }
    }
}

fn nothing_written() -> Vec<Written> {
    vec![vec![[0; 2]; (BLOCKS / THREADS) as usize]; THREADS as usize]
}

/// The policy panics at that call, while the pool is used, and is restarted.
fn a_panic(policy: &str, shared: bool, at: At) {
    let what = format!("{policy}, shared {shared}, {at:?}");
    let (pool, volumes) = pool(policy, shared);
    let fault = Fault::new(at, if matches!(at, At::Hit | At::Miss | At::MissEvicts | At::AwaitsUse) { 90 } else { 4 });
    let faulty = |policy| Box::new(Faulty { policy, fault: Arc::clone(&fault) }) as _;
    pool.shared.replacer().policy.wrap(faulty);
    let mut written = nothing_written();
    use_pool(&pool, &volumes, &mut written);
    check(&pool, &volumes, &written);
    assert_eq!(pool.statistics().policy_panics, u64::from(fault.has_come()), "{what}");
    let asked = at != At::AwaitsUse || Spec::parse(policy).expect("a policy").info.awaits_uses;
    assert_eq!(fault.has_come(), asked, "{what}: whether the call was made often enough");
    let resident = pool.statistics().resident;
    assert_eq!(pool.restart_policy().expect("it is whole"), resident, "{what}");
    pool.check_invariants();
    assert_eq!(pool.statistics().resident, resident, "{what}");
    use_pool(&pool, &volumes, &mut written);
    check(&pool, &volumes, &written);
    assert_eq!(pool.statistics().policy_panics, u64::from(fault.has_come()), "{what}");
}

#[test]
fn a_policy_that_panics_at_any_call_loses_no_byte_and_no_frame() {
    for at in ALL {
        for policy in ["clock-pro", "lru-sp", "s3-fifo"] {
            a_panic(policy, false, at);
        }
        a_panic("dulo", true, at);
    }
}

/// A pool of 100 frames for pages, full of the first blocks of a volume, some of them dirty.
fn full(spec: Spec) -> (Pool, Arc<Volume>) {
    let pool = Pool::new(Config { laundry: 4, ..Config::new(104 * PAGE, spec) }).expect("a pool");
    let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("volume") };
    let volume = pool.attach(Arc::new(MemoryDevice::new(1000 * PAGE)), config);
    let handle = pool.handle().expect("a handle");
    for block in 0..100 {
        handle.write_at(&volume, block * PAGE, &[block as u8; PAGE as usize], Durability::Flush).expect("a write");
    }
    (pool, volume)
}

/// How many of the blocks are in the cache, all of which are read.
fn hits(pool: &Pool, volume: &Arc<Volume>, blocks: Range<u64>) -> u64 {
    let misses = || pool.statistics().misses;
    let (handle, before, count) = (pool.handle().expect("a handle"), misses(), blocks.end - blocks.start);
    for block in blocks {
        let page = handle.read(volume, block).expect("a read");
        assert_eq!(page[7], if block < 100 { block as u8 } else { 0 }, "block {block}");
    }
    count - (misses() - before)
}

fn running() -> impl Iterator<Item = Spec> {
    Spec::all().into_iter().filter(|spec| !spec.needs_future())
}

#[test]
fn what_is_in_the_cache_stays_when_the_policy_panics_and_when_it_is_restarted() {
    for spec in running() {
        let label = spec.label.clone();
        let (pool, volume) = full(spec);
        assert_eq!(hits(&pool, &volume, 0..100), 100, "{label}");
        let fault = Fault::new(At::State, 1);
        pool.shared.replacer().policy.wrap(|policy| Box::new(Faulty { policy, fault: Arc::clone(&fault) }));
        assert_eq!(pool.statistics().policy_panics, 1, "{label}");
        assert_eq!(hits(&pool, &volume, 0..100), 100, "{label}");
        assert_eq!(pool.restart_policy().expect("it is whole"), 100, "{label}");
        assert_eq!(hits(&pool, &volume, 0..100), 100, "{label}");
        assert_eq!(hits(&pool, &volume, 100..200), 0, "{label}");
        pool.check_invariants();
        pool.close().expect("memory is written");
    }
}

#[test]
fn a_policy_that_is_restarted_keeps_the_order_of_its_pages() {
    for (policy, panics) in [("lru", false), ("fifo", true)] {
        let (pool, volume) = full(Spec::parse(policy).expect("a policy"));
        assert_eq!(hits(&pool, &volume, 0..10), 10);
        if panics {
            let fault = Fault::new(At::State, 1);
            pool.shared.replacer().policy.wrap(|policy| Box::new(Faulty { policy, fault: Arc::clone(&fault) }));
            assert_eq!(pool.statistics().policy_panics, 1);
            // CLOCK has them in the order of their numbers, and passes by those that are used.
            assert_eq!(hits(&pool, &volume, 0..10), 10);
        }
        assert_eq!(pool.restart_policy().expect("it is whole"), 100);
        assert_eq!(hits(&pool, &volume, 100..110), 0);
        assert_eq!(hits(&pool, &volume, 0..10), 10, "{policy}: they were used last");
        assert_eq!(hits(&pool, &volume, 20..100), 80, "{policy}: those that are left");
    }
}

/// Makes policies that panic as they are made, but the first.
#[derive(Debug)]
struct Once(AtomicU32);

struct Fifo(VecDeque<u32>);

impl Host for Once {
    fn make(&self, _: u32) -> Box<dyn Guest> {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) != 1, "the second is not made");
        Box::new(Fifo(VecDeque::new()))
    }

    fn within(&self, work: &mut dyn FnMut()) {
        work();
    }
}

impl Guest for Fifo {
    fn hit(&mut self, _: u32) {}

    fn miss(&mut self, page: u32) {
        self.0.push_back(page);
    }

    fn evict(&mut self, _: Option<u32>) -> u32 {
        self.0.pop_front().expect("a page is resident")
    }

    fn refused(&mut self, pages: &[u32]) {
        self.0.extend(pages);
    }

    fn remove(&mut self, page: u32) {
        self.0.retain(|&known| known != page);
    }

    fn resize(&mut self, _: u32) {}

    fn chose_wrong(&mut self, page: u32) -> ! {
        panic!("{page} is not resident")
    }
}

#[test]
fn a_restart_that_panics_is_refused_and_the_cache_goes_on() {
    let (pool, volume) = full(Spec::hosted(Arc::new(Once(AtomicU32::new(0))), "own".to_owned()));
    let refused = pool.restart_policy().expect_err("the second policy is not made");
    assert!(matches!(refused, Error::Uncontrolled { why: Uncontrolled::Panicked, .. }), "{refused}");
    assert_eq!(pool.statistics().policy_panics, 1);
    assert_eq!(hits(&pool, &volume, 0..100), 100);
    assert_eq!(hits(&pool, &volume, 100..150), 0);
    pool.check_invariants();
    assert_eq!(pool.restart_policy().expect("the third is whole"), 100);
    pool.check_invariants();
}

#[test]
fn years_of_trims_end_in_no_panic() {
    const ROUND: u64 = 16 << 20;
    let spec = Spec::parse("dulo").expect("a policy");
    let pool = Pool::new(Config::new(4 << 20, spec)).expect("a pool");
    let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("volume") };
    let volume = pool.attach(Arc::new(MemoryDevice::new(2500 * ROUND)), config);
    let handle = pool.handle().expect("a handle");
    for round in 0..2500 {
        handle.read_at(&volume, round * ROUND, &mut [0; PAGE as usize]).expect("a read");
        handle.trim(&volume, round * ROUND, 256 << 10).expect("a trim");
    }
    assert_eq!(pool.statistics().policy_panics, 0);
    drop(handle);
    pool.check_invariants();
}
