//! What a fault of the pager costs, and what a resident page does. Prints a line of JSON for each run.
//!
//! - As UMap's `pfbenchmark` takes it: every page of a range is touched once, in order or shuffled, by one thread or more; a quarter of the range fits.
//!   Beside it, in turn, the kernel's own `mmap` of the same file, which has no limit.
//! - A loop over pages that are all resident, beside the same loop over plain memory: with nothing else, and while another thread has a thousand faults a
//!   second in a memory that is full, so that mappings are taken away.
//!
//!     cargo run --release -p forebay-bench --example pager_faults -- FILE [POLICY [THREADS [ROUNDS]]]

use forebay_pager::{Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{FileDevice, FileOptions};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const PAGES: usize = 65_536;
const RESIDENT: usize = 16_384;

/// Pages of the loop over what is resident: a part of the memory, which the rest of it leaves in peace.
const LOOP: usize = 8192;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a file, made for this");
    let policy = arguments.next().unwrap_or_else(|| "clock-pro".to_owned());
    let threads: usize = arguments.next().map_or(1, |threads| threads.parse().expect("a number of threads"));
    let rounds: usize = arguments.next().map_or(1, |rounds| rounds.parse().expect("a number of rounds"));
    std::fs::File::create(&path).and_then(|file| file.set_len((PAGES * PAGE) as u64)).expect("the file");
    let path = Path::new(&path);
    for _ in 0..rounds {
        for shuffled in [false, true] {
            for write in [false, true] {
                let order = order(shuffled);
                for (system, microseconds) in [
                    ("pager", of_pager(path, &policy, threads, &order, write, false)),
                    ("pager in place", of_pager(path, &policy, threads, &order, write, true)),
                    ("kernel mmap", of_kernel(path, threads, &order, write)),
                ] {
                    println!(
                        "{{\"system\": \"{system}\", \"policy\": \"{policy}\", \"threads\": {threads}, \"shuffled\": {shuffled}, \"write\": {write}, \"us_a_page\": {microseconds:.2}}}"
                    );
                }
            }
        }
        for (in_place, faults) in [(false, false), (true, false), (false, true), (true, true)] {
            let (plain, pager) = resident(path, &policy, faults, in_place);
            println!(
                "{{\"policy\": \"{policy}\", \"in_place\": {in_place}, \"beside_faults\": {faults}, \"plain_ns_a_page\": {plain:.1}, \"pager_ns_a_page\": {pager:.1}, \"ratio\": {:.3}}}",
                pager / plain
            );
        }
    }
}

fn order(shuffled: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..PAGES).collect();
    if shuffled {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for last in (1..PAGES).rev() {
            order.swap(last, random.next_u64() as usize % (last + 1));
        }
    }
    order
}

/// Touches each page, and answers the microseconds that one took.
fn touch_all(base: usize, threads: usize, order: &[usize], write: bool) -> f64 {
    let start = Instant::now();
    scope(|scope| {
        for part in order.chunks(PAGES.div_ceil(threads)) {
            scope.spawn(move || {
                for &page in part {
                    let byte = (base + page * PAGE) as *mut u8;
                    // SAFETY: a byte of the mapping, which lives longer than this thread; each page is one thread's.
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
    start.elapsed().as_secs_f64() * 1e6 / PAGES as f64
}

fn map(path: &Path, policy: &str, in_place: bool) -> (Arc<Pager>, Region) {
    let spec = Spec::parse(policy).expect("a policy");
    let options = Options { in_place, ..Options::new((RESIDENT * PAGE) as u64, spec) };
    let pager = Pager::new(&options).expect("a pager");
    let device = FileDevice::open(path, FileOptions { direct: false, ..FileOptions::default() }).expect("the file");
    let region = Region::map(&pager, Arc::new(device), VolumeConfig::new("region")).expect("a region");
    (pager, region)
}

fn of_pager(path: &Path, policy: &str, threads: usize, order: &[usize], write: bool, in_place: bool) -> f64 {
    let (pager, region) = map(path, policy, in_place);
    let microseconds = touch_all(region.as_ptr() as usize, threads, order, write);
    eprintln!("{:?}", pager.faults());
    region.close().expect("it is written");
    microseconds
}

fn of_kernel(path: &Path, threads: usize, order: &[usize], write: bool) -> f64 {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let file = std::fs::File::options().read(true).write(true).open(path).expect("the file");
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at addresses of the kernel's choice touches no memory that is in use.
    let base = unsafe { mmap(std::ptr::null_mut(), PAGES * PAGE, protection, MapFlags::SHARED, &file, 0) };
    let base = base.expect("a mapping");
    let microseconds = touch_all(base as usize, threads, order, write);
    // SAFETY: the mapping of above, whose threads have ended.
    unsafe { munmap(base, PAGES * PAGE) }.expect("it was mapped");
    microseconds
}

/// Reads a word of each line of each page, and answers the nanoseconds that a page took.
fn read_all(bytes: &[u8]) -> f64 {
    let start = Instant::now();
    let mut sum = 0_u64;
    for line in bytes.chunks_exact(64) {
        sum = sum.wrapping_add(u64::from_ne_bytes(line[..8].try_into().expect("8 bytes")));
    }
    black_box(sum);
    start.elapsed().as_secs_f64() * 1e9 / (bytes.len() / PAGE) as f64
}

/// The medians of plain memory and of the region, read in turn.
fn resident(path: &Path, policy: &str, faults: bool, in_place: bool) -> (f64, f64) {
    let (pager, region) = map(path, policy, in_place);
    let plain = vec![1_u8; LOOP * PAGE];
    let (looped, others) = region.split_at(LOOP * PAGE);
    let over = AtomicBool::new(false);
    let (mut of_plain, mut of_pager) = (Vec::new(), Vec::new());
    if faults {
        // Then each fault evicts a page, and the policy's hands come by the loop's.
        others.iter().step_by(PAGE).take(RESIDENT).for_each(|byte| _ = black_box(*byte));
    }
    scope(|scope| {
        if faults {
            scope.spawn(|| {
                for page in (0..others.len() / PAGE).cycle() {
                    black_box(others[page * 7919 % (others.len() / PAGE) * PAGE]);
                    std::thread::sleep(Duration::from_millis(1));
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        for _ in 0..3 {
            read_all(looped);
        }
        let before = pager.faults();
        for _ in 0..501 {
            of_plain.push(read_all(&plain));
            of_pager.push(read_all(looped));
        }
        let after = pager.faults();
        eprintln!("{} major and {} minor faults meanwhile", after.major - before.major, after.minor - before.minor);
        over.store(true, Ordering::Relaxed);
    });
    region.close().expect("it is written");
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(&mut of_plain), median(&mut of_pager))
}
