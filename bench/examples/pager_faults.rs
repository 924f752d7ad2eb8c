//! The time of a fault of the pager, as UMap's `pfbenchmark` takes it: every page of a range is touched once, in order or shuffled, by one thread or more; a
//! quarter of the range fits. Prints a line of JSON for each run.
//!
//!     cargo run --release -p forebay-bench --example pager_faults -- FILE [POLICY [THREADS]]

use forebay_pager::{Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{FileDevice, FileOptions};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const PAGE: usize = 4096;
const PAGES: usize = 65_536;
const RESIDENT: usize = 16_384;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a file, made for this");
    let policy = arguments.next().unwrap_or_else(|| "clock-pro".to_owned());
    let threads: usize = arguments.next().map_or(1, |threads| threads.parse().expect("a number of threads"));
    std::fs::File::create(&path).and_then(|file| file.set_len((PAGES * PAGE) as u64)).expect("the file");
    for shuffled in [false, true] {
        for write in [false, true] {
            let microseconds = touch_all(Path::new(&path), &policy, threads, shuffled, write);
            println!(
                "{{\"policy\": \"{policy}\", \"threads\": {threads}, \"shuffled\": {shuffled}, \"write\": {write}, \"us_a_page\": {microseconds:.2}}}"
            );
        }
    }
}

fn touch_all(path: &Path, policy: &str, threads: usize, shuffled: bool, write: bool) -> f64 {
    let mut order: Vec<usize> = (0..PAGES).collect();
    if shuffled {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for last in (1..PAGES).rev() {
            order.swap(last, random.next_u64() as usize % (last + 1));
        }
    }
    let spec = Spec::parse(policy).expect("a policy");
    let pager = Pager::new(&Options::new((RESIDENT * PAGE) as u64, spec)).expect("a pager");
    let device = FileDevice::open(path, FileOptions { direct: false, ..FileOptions::default() }).expect("the file");
    let region = Region::map(&pager, Arc::new(device), VolumeConfig::new("region")).expect("a region");
    let base = region.as_ptr() as usize;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for part in order.chunks(PAGES.div_ceil(threads)) {
            scope.spawn(move || {
                for &page in part {
                    let byte = (base + page * PAGE) as *mut u8;
                    // SAFETY: a byte of the region, which lives longer than this thread; each page is one thread's.
                    unsafe {
                        if write {
                            byte.write_volatile(1);
                        } else {
                            byte.read_volatile();
                        }
                    }
                }
            });
        }
    });
    let microseconds = start.elapsed().as_secs_f64() * 1e6 / PAGES as f64;
    eprintln!("{:?}", pager.faults());
    region.close().expect("it is written");
    microseconds
}
