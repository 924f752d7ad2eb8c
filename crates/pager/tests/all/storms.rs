//! Many threads that read and write all of a region at random, in an eighth of its memory, while it is synced and its mappings are taken away.

use crate::common::{PAGE, limit, map, options, stored};
use forebay_pager::{Advice, Options, Pager};
use forebay_policy::Spec;
use forebay_pool::device::{Fault, Faulty, MemoryDevice, Rule, When};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAGES: usize = 2048;
const THREADS: u64 = 8;

/// For how many seconds each policy has a storm, if it is said: `FOREBAY_PAGER_STORM=360 cargo test -p forebay-pager eight_threads`.
const STORM: &str = "FOREBAY_PAGER_STORM";

/// What is written and checked as a whole: its number, how often it was written, numbers drawn from both, and their sum.
const RECORD: usize = 512;
const WORDS: usize = RECORD / 8;
const RECORDS: usize = PAGES * PAGE / RECORD;

fn record(number: usize, version: u64) -> [u64; WORDS] {
    let mut random = Xoshiro256PlusPlus::seed_from_u64((number as u64) << 32 | version);
    let mut words: [u64; WORDS] = std::array::from_fn(|_| random.next_u64());
    (words[0], words[1]) = (number as u64, version);
    words[WORDS - 1] = words[..WORDS - 1].iter().fold(0, |sum, &word| sum.rotate_left(1) ^ word);
    words
}

/// A record in memory, which one thread has at a time.
fn pointer(base: usize, number: usize) -> *mut [u64; WORDS] {
    (base + number * RECORD) as *mut [u64; WORDS]
}

#[test]
fn eight_threads_find_every_record_whole_in_an_eighth_of_the_memory() {
    let seconds = std::env::var(STORM).map_or(2, |seconds| seconds.parse().expect("a number of seconds"));
    let time = Duration::from_secs(seconds);
    let _limit = (seconds <= 2).then(|| limit("a storm under five policies"));
    for (policy, page_size) in [("clock-pro", 1), ("lru", 1), ("mq", 1), ("clock", 16), ("dulo", 1)] {
        let memory = (PAGES * PAGE / 8) as u64;
        let options = options(memory, Spec::parse(policy).expect("a policy"));
        let options = Options { page_size: (page_size * PAGE) as u32, sampling: 0.5, ..options };
        let pager = Pager::new(&options).expect("a pager");
        let slow = Rule { when: When::Chance(0.01), ..Rule::new(Fault::Stall(Duration::from_millis(3))) };
        let device = Arc::new(Faulty::new(MemoryDevice::new((PAGES * PAGE) as u64), vec![slow], 7));
        let region = map(&pager, &device);
        let base = region.as_ptr() as usize;
        let versions: Vec<Mutex<u64>> = (0..RECORDS).map(|_| Mutex::new(0)).collect();
        let (checked, over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for seed in 0..THREADS {
                let (versions, checked, over) = (&versions, &checked, &over);
                scope.spawn(move || {
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                    while !over.load(Ordering::Relaxed) {
                        // Half of the uses are of a tenth of the records.
                        let of = if random.next_u32() % 2 == 0 { RECORDS } else { RECORDS / 10 };
                        let number = random.next_u32() as usize % of;
                        let mut version = versions[number].lock().expect("no thread has failed");
                        // SAFETY: the record is this thread's as long as it has the lock.
                        let found = unsafe { pointer(base, number).read_volatile() };
                        let expected = if *version == 0 { [0; WORDS] } else { record(number, *version) };
                        assert!(found == expected, "{policy}: record {number}, version {version}: {found:?}");
                        if random.next_u32() % 2 == 0 {
                            *version += 1;
                            // SAFETY: as above.
                            unsafe { pointer(base, number).write_volatile(record(number, *version)) };
                        }
                        checked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let (mut random, start) = (Xoshiro256PlusPlus::seed_from_u64(99), Instant::now());
            while start.elapsed() < time {
                let page = random.next_u32() as usize % (PAGES - 64);
                let (at, length) = (page * PAGE, 64 * PAGE);
                match random.next_u32() % 4 {
                    0 => region.sync().expect("it is written"),
                    1 => region.advise(at as u64, length as u64, Advice::WillNeed).expect("it is read"),
                    2 => region.advise(at as u64, length as u64, Advice::DoNotNeed).expect("it leaves"),
                    // SAFETY: the range is the region's, whose bytes are in the pager's hands.
                    _ => assert_eq!(unsafe { libc::madvise((base + at) as *mut _, length, libc::MADV_DONTNEED) }, 0),
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            over.store(true, Ordering::Relaxed);
        });
        let (checked, faults, resident) = (checked.into_inner(), pager.faults(), pager.statistics().resident);
        assert!(checked > 2000 && faults.major > 500 && faults.failed == 0, "{policy}: {checked} records, {faults:?}");
        assert!(u64::from(resident) * (page_size * PAGE) as u64 <= memory, "{policy}: {resident} pages");
        region.close().expect("it is written");
        let stored = stored(device.device());
        for (number, version) in versions.into_iter().enumerate() {
            let version = version.into_inner().expect("no thread has failed");
            let expected = if version == 0 { [0; WORDS] } else { record(number, version) };
            let bytes = stored[number * RECORD..][..RECORD].chunks(8);
            let words = bytes.map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
            assert!(words.eq(expected), "{policy}: record {number}, version {version} in storage");
        }
        println!("{policy}: {checked} records, {} major faults, {} minor", faults.major, faults.minor);
    }
}
