//! A loop larger than the cache, where LRU never hits, against what can be had: all but one page of the cache a lap.

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
