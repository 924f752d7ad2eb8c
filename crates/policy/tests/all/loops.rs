//! A loop larger than the cache, where LRU never hits, against the most that is possible: all but one page of the cache a lap. And beside it
//! other references, which need a part of the cache.

use forebay_basis::Place;
use forebay_policy::registry;
use forebay_policy::{Caller, Policy, Reference, Setup, Spec, Visitor};

const PAGES: u32 = 1011;
const LAPS: u32 = 60;
/// By now a policy has seen the loop often enough.
const WARM: u32 = 20;

struct AnyVictim;

impl Caller for AnyVictim {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

/// Hits a lap, on average over the laps after `WARM`.
struct Laps<'a>(&'a Spec, u32);

impl Visitor for Laps<'_> {
    type Output = f64;

    fn visit<P: Policy>(self) -> f64 {
        let mut policy = P::new(&Setup::new(self.1, PAGES, self.0.settings.clone()));
        let mut hits = 0;
        for time in 0..LAPS * PAGES {
            let reference = Reference::of(time % PAGES);
            if policy.contains(reference.page) {
                policy.hit(&reference);
                hits += u32::from(time >= WARM * PAGES);
            } else {
                policy.miss(&reference, &mut AnyVictim).unwrap();
            }
        }
        f64::from(hits) / f64::from(LAPS - WARM)
    }
}

fn hits(policy: &str, capacity: u32) -> f64 {
    let spec = Spec::parse(policy).unwrap();
    registry::visit(spec.info.name, Laps(&spec, capacity)).unwrap()
}

#[test]
fn seq_keeps_a_loop_but_for_the_pages_near_the_head_of_its_sequence() {
    for capacity in [100, 300, 600, 900, 1010] {
        assert_eq!(hits("lru", capacity), 0.0);
        let hits = hits("seq", capacity);
        assert!(hits >= f64::from(capacity) - 23.0, "{hits} hits a lap with {capacity} pages");
    }
}

#[test]
fn eelru_keeps_a_loop_that_its_queue_covers_and_is_lru_on_a_longer_one() {
    for capacity in [450, 600, 900, 1010] {
        let hits = hits("eelru", capacity);
        assert!(hits >= 0.95 * f64::from(capacity), "{hits} hits a lap with {capacity} pages");
    }
    for capacity in [100, 300, 404] {
        assert_eq!(hits("eelru", capacity), 0.0);
    }
}

/// A page and its block, for each reference: a loop over 2,000 consecutive blocks, in turns with a cycle through 20 scattered blocks, then
/// through 400 others.
fn loop_beside_a_cycle() -> impl Iterator<Item = Reference> {
    let scattered = |page: u32| 1_000_000 + 1_000 * (u64::from(page) * 7_919 % 1_009);
    (0..220_000u32).map(move |time| {
        let (page, block) = match (time % 2, time / 2) {
            (0, step) => (step % 2_000, u64::from(step % 2_000)),
            (_, step) if time < 20_000 => (2_000 + step % 20, scattered(step % 20)),
            (_, step) => (2_020 + step % 400, scattered(20 + step % 400)),
        };
        Reference { place: Place { object: 0, block }, ..Reference::of(page) }
    })
}

/// The hit ratio in percent.
struct BesideACycle<'a>(&'a Spec, u32);

impl Visitor for BesideACycle<'_> {
    type Output = f64;

    fn visit<P: Policy>(self) -> f64 {
        let mut policy = P::new(&Setup { page_size: 8192, ..Setup::new(self.1, 2_420, self.0.settings.clone()) });
        let mut hits = 0;
        for reference in loop_beside_a_cycle() {
            if policy.contains(reference.page) {
                policy.hit(&reference);
                hits += 1;
            } else {
                policy.miss(&reference, &mut AnyVictim).unwrap();
            }
        }
        100.0 * f64::from(hits) / 220_000.0
    }
}

#[test]
fn ubm_gives_a_cycle_beside_a_loop_the_pages_that_it_needs() {
    let percent = |policy: &str, capacity| {
        let spec = Spec::parse(policy).unwrap();
        registry::visit(spec.info.name, BesideACycle(&spec, capacity)).unwrap()
    };
    for capacity in [420, 500, 600, 700, 800, 900, 1_000, 1_100, 1_200, 1_300, 1_400, 1_500, 2_000] {
        let [ubm, clock_pro] = ["ubm", "clock-pro"].map(|policy| percent(policy, capacity));
        assert!(ubm >= clock_pro - 3.0, "{capacity} pages: {ubm:.1} %, CLOCK-Pro {clock_pro:.1}");
    }
}
