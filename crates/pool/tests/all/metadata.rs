//! Metadata follows the capacity, however many pages are read, under every policy that runs.

use crate::common;

use common::Zeroes;
use forebay_policy::Spec;
use forebay_pool::{Config, Pool, Share, Volume, VolumeConfig};
use std::sync::Arc;

const CAPACITY: u64 = 4 << 20;

/// Metadata in percent of the capacity with pages of 4 KiB, of caches that may grow, as `docs/volumes.md` has it.
const STATED: &[(u64, &[&str])] = &[
    (3, &["lru", "fifo", "mru", "random", "lfu", "clock", "gclock", "fbr", "linux", "sieve", "smq"]),
    (4, &["lrfu"]),
    (5, &["arc", "car", "s3-fifo", "clock-pro"]),
    (10, &["eelru"]),
    (11, &["seq", "2q", "w-tinylfu", "ubm"]),
    (20, &["lru-k"]),
    (21, &["dulo"]),
    (23, &["lru-sp"]),
    (24, &["lirs"]),
    (25, &["mq"]),
];

fn specs() -> impl Iterator<Item = Spec> {
    let others = ["lru-k:history=100:k=4", "mq:out=100", "lirs:hir=0.5", "2q:out=4", "ubm:other=lru-2"];
    let others = others.map(|text| Spec::parse(text).expect("a policy of the registry"));
    Spec::all().into_iter().chain(others).filter(|spec| !spec.needs_future())
}

fn zeroes(pool: &Pool) -> Arc<Volume> {
    pool.attach(Arc::new(Zeroes::default()), VolumeConfig { readahead: 0, ..VolumeConfig::new("zeroes") })
}

fn read(pool: &Pool, length: u64) {
    read_volume(pool, &zeroes(pool), length);
}

/// Reads a volume through, and every other page of it.
fn read_volume(pool: &Pool, volume: &Arc<Volume>, length: u64) {
    let handle = pool.handle().expect("a handle");
    let page_size = u64::from(pool.statistics().page_size);
    let blocks = length / page_size;
    for block in (0..blocks).chain((0..blocks).step_by(2)) {
        handle.read(volume, block).expect("zeroes");
    }
}

#[test]
fn metadata_is_at_most_what_is_stated_and_a_quarter_of_the_capacity() {
    for spec in specs() {
        for page_size in [4096, 65_536] {
            let config = Config { most_capacity: 4 * CAPACITY, ..Config::new(CAPACITY, spec.clone()) };
            let config = config.with_page_size(page_size);
            let pool = Pool::new(config.clone()).expect("a pool");
            let check = |capacity: u64| {
                let metadata = pool.statistics().metadata as u64;
                let stated = Config { capacity, ..config.clone() }.with_page_size(page_size).most_metadata();
                assert!(stated <= capacity / 4 + (1 << 20), "{} states {stated} bytes", spec.label);
                assert!(metadata <= stated, "{}, {page_size}: {metadata} bytes, stated {stated}", spec.label);
            };
            read(&pool, 40 * CAPACITY);
            check(CAPACITY);
            pool.resize(4 * CAPACITY).expect("nothing is held");
            read(&pool, 40 * CAPACITY);
            check(4 * CAPACITY);
            pool.check_invariants();
        }
    }
}

#[test]
fn the_metadata_of_each_policy_is_stated() {
    const GIB: u64 = 1 << 30;
    let mut wrong = Vec::new();
    for spec in Spec::all().into_iter().filter(|spec| !spec.needs_future()) {
        let metadata = Config::new(GIB, spec.clone()).with_most_capacity(2 * GIB).most_metadata();
        let stated = STATED.iter().find(|(_, names)| names.contains(&spec.info.name)).map(|stated| stated.0);
        let percent = (metadata as f64 * 100.0 / GIB as f64).round() as u64;
        if stated != Some(percent) {
            wrong.push((spec.label, percent, stated));
        }
    }
    assert!(wrong.is_empty(), "policy, percent, stated: {wrong:?}");
}

#[test]
fn policies_of_shares_count() {
    for spec in specs() {
        let config = Config { shares: 2, ..Config::new(CAPACITY, spec.clone()) };
        let pool = Pool::new(config.clone()).expect("a pool");
        for _ in 0..2 {
            let volume = zeroes(&pool);
            pool.set_share(&volume, Share { min: 0, max: u64::MAX }).expect("it fits");
            read_volume(&pool, &volume, 40 * CAPACITY);
        }
        read(&pool, 40 * CAPACITY);
        let (metadata, stated) = (pool.statistics().metadata as u64, config.most_metadata());
        assert!(metadata <= stated, "{}: {metadata} bytes, stated {stated}", spec.label);
        let cut = config.policy_that_fits().label != spec.label;
        assert!(!cut || stated <= CAPACITY / 4 + (1 << 20), "{} states {stated} bytes", spec.label);
        pool.check_invariants();
    }
}

#[test]
fn a_smaller_cache_remembers_less_and_uses_the_numbers_it_has() {
    for spec in specs() {
        let pool = Pool::new(Config::new(CAPACITY, spec.clone())).expect("a pool");
        read(&pool, 4 * CAPACITY);
        let metadata = pool.statistics().metadata;
        pool.resize(CAPACITY / 4).expect("nothing is held");
        read(&pool, 40 * CAPACITY);
        let statistics = pool.statistics();
        assert!(statistics.metadata <= metadata + metadata / 8, "{}: {}", spec.label, statistics.metadata);
        assert!(statistics.resident + statistics.ghosts <= 16 * (CAPACITY / 4 / 4096) as u32, "{}", spec.label);
        pool.check_invariants();
    }
}

#[test]
fn a_history_that_does_not_fit_is_the_longest_that_does() {
    let runs = |text: &str, page_size| {
        let spec = Spec::parse(text).expect("a policy of the registry");
        let config = Config::new(CAPACITY, spec).with_page_size(page_size);
        let longer = |history: &str| {
            let spec = Spec::parse(&format!("lirs:history={history}")).expect("a policy of the registry");
            Config { policy: spec, ..config.clone() }.policy_that_fits().label
        };
        (Pool::new(config.clone()).expect("a pool").statistics().policy, longer("3"))
    };
    assert_eq!(runs("lirs", 4096), ("lirs:history=9".to_owned(), "lirs:history=3".to_owned()));
    assert_eq!(runs("lirs:history=2500:hir=0.02", 4096).0, "lirs:hir=0.02:history=9");
    assert_eq!(runs("lirs", 1 << 18).0, "lirs:history=674");
    assert_eq!(runs("lru-k", 4096).0, "lru-k");
    assert_eq!(runs("lru-k:history=100", 4096).0, "lru-k:history=5");
    assert_eq!(runs("mq:out=100", 4096).0, "mq:out=7");
}

#[test]
fn the_ghosts_of_a_history_that_was_cut_are_remembered() {
    let pool = Pool::new(Config::new(CAPACITY, Spec::parse("lirs").expect("a policy"))).expect("a pool");
    read(&pool, 40 * CAPACITY);
    let statistics = pool.statistics();
    assert_eq!(statistics.ghosts, 9 * statistics.policy_frames);
}
