//! One trace, replayed by one thread through the pool and through the simulator, gives equal hits under every policy.

mod common;

use common::Zeroes;
use forebay_policy::{Operation, Spec};
use forebay_pool::{Config, Durability, Pool, Volume, VolumeConfig};
use forebay_sim::{Keep, Sweep, Trace};
use forebay_trace::Options;
use std::path::Path;
use std::sync::Arc;

/// That of the sample.
const PAGE_SIZE: u32 = 8192;

fn sample() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/sample.parquet");
    let (_, mut reader) = forebay_trace::open(&path, &Options::default()).expect("the sample opens");
    let keep = Keep { places: true, requests: true };
    Trace::load("sample", reader.as_mut(), None, keep, &mut |_| {}).expect("the sample is well-formed")
}

fn simulated(trace: &Trace, specs: &[Spec], pages: u32) -> Vec<u64> {
    let sweep = Sweep { specs: specs.to_vec(), sizes: vec![pages], warmup: 0, threads: 0 };
    sweep.run(trace, &|_| true).into_iter().map(|outcome| outcome.total.hits).collect()
}

/// The hits of the pool, whose policy has `pages` frames and which keeps numbers for `known_pages`, and writes go behind.
fn cached(trace: &Trace, spec: &Spec, pages: u32, known_pages: u32) -> u64 {
    let laundry = 3;
    let capacity = u64::from(pages + laundry) * u64::from(PAGE_SIZE);
    let config = Config { laundry, known_pages, ..Config::new(capacity, spec.clone()).with_page_size(PAGE_SIZE) };
    let pool = Pool::new(config).expect("a pool");
    let objects = trace.places.iter().map(|place| place.object).max().expect("the trace has pages") + 1;
    let volumes: Vec<Arc<Volume>> = (0..objects)
        .map(|object| {
            let config = VolumeConfig { readahead: 0, ..VolumeConfig::new(object.to_string()) };
            pool.attach(Arc::new(Zeroes), config)
        })
        .collect();
    let handle = pool.handle().expect("a handle");
    let written = vec![7; PAGE_SIZE as usize];
    let ends = trace.requests.first.iter().skip(1).copied().chain([trace.len() as u32]);
    for (request, end) in ends.enumerate() {
        handle.set_owner(trace.requests.owner[request]);
        for &page in &trace.references[trace.requests.first[request] as usize..end as usize] {
            let place = trace.places.of(page);
            let volume = &volumes[place.object as usize];
            match trace.requests.operation[request] {
                Operation::Write => {
                    let offset = place.block * u64::from(PAGE_SIZE);
                    handle.write_at(volume, offset, &written, Durability::Flush).expect("a write");
                }
                _ => assert_eq!(handle.read(volume, place.block).expect("a read").len(), PAGE_SIZE as usize),
            }
        }
    }
    drop(handle);
    pool.flush().expect("a flush");
    pool.check_invariants();
    let statistics = pool.statistics();
    assert_eq!(statistics.hits + statistics.misses, trace.len() as u64, "{}", spec.label);
    statistics.hits
}

#[test]
fn every_policy_has_the_same_hits_in_the_pool_and_in_the_simulator() {
    let trace = sample();
    let specs: Vec<Spec> = Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect();
    for pages in [90, 900] {
        // The simulator knows all pages that there will be.
        check_equal(&trace, &specs, pages, trace.pages);
    }
}

#[test]
fn numbers_that_stand_for_other_pages_once_forgotten_change_no_hit() {
    // These look at places, or draw their sample by number.
    let by_number = |spec: &Spec| spec.info.uses.place || spec.info.name == "mq";
    let specs: Vec<Spec> = Spec::all().into_iter().filter(|spec| !spec.needs_future() && !by_number(spec)).collect();
    check_equal(&sample(), &specs, 90, 0);
}

#[test]
fn mq_draws_the_same_sample_while_numbers_are_kept_for_it() {
    let (trace, spec, pages) = (sample(), Spec::parse("mq").expect("a policy"), 900);
    let config = Config::new(u64::from(pages) * u64::from(PAGE_SIZE), spec.clone()).with_page_size(PAGE_SIZE);
    assert!(config.known_pages >= trace.pages && trace.pages > 6 * pages, "more than residents and ghosts need");
    check_equal(&trace, &[spec], pages, config.known_pages);
}

fn check_equal(trace: &Trace, specs: &[Spec], pages: u32, known_pages: u32) {
    let hits: Vec<(String, u64, u64)> = specs
        .iter()
        .zip(simulated(trace, specs, pages))
        .map(|(spec, simulated)| (spec.label.clone(), simulated, cached(trace, spec, pages, known_pages)))
        .collect();
    let different: Vec<_> = hits.iter().filter(|(_, simulated, cached)| simulated != cached).collect();
    assert!(different.is_empty(), "{pages} pages: (policy, simulated, cached) {different:?}");
}
