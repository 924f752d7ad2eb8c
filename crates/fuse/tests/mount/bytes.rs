//! Bytes: lengths, holes, maps and copies, in both modes, with a cache smaller than the file.

use crate::mounted::{Mounted, pattern, wait_until};
use forebay_policy::Spec;
use forebay_pool::{Config, WriteMode};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, seek};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

const MODES: [WriteMode; 2] = [WriteMode::Back, WriteMode::Through];

/// The longest file of the random operations: several times the cache.
const LONGEST: usize = 4 << 20;

/// A file opened for everything.
fn open(mounted: &Mounted, name: &str) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(mounted.seen(name)).expect("it opens")
}

#[test]
fn random_operations_agree_with_a_plain_model() {
    for mode in MODES {
        let Some(mounted) = Mounted::start(|options, _| options.mode = mode) else { return };
        let (file, mut model) = (open(&mounted, "file"), Vec::new());
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for step in 0..3000u32 {
            let offset = random.next_u64() as usize % LONGEST;
            let length = (random.next_u64() as usize % 40_000).min(LONGEST - offset);
            match random.next_u64() % 12 {
                0..=4 => {
                    let data = pattern(step as u8, length);
                    file.write_all_at(&data, offset as u64).expect("a write");
                    if model.len() < offset + length && length > 0 {
                        model.resize(offset + length, 0);
                    }
                    let end = (offset + length).min(model.len());
                    if length > 0 {
                        model[offset..end].copy_from_slice(&data);
                    }
                }
                5 => {
                    file.set_len(offset as u64).expect("a length");
                    model.resize(offset, 0);
                }
                6 => {
                    let way = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(&file, way, offset as u64, length.max(1) as u64).expect("a hole");
                    let (start, end) = (offset.min(model.len()), (offset + length.max(1)).min(model.len()));
                    model[start..end].fill(0);
                }
                7 => file.sync_data().expect("a flush"),
                _ => {
                    let mut read = vec![0; length];
                    let there = model.len().saturating_sub(offset).min(length);
                    let got = file.read_at(&mut read, offset as u64).expect("a read");
                    assert!(got <= there && (got > 0 || there == 0), "step {step}: {got} of {there} bytes");
                    assert!(read[..got] == model[offset.min(model.len())..][..got], "step {step}: other bytes");
                }
            }
            assert_eq!(file.metadata().expect("attributes").len(), model.len() as u64, "step {step}");
        }
        drop(file);
        assert!(fs::read(mounted.seen("file")).expect("a read") == model, "{mode:?}: as it is seen");
        let folder = mounted.stop();
        assert!(fs::read(folder.path().join("source/file")).expect("a read") == model, "{mode:?}: as it is below");
    }
}

#[test]
fn the_length_is_right_while_the_end_is_still_to_be_written() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let mut log = File::options().append(true).create(true).open(mounted.seen("log")).expect("it opens");
    for line in 0..1000 {
        writeln!(log, "{line:06}").expect("a write");
        assert_eq!(fs::metadata(mounted.seen("log")).expect("attributes").len(), 7 * (line + 1));
    }
    assert!(fs::metadata(mounted.below("log")).expect("attributes below").len() < 7000, "it is written later");
    assert!(log.metadata().expect("attributes").blocks() > 0, "and does not look like a hole");
    log.set_len(3500).expect("a length");
    log.write_all(b"the end").expect("a write");
    let text = fs::read_to_string(mounted.seen("log")).expect("a read");
    assert!(text.len() == 3507 && text.ends_with("000499\nthe end"), "appended behind the new end");
    drop(log);
    let folder = mounted.stop();
    assert_eq!(fs::read_to_string(folder.path().join("source/log")).expect("a read below"), text);
}

#[test]
fn bytes_behind_a_nearer_end_never_come_back() {
    for mode in MODES {
        let Some(mounted) = Mounted::start(|options, _| options.mode = mode) else { return };
        let file = open(&mounted, "file");
        file.write_all_at(&[7; 10_000], 0).expect("a write");
        file.set_len(5000).expect("a nearer end");
        file.set_len(20_000).expect("a farther end");
        let expected = [vec![7; 5000], vec![0; 15_000]].concat();
        assert!(fs::read(mounted.seen("file")).expect("a read") == expected);
        drop(file);
        let folder = mounted.stop();
        assert!(fs::read(folder.path().join("source/file")).expect("a read below") == expected);
    }
}

#[test]
fn holes_are_found_and_data_that_is_still_to_be_written_is_none() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let file = open(&mounted, "file");
    file.write_all_at(&[1; 4096], 1 << 20).expect("a write");
    file.set_len(2 << 20).expect("a length");
    for _ in 0..2 {
        assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(1 << 20));
        assert_eq!(seek(&file, SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
        assert_eq!(seek(&file, SeekFrom::Data((1 << 20) + 4096)), Err(rustix::io::Errno::NXIO));
        assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(0));
        file.sync_all().expect("a flush");
    }
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 1 << 20, 4096).expect("zeroes");
    assert_eq!(file.read_at(&mut [0; 10], 1 << 20).expect("a read"), 10);
    let before = file.metadata().expect("attributes").blocks();
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 2 << 20, 1 << 20).expect("space");
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 2 << 20, 4096).expect("space that is part of it");
    let found = file.metadata().expect("attributes");
    assert!(found.len() == (2 << 20) + 4096 && found.blocks() >= before + 2048, "{} blocks", found.blocks());
    drop(file);
    mounted.stop();
}

#[test]
fn what_the_file_system_below_cannot_zero_stays_as_it_was() {
    // In memory: there ranges cannot be zeroed.
    let Some(mounted) = Mounted::over(tempfile::tempdir_in("/dev/shm").expect("a folder"), |_, _| {}) else { return };
    let bytes = vec![b'A'; 100_000];
    for path in [mounted.seen("file"), mounted.below("other")] {
        fs::write(&path, &bytes).expect("a write");
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
        for (flags, offset) in
            [(FallocateFlags::ZERO_RANGE, 8192), (FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 200_000)]
        {
            let zeroed = rustix::fs::fallocate(&file, flags, offset, 8192);
            assert_eq!(zeroed, Err(rustix::io::Errno::OPNOTSUPP), "{}", path.display());
        }
        file.sync_all().expect("a flush");
        assert!(fs::read(&path).expect("a read") == bytes, "{} has changed", path.display());
    }
    mounted.stop();
}

#[test]
fn a_file_may_be_longer_than_4_gib() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let (file, far) = (open(&mounted, "file"), (5 << 30) + 123);
    file.write_all_at(b"far away", far).expect("a write");
    let mut read = [0; 8];
    file.read_exact_at(&mut read, far).expect("a read");
    assert_eq!((&read, file.metadata().expect("attributes").len()), (b"far away", far + 8));
    drop(file);
    let folder = mounted.stop();
    let below = File::open(folder.path().join("source/file")).expect("it opens below");
    below.read_exact_at(&mut read, far).expect("a read below");
    assert_eq!(&read, b"far away");
}

#[test]
fn copies_from_file_to_file_go_through_the_cache() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let data = pattern(3, 3 << 20);
    fs::write(mounted.seen("from"), &data).expect("a file");
    let (from, to) = (open(&mounted, "from"), open(&mounted, "to"));
    let (mut at, mut end) = (0, 0);
    while rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut end), 1 << 30).expect("a copy") > 0 {}
    assert_eq!((at, end), (3 << 20, 3 << 20));
    assert!(fs::read(mounted.seen("to")).expect("a read") == data);
    drop((from, to));
    mounted.stop();
}

/// A file mapped for a test.
struct Map(*mut u8, usize);

impl Map {
    fn new(file: &File, length: usize, flags: MapFlags) -> Self {
        // SAFETY: the system chooses where, and nobody else knows of it.
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0) };
        Self(start.expect("it is mapped").cast(), length)
    }

    fn get(&self, at: usize) -> u8 {
        assert!(at < self.1);
        // SAFETY: it lies within the map; others may change it, as a volatile read allows.
        unsafe { self.0.add(at).read_volatile() }
    }

    fn set(&self, at: usize, value: u8) {
        assert!(at < self.1);
        // SAFETY: as above.
        unsafe { self.0.add(at).write_volatile(value) }
    }

    fn sync(&self) {
        // SAFETY: the range is the map's.
        unsafe { msync(self.0.cast(), self.1, MsyncFlags::SYNC) }.expect("it is written");
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range is the map's, and nothing refers to it any more.
        unsafe { munmap(self.0.cast(), self.1) }.expect("it is mapped");
    }
}

#[test]
fn maps_reads_and_writes_see_each_other() {
    const LENGTH: usize = 3 << 20;
    for mode in MODES {
        let Some(mounted) = Mounted::start(|options, _| options.mode = mode) else { return };
        let data = pattern(9, LENGTH);
        fs::write(mounted.seen("file"), &data).expect("a file");
        let file = open(&mounted, "file");
        let (shared, private) = (Map::new(&file, LENGTH, MapFlags::SHARED), Map::new(&file, LENGTH, MapFlags::PRIVATE));
        // More than the cache: pages leave, and the kernel's copies with them.
        for at in (0..LENGTH).step_by(4096) {
            assert_eq!((shared.get(at), private.get(at + 1)), (data[at], data[at + 1]), "byte {at}");
        }
        shared.set(5000, 77);
        private.set(6000, 88);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 5000).expect("a read");
        assert_eq!(byte, [77], "what a program writes to its map is read at once");
        file.read_exact_at(&mut byte, 6000).expect("a read");
        assert_eq!((byte, private.get(6000)), ([data[6000]], 88), "but not what is its own");
        file.write_all_at(&[55], 9000).expect("a write");
        assert_eq!(shared.get(9000), 55);
        shared.sync();
        drop((shared, private, file));
        let folder = mounted.stop();
        let below = fs::read(folder.path().join("source/file")).expect("a read below");
        assert_eq!((below[5000], below[6000], below[9000]), (77, data[6000], 55));
    }
}

#[test]
fn the_kernel_s_copies_of_a_mapped_file_leave_with_our_pages() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::write(mounted.seen("mapped"), pattern(1, 64 << 10)).expect("a file");
    fs::write(mounted.seen("other"), pattern(2, 4 << 20)).expect("a file");
    let file = open(&mounted, "mapped");
    let map = Map::new(&file, 64 << 10, MapFlags::SHARED);
    (0..16).for_each(|page| assert_eq!(map.get(page * 4096), pattern(1, 64 << 10)[page * 4096]));
    assert_eq!(resident(&map), 16, "the program's pages are the kernel's copies");
    // It takes the frames of all others.
    fs::read(mounted.seen("other")).expect("a read");
    wait_until("the copies have left", || resident(&map) == 0);
    assert_eq!(map.get(4096), pattern(1, 64 << 10)[4096], "and come again");
    drop((map, file));
    mounted.stop();
}

#[test]
fn a_miss_of_a_mapping_brings_a_long_window_until_many_have_missed() {
    const PAGE: usize = 4096;
    // Windows of 32 pages, over places 40 pages apart.
    const PLACES: usize = 300;
    let mounted = Mounted::start(|options, config| {
        options.readahead = 32 * PAGE as u32;
        *config = Config::new(64 << 20, Spec::parse("lru").expect("a policy"));
    });
    let Some(mounted) = mounted else { return };
    let length = PLACES * 40 * PAGE;
    let read_ahead = || mounted.mount.statistics().pages_read_ahead;
    let data = pattern(3, length);
    for name in ["in order", "at random"] {
        fs::write(mounted.below(name), &data).expect("a file below");
    }
    let file = open(&mounted, "in order");
    let map = Map::new(&file, length, MapFlags::SHARED);
    // Not from the start of the file, where every read begins a window.
    for page in 1000..1010 {
        assert_eq!(map.get(page * PAGE), data[page * PAGE]);
    }
    wait_until("a window of 32 pages and the next one are read", || read_ahead() == 31 + 32);
    drop((map, file));

    let before = read_ahead();
    let file = open(&mounted, "at random");
    let map = Map::new(&file, length, MapFlags::SHARED);
    // Each place once, and no neighbours one after the other.
    for turn in 0..PLACES {
        map.get((7 + turn * 133 % PLACES * 40) * PAGE);
    }
    wait_until("all reads have ended", || !mounted.pool.is_reading_ahead());
    let windows = (read_ahead() - before) / 31;
    assert!((90..=101).contains(&windows), "{windows} of {PLACES} misses brought a window");
    drop((map, file));
    mounted.stop();
}

/// Pages of a map that the kernel holds.
fn resident(map: &Map) -> usize {
    let mut pages = vec![0u8; map.1 / 4096];
    // SAFETY: the range is the map's, and there is a byte for each of its pages.
    assert_eq!(unsafe { libc::mincore(map.0.cast(), map.1, pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

#[test]
fn a_program_runs_from_the_mount() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::copy("/bin/true", mounted.seen("program")).expect("a program");
    let runs = || std::process::Command::new(mounted.seen("program")).status();
    // A process that another test has just forked has this one's open files until it becomes a program.
    wait_until("nobody has it open for writing", || {
        !runs().is_err_and(|error| error.kind() == std::io::ErrorKind::ExecutableFileBusy)
    });
    for _ in 0..3 {
        assert!(runs().expect("it runs").success());
    }
    mounted.stop();
}

#[test]
fn files_opened_with_o_direct_are_read_and_written() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::write(mounted.seen("file"), pattern(5, 100_000)).expect("a file");
    let direct = OFlags::DIRECT.bits() as i32;
    let mut file = File::options().read(true).custom_flags(direct).open(mounted.seen("file")).expect("it opens");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("a read");
    assert!(bytes == pattern(5, 100_000));
    drop(file);
    mounted.stop();
}

#[test]
fn a_read_beside_one_who_cuts_the_file_is_short_and_no_error() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let (file, reader) = (open(&mounted, "cut"), open(&mounted, "cut"));
    let end = Instant::now() + Duration::from_secs(2);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for length in (0u64..).map(|turn| turn * 7919 % 300_000).take_while(|_| Instant::now() < end) {
                file.set_len(length).unwrap();
            }
        });
        let mut room = vec![1; 50_000];
        for offset in (0u64..).map(|turn| turn * 10_007 % 300_000).take_while(|_| Instant::now() < end) {
            let length = reader.read_at(&mut room, offset).unwrap();
            assert!(room[..length].iter().all(|&byte| byte == 0));
        }
    });
}
