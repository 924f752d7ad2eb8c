//! The memory of the process follows the capacity: one test alone in its process, whose memory it measures.

#[path = "all/common/mod.rs"]
mod common;

use common::Zeroes;
use forebay_policy::Spec;
use forebay_pool::{Config, Pool, VolumeConfig};
use std::sync::Arc;

const PAGE: u64 = 4096;

/// Bytes of the process that are in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let kib = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("a number of KiB") << 10
}

#[test]
fn frames_take_no_more_memory_than_the_capacity_before_and_after_it_is_changed() {
    const CAPACITY: u64 = 64 << 20;
    // Numbers, table and policy, and what the process takes on its own account.
    const REST: u64 = 12 << 20;
    let before = resident();
    let policy = Spec::parse("lru").expect("a policy");
    let pool = Pool::new(Config::new(CAPACITY, policy)).expect("a pool");
    let volume = pool.attach(Arc::new(Zeroes::default()), VolumeConfig { readahead: 0, ..VolumeConfig::new("zeroes") });
    let handle = pool.handle().expect("a handle");
    let mut buffer = vec![0; 1 << 20];
    for capacity in [CAPACITY, CAPACITY / 8, CAPACITY / 2] {
        pool.resize(capacity).expect("nothing is held");
        for offset in (0..2 * CAPACITY).step_by(buffer.len()) {
            handle.read_at(&volume, offset, &mut buffer).expect("zeroes");
        }
        // The laundry keeps its frames, a 32nd of those that there were at first.
        let frames = u64::from(pool.statistics().resident) * PAGE;
        assert_eq!(frames, capacity - CAPACITY / 32);
        let grown = resident() - before;
        assert!(grown <= capacity + REST, "{grown} bytes for a capacity of {capacity}");
        assert!(grown > capacity / 2, "the pages are in memory");
    }
}
