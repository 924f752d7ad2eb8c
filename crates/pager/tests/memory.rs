//! The memory of a process with a region eight times as large as its limit. A program of its own, as nobody else may use memory meanwhile.

use forebay_pager::{Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{FileDevice, FileOptions};
use std::path::Path;
use std::sync::Arc;

const PAGE: usize = 4096;
const LIMIT: usize = 32 << 20;

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Uses a region of a file under a policy: the most memory that was seen, and how many pages the region has.
fn use_region(path: &Path, policy: &str, memory: usize) -> (usize, usize) {
    let pager = Pager::new(&Options::new(memory as u64, Spec::parse(policy).expect("a policy"))).expect("a pager");
    let device = Arc::new(FileDevice::open(path, FileOptions::default()).expect("the file"));
    let mut region = Region::map(&pager, device, VolumeConfig::new("region")).expect("a region");
    let (pages, mut most) = (region.len() / PAGE, 0);
    for (step, page) in (0..pages).chain(0..1000).enumerate() {
        region[page * PAGE] += 1;
        if step % 128 == 0 {
            most = most.max(resident());
        }
    }
    region.close().expect("it is written");
    (most, pages)
}

#[test]
fn it_is_never_above_the_limit_and_2_percent_and_64_bytes_a_page() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let path = folder.path().join("data");
    let file = std::fs::File::create(&path).expect("a file");
    // The program's own code is read into memory before it is measured.
    file.set_len(4 << 20).expect("it has room");
    use_region(&path, "lru", 1 << 20);
    file.set_len(8 * LIMIT as u64).expect("it has room");
    let before = resident();
    for policy in ["clock", "clock-pro", "lru"] {
        let (most, pages) = use_region(&path, policy, LIMIT);
        let (seen, bar) = (most - before, LIMIT + LIMIT / 50 + 64 * pages);
        assert!(seen > LIMIT / 2, "{policy}: {seen} bytes cannot be all");
        assert!(seen <= bar, "{policy}: {seen} bytes, {bar} at most");
    }
}
