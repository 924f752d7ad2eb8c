//! Volumes with a share of a cache.

use crate::common;

use common::Zeroes;
use forebay_policy::Spec;
use forebay_pool::device::MemoryDevice;
use forebay_pool::{Config, Durability, Error, Handle, Pool, Share, Volume, VolumeConfig};
use forebay_sim::{Keep, Sweep, Trace};
use forebay_trace::Options;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;

const PAGE: u64 = 4096;
const LAUNDRY: u32 = 3;

/// A pool whose policy has this many frames.
fn pool(policy: &Spec, frames: u64) -> Pool {
    let config = Config { laundry: LAUNDRY, ..Config::new((frames + u64::from(LAUNDRY)) * PAGE, policy.clone()) };
    Pool::new(Config { most_capacity: config.capacity * 4, ..config }).expect("a pool")
}

fn attach(pool: &Pool, share: Option<(u64, u64)>) -> Arc<Volume> {
    let volume = pool.attach(Arc::new(Zeroes::default()), VolumeConfig { readahead: 0, ..VolumeConfig::new("volume") });
    if let Some((min, max)) = share {
        pool.set_share(&volume, Share { min: min * PAGE, max: max * PAGE }).expect("the share fits");
    }
    volume
}

/// The hits of a scan over these blocks.
fn scan(pool: &Pool, handle: &Handle, volume: &Arc<Volume>, blocks: std::ops::Range<u64>) -> u64 {
    let hits = || {
        handle.settle();
        pool.statistics().hits
    };
    let before = hits();
    for block in blocks {
        handle.read(volume, block).expect("a read");
    }
    hits() - before
}

fn policies() -> Vec<Spec> {
    Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect()
}

#[test]
fn a_volume_whose_share_is_fixed_has_the_hits_of_a_cache_of_that_size_whatever_the_others_do() {
    let (_, mut reader) =
        forebay_trace::open(Path::new("zipf:pages=1500,references=30000,alpha=0.8"), &Options::default())
            .expect("it is a spec");
    let keep = Keep { places: true, requests: true };
    let trace = Trace::load("zipf", reader.as_mut(), None, keep, &mut |_| {}).expect("it loads");
    // The others remember places or counts in proportion to what the whole cache knows.
    let specs: Vec<Spec> = policies().into_iter().filter(|spec| !spec.info.uses.place).collect();
    let sweep = Sweep { specs: specs.clone(), sizes: vec![100], warmup: 0, threads: 0 };
    let simulated: Vec<u64> = sweep.run(&trace, &|_| true).into_iter().map(|outcome| outcome.total.hits).collect();
    let mut different = Vec::new();
    for (spec, simulated) in specs.iter().zip(simulated) {
        let pool = pool(spec, 400);
        let volume = attach(&pool, Some((100, 100)));
        let other = attach(&pool, None);
        let handle = pool.handle().expect("a handle");
        for (time, &page) in trace.references.iter().enumerate() {
            handle.read(&volume, trace.places.of(page).block).expect("a read");
            handle.read(&other, time as u64).expect("a read");
        }
        drop(handle);
        pool.check_invariants();
        let hits = pool.statistics().volumes[0].hits;
        if hits != simulated {
            different.push((&spec.label, simulated, hits));
        }
    }
    assert!(different.is_empty(), "(policy, simulated, cached) {different:?}");
}

#[test]
fn a_share_below_its_min_takes_from_others_and_keeps_it_and_at_its_max_it_takes_no_more() {
    for spec in policies() {
        let pool = pool(&spec, 2000);
        let (guarded, limited, other) =
            (attach(&pool, Some((500, 2000))), attach(&pool, Some((0, 300))), attach(&pool, None));
        let handle = pool.handle().expect("a handle");
        // What nobody needs is lent.
        scan(&pool, &handle, &other, 0..4000);
        let resident = |at: usize| pool.statistics().volumes[at].share.expect("it has a share").resident / PAGE;
        assert_eq!((resident(0), resident(1)), (0, 0), "{}", spec.label);
        scan(&pool, &handle, &guarded, 0..500);
        scan(&pool, &handle, &limited, 0..5000);
        scan(&pool, &handle, &other, 4000..12_000);
        assert!(resident(0) >= 490, "{}: {} pages", spec.label, resident(0));
        assert!((1..=300).contains(&resident(1)), "{}: {} pages", spec.label, resident(1));
        assert!(scan(&pool, &handle, &guarded, 0..500) >= 450, "{}", spec.label);
        drop(handle);
        pool.check_invariants();
    }
}

#[test]
fn between_min_and_max_who_misses_more_has_more() {
    let pool = pool(&Spec::parse("lru").expect("it is a policy"), 2000);
    let (share, other) = (attach(&pool, Some((100, 2000))), attach(&pool, None));
    let handle = pool.handle().expect("a handle");
    for round in 0..40_000 {
        handle.read(&other, round).expect("a read");
        if round % 3 == 0 {
            handle.read(&share, round).expect("a read");
        }
    }
    let resident = pool.statistics().volumes[0].share.expect("it has a share").resident / PAGE;
    assert!((200..1000).contains(&resident), "a quarter of the misses, and {resident} of 2,000 pages");
    for round in 0..40_000 {
        handle.read(&share, round << 20).expect("a read");
    }
    let resident = pool.statistics().volumes[0].share.expect("it has a share").resident / PAGE;
    assert!(resident > 1500, "all misses, and {resident} of 2,000 pages");
}

#[test]
fn shares_that_cannot_be_are_refused_and_change_nothing() {
    let pool = pool(&Spec::parse("clock-pro").expect("it is a policy"), 100);
    let (first, second) = (attach(&pool, Some((60, 80))), attach(&pool, None));
    let told = |volume: &Arc<Volume>, min: u64, max: u64| match pool
        .set_share(volume, Share { min: min * PAGE, max: max * PAGE })
    {
        Err(Error::Configuration(told)) => told,
        other => panic!("{other:?}"),
    };
    assert!(told(&second, 50, 60).contains("does not fit"));
    assert!(told(&second, 20, 10).contains("is below min="));
    assert!(told(&first, 100, 100).contains("does not fit"));
    pool.handle().expect("a handle").read(&second, 7).expect("a read");
    assert!(told(&second, 10, 20).contains("used without a share"));
    assert!(matches!(pool.resize(50 * PAGE), Err(Error::Configuration(told)) if told.contains("shares")));
    pool.set_share(&first, Share { min: 10 * PAGE, max: 20 * PAGE }).expect("it is smaller");
    pool.resize(50 * PAGE).expect("it fits");
    pool.check_invariants();
}

#[test]
fn shares_come_and_go_while_pages_are_written_and_the_cache_is_resized() {
    const BLOCKS: u64 = 120;
    for (seed, spec) in policies().into_iter().enumerate() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
        let mut below = |end: u64| random.next_u64() % end;
        let pool = pool(&spec, 150);
        let mut volumes: Vec<(Arc<Volume>, Vec<u8>)> = Vec::new();
        for step in 0..3000u64 {
            if volumes.len() < 4 && below(20) == 0 || volumes.is_empty() {
                let device = Arc::new(MemoryDevice::new(BLOCKS * PAGE));
                let volume = pool.attach(device, VolumeConfig { readahead: 0, ..VolumeConfig::new("volume") });
                if below(3) > 0 {
                    let min = below(30);
                    let share = Share { min: min * PAGE, max: (min + 1 + below(60)) * PAGE };
                    pool.set_share(&volume, share).expect("it fits");
                }
                volumes.push((volume, vec![0; BLOCKS as usize]));
            }
            let at = below(volumes.len() as u64) as usize;
            if below(150) == 0 {
                let (volume, contents) = volumes.swap_remove(at);
                check(&pool, &volume, &contents, &spec);
                pool.detach(&volume).expect("memory takes all");
                pool.check_invariants();
                continue;
            }
            if below(100) == 0 {
                pool.resize((130 + below(400)) * PAGE).expect("the mins fit");
                pool.check_invariants();
            }
            let (volume, contents) = &mut volumes[at];
            if pool.statistics().volumes.iter().any(|other| other.share.is_some()) && below(50) == 0 {
                let min = below(30);
                let share = Share { min: min * PAGE, max: (min + 1 + below(60)) * PAGE };
                // One that was used without a share stays without.
                let _refused = pool.set_share(volume, share);
            }
            let handle = pool.handle().expect("a handle");
            for _ in 0..10 {
                let block = below(BLOCKS);
                if below(3) == 0 {
                    let value = step as u8;
                    handle.write_at(volume, block * PAGE, &[value; PAGE as usize], Durability::Flush).expect("a write");
                    contents[block as usize] = value;
                } else {
                    let page = handle.read(volume, block).expect("a read");
                    assert_eq!(page[17], contents[block as usize], "{}, block {block}", spec.label);
                }
            }
        }
        pool.check_invariants();
    }
}

fn check(pool: &Pool, volume: &Arc<Volume>, contents: &[u8], spec: &Spec) {
    let handle = pool.handle().expect("a handle");
    for (block, &value) in contents.iter().enumerate() {
        assert_eq!(handle.read(volume, block as u64).expect("a read")[0], value, "{}, block {block}", spec.label);
    }
}
