//! Volumes with a share of a cache, alone and several together.

use crate::common;

use common::Zeroes;
use forebay_policy::Spec;
use forebay_pool::device::MemoryDevice;
use forebay_pool::{Config, Durability, Error, Handle, Pool, Share, Together, Volume, VolumeConfig};
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

/// Makes a group of volumes that together have a share of this many pages.
fn group(pool: &Pool, (min, max): (u64, u64)) -> Together {
    pool.share_together(Share { min: min * PAGE, max: max * PAGE }).expect("the share fits")
}

/// A volume of a group.
fn attach_to(pool: &Pool, group: &Together) -> Arc<Volume> {
    let together = Some(group.clone());
    let config = VolumeConfig { readahead: 0, together, ..VolumeConfig::new("of a group") };
    pool.attach(Arc::new(Zeroes::default()), config)
}

/// The pages that a group has.
fn resident_of(pool: &Pool, group: &Together) -> u64 {
    pool.share_of(group).expect("it has a share").resident / PAGE
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

/// A cache of 400 pages, of which 100 are the share of one volume or of three together, beside a scan through another: the hits of the share and of a
/// simulated cache of 100 pages, by policies where they differ. The volumes of three have every third block of the trace each.
fn different_from_simulated(together: bool) -> Vec<(String, u64, u64)> {
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
    for (spec, simulated) in specs.into_iter().zip(simulated) {
        let pool = pool(&spec, 400);
        let several = together.then(|| group(&pool, (100, 100)));
        let volumes: Vec<Arc<Volume>> = match &several {
            None => vec![attach(&pool, Some((100, 100)))],
            Some(group) => (0..3).map(|_| attach_to(&pool, group)).collect(),
        };
        let other = attach(&pool, None);
        let handle = pool.handle().expect("a handle");
        for (time, &page) in trace.references.iter().enumerate() {
            let block = trace.places.of(page).block;
            handle.read(&volumes[block as usize % volumes.len()], block).expect("a read");
            handle.read(&other, time as u64).expect("a read");
        }
        drop(handle);
        pool.check_invariants();
        let hits = several.map_or_else(|| pool.statistics().volumes[0].hits, |group| group.statistics().hits);
        if hits != simulated {
            different.push((spec.label, simulated, hits));
        }
    }
    different
}

#[test]
fn a_volume_whose_share_is_fixed_has_the_hits_of_a_cache_of_that_size_whatever_the_others_do() {
    let different = different_from_simulated(false);
    assert!(different.is_empty(), "(policy, simulated, cached) {different:?}");
}

#[test]
fn several_volumes_whose_share_is_fixed_have_together_the_hits_of_a_cache_of_that_size() {
    let different = different_from_simulated(true);
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
fn a_group_below_its_min_takes_from_others_and_keeps_it_and_at_its_max_it_takes_no_more() {
    for spec in policies() {
        let pool = pool(&spec, 2000);
        let (guarded, limited) = (group(&pool, (500, 2000)), group(&pool, (0, 300)));
        let [one, two]: [Arc<Volume>; 2] = std::array::from_fn(|_| attach_to(&pool, &guarded));
        let [three, four]: [Arc<Volume>; 2] = std::array::from_fn(|_| attach_to(&pool, &limited));
        let other = attach(&pool, None);
        let handle = pool.handle().expect("a handle");
        scan(&pool, &handle, &other, 0..4000);
        assert_eq!((resident_of(&pool, &guarded), resident_of(&pool, &limited)), (0, 0), "{}", spec.label);
        for _ in 0..2 {
            scan(&pool, &handle, &one, 0..200);
            scan(&pool, &handle, &two, 0..300);
        }
        scan(&pool, &handle, &three, 0..5000);
        scan(&pool, &handle, &four, 0..5000);
        scan(&pool, &handle, &other, 4000..12_000);
        assert!(resident_of(&pool, &guarded) >= 490, "{}: {}", spec.label, resident_of(&pool, &guarded));
        assert!((1..=300).contains(&resident_of(&pool, &limited)), "{}", spec.label);
        let hits = scan(&pool, &handle, &one, 0..200) + scan(&pool, &handle, &two, 0..300);
        assert!(hits >= 450, "{}: {hits}", spec.label);
        // Volumes come and go, and the share is there for the next.
        pool.detach(&two).expect("nothing is dirty");
        pool.check_invariants();
        let next = attach_to(&pool, &guarded);
        scan(&pool, &handle, &next, 0..300);
        assert!(resident_of(&pool, &guarded) >= 450, "{}: {}", spec.label, resident_of(&pool, &guarded));
        let hits = scan(&pool, &handle, &next, 0..300);
        assert!(hits >= 270, "{}: {hits}", spec.label);
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
    assert_eq!(pool.least_capacity(), (60 + 1 + u64::from(LAUNDRY)) * PAGE);
    pool.set_share(&first, Share { min: 10 * PAGE, max: 20 * PAGE }).expect("it is smaller");
    pool.resize(50 * PAGE).expect("it fits");
    pool.check_invariants();
}

#[test]
fn shares_of_groups_that_cannot_be_are_refused_and_change_nothing() {
    let pool = pool(&Spec::parse("clock-pro").expect("it is a policy"), 100);
    let (first, plain) = (group(&pool, (60, 80)), pool.count_together());
    let share = |min: u64, max: u64| Share { min: min * PAGE, max: max * PAGE };
    let told = |refused: Result<(), Error>| match refused {
        Err(Error::Configuration(told)) => told,
        other => panic!("{other:?}"),
    };
    let made = |share| pool.share_together(share).map(drop);
    assert!(told(made(share(50, 60))).contains("does not fit"));
    assert!(told(made(share(20, 10))).contains("is below min="));
    assert!(told(pool.change_share(&first, share(100, 100))).contains("does not fit"));
    assert!(told(pool.change_share(&plain, share(1, 2))).contains("the group has no share"));
    assert!(told(pool.set_share(&attach_to(&pool, &first), share(1, 2))).contains("the share of its group"));
    assert_eq!(pool.share_of(&plain), None);
    let before = pool.share_of(&first).expect("it has one");
    assert_eq!((before.min, before.max, before.resident), (60 * PAGE, 80 * PAGE, 0));
    pool.change_share(&first, share(10, 20)).expect("it is smaller");
    let handle = pool.handle().expect("a handle");
    scan(&pool, &handle, &attach_to(&pool, &first), 0..100);
    assert_eq!(resident_of(&pool, &first), 20);
    pool.change_share(&first, share(0, 5)).expect("it is smaller still");
    assert_eq!(resident_of(&pool, &first), 5, "what is above its max leaves at once");
    drop(handle);
    for _ in 0..63 {
        made(share(0, 1)).expect("there may be 64");
    }
    assert!(told(made(share(0, 1))).contains("at most 64 shares"));
    pool.check_invariants();
}

#[test]
fn shares_come_and_go_while_pages_are_written_and_the_cache_is_resized() {
    const BLOCKS: u64 = 120;
    for (seed, spec) in policies().into_iter().enumerate() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
        let mut below = |end: u64| random.next_u64() % end;
        let pool = pool(&spec, 150);
        let groups = [group(&pool, (3, 20)), group(&pool, (0, 150))];
        let mut volumes: Vec<(Arc<Volume>, Vec<u8>)> = Vec::new();
        for step in 0..3000u64 {
            if volumes.len() < 4 && below(20) == 0 || volumes.is_empty() {
                let device = Arc::new(MemoryDevice::new(BLOCKS * PAGE));
                let together = groups.get(below(5) as usize).cloned();
                let alone = together.is_none();
                let config = VolumeConfig { readahead: 0, together, ..VolumeConfig::new("volume") };
                let volume = pool.attach(device, config);
                if alone && below(3) > 0 {
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
            if below(50) == 0 {
                let (min, more) = (below(8), 1 + below(60));
                let share = Share { min: min * PAGE, max: (min + more) * PAGE };
                pool.change_share(&groups[below(2) as usize], share).expect("it fits");
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
