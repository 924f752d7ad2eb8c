//! One trace, replayed by one thread through the pool and through the simulator, gives equal hits under every policy.

use crate::common;
use crate::forecast::{PAGE_SIZE, by_page, ends_of_objects, load, on_line, sample, simulated};

use common::Zeroes;
use forebay_basis::{Operation, Place};
use forebay_policy::Spec;
use forebay_policy::managers::{Assignment, Manager};
use forebay_pool::{Config, Durability, Pool, Volume, VolumeConfig, WriteMode};
use forebay_sim::{Keep, Trace};
use std::sync::Arc;
use std::time::Instant;

/// The most that is read ahead of a stream, in the tests that read ahead.
const READAHEAD: u32 = 128 << 10;

/// How many of the sample's references are replayed there: the pool waits for its readers at each.
const REFERENCES: usize = 50_000;

/// A run of the pool.
#[derive(Clone, Copy)]
struct Cache {
    /// The frames of its policy.
    pages: u32,
    /// For how many it keeps numbers.
    known_pages: u32,
    readahead: u32,
}

/// The hits of the pool, and the pages that it has read ahead. Without readahead writes go behind; with it through, as readahead gives way to
/// a laundry that is full.
fn cached(trace: &Trace, spec: &Spec, Cache { pages, known_pages, readahead }: Cache) -> (u64, u64) {
    let laundry = 3;
    let capacity = u64::from(pages + laundry) * u64::from(PAGE_SIZE);
    let config = Config { laundry, known_pages, ..Config::new(capacity, spec.clone()).with_page_size(PAGE_SIZE) };
    let pool = Pool::new(config).expect("a pool");
    let attach = |Place { object, block }| {
        let mode = if readahead == 0 { WriteMode::Back } else { WriteMode::Through };
        let config = VolumeConfig { readahead, mode, ..VolumeConfig::new(object.to_string()) };
        pool.attach(Arc::new(Zeroes { length: block * u64::from(PAGE_SIZE) }), config)
    };
    let volumes: Vec<Arc<Volume>> = ends_of_objects(trace).into_iter().map(attach).collect();
    let handle = pool.handle().expect("a handle");
    let mut bytes = vec![7; PAGE_SIZE as usize];
    let ends = trace.requests.first.iter().skip(1).copied().chain([trace.len() as u32]);
    for (request, end) in ends.enumerate() {
        handle.set_owner(trace.requests.owner[request]);
        for &page in &trace.references[trace.requests.first[request] as usize..end as usize] {
            let place = trace.places.of(page);
            let volume = &volumes[place.object as usize];
            let offset = place.block * u64::from(PAGE_SIZE);
            match trace.requests.operation[request] {
                Operation::Write => handle.write_at(volume, offset, &bytes, Durability::Flush).expect("a write"),
                _ if readahead > 0 => handle.read_at(volume, offset, &mut bytes).expect("a read"),
                _ => assert_eq!(handle.read(volume, place.block).expect("a read").len(), PAGE_SIZE as usize),
            }
            let deadline = Instant::now() + common::PATIENCE;
            while pool.is_reading_ahead() {
                assert!(Instant::now() < deadline, "waited in vain for what is read ahead");
                std::thread::yield_now();
            }
        }
    }
    drop(handle);
    pool.flush().expect("a flush");
    pool.check_invariants();
    let statistics = pool.statistics();
    assert_eq!(statistics.hits + statistics.misses, trace.len() as u64, "{}", spec.label);
    (statistics.hits, statistics.volumes.iter().map(|volume| volume.pages_read_ahead).sum())
}

#[test]
fn every_policy_has_the_same_hits_in_the_pool_and_in_the_simulator() {
    let trace = sample();
    for pages in [90, 900] {
        // The simulator knows all pages that there will be.
        check_equal(&trace, &on_line(), Cache { pages, known_pages: trace.pages, readahead: 0 });
    }
}

#[test]
fn every_policy_has_the_same_hits_with_readahead() {
    let trace = by_page(sample(), REFERENCES);
    for pages in [90, 900] {
        check_equal(&trace, &on_line(), Cache { pages, known_pages: trace.pages, readahead: READAHEAD });
    }
}

#[test]
fn tiny_caches_have_the_same_hits_with_windows_larger_than_they_are() {
    // Two scans in turns, of files of 64 pages, beside random reads and writes of four of them.
    let mut random = 7_u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let row =
        |(file, page, word): (u64, u64, &str)| format!("{file},{},{PAGE_SIZE},{word}\n", page * u64::from(PAGE_SIZE));
    let rows = (0..400).flat_map(|at| {
        let word = if next(8) == 0 { "write" } else { "read" };
        [(0, at % 64, "read"), (next(4), next(64), word), (1, at / 2 % 64, "read")]
    });
    let text = format!("object,offset,length,operation\n{}", rows.map(row).collect::<String>());
    let input = forebay_trace::Input::from_bytes("test", text).expect("a text");
    let (_, mut reader) = forebay_trace::reader::read(input, &forebay_trace::Options::default()).expect("a trace");
    let (keep, page_size) = (Keep { places: true, requests: true }, Some(PAGE_SIZE.into()));
    let trace = Trace::load("test", reader.as_mut(), page_size, keep, &mut |_| {}).expect("it is well-formed");
    let references = trace.len();
    let trace = by_page(trace, references);
    for pages in [1, 2, 3, 4, 7, 16, 64] {
        check_equal(&trace, &on_line(), Cache { pages, known_pages: trace.pages, readahead: 8 * READAHEAD });
    }
}

#[test]
fn numbers_that_stand_for_other_pages_once_forgotten_change_no_hit() {
    // These remember by number what they know of places, or draw their sample by number.
    let by_number = |spec: &Spec| spec.info.remembers_by_number() || spec.info.name == "mq";
    let specs: Vec<Spec> = on_line().into_iter().filter(|spec| !by_number(spec)).collect();
    assert!(specs.iter().any(|spec| spec.info.name == "ubm"));
    check_equal(&sample(), &specs, Cache { pages: 90, known_pages: 0, readahead: 0 });
}

/// A loop over one file beside random reads of another: from one round to the next, far more pages are read than there are numbers for.
#[test]
fn ubm_finds_a_loop_though_more_than_four_times_the_frames_come_between() {
    const FRAMES: u32 = 64;
    let (length, rounds) = (6 * u64::from(FRAMES), 6);
    let mut text = String::from("object,offset,length,operation\n");
    for step in 0..length * rounds {
        let [looped, random] = [step % length, step * step * 7_919 % 20_011].map(|block| block * u64::from(PAGE_SIZE));
        text += &format!("loop,{looped},{PAGE_SIZE},read\nrandom,{random},{PAGE_SIZE},read\n");
    }
    let trace = load("loop-beside-random", text.into_bytes());
    let cache = Cache { pages: FRAMES, known_pages: 0, readahead: 0 };
    assert!(trace.pages > 4 * 4 * FRAMES, "{} pages", trace.pages);
    let [ubm, lru] = ["ubm", "lru"].map(|name| Spec::parse(name).expect("a policy"));
    check_equal(&trace, &[ubm.clone(), lru.clone()], cache);
    let hits = simulated(&trace, &[ubm, lru], (FRAMES, 0));
    // From the third round on nearly all frames hold blocks of the loop.
    assert!(hits[0].0 > hits[1].0 + u64::from(FRAMES) * (rounds - 2) * 3 / 4, "{hits:?}");
}

#[test]
fn mq_draws_the_same_sample_while_numbers_are_kept_for_it() {
    let (trace, spec, pages) = (sample(), Spec::parse("mq").expect("a policy"), 900);
    let config = Config::new(u64::from(pages) * u64::from(PAGE_SIZE), spec.clone()).with_page_size(PAGE_SIZE);
    assert!(config.known_pages >= trace.pages && trace.pages > 6 * pages, "more than residents and ghosts need");
    check_equal(&trace, &[spec], Cache { pages, known_pages: config.known_pages, readahead: 0 });
}

#[test]
fn who_uses_shared_files_once_has_the_same_hits() {
    let mut trace = by_page(sample(), REFERENCES);
    // Three owners use the same files in turns; what the last of them uses it uses once.
    trace.requests.owner.iter_mut().enumerate().for_each(|(request, owner)| *owner = request as u32 / 40 % 3);
    let managed = ["lru-sp", "lru-sp:manager=lru-k"].map(|text| {
        let spec = Spec::parse(text).expect("a policy");
        let mut assignment = Assignment::new(None);
        assignment.add(Manager::AccessOnce, Some(&[2]), None);
        Spec { managers: Some(Arc::new(assignment)), ..spec }
    });
    for (pages, readahead) in [(90, 0), (900, 0), (90, READAHEAD), (900, READAHEAD)] {
        check_equal(&trace, &managed, Cache { pages, known_pages: trace.pages, readahead });
        let plain = simulated(&trace, &[Spec::parse("lru-sp").expect("a policy")], (pages, readahead));
        assert_ne!(plain, simulated(&trace, &managed[..1], (pages, readahead)), "the rule changes something");
    }
}

fn check_equal(trace: &Trace, specs: &[Spec], cache: Cache) {
    let simulated = simulated(trace, specs, (cache.pages, cache.readahead));
    let cached: Vec<_> = specs.iter().map(|spec| cached(trace, spec, cache)).collect();
    let all = specs.iter().zip(&simulated).zip(&cached);
    let different: Vec<_> = all
        .filter(|((_, simulated), cached)| simulated != cached)
        .map(|((spec, simulated), cached)| (&spec.label, simulated, cached))
        .collect();
    let pages = cache.pages;
    assert!(different.is_empty(), "{pages} pages: policy, hits and pages read ahead simulated, cached: {different:#?}");
    let reads_ahead = cache.readahead > 0 && pages > 1;
    assert!(simulated.iter().all(|(_, ahead)| (*ahead > 0) == reads_ahead), "pages are read ahead");
}
