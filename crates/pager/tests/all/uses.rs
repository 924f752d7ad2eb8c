//! Uses of resident pages, as policies with reference bits learn of them.

use crate::common::{IN_PLACE, PAGE, limit, options};
use forebay_pager::{Faults, Options, Pager, Region, Watch};
use forebay_policy::{Caller, Reference, Spec};
use forebay_pool::VolumeConfig;
use forebay_pool::device::{Delayed, Device, MemoryDevice, Timing};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long each request takes.
struct Takes(Duration);

impl Timing for Takes {
    fn service(&mut self, _: Duration, _: u64, _: u64, _: bool) -> Duration {
        self.0
    }
}

/// Storage of this many pages, of which each request takes so long.
fn storage(pages: u32, takes: Duration) -> Arc<dyn Device> {
    Arc::new(Delayed::new(MemoryDevice::new(u64::from(pages) * PAGE as u64), Box::new(Takes(takes))))
}

struct AnyVictim;

impl Caller for AnyVictim {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

/// A region without readahead in a memory for a few hundred pages, and how many the policy has.
fn region(policy: &str, sampling: f64, pages: usize) -> (Arc<Pager>, Region, u32) {
    region_of(Arc::new(MemoryDevice::new((pages * PAGE) as u64)), policy, sampling)
}

fn region_of(device: Arc<dyn Device>, policy: &str, sampling: f64) -> (Arc<Pager>, Region, u32) {
    let spec = Spec::parse(policy).expect("a policy");
    let pager = Pager::new(&Options { sampling, ..options(344 * PAGE as u64, spec) }).expect("a pager");
    let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("region") };
    let region = Region::map(&pager, device, config).expect("a region");
    let frames = pager.statistics().policy_frames;
    (pager, region, frames)
}

fn touch(region: &Region, page: u32) {
    black_box(region[page as usize * PAGE]);
}

/// The faults of a thread that touches pages in turn, and the misses of a policy that sees each of these uses.
fn faults_and_misses(policy: &str, sampling: f64, references: &[u32]) -> (Faults, u64) {
    let pages = references.iter().max().expect("there are references") + 1;
    faults_and_misses_in(region(policy, sampling, pages as usize), policy, references)
}

fn faults_and_misses_in(region: (Arc<Pager>, Region, u32), policy: &str, references: &[u32]) -> (Faults, u64) {
    let pages = references.iter().max().expect("there are references") + 1;
    let (pager, region, frames) = region;
    references.iter().for_each(|&page| touch(&region, page));
    let spec = Spec::parse(policy).expect("a policy");
    let mut seeing = spec.build(&spec.setup(frames, pages));
    let mut hit = |page| seeing.refer(&Reference::of(page), &mut AnyVictim).expect("no victim is refused");
    let misses = references.iter().filter(|&&page| !hit(page)).count();
    (pager.faults(), misses as u64)
}

/// Some pages are used often, most seldom, and now and then many come once, in order.
fn references() -> Vec<u32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut references = Vec::new();
    for round in 0..30 {
        for _ in 0..500 {
            let chosen = (random.next_u64() % 1000) as u32;
            references.push(chosen * chosen / 1000);
        }
        references.extend((0..100).map(|page| 1000 + (round * 100 + page) % 500));
    }
    references
}

#[test]
fn a_region_has_the_faults_that_its_policy_has_where_it_sees_every_use() {
    let _limit = limit("regions under each policy that says for which uses it waits");
    let references = references();
    for policy in ["clock", "car", "clock-pro", "sieve", "gclock", "linux", "linux:access=process", "s3-fifo", "fifo"] {
        let (faults, misses) = faults_and_misses(policy, 1.0, &references);
        let ratio = faults.major as f64 / misses as f64;
        println!("{policy}: {misses} misses, {faults:?}");
        assert!((0.97..=1.03).contains(&ratio), "{policy}: {} faults, {misses} misses", faults.major);
    }
}

#[test]
fn in_front_of_slow_storage_every_use_is_seen_and_in_front_of_fast_storage_what_half_the_time_of_misses_pays_for() {
    let _limit = limit("regions in front of slow and of fast storage");
    // Longer than what may be spent at the start lasts.
    let references: Vec<u32> = references().into_iter().cycle().take(36_000).collect();
    let pages = references.iter().max().expect("there are references") + 1;
    let slow = storage(pages, Duration::from_millis(1));
    let (faults, misses) = faults_and_misses_in(region_of(slow, "clock", 0.02), "clock", &references[..12_000]);
    let ratio = faults.major as f64 / misses as f64;
    assert!((0.97..=1.03).contains(&ratio), "{} faults, {misses} misses", faults.major);
    let start = Instant::now();
    let (fast, _) = faults_and_misses("clock", 0.02, &references);
    let most = most_unmapped(&fast, start, 4096);
    assert!((fast.unmapped as f64) < most, "{most:.0} at most: {fast:?}");
}

#[test]
fn a_loop_over_more_than_fits_has_the_faults_of_its_policy() {
    const LOOP: u32 = 500;
    let _limit = limit("a loop over half more than fits");
    // Of such storage a miss pays for one mapping, and of a loop that mostly hits each miss comes with two uses.
    let device = storage(LOOP, Duration::from_micros(100));
    let references: Vec<u32> = (0..LOOP).cycle().take(60 * LOOP as usize).collect();
    let (faults, misses) = faults_and_misses_in(region_of(device, "clock-pro", 0.02), "clock-pro", &references);
    println!("{misses} misses, {faults:?}");
    assert!(misses < references.len() as u64 * 3 / 5, "the policy keeps a part of the loop");
    assert!(faults.major < misses * 11 / 10, "{misses} misses of the policy, {faults:?}");
}

/// The most mappings that a pager with a share of 2 % may take away since `start`: those that it saves up at first, and what half the time of its faults
/// and that share of the time pay for. However slow the machine is.
fn most_unmapped(faults: &Faults, start: Instant, saved: u64) -> f64 {
    let minor = if IN_PLACE { 5e-6 } else { 40e-6 };
    let of_misses = faults.fault_time.sum as f64 / 1e9 / 2.0 / minor;
    saved as f64 + of_misses + start.elapsed().as_secs_f64() * 0.02 / minor
}

#[test]
fn a_policy_that_waits_for_no_use_costs_no_minor_fault_and_none_is_seen_without_sampling() {
    let _limit = limit("regions under fifo, and without sampling");
    let references = references();
    for (policy, sampling) in [("fifo", 0.02), ("random", 0.02), ("clock", 0.0)] {
        let (faults, _) = faults_and_misses(policy, sampling, &references);
        assert_eq!((faults.minor, faults.unmapped), (0, 0), "{policy}");
    }
}

#[test]
fn in_front_of_fast_storage_uses_are_seen_though_mappings_are_taken_away_together() {
    const HOT: u32 = 500;
    const COLD: u32 = 40_000;
    const FRAMES: u64 = 8192;
    let _limit = limit("a scan of more than fits, and a page of 500 after each");
    let start = Instant::now();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let device = Arc::new(MemoryDevice::new(u64::from(HOT + COLD) * PAGE as u64));
    let spec = Spec::parse("clock").expect("a policy");
    let pager = Pager::new(&options(FRAMES * PAGE as u64, spec)).expect("a pager");
    let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("region") };
    let region = Region::map(&pager, device, config).expect("a region");
    for page in HOT..HOT + COLD {
        touch(&region, page);
        touch(&region, (random.next_u64() % u64::from(HOT)) as u32);
    }
    let faults = pager.faults();
    println!("{faults:?}");
    assert!(faults.minor > u64::from(HOT), "their uses are seen: {faults:?}");
    let most = most_unmapped(&faults, start, FRAMES);
    assert!((faults.unmapped as f64) < most, "{most:.0} at most: {faults:?}");
}

#[test]
fn who_watches_sees_the_same_uses_whatever_the_policy() {
    const STAY: usize = 32;
    let _limit = limit("watched regions");
    let references = references();
    // What is left of them where the pages that came last are not seen again.
    let (mut stay, mut expected) = (VecDeque::new(), 0);
    for &page in &references {
        if !stay.contains(&page) {
            stay.push_back(page);
            expected += 1;
            stay.drain(..stay.len().saturating_sub(STAY));
        }
    }
    for policy in ["lru", "mq", "fifo", "clock", "clock-pro", "lirs", "s3-fifo"] {
        let seen = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&seen);
        let watch = Some(Watch::new(move |_, _| _ = own.fetch_add(1, Ordering::Relaxed)));
        let spec = Spec::parse(policy).expect("a policy");
        let pager = match Pager::new(&Options { watch, ..options(344 * PAGE as u64, spec) }) {
            Err(error) if IN_PLACE => return assert!(error.to_string().contains("watched"), "{error}"),
            pager => pager.expect("a pager"),
        };
        let device = Arc::new(MemoryDevice::new(1500 * PAGE as u64));
        let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("region") };
        let region = Region::map(&pager, device, config).expect("a region");
        references.iter().for_each(|&page| touch(&region, page));
        let seen = seen.load(Ordering::Relaxed);
        println!("{policy}: {seen} of {}, {expected} expected", references.len());
        // Beside these, uses of pages that the policy had evicted while they were mapped.
        assert!((expected..expected + expected / 50).contains(&seen), "{policy}: {seen} seen, {expected} expected");
    }
}

#[test]
fn what_is_resident_costs_no_fault_once_each_page_was_used_again() {
    let _limit = limit("a loop over what is resident");
    let (pager, region, frames) = region("clock-pro", 0.02, 1000);
    for _ in 0..3 {
        (0..1000).for_each(|page| touch(&region, page));
    }
    let looped = || (0..frames / 2).for_each(|page| touch(&region, page));
    (0..2).for_each(|_| looped());
    let before = pager.faults();
    (0..100).for_each(|_| looped());
    let after = pager.faults();
    assert_eq!((after.major, after.minor), (before.major, before.minor));
}

#[test]
fn where_all_pages_are_used_between_two_misses_not_all_of_these_uses_are_seen() {
    let _limit = limit("a loop with a miss in each round");
    let start = Instant::now();
    let (pager, region, frames) = region("clock", 0.02, 4000);
    for round in 0..1500 {
        (0..frames - 1).for_each(|page| touch(&region, page));
        touch(&region, frames + round % 3000);
    }
    let faults = pager.faults();
    // Six for each miss, those saved up, and those of the share. Without a bound each round has as many as there are pages.
    let minor = if IN_PLACE { 5e-6 } else { 40e-6 };
    let of_share = start.elapsed().as_secs_f64() * 0.02 / minor;
    let (bound, all) = ((6 * faults.major + 4096) as f64 + of_share, 1500 * u64::from(frames));
    assert!(
        faults.minor <= faults.unmapped && (faults.unmapped as f64) < bound,
        "{all} uses, {bound:.0} at most: {faults:?}"
    );
    assert!(faults.unmapped < all, "not all are seen: {faults:?}");
}

#[test]
fn a_page_that_one_instruction_needs_beside_others_is_there_in_the_end() {
    let _limit = limit("numbers across the ends of pages");
    for policy in ["clock-pro", "gclock"] {
        let (_, mut region, frames) = region(policy, 0.02, 1000);
        let at = |page: u32| (page as usize + 1) * PAGE - 4;
        // The compiler makes one instruction of each copy of 8 bytes; here they lie in two pages each.
        for page in (0..998).step_by(2) {
            region[at(page)..at(page) + 8].copy_from_slice(&u64::from(page).to_ne_bytes());
        }
        for page in (0..998).step_by(2).chain(0..frames / 2).filter(|page| page % 2 == 0) {
            let bytes: [u8; 8] = region[at(page)..at(page) + 8].try_into().expect("8 bytes");
            assert_eq!(u64::from_ne_bytes(bytes), u64::from(page), "{policy}");
        }
    }
}
