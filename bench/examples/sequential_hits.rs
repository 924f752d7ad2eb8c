//! A thread reads pages of the pool in the order of their blocks, for callgrind to count what that takes: `bench/sequential_hits.py` builds and runs it.
//! With `resident` all pages are there, and each read is a plain hit. With `ahead` the volume has eight times as many pages as the cache, so each page is
//! read ahead, used once, and evicted. Prints how many pages were read, and the hits.
//!
//!     cargo run --release -p forebay-bench --example sequential_hits -- POLICY resident|ahead

use forebay_policy::Spec;
use forebay_pool::device::MemoryDevice;
use forebay_pool::{Config, Handle, Pool, Volume, VolumeConfig};
use std::sync::Arc;

const PAGE: u64 = 4096;
const FRAMES: u64 = 4096;

/// By this name callgrind finds what is counted: the reads, and not the wait for the threads that read ahead.
#[inline(never)]
fn counted_read(handle: &Handle, volume: &Arc<Volume>, block: u64, bytes: &mut [u8]) {
    handle.read_at(volume, block * PAGE, bytes).expect("a read of memory");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = Spec::parse(&arguments.next().expect("a policy")).expect("a policy");
    let ahead = arguments.next().expect("resident or ahead") == "ahead";
    let pool = Pool::new(Config::new(FRAMES * PAGE, spec)).expect("a pool");
    let blocks = if ahead { 8 * FRAMES } else { FRAMES / 2 };
    let config = VolumeConfig { readahead: 128 << 10, ..VolumeConfig::new("volume") };
    let volume = pool.attach(Arc::new(MemoryDevice::new(blocks * PAGE)), config);
    let handle = pool.handle().expect("a handle");
    let mut bytes = vec![0; PAGE as usize];
    if !ahead {
        (0..blocks).for_each(|block| handle.read_at(&volume, block * PAGE, &mut bytes).expect("a read of memory"));
    }
    let rounds = if ahead { 2 } else { 32 };
    for block in (0..rounds).flat_map(|_| 0..blocks) {
        counted_read(&handle, &volume, block, &mut bytes);
        while pool.is_reading_ahead() {
            std::thread::yield_now();
        }
    }
    drop(handle);
    println!("{} {}", rounds * blocks, pool.statistics().hits);
}
