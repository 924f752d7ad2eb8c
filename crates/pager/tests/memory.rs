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

/// What is used: a region of a file `times` as large as the memory.
#[derive(Clone, Copy, Debug)]
struct Use {
    policy: &'static str,
    memory: usize,
    times: usize,
    page_size: u32,
    swap: bool,
    in_place: bool,
}

/// Reads and writes all of a region from two threads, in order and not: the most memory that was seen at any time, and how many pages the region has.
fn use_region(path: &Path, used: Use) -> (usize, usize) {
    let file = std::fs::File::options().write(true).open(path).expect("the file");
    file.set_len((used.memory * used.times) as u64).expect("it has room");
    let spec = Spec::parse(used.policy).expect("a policy");
    let Use { page_size, swap, in_place, .. } = used;
    let options = Options { page_size, swap, in_place, ..Options::new(used.memory as u64, spec) };
    let pager = Pager::new(&options).expect("a pager");
    // Through the kernel's page cache, which counts for nobody: it is quicker.
    let device = FileDevice::open(path, FileOptions { direct: false, ..FileOptions::default() }).expect("the file");
    let mut region = Region::map(&pager, Arc::new(device), VolumeConfig::new("region")).expect("a region");
    let (parts, half) = (region.len() / PART, region.len() / 2);
    let (most, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    scope(|threads| {
        let watching = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(resident(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (first, second) = region.split_at_mut(half);
        scope(|users| {
            for region in [first, second] {
                users.spawn(move || {
                    let parts = region.len() / PART;
                    for part in 0..parts {
                        region[part * PART] += 1;
                    }
                    // Each of them may read a whole page.
                    let (steps, mut sum) = (parts / 2 / (page_size as usize >> 16).max(1), 0);
                    for step in 0..steps {
                        sum += u64::from(region[step * 7919 % parts * PART]);
                    }
                    assert_eq!(sum, steps as u64);
                });
            }
        });
        done.store(true, Ordering::Relaxed);
        watching.join().expect("it watches");
    });
    region.close().expect("it is written");
    drop(pager);
    std::fs::File::create(path).expect("it is emptied");
    (most.into_inner(), parts * PART / used.page_size as usize)
}

/// Says in a child of the test which use is its own.
const OWN: &str = "FOREBAY_PAGER_TEST_USE";

#[test]
fn it_is_never_above_the_limit_and_2_percent_and_64_bytes_a_page() {
    let of = |policy, megabytes: usize, times| {
        let (memory, page_size, swap, in_place) = (megabytes << 20, 4096, false, false);
        Use { policy, memory, times, page_size, swap, in_place }
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
    let path = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file").into_temp_path();
    // The program's own code is read into memory before it is measured.
    use_region(&path, of("lru", 1, 8));
    let before = resident();
    let (most, pages) = use_region(&path, used);
    let (seen, bar) = (most.saturating_sub(before), used.memory + used.memory / 50 + 64 * pages);
    println!("{used:?}: {} KiB, {} KiB at most", seen >> 10, bar >> 10);
    assert!(seen > used.memory / 2, "{used:?}: {seen} bytes cannot be all");
    assert!(seen <= bar, "{used:?}: {seen} bytes, {bar} at most");
}
