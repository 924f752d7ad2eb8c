//! A pool whose pages lie in the address space of a program, by userfaultfd: what a pager needs of `Memory`.

use crate::common;

use common::limit;
use forebay_basis::Place;
use forebay_policy::Spec;
use forebay_pool::device::{Device, MemoryDevice};
use forebay_pool::{Config, Memory, Pool, Volume, VolumeConfig};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const PAGE: usize = 4096;
const PAGES: usize = 64;
const FRAMES: u32 = 16;

/// The kernel's, from `linux/userfaultfd.h`.
mod uffd {
    pub(super) const USER_MODE_ONLY: i32 = 1;
    pub(super) const FEATURE_WRITE_PROTECT: u64 = 1;
    pub(super) const REGISTER_MISSING_AND_WRITE_PROTECT: u64 = 3;
    pub(super) const COPY_WRITE_PROTECTED: u64 = 2;
    pub(super) const PROTECT: u64 = 1;
    pub(super) const EVENT_PAGEFAULT: u8 = 0x12;
    /// The fault was a write.
    pub(super) const WRITE: u64 = 1;

    pub(super) const API: (u64, usize) = (0x3f, 3);
    pub(super) const REGISTER: (u64, usize) = (0, 4);
    pub(super) const WAKE: (u64, usize) = (2, 2);
    pub(super) const COPY: (u64, usize) = (3, 5);
    pub(super) const WRITEPROTECT: (u64, usize) = (6, 3);
}

fn map(pages: usize) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory that is in use.
    let base =
        unsafe { libc::mmap(null_mut(), pages * PAGE, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    base.cast()
}

/// A range of addresses, of whose pages some are there.
struct Region {
    base: *mut u8,
    /// Where pages are read to before they are installed, by frame.
    staging: *mut u8,
    faults: OwnedFd,
    blocks: Vec<AtomicU64>,
    installed: Vec<AtomicBool>,
    resident: AtomicU32,
    most_resident: AtomicU32,
}

// SAFETY: the mappings live as long as the test's process; who may touch which bytes is decided by the pool.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn new() -> Arc<Self> {
        // SAFETY: the call takes no pointer.
        let fd =
            unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK | uffd::USER_MODE_ONLY) };
        assert!(fd >= 0, "userfaultfd: {}", io::Error::last_os_error());
        // SAFETY: the descriptor is new, and nobody else's.
        let faults = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let region = Self {
            base: map(PAGES),
            staging: map(FRAMES as usize),
            faults,
            blocks: (0..FRAMES).map(|_| AtomicU64::new(0)).collect(),
            installed: (0..FRAMES).map(|_| AtomicBool::new(false)).collect(),
            resident: AtomicU32::new(0),
            most_resident: AtomicU32::new(0),
        };
        region.ask(uffd::API, [0xaa, uffd::FEATURE_WRITE_PROTECT, 0]);
        let mode = uffd::REGISTER_MISSING_AND_WRITE_PROTECT;
        region.ask(uffd::REGISTER, [region.base as u64, (PAGES * PAGE) as u64, mode, 0]);
        Arc::new(region)
    }

    /// One of the kernel's calls, whose structures are words.
    fn ask<const WORDS: usize>(&self, (number, words): (u64, usize), mut argument: [u64; WORDS]) {
        assert_eq!(words, WORDS);
        let direction = if number == uffd::WAKE.0 { 2 } else { 3 };
        let request = direction << 30 | (8 * WORDS as u64) << 16 | 0xaa << 8 | number;
        // SAFETY: the argument is as long as the request says, and addresses in it are of this region's mappings.
        let answer = unsafe { libc::ioctl(self.faults.as_raw_fd(), request, argument.as_mut_ptr()) };
        assert_eq!(answer, 0, "request {number}: {}", io::Error::last_os_error());
    }

    fn address(&self, block: u64) -> *mut u8 {
        assert!(block < PAGES as u64);
        // SAFETY: within the mapping.
        unsafe { self.base.add(block as usize * PAGE) }
    }

    fn page_of(&self, frame: u32) -> *mut u8 {
        self.address(self.blocks[frame as usize].load(Ordering::SeqCst))
    }

    fn set_protected(&self, frame: u32, mode: u64) {
        if self.installed[frame as usize].load(Ordering::SeqCst) {
            self.ask(uffd::WRITEPROTECT, [self.page_of(frame) as u64, PAGE as u64, mode]);
        }
    }

    fn staged(&self, frame: u32) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.staging.add(frame as usize * PAGE) }
    }

    fn drop_page(address: *mut u8) {
        // SAFETY: a page of one of the mappings whose bytes nobody needs any more.
        assert_eq!(unsafe { libc::madvise(address.cast(), PAGE, libc::MADV_DONTNEED) }, 0);
    }

    /// The next fault: its block, and whether it is a write.
    fn fault(&self) -> Option<(u64, bool)> {
        let mut poll = libc::pollfd { fd: self.faults.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, as said.
        unsafe { libc::poll(&raw mut poll, 1, 20) };
        let mut message = [0_u64; 4];
        // SAFETY: a message has these 32 bytes.
        let bytes = unsafe { libc::read(self.faults.as_raw_fd(), message.as_mut_ptr().cast(), 32) };
        let [event, flags, address, _] = message;
        (bytes == 32 && event as u8 == uffd::EVENT_PAGEFAULT)
            .then(|| ((address - self.base as u64) / PAGE as u64, flags & uffd::WRITE != 0))
    }

    /// The pages that the kernel has there.
    fn present(&self) -> usize {
        let mut pages = [0_u8; PAGES];
        // SAFETY: the mapping has as many pages as the vector has bytes.
        assert_eq!(unsafe { libc::mincore(self.base.cast(), PAGES * PAGE, pages.as_mut_ptr()) }, 0);
        pages.iter().filter(|&&page| page & 1 != 0).count()
    }
}

impl Memory for Region {
    fn page_size(&self) -> usize {
        PAGE
    }

    fn pointer(&self, frame: u32) -> *mut u8 {
        let installed = self.installed[frame as usize].load(Ordering::SeqCst);
        if installed { self.page_of(frame) } else { self.staged(frame) }
    }

    fn place(&self, frame: u32, place: Place) {
        self.blocks[frame as usize].store(place.block, Ordering::SeqCst);
    }

    fn install(&self, frame: u32) {
        let most = self.resident.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_resident.fetch_max(most, Ordering::SeqCst);
        let (to, from) = (self.page_of(frame) as u64, self.staged(frame) as u64);
        self.ask(uffd::COPY, [to, from, PAGE as u64, uffd::COPY_WRITE_PROTECTED, 0]);
        self.installed[frame as usize].store(true, Ordering::SeqCst);
        Self::drop_page(self.staged(frame));
    }

    fn protect(&self, frame: u32) {
        self.set_protected(frame, uffd::PROTECT);
    }

    fn unprotect(&self, frame: u32) {
        self.set_protected(frame, 0);
    }

    fn release(&self, frame: u32) {
        if self.installed[frame as usize].swap(false, Ordering::SeqCst) {
            Self::drop_page(self.page_of(frame));
            self.resident.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn retire(&self, frame: u32) {
        Self::drop_page(self.staged(frame));
    }
}

/// Handles the faults of a region until it is stopped.
fn handle_faults(region: &Region, pool: &Pool<Region>, volume: &Arc<Volume>, stop: &AtomicBool) {
    let handle = pool.handle().expect("a handle");
    while !stop.load(Ordering::SeqCst) {
        let Some((block, write)) = region.fault() else { continue };
        if write {
            handle.write(volume, block).expect("a page").commit().expect("it is dirty");
        } else {
            drop(handle.read(volume, block).expect("a page"));
        }
        // The page may have been there already.
        region.ask(uffd::WAKE, [region.address(block) as u64, PAGE as u64]);
    }
}

/// Stops the handling of faults, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Words that a program reads and writes in a region, and what they ought to be.
struct Program<'a> {
    region: &'a Region,
    words: Vec<u64>,
}

impl Program<'_> {
    fn run(&mut self, steps: u64) {
        let mut random = 88172645463325252_u64;
        for step in 0..steps {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // A loop over some pages, and now and then another; each has words of its own.
            let block = if step % 4 == 0 { random % PAGES as u64 } else { step / 4 % 20 };
            let word = (random >> 32) as usize % (PAGE / 8);
            // SAFETY: a word of the region, which this thread alone uses but for the pool's copies.
            let address = unsafe { self.region.address(block).cast::<u64>().add(word) };
            let known = &mut self.words[block as usize * (PAGE / 8) + word];
            // SAFETY: as above; a fault waits until the page is there.
            assert_eq!(unsafe { address.read_volatile() }, *known, "block {block}, word {word}, step {step}");
            if random >> 20 & 1 == 0 {
                *known = random;
                // SAFETY: as above.
                unsafe { address.write_volatile(random) };
            }
        }
    }

    fn is_in(&self, device: &MemoryDevice) -> bool {
        let mut bytes = vec![0; PAGES * PAGE];
        device.read(0, &mut [IoSliceMut::new(&mut bytes)]).expect("memory is read");
        bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).eq(self.words.iter().copied())
    }
}

#[test]
fn a_program_works_in_an_address_space_larger_than_its_frames_under_every_policy() {
    let _limit = limit("a program works in an address space");
    for spec in Spec::all().into_iter().filter(|spec| !spec.needs_future()) {
        let label = spec.label.clone();
        let device = Arc::new(MemoryDevice::new((PAGES * PAGE) as u64));
        let words: Vec<u64> = (0..(PAGES * PAGE / 8) as u64).map(|word| word * 0x9e37_79b9).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        device.write(0, &[IoSlice::new(&bytes)]).expect("memory is written");
        let region = Region::new();
        let config = Config { laundry: 2, ..Config::new(u64::from(FRAMES) * PAGE as u64, spec) };
        let pool = Pool::with_memory(config, Arc::clone(&region)).expect("a pool");
        let config = VolumeConfig { readahead: 16 << 10, ..VolumeConfig::new("region") };
        let volume = pool.attach(Arc::clone(&device) as Arc<dyn Device>, config);
        let stop = AtomicBool::new(false);
        let mut program = Program { region: &region, words };
        std::thread::scope(|scope| {
            scope.spawn(|| handle_faults(&region, &pool, &volume, &stop));
            let _stop = Stop(&stop);
            for _ in 0..3 {
                program.run(1000);
                pool.flush_volume(&volume).expect("a flush");
                assert!(program.is_in(&device), "{label}: what the program wrote is in storage");
                let present = region.present();
                assert!((1..=FRAMES as usize).contains(&present), "{label}: {present} pages are there");
            }
        });
        common::wait_until("nothing is read ahead", || !pool.is_reading_ahead());
        pool.check_invariants();
        let statistics = pool.statistics();
        assert!(statistics.evictions > 0 && region.most_resident.load(Ordering::SeqCst) <= FRAMES, "{label}");
        assert!(statistics.volumes[0].pages_written_back > 0 && statistics.volumes[0].pages_read_ahead > 0, "{label}");
        pool.close().expect("nothing is left to write");
    }
}

#[test]
fn pages_that_leave_are_absent_and_come_back_as_they_were_written() {
    let _limit = limit("pages leave an address space");
    let device = Arc::new(MemoryDevice::new((PAGES * PAGE) as u64));
    let region = Region::new();
    let policy = Spec::parse("lru").expect("a policy");
    let config = Config { laundry: 2, ..Config::new(u64::from(FRAMES) * PAGE as u64, policy) };
    let pool = Pool::with_memory(config, Arc::clone(&region)).expect("a pool");
    let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("region") };
    let volume = pool.attach(Arc::clone(&device) as Arc<dyn Device>, config);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| handle_faults(&region, &pool, &volume, &stop));
        let mut program = Program { region: &region, words: vec![0; PAGES * PAGE / 8] };
        let _stop = Stop(&stop);
        for _ in 0..3 {
            program.run(200);
            pool.flush_volume(&volume).expect("a flush");
            assert!(region.present() > 0 && pool.drop_clean(&volume) > 0);
            assert_eq!(region.present(), 0, "all have left");
        }
    });
}
