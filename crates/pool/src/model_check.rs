//! The pool under many interleavings of its threads: shuttle runs each scenario under schedules drawn at random, and by priorities that
//! change at few points (PCT, Burckhardt and others, ASPLOS 2010). A scenario in which all threads wait fails.

use crate::core::page::{Page, State};
use crate::core::slots::Slots;
use crate::core::waiters::Waiters;
use crate::device::{Device, Fault, Faulty, MemoryDevice, Operation, Rule, When};
use crate::sync::yield_now;
use crate::{Config, Durability, Handle, Pool, Volume, VolumeConfig, WriteMode};
use forebay_policy::Spec;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Runner, thread};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
// The checker is not to follow what only the tests look at.
use std::sync::atomic::{AtomicU64, Ordering};

const SCHEDULES: usize = 400;
const PAGE: u64 = 4096;
const BLOCKS: u64 = 1 << 15;

fn check(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = shuttle::Config::new();
        // A statistics snapshot alone takes more than the usual 32 KiB.
        config.stack_size = 256 << 10;
        config
    };
    Runner::new(RandomScheduler::new(SCHEDULES), config()).run(scenario.clone());
    Runner::new(PctScheduler::new(4, SCHEDULES), config()).run(scenario);
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
}

/// One page whose frame is two words, which are equal unless somebody writes, and 0 once the page has left.
struct OnePage {
    page: Page,
    slots: Slots,
    waiters: Waiters,
    words: [AtomicU64; 2],
}

impl OnePage {
    fn new() -> Arc<Self> {
        let words = [AtomicU64::new(1), AtomicU64::new(1)];
        let one = Self { page: Page::default(), slots: Slots::new(4), waiters: Waiters::new(), words };
        one.page.name(1, 1);
        one.page.bind(0, false);
        one.page.loaded();
        let _ = one.page.end_exclusive();
        Arc::new(one)
    }

    fn read(&self) {
        let first = self.words[0].load(Ordering::SeqCst);
        yield_now();
        assert_eq!(first, self.words[1].load(Ordering::SeqCst), "a reader beside a writer");
        assert_ne!(first, 0, "a reader of a page that has left");
    }

    fn write(&self, value: u64) {
        self.words[0].store(value, Ordering::SeqCst);
        yield_now();
        self.words[1].store(value, Ordering::SeqCst);
    }

    /// `false`: it has left.
    fn waits(&self, state: State) -> bool {
        if state.busy() {
            self.waiters.wait(0, &self.page, 1, 1, State::busy);
        }
        state.busy() && self.page.is(1, 1)
    }

    fn read_by_slot(&self, line: u32) {
        let line = self.slots.line(line);
        loop {
            line.fill(0, 0);
            let pinned = self.page.shared(1, 1);
            if pinned.is_ok() {
                self.read();
            }
            line.clear(0);
            match pinned {
                Err(state) if self.waits(state) => {}
                _ => return,
            }
        }
    }

    fn read_by_count(&self) {
        loop {
            match self.page.share(1, 1) {
                Ok(_) => {
                    self.read();
                    return self.page.unshare();
                }
                Err(state) if self.waits(state) => {}
                Err(_) => return,
            }
        }
    }

    fn write_alone(&self, value: u64) {
        loop {
            match self.page.begin_exclusive(1, 1) {
                Ok(()) if self.page.soon_unshared(0, &self.slots) => {
                    self.write(value);
                    self.page.make_dirty();
                    return self.waiters.wake(0, self.page.end_exclusive());
                }
                Ok(()) => {
                    self.waiters.wake(0, self.page.end_exclusive());
                    self.waiters.wait(0, &self.page, 1, 1, State::copied_in_writeback);
                    self.page.wait_unshared(0, 1, 1, &self.slots);
                }
                Err(state) if self.waits(state) => {}
                Err(_) => return,
            }
        }
    }

    /// Writes it back to `storage` if it is dirty.
    fn write_back(&self, storage: &AtomicU64) {
        if self.page.begin_writeback(1, 1).is_ok() {
            self.read();
            let copy = self.words[0].load(Ordering::SeqCst);
            self.waiters.wake(0, self.page.end_copy());
            yield_now();
            storage.store(copy, Ordering::SeqCst);
            let (_, wake) = self.page.end_writeback(true);
            self.waiters.wake(0, wake);
        }
    }

    /// Evicts it if nobody uses it and it is clean.
    fn evict(&self) {
        if self.page.begin_exclusive(1, 1).is_ok() {
            // As the judge asks: while a page is copied, it is dirty or in writeback.
            let in_use = self.page.in_use(0, &self.slots);
            let state = self.page.state();
            if in_use || state.dirty() || state.in_writeback() {
                return self.waiters.wake(0, self.page.end_exclusive());
            }
            self.write(0);
            self.waiters.wake(0, self.page.unbind());
        }
    }
}

#[test]
fn model_check_readers_writers_and_evictors_of_a_page_exclude_each_other() {
    check(|| {
        let one = OnePage::new();
        let lines: Vec<u32> = (0..2).map(|_| one.slots.take_line().expect("a line")).collect();
        let mut threads = Vec::new();
        for line in lines {
            let one = Arc::clone(&one);
            threads.push(thread::spawn(move || (0..2).for_each(|_| one.read_by_slot(line))));
        }
        let actions: [fn(&OnePage); 3] = [OnePage::read_by_count, |one| one.write_alone(2), OnePage::evict];
        for action in actions {
            let one = Arc::clone(&one);
            threads.push(thread::spawn(move || action(&one)));
        }
        join(threads);
    });
}

#[test]
fn model_check_who_waits_for_a_page_does_not_wait_for_the_next_of_its_number() {
    check(|| {
        let one = OnePage::new();
        let other = Arc::clone(&one);
        let waiter = thread::spawn(move || other.write_alone(2));
        // Somebody gives the number to a page that he holds until the other is done.
        while one.page.begin_exclusive(1, 1).is_err() {
            yield_now();
        }
        one.page.make_clean();
        one.waiters.wake(0, one.page.unbind());
        one.page.name(1, 2);
        one.page.bind(0, false);
        one.page.loaded();
        waiter.join().expect("it does not panic");
        one.waiters.wake(0, one.page.end_exclusive());
    });
}

#[test]
fn model_check_a_page_that_was_written_leaves_only_when_it_is_in_storage() {
    check(|| {
        let one = OnePage::new();
        let storage = Arc::new(AtomicU64::new(1));
        let writer = Arc::clone(&one);
        let mut threads = vec![thread::spawn(move || (2..4).for_each(|value| writer.write_alone(value)))];
        let (cleaner, stored) = (Arc::clone(&one), Arc::clone(&storage));
        threads.push(thread::spawn(move || (0..2).for_each(|_| cleaner.write_back(&stored))));
        let evictor = Arc::clone(&one);
        threads.push(thread::spawn(move || (0..2).for_each(|_| evictor.evict())));
        let line = one.slots.take_line().expect("a line");
        let reader = Arc::clone(&one);
        threads.push(thread::spawn(move || reader.read_by_slot(line)));
        join(threads);
        let state = one.page.state();
        let word = one.words[0].load(Ordering::SeqCst);
        assert!(!state.in_writeback() && !state.busy());
        assert!(
            state.dirty() || state.absent() || word == storage.load(Ordering::SeqCst),
            "a clean page is in storage"
        );
        assert!(!(state.absent() && state.dirty()));
    });
}

/// A device that lets other threads run before it does anything, as one does that takes its time.
struct Slow(Faulty<MemoryDevice>);

fn take_time() {
    (0..4).for_each(|_| yield_now());
}

impl Device for Slow {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        take_time();
        self.0.read(offset, buffers)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        take_time();
        self.0.write(offset, buffers)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.0.trim(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        take_time();
        self.0.write_zeroes(offset, length, allocate)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// A pool of few frames with one volume.
struct Small {
    pool: Pool,
    volume: Arc<Volume>,
    storage: Arc<Slow>,
}

impl Small {
    fn new(frames: u64, laundry: u32, mode: WriteMode, rules: Vec<Rule>) -> Arc<Self> {
        let policy = Spec::parse("lru").expect("a policy");
        let config = Config { laundry, dirty_limit: 1.0, ..Config::new(frames * PAGE, policy) };
        let pool = Pool::new(config).expect("a pool");
        let storage = Arc::new(Slow(Faulty::new(MemoryDevice::new(BLOCKS * PAGE), rules, 1)));
        let config = VolumeConfig { mode, readahead: 0, ..VolumeConfig::new("small") };
        let volume = pool.attach(Arc::clone(&storage) as Arc<dyn Device>, config);
        Arc::new(Self { pool, volume, storage })
    }

    fn spawn(self: &Arc<Self>, action: impl FnOnce(&Small, &Handle) + Send + 'static) -> thread::JoinHandle<()> {
        let small = Arc::clone(self);
        thread::spawn(move || action(&small, &small.pool.handle().expect("a handle")))
    }

    /// Writes a byte of a block, the first or the last.
    fn write(&self, handle: &Handle, block: u64, at: u64, byte: u8, durability: Durability) -> bool {
        handle.write_at(&self.volume, block * PAGE + at, &[byte], durability).is_ok()
    }

    /// Holds a block for a while: nobody writes it meanwhile, and it stays.
    fn read(&self, handle: &Handle, block: u64, at: u64) -> u8 {
        let pin = handle.read(&self.volume, block).expect("a frame");
        let before = pin.to_vec();
        yield_now();
        assert_eq!(before, pin.to_vec(), "a page changed under a reader");
        before[at as usize]
    }

    /// Flushes, and looks for bytes in storage: block, place, value.
    fn expect(&self, bytes: &[(u64, u64, u8)]) {
        self.storage.0.set(Vec::new());
        // The first may tell of earlier failures.
        let _ = self.pool.flush();
        self.pool.flush().expect("the device is well");
        assert_eq!(self.pool.statistics().dirty, 0);
        assert_eq!(self.pool.shared.dirty.load(crate::sync::Ordering::SeqCst), 0, "the count of dirty pages");
        assert_eq!(self.pool.shared.transfers.load(crate::sync::Ordering::SeqCst), 0, "the count of transfers");
        crate::sync::lock(&self.pool.shared.replacer).policy.check_invariants();
        for &(block, at, byte) in bytes {
            let mut stored = [0];
            self.storage.0.read(block * PAGE + at, &mut [IoSliceMut::new(&mut stored)]).expect("memory is read");
            assert_eq!(stored, [byte], "block {block} at {at}");
        }
    }
}

/// Two threads write to either end of the same blocks, of which not all fit, while a third reads and flushes.
fn share_blocks(laundry: u32, mode: WriteMode, durability: [Durability; 2]) {
    check(move || {
        let small = Small::new(3, laundry, mode, Vec::new());
        let mut threads: Vec<_> = [0, PAGE - 1]
            .into_iter()
            .zip(durability)
            .map(|(at, durability)| {
                small.spawn(move |small, handle| {
                    for (block, byte) in [(0, 1), (1, 2), (2, 3), (0, 4)] {
                        assert!(small.write(handle, block, at, byte, durability), "no fault is planned");
                    }
                    assert_eq!(small.read(handle, 1, at), 2);
                })
            })
            .collect();
        threads.push(small.spawn(|small, handle| {
            small.read(handle, 2, 0);
            handle.flush(&small.volume).expect("no fault is planned");
            small.read(handle, 3, 0);
        }));
        join(threads);
        small.expect(&[0, PAGE - 1].map(|at| [(0, at, 4), (1, at, 2), (2, at, 3)]).concat());
    });
}

#[test]
fn model_check_threads_that_share_pages_lose_no_write() {
    share_blocks(1, WriteMode::Back, [Durability::Flush; 2]);
}

#[test]
fn model_check_threads_that_share_pages_lose_no_write_without_a_laundry() {
    share_blocks(0, WriteMode::Back, [Durability::Flush; 2]);
}

#[test]
fn model_check_threads_that_write_through_lose_no_write() {
    share_blocks(1, WriteMode::Through, [Durability::Flush; 2]);
}

#[test]
fn model_check_forced_writes_beside_writes_behind_are_in_storage() {
    share_blocks(1, WriteMode::Back, [Durability::Flush, Durability::Now]);
}

/// A page is written, and given up while writebacks of it fail; and perhaps written again.
fn give_up_what_fails(again: bool) {
    check(move || {
        let fails = Rule { operation: Some(Operation::Write), when: When::Nth(1), ..Rule::new(Fault::Error(5)) };
        let small = Small::new(3, 1, WriteMode::Back, vec![fails]);
        let threads = vec![
            small.spawn(move |small, handle| {
                assert!(small.write(handle, 0, 0, 1, Durability::Flush), "fewer are dirty than may be");
                handle.trim(&small.volume, 0, PAGE).expect("trims do not fail");
                let written = again && small.write(handle, 0, 0, 2, Durability::Flush);
                assert_eq!(written, again, "fewer are dirty than may be");
            }),
            small.spawn(|small, handle| drop(handle.flush(&small.volume))),
        ];
        join(threads);
        let expected = [(0, 0, 2)];
        small.expect(if again { &expected } else { &[] });
    });
}

#[test]
fn model_check_a_page_given_up_while_its_writeback_fails_is_dirty_no_more() {
    give_up_what_fails(false);
}

#[test]
fn model_check_a_page_given_up_while_its_writeback_fails_is_written_when_it_is_dirty_again() {
    give_up_what_fails(true);
}

#[test]
fn model_check_trims_loads_and_writes_of_one_page_all_end() {
    check(|| {
        let small = Small::new(3, 1, WriteMode::Back, Vec::new());
        let threads = vec![
            small.spawn(|small, handle| {
                handle.write_zeroes(&small.volume, 0, 2 * PAGE, false, Durability::Flush).expect("no fault is planned");
                assert!(small.write(handle, 1, 0, 7, Durability::Flush), "no fault is planned");
            }),
            small.spawn(|small, handle| {
                // Held while another page of the range that is given up is asked for.
                let pin = handle.read(&small.volume, 0).expect("a frame");
                small.read(handle, 1, 0);
                drop(pin);
            }),
            small.spawn(|small, handle| {
                assert!(small.write(handle, 2, 0, 9, Durability::Flush), "no fault is planned");
                handle.hint(&small.volume, crate::Hint::DoNotNeed { offset: 0, length: 3 * PAGE }).expect("no fault");
            }),
        ];
        join(threads);
        small.expect(&[(0, 0, 0), (1, 0, 7), (2, 0, 9)]);
    });
}

#[test]
fn model_check_what_is_read_once_is_never_older_than_what_was_written() {
    // Blocks whose entries begin at one place of the page table, and so stand beside each other.
    let place = |block: &u64| crate::core::table::hash(0, *block) % 1024;
    let blocks: Vec<u64> = (0..BLOCKS).filter(|block| place(block) == place(&0)).take(7).collect();
    check(move || {
        let small = Small::new(3, 1, WriteMode::Back, Vec::new());
        let (first, dirty, last) = (blocks[0], blocks[1], blocks[6]);
        let handle = small.pool.handle().expect("a handle");
        small.read(&handle, first, 0);
        assert!(small.write(&handle, dirty, 0, 9, Durability::Flush), "no fault is planned");
        // Afterwards all page numbers are given out, and the first block's is the next to be taken for another.
        for &block in &blocks[2..6] {
            small.read(&handle, block, 0);
            assert_eq!(small.read(&handle, dirty, 0), 9);
        }
        drop(handle);
        let threads = vec![
            small.spawn(move |small, handle| assert_eq!(small.read(handle, last, 0), 0)),
            small.spawn(move |small, handle| {
                handle.hint(&small.volume, crate::Hint::Once).expect("no fault");
                let mut byte = [0];
                handle.read_at(&small.volume, dirty * PAGE, &mut byte).expect("no fault is planned");
                assert_eq!(byte, [9]);
            }),
        ];
        join(threads);
        small.expect(&[(dirty, 0, 9)]);
    });
}

/// A device that is written at once and durable only after a flush, which takes its time.
struct Forgetful {
    written: AtomicU64,
    durable: AtomicU64,
}

impl Device for Forgetful {
    fn len(&self) -> u64 {
        8 * PAGE
    }

    fn read(&self, _: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        buffers.iter_mut().for_each(|buffer| buffer.fill(0));
        Ok(())
    }

    /// Takes note of the blocks that were written, and not of what.
    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        take_time();
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let end = offset + length as u64;
        for block in offset / PAGE..end / PAGE {
            self.written.fetch_or(1 << block, Ordering::SeqCst);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let written = self.written.load(Ordering::SeqCst);
        take_time();
        self.durable.fetch_or(written, Ordering::SeqCst);
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "forgetful".to_owned()
    }
}

#[test]
fn model_check_nobody_who_shares_a_flush_is_told_too_early_that_a_write_is_durable() {
    check(|| {
        let storage = Arc::new(Forgetful { written: AtomicU64::new(0), durable: AtomicU64::new(0) });
        let policy = Spec::parse("lru").expect("a policy");
        let pool = Pool::new(Config { laundry: 1, dirty_limit: 1.0, ..Config::new(6 * PAGE, policy) }).expect("a pool");
        let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("forgetful") };
        let volume = pool.attach(Arc::clone(&storage) as Arc<dyn Device>, config);
        let threads = (0..3u64).map(|number| {
            let (volume, storage) = (Arc::clone(&volume), Arc::clone(&storage));
            let handle = pool.handle().expect("a handle");
            thread::spawn(move || {
                // Two blocks each, so that no other's write is taken for its own.
                for (block, now) in [(2 * number, true), (2 * number + 1, false)] {
                    let durability = if now { Durability::Now } else { Durability::Flush };
                    let page = [1; PAGE as usize];
                    handle.write_at(&volume, block * PAGE, &page, durability).expect("no fault is planned");
                    if !now {
                        handle.flush(&volume).expect("no fault is planned");
                    }
                    assert!(storage.durable.load(Ordering::SeqCst) & 1 << block != 0, "block {block} is not durable");
                }
            })
        });
        join(threads.collect());
    });
}
