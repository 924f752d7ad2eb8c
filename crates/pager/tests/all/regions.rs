//! What programs find in regions: their own bytes, in as much memory as was given.

use crate::common::{PAGE, ended, in_another_process, limit, map, options, pager, region, role, say, stored};
use forebay_pager::{Advice, Options, Pager, Region, Watch};
use forebay_policy::Spec;
use forebay_pool::device::{Device, MemoryDevice};
use forebay_pool::{VolumeConfig, WriteMode};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::io::IoSlice;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Reads and writes a region at random, and along a loop, and compares it with what ought to be there.
fn use_it(region: &mut [u8], known: &mut [u8], random: &mut Xoshiro256PlusPlus, steps: usize, label: &str) {
    let pages = region.len() / PAGE;
    for step in 0..steps {
        let page = if step % 4 == 0 { random.next_u32() as usize % pages } else { step / 4 % (pages / 5) };
        let at = page * PAGE + random.next_u32() as usize % PAGE;
        assert_eq!(region[at], known[at], "{label}, step {step}, byte {at}");
        if random.next_u32().is_multiple_of(2) {
            known[at] = random.next_u32() as u8;
            region[at] = known[at];
        }
    }
}

#[test]
fn a_program_finds_what_it_wrote_under_every_policy() {
    let _limit = limit("a program under every policy");
    for spec in Spec::all().into_iter().filter(|spec| !spec.needs_future()) {
        let (pager, mut region, device) = region(&spec.label, 64 * PAGE, 512 * PAGE);
        let mut known = vec![0_u8; region.len()];
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..3 {
            use_it(&mut region, &mut known, &mut random, 2000, &spec.label);
            region.sync().expect("it is written");
            assert!(stored(&*device) == known, "{}: what was written is in storage", spec.label);
        }
        let faults = pager.faults();
        assert!(faults.major > 0 && faults.protection > 0 && faults.failed == 0, "{}: {faults:?}", spec.label);
        region.close().expect("nothing is left to write");
    }
}

#[test]
fn a_private_region_changes_and_its_device_does_not() {
    let _limit = limit("a private region");
    let device = Arc::new(MemoryDevice::new(256 * PAGE as u64 + 100));
    let mut known: Vec<u8> = (0..device.len()).map(|at| (at % 251) as u8).collect();
    device.write(0, &[IoSlice::new(&known)]).expect("it is written");
    let before = known.clone();
    let pager = pager("clock-pro", 32 * PAGE);
    let folder = std::env::temp_dir();
    let shared = Arc::clone(&device) as Arc<dyn Device>;
    let mut region = Region::map_private(&pager, shared, VolumeConfig::new("private"), &folder).expect("a region");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let length = known.len();
    use_it(&mut region[..length], &mut known, &mut random, 6000, "private");
    region.sync().expect("there is swap space");
    assert!(region[..length] == known[..], "what was written is there");
    // Pages 20 to 39 are the device's again, a part of another does not change, and what is written without a fault is seen.
    let page = PAGE as u64;
    region.advise(20 * page - 10, 20 * page + 20, Advice::Discard).expect("storage takes it");
    region.write(40 * page, &[7; 3 * PAGE]).expect("it is written");
    known[20 * PAGE..40 * PAGE].copy_from_slice(&before[20 * PAGE..40 * PAGE]);
    known[40 * PAGE..43 * PAGE].fill(7);
    assert!(region[..length] == known[..], "what was discarded is the device's");
    assert!(region.write(length as u64, &[1]).is_err(), "there is nothing behind the end");
    region.discard().expect("nothing is written");
    assert!(stored(&*device) == before, "the device has not changed");
}

#[test]
fn eight_threads_find_what_they_wrote_in_an_eighth_of_the_memory() {
    let _limit = limit("eight threads");
    for policy in ["clock-pro", "lru", "dulo"] {
        let (pager, mut region, device) = region(policy, 256 * PAGE, 2048 * PAGE);
        let mut known = vec![0_u8; region.len()];
        let part = region.len() / 8;
        std::thread::scope(|scope| {
            for (seed, (region, known)) in region.chunks_mut(part).zip(known.chunks_mut(part)).enumerate() {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
                scope.spawn(move || use_it(region, known, &mut random, 4000, policy));
            }
        });
        region.sync().expect("it is written");
        assert!(stored(&*device) == known, "{policy}");
        assert!(pager.statistics().resident <= 256);
    }
}

#[test]
fn regions_share_one_limit_and_go_one_by_one() {
    let _limit = limit("regions that share a limit");
    let pager = pager("lru", 64 * PAGE);
    let devices: Vec<_> = (1..=3).map(|pages| Arc::new(MemoryDevice::new((100 * pages * PAGE) as u64))).collect();
    let mut regions: Vec<Region> = devices.iter().map(|device| map(&pager, device)).collect();
    for turn in 1..=3_u8 {
        for region in &mut regions {
            region.iter_mut().step_by(PAGE).for_each(|byte| *byte = turn);
        }
        assert!(pager.statistics().resident <= 64);
        let region = regions.pop().expect("one is left");
        region.close().expect("it is written");
        let device = &devices[regions.len()];
        assert!(stored(&**device).iter().step_by(PAGE).all(|&byte| byte == turn));
    }
    assert_eq!(pager.statistics().resident, 0, "nobody has pages any more");
}

#[test]
fn the_last_page_of_a_device_that_ends_inside_it_reads_as_zeroes_behind_the_end() {
    let _limit = limit("a device that ends inside a page");
    let device = Arc::new(MemoryDevice::new(10 * PAGE as u64 + 100));
    let pager = pager("lru", 16 * PAGE);
    let mut region = map(&pager, &device);
    assert_eq!(region.len(), 11 * PAGE);
    region[10 * PAGE + 99] = 1;
    region[10 * PAGE + 100] = 2;
    region.close().expect("it is written");
    assert_eq!(stored(&*device)[10 * PAGE + 99], 1);
    let region = map(&pager, &device);
    assert_eq!(region[10 * PAGE + 98..][..4], [0, 1, 0, 0]);
}

#[test]
fn pages_of_every_size_come_and_go() {
    let _limit = limit("pages of every size");
    for page_size in (12..=21).map(|bits| 1 << bits) {
        let options =
            Options { page_size, ..options(32 * u64::from(page_size), Spec::parse("car").expect("a policy")) };
        let pager = Pager::new(&options).expect("a pager");
        let device = Arc::new(MemoryDevice::new(100 * u64::from(page_size)));
        let mut region = map(&pager, &device);
        for turn in 0..2 {
            for at in (0..region.len()).step_by(page_size as usize / 2) {
                assert_eq!(region[at], turn, "pages of {page_size} bytes, byte {at}");
                region[at] = turn + 1;
            }
        }
        let faults = pager.faults();
        assert!(faults.major + faults.minor + faults.protection >= 100, "{faults:?}");
    }
}

#[test]
fn uses_of_resident_pages_are_seen_while_others_are_missed_and_cost_nothing_otherwise() {
    let _limit = limit("uses that are seen");
    let hot_faults = |sampling: f64| {
        // Of so small a limit three quarters are pages: 258.
        let options = Options { sampling, ..options(344 * PAGE as u64, Spec::parse("lru").expect("a policy")) };
        let pager = Pager::new(&options).expect("a pager");
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(4096 * PAGE as u64));
        let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("region") };
        let region = Region::map(&pager, device, config).expect("a region");
        let touch = |page: usize| std::hint::black_box(region[page * PAGE]);
        // Pages 0 to 99 are used all the time, beside a scan of the others.
        for turn in 0..40 {
            for page in 0..100 {
                touch(page);
            }
            for page in 0..90 {
                touch(100 + (turn * 90 + page) % 3900);
            }
        }
        // What is resident is used without a fault.
        let before = pager.faults();
        for _ in 0..100 {
            touch(100 + 39 * 90 + 89);
        }
        let after = pager.faults();
        assert!(after.major + after.minor - before.major - before.minor <= 1, "{before:?} {after:?}");
        after
    };
    let (blind, seeing) = (hot_faults(0.0), hot_faults(1.0));
    assert_eq!((blind.minor, blind.unmapped), (0, 0));
    assert!(seeing.minor > 0 && seeing.unmapped >= seeing.minor, "{seeing:?}");
    assert!(seeing.major < blind.major, "the pages that are used stay: {seeing:?} {blind:?}");
}

#[test]
fn who_writes_forward_to_swap_space_has_few_faults_and_a_file_gets_no_page_that_was_not_written_to() {
    let _limit = limit("writes in order");
    let written = |swap: bool, pages: usize| {
        let options = Options { swap, ..options(256 * PAGE as u64, Spec::parse("lru").expect("a policy")) };
        let pager = Pager::new(&options).expect("a pager");
        let device = Arc::new(MemoryDevice::new(1024 * PAGE as u64));
        let mut region = map(&pager, &device);
        for page in 0..pages {
            region[page * PAGE + 9] = (page % 251) as u8 + 1;
        }
        let in_order = pager.faults();
        for page in 0..pages {
            assert_eq!(region[page * PAGE + 9], (page % 251) as u8 + 1, "page {page}");
        }
        region.sync().expect("it is written");
        let stored = stored(&*device);
        assert!((0..pages).all(|page| stored[page * PAGE + 9] == (page % 251) as u8 + 1), "all of it");
        let wrote = pager.statistics().volumes[0].pages_written_back;
        (in_order.major + in_order.minor + in_order.protection, wrote)
    };
    let (faults, _) = written(true, 1000);
    assert!(faults < 500, "{faults} faults for 1,000 pages in order");
    let (faults, wrote) = written(false, 100);
    // A page that is written back before its program's write is done has a second fault, and is written back again.
    assert!(faults >= 100 && wrote <= faults, "{faults} faults, {wrote} pages written for 100 that were written to");
}

#[test]
fn wrong_settings_are_refused_with_what_is_right() {
    let options = options(1 << 20, Spec::parse("lru").expect("a policy"));
    let wrong = |options: Options| Pager::new(&options).err().expect("it is refused").to_string();
    assert!(wrong(Options { memory: 4096, ..options.clone() }).contains("16 pages, 64 KiB, or more"));
    for memory in [1 << 50, u64::MAX] {
        assert!(wrong(Options { memory, ..options.clone() }).contains("more than this machine's"));
    }
    assert!(wrong(Options { page_size: 5000, ..options.clone() }).contains("power of two from 4 KiB"));
    assert!(wrong(Options { threads: 0, ..options.clone() }).contains("1 to 1024"));
    assert!(wrong(Options { sampling: f64::NAN, ..options.clone() }).contains("from 0 to 1"));
    let future = Options { policy: Spec::parse("opt").expect("a policy"), ..options.clone() };
    assert!(wrong(future).contains("needs to know the future"));
    let pager = Pager::new(&options).expect("a pager");
    let refused = |length: u64, config: VolumeConfig| {
        let region = Region::map(&pager, Arc::new(MemoryDevice::new(length)), config);
        region.err().expect("it is refused").to_string()
    };
    assert!(refused(0, VolumeConfig::new("empty")).contains("empty: 0 bytes"));
    let through = VolumeConfig { mode: WriteMode::Through, ..VolumeConfig::new("through") };
    assert!(refused(1 << 20, through).contains("map it write-back"));
}

/// The bytes of files in memory that this process has mapped.
fn mapped_of_files_in_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is read");
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[test]
fn a_page_that_was_written_back_is_mapped_once_and_so_are_its_neighbours() {
    let _limit = limit("pages that are written back");
    if role().is_some() {
        let (_pager, mut region, _) = region("clock", 4096 * PAGE, 2048 * PAGE);
        region.fill(1);
        region.sync().expect("it is written");
        region.iter_mut().step_by(16 * PAGE).for_each(|byte| *byte = 2);
        let before = mapped_of_files_in_memory();
        region.sync().expect("it is written");
        say(&format!("{} pages more", mapped_of_files_in_memory().saturating_sub(before) / PAGE));
        return;
    }
    let test = "regions::a_page_that_was_written_back_is_mapped_once_and_so_are_its_neighbours";
    let (signal, said) = ended(in_another_process(test, "measure"));
    let more = said.lines().find_map(|line| line.strip_suffix(" pages more"));
    let more: usize = more.expect("it says").parse().expect("a number");
    assert!(signal.is_none() && more < 256, "{more} pages more than 2048 are mapped");
}

#[test]
fn pages_in_front_of_swap_space_are_written_as_they_must_leave() {
    let _limit = limit("pages that are written in the background");
    let spec = Spec::parse("clock").expect("a policy");
    for swap in [true, false] {
        let pager = Pager::new(&Options { swap, ..options(512 * PAGE as u64, spec.clone()) }).expect("a pager");
        // At least 384 pages are resident, of which all may be dirty but for a 16th.
        let mut region = map(&pager, &Arc::new(MemoryDevice::new(256 * PAGE as u64)));
        let written = || pager.statistics().volumes[0].pages_written_back;
        for round in 0..100 {
            region.iter_mut().step_by(PAGE).for_each(|byte| *byte = round);
            std::thread::sleep(Duration::from_millis(1));
        }
        if swap {
            assert_eq!(written(), 0);
        } else {
            // A quarter of the pages is dirty. The limit of time says what is waited for.
            while written() == 0 {
                std::thread::yield_now();
            }
        }
        region.close().expect("all is written");
    }
}

#[test]
fn a_region_lies_where_its_program_has_room_and_who_watches_sees_its_uses() {
    let _limit = limit("a region at an address");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&seen);
    let watch = Watch::new(move |address, write| own.lock().expect("nobody panics").push((address, write)));
    let options = Options::new((64 * PAGE) as u64, Spec::parse("lru").expect("a policy"));
    let pager = Pager::new(&Options { watch: Some(watch), ..options }).expect("a pager");
    let (flags, nothing) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, std::ptr::null_mut());
    // SAFETY: a new mapping touches no memory that is in use.
    let room = unsafe { libc::mmap(nothing, 20 * PAGE, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(room, libc::MAP_FAILED);
    let map_at = |address: usize| {
        let device = Arc::new(MemoryDevice::new((16 * PAGE) as u64));
        let address = NonNull::new(address as *mut u8).expect("an address");
        // SAFETY: the room is this test's, and long enough.
        unsafe { Region::map_at(&pager, device, VolumeConfig::new("region"), address) }
    };
    let wrong = map_at(room as usize + 100).err().expect("it is refused").to_string();
    assert!(wrong.contains("lies within a page"), "{wrong}");
    let mut region = map_at(room as usize + PAGE).expect("a region");
    assert_eq!(region.as_ptr() as usize, room as usize + PAGE);
    region[3 * PAGE] = 1;
    region[9 * PAGE] = 2;
    let base = region.as_ptr() as usize;
    assert_eq!(*seen.lock().expect("nobody panics"), [(base + 3 * PAGE, true), (base + 9 * PAGE, true)]);
    region.close().expect("it is written");
}

#[test]
fn swap_space_that_no_file_can_be_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Region::map_swap(&pager("lru", 64 * PAGE), folder.path(), 1 << 63).err().expect("no file is so long");
    assert_eq!(error.errno(), libc::EFBIG);
    let said = error.to_string();
    assert!(said.contains("8.0 EiB is longer than a file may be") && said.contains("name another folder"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is read").count(), 0, "nothing is left there");
}
