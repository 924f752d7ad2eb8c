//! The memory of a process with regions larger than their limit. A program of its own, as nobody else may use memory meanwhile.

use forebay_pager::{Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{FileDevice, FileOptions};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Duration;

const PART: usize = 4096;

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// What is used: regions that are `times` as large as the memory together, each of a file, by several threads.
#[derive(Clone, Copy, Debug)]
struct Use {
    regions: usize,
    threads: usize,
    policy: &'static str,
    memory: usize,
    times: usize,
    page_size: u32,
    swap: bool,
    in_place: bool,
}

/// Reads and writes all of parts of regions, in order and not, page by page by turns.
fn use_parts(mut regions: Vec<&mut [u8]>, page_size: u32) {
    for part in 0..regions.iter().map(|region| region.len() / PART).max().unwrap_or(0) {
        for region in &mut regions {
            region[part * PART] += 1;
        }
    }
    for region in regions {
        let parts = region.len() / PART;
        // Each of them may read a whole page.
        let (steps, mut sum) = (parts / 2 / (page_size as usize >> 16).max(1), 0);
        for step in 0..steps {
            sum += u64::from(region[step * 7919 % parts * PART]);
        }
        assert_eq!(sum, steps as u64);
    }
}

/// Reads and writes all regions: the most memory that was seen at any time, and how many pages they have.
fn use_regions(folder: &Path, used: Use) -> (usize, usize) {
    let spec = Spec::parse(used.policy).expect("a policy");
    let Use { page_size, swap, in_place, .. } = used;
    let options = Options { page_size, swap, in_place, ..Options::new(used.memory as u64, spec) };
    let pager = Pager::new(&options).expect("a pager");
    let map = |number: usize| {
        let path = folder.join(number.to_string());
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len((used.memory * used.times / used.regions) as u64).expect("it has room");
        // Through the kernel's page cache, which counts for nobody: it is quicker.
        let device =
            FileDevice::open(&path, FileOptions { direct: false, ..FileOptions::default() }).expect("the file");
        Region::map(&pager, Arc::new(device), VolumeConfig::new("region")).expect("a region")
    };
    let mut regions: Vec<Region> = (0..used.regions).map(map).collect();
    let length: usize = regions.iter().map(|region| region.len()).sum();
    // A thread has parts of several regions, or one of a region's.
    let cut = used.threads.div_ceil(used.regions);
    let mut by_thread: Vec<Vec<&mut [u8]>> = (0..used.threads).map(|_| Vec::new()).collect();
    let parts = regions.iter_mut().flat_map(|region| {
        let length = region.len() / cut;
        region.chunks_exact_mut(length)
    });
    parts.enumerate().for_each(|(number, part)| by_thread[number % used.threads].push(part));
    let (most, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    scope(|threads| {
        let watching = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(resident(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        scope(|users| by_thread.into_iter().for_each(|parts| _ = users.spawn(move || use_parts(parts, page_size))));
        done.store(true, Ordering::Relaxed);
        watching.join().expect("it watches");
    });
    regions.into_iter().for_each(|region| region.close().expect("it is written"));
    drop(pager);
    for number in 0..used.regions {
        std::fs::remove_file(folder.join(number.to_string())).expect("it is removed");
    }
    (most.into_inner(), length / used.page_size as usize)
}

/// Says in a child of the test which use is its own.
const OWN: &str = "FOREBAY_PAGER_TEST_USE";

#[test]
fn it_is_never_above_the_limit_and_2_percent_and_64_bytes_a_page() {
    let of = |policy, megabytes: usize, times| {
        let (memory, page_size, swap, in_place) = (megabytes << 20, 4096, false, false);
        Use { regions: 1, threads: 2, policy, memory, times, page_size, swap, in_place }
    };
    let uses = [
        of("clock", 16, 8),
        of("clock-pro", 16, 8),
        of("mq", 16, 4),
        of("lru", 64, 4),
        of("clock-pro", 64, 2),
        of("mq", 64, 4),
        Use { page_size: 64 << 10, ..of("car", 64, 4) },
        Use { swap: true, ..of("clock-pro", 16, 8) },
        Use { swap: true, ..of("lru", 64, 4) },
        Use { page_size: 2 << 20, ..of("clock-pro", 64, 4) },
        Use { page_size: 2 << 20, regions: 32, threads: 8, ..of("clock-pro", 32, 4) },
        Use { page_size: 2 << 20, regions: 32, threads: 8, swap: true, ..of("lru", 32, 4) },
        Use { page_size: 64 << 10, regions: 32, threads: 8, ..of("clock-pro", 32, 4) },
        Use { regions: 16, threads: 4, ..of("clock-pro", 16, 8) },
        Use { in_place: true, ..of("clock-pro", 16, 8) },
        Use { in_place: true, ..of("mq", 64, 4) },
        Use { in_place: true, page_size: 64 << 10, ..of("car", 64, 4) },
        Use { in_place: true, swap: true, ..of("lru", 64, 4) },
    ];
    let Ok(own) = std::env::var(OWN) else {
        // Each in a process of its own: what one has given back the next would take without being seen.
        for (number, used) in uses.iter().enumerate() {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            let output = command.arg("--nocapture").env(OWN, number.to_string()).output().expect("it runs");
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            assert!(output.status.success(), "{used:?}: {said}");
            said.lines().filter(|line| line.starts_with("Use")).for_each(|line| println!("{line}"));
        }
        return;
    };
    let used = uses[own.parse::<usize>().expect("a number")];
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    // The program's own code is read into memory before it is measured.
    use_regions(folder.path(), of("lru", 1, 8));
    let before = resident();
    let (most, pages) = use_regions(folder.path(), used);
    let (seen, bar) = (most.saturating_sub(before), used.memory + used.memory / 50 + 64 * pages);
    println!("{used:?}: {} KiB, {} KiB at most", seen >> 10, bar >> 10);
    assert!(seen > used.memory / 2, "{used:?}: {seen} bytes cannot be all");
    assert!(seen <= bar, "{used:?}: {seen} bytes, {bar} at most");
}
