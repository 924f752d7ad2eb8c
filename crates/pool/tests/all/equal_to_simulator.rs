//! One trace, replayed by one thread through the pool and through the simulator, gives equal hits under every policy.

use crate::common;

use common::Zeroes;
use forebay_policy::{Operation, Place, Spec};
use forebay_pool::{Config, Durability, Pool, Volume, VolumeConfig, WriteMode};
use forebay_sim::{Keep, Requests, RunOutcome, Sweep, Trace, Watch};
use forebay_trace::Options;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// That of the sample.
const PAGE_SIZE: u32 = 8192;

fn sample() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/sample.parquet");
    let (_, mut reader) = forebay_trace::open(&path, &Options::default()).expect("the sample opens");
    let keep = Keep { places: true, requests: true };
    Trace::load("sample", reader.as_mut(), None, keep, &mut |_| {}).expect("the sample is well-formed")
}

/// The most that is read ahead of a stream, in the tests that read ahead.
const READAHEAD: u32 = 128 << 10;

/// How many of the sample's references are replayed there: the pool waits for its readers at each.
const REFERENCES: usize = 50_000;

/// Each page as a request of its own, of which the pool sees as much as the simulator; and at the end the blocks that are passed over: a
/// policy that remembers pages which it no longer knows would take them for others, as their numbers come back at other times. The last
/// request writes, since the simulator reads nothing ahead behind the last one.
fn by_page(mut trace: Trace) -> Trace {
    let ends = trace.requests.first.iter().skip(1).copied().chain([trace.len() as u32]);
    let mut requests = Requests::default();
    let mut request = |first, owner, operation| {
        requests.first.push(first);
        requests.owner.push(owner);
        requests.operation.push(operation);
    };
    for (index, (&first, end)) in trace.requests.first.iter().zip(ends).enumerate() {
        let (owner, operation) = (trace.requests.owner[index], trace.requests.operation[index]);
        (first..end.min(REFERENCES as u32)).for_each(|reference| request(reference, owner, operation));
    }
    let known: BTreeSet<Place> = trace.places.iter().collect();
    let mut references = trace.references[..REFERENCES].to_vec();
    for end in ends_of_objects(&trace) {
        for place in (0..end.block).map(|block| Place { block, ..end }).filter(|place| !known.contains(place)) {
            request(references.len() as u32, 0, Operation::Read);
            references.push(trace.pages);
            trace.places.push(place);
            trace.pages += 1;
        }
    }
    request(references.len() as u32, 0, Operation::Write);
    references.push(0);
    Trace { requests, references: references.into(), ..trace }
}

/// The place behind the last page of each object.
fn ends_of_objects(trace: &Trace) -> Vec<Place> {
    let mut ends: Vec<Place> = Vec::new();
    for Place { object, block } in trace.places.iter() {
        (ends.len() as u32..=object).for_each(|object| ends.push(Place { object, block: 0 }));
        let end = &mut ends[object as usize];
        end.block = end.block.max(block + 1);
    }
    ends
}

/// Hits, and pages read ahead.
fn simulated(trace: &Trace, specs: &[Spec], Cache { pages, readahead, .. }: Cache) -> Vec<(u64, u64)> {
    let rule = if readahead == 0 { "none".to_owned() } else { format!("linux:max={}KiB", readahead >> 10) };
    let watch = Watch { readahead: rule.parse().expect("a rule"), ..Watch::default() };
    let sweep = Sweep { specs: specs.to_vec(), sizes: vec![pages], warmup: 0, threads: 0 };
    let fetched = |outcome: &RunOutcome| outcome.readahead.map_or(0, |counts| counts.fetched);
    let outcomes = sweep.run_watching(&watch, trace, &|_| true);
    outcomes.into_iter().map(|outcome| (outcome.total.hits, fetched(&outcome))).collect()
}

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

fn on_line() -> Vec<Spec> {
    Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect()
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
    let trace = by_page(sample());
    for pages in [90, 900] {
        check_equal(&trace, &on_line(), Cache { pages, known_pages: trace.pages, readahead: READAHEAD });
    }
}

#[test]
fn numbers_that_stand_for_other_pages_once_forgotten_change_no_hit() {
    // These look at places, or draw their sample by number.
    let by_number = |spec: &Spec| spec.info.uses.place || spec.info.name == "mq";
    let specs: Vec<Spec> = on_line().into_iter().filter(|spec| !by_number(spec)).collect();
    check_equal(&sample(), &specs, Cache { pages: 90, known_pages: 0, readahead: 0 });
}

#[test]
fn mq_draws_the_same_sample_while_numbers_are_kept_for_it() {
    let (trace, spec, pages) = (sample(), Spec::parse("mq").expect("a policy"), 900);
    let config = Config::new(u64::from(pages) * u64::from(PAGE_SIZE), spec.clone()).with_page_size(PAGE_SIZE);
    assert!(config.known_pages >= trace.pages && trace.pages > 6 * pages, "more than residents and ghosts need");
    check_equal(&trace, &[spec], Cache { pages, known_pages: config.known_pages, readahead: 0 });
}

fn check_equal(trace: &Trace, specs: &[Spec], cache: Cache) {
    let simulated = simulated(trace, specs, cache);
    let cached: Vec<_> = specs.iter().map(|spec| cached(trace, spec, cache)).collect();
    let all = specs.iter().zip(&simulated).zip(&cached);
    let different: Vec<_> = all
        .filter(|((_, simulated), cached)| simulated != cached)
        .map(|((spec, simulated), cached)| (&spec.label, simulated, cached))
        .collect();
    let pages = cache.pages;
    assert!(different.is_empty(), "{pages} pages: policy, hits and pages read ahead simulated, cached: {different:#?}");
    assert!(simulated.iter().all(|(_, ahead)| (*ahead > 0) == (cache.readahead > 0)), "pages are read ahead");
}
