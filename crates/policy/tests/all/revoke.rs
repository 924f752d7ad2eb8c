//! Under LRU-SP with `revoke` a manager that is caught at mistakes loses its charge; one that is right keeps it.

use forebay_policy::managers::{Assignment, Manager};
use forebay_policy::{Caller, Control, Future, LruSp, Place, Policy, Reference, Spec};
use std::sync::Arc;

const FOOL: u32 = 0;
const INNOCENT: u32 = 1;
const FRAMES: u32 = 60;
const PAGES: u32 = 200;

struct Frames;

impl Caller for Frames {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

fn used((owner, page): (u32, u32)) -> Reference {
    let place = Place { object: owner, block: u64::from(page) };
    Reference { owner, place, ..Reference::of(page) }
}

/// Both draw pages of their own, low ones most often: LRU suits them.
fn uses() -> Vec<(u32, u32)> {
    let mut state = 1u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut one = |owner: u32| (owner, owner * 100 + (next(100).min(next(100)).min(next(100))) as u32);
    (0..20_000).map(|at| one(at % 2)).collect()
}

/// The cache, and the misses of each owner.
fn run(settings: &str, managers: [Manager; 2], uses: &[(u32, u32)]) -> (LruSp, [u32; 2]) {
    let mut assignment = Assignment::new(None);
    for (owner, manager) in (0..).zip(managers) {
        assignment.add(manager, Some(&[owner]), None);
    }
    let spec = Spec { managers: Some(Arc::new(assignment)), ..Spec::parse(settings).expect("a policy") };
    let mut setup = spec.setup(FRAMES, PAGES);
    let pages = uses.iter().map(|of| of.1).collect();
    setup.future = Some(Arc::new(Future::new(Arc::new(pages), PAGES)));
    let mut policy = LruSp::new(&setup);
    let mut misses = [0, 0];
    for &of in uses {
        if policy.contains(of.1) {
            policy.hit(&used(of));
        } else {
            policy.miss(&used(of), &mut Frames).expect("no victim is refused");
            misses[of.0 as usize] += 1;
        }
    }
    policy.check_invariants();
    (policy, misses)
}

fn charges_ended(policy: &LruSp) -> f64 {
    let mut found = None;
    policy.state(&mut |figure, value| found = found.or((figure == "charges ended").then_some(value)));
    found.expect("a figure")
}

#[test]
fn a_fool_loses_its_charge_soon_and_has_the_misses_of_lru_from_then_on() {
    let uses = uses();
    let (_, lru) = run("lru-sp", [Manager::Lru, Manager::Lru], &uses);
    let (never, foolish) = run("lru-sp", [Manager::Foolish, Manager::Lru], &uses);
    let (policy, revoked) = run("lru-sp:revoke=32", [Manager::Foolish, Manager::Lru], &uses);
    assert_eq!((charges_ended(&never), charges_ended(&policy)), (0.0, 1.0));
    assert_eq!(
        (foolish[INNOCENT as usize], revoked[INNOCENT as usize]),
        (lru[INNOCENT as usize], lru[INNOCENT as usize])
    );
    assert!(foolish[FOOL as usize] > lru[FOOL as usize] * 3 / 2, "{foolish:?} for {lru:?}");
    assert!(revoked[FOOL as usize] < lru[FOOL as usize] + 150, "{revoked:?} for {lru:?}");
}

#[test]
fn managers_that_are_right_more_often_keep_their_charge() {
    let looped: Vec<(u32, u32)> = (0..20_000).map(|at| (at % 2, at % 2 * 100 + at / 2 % 80)).collect();
    let (policy, misses) = run("lru-sp:revoke=32", [Manager::Mru, Manager::Rmin], &looped);
    assert_eq!(charges_ended(&policy), 0.0);
    assert!(misses[0] + misses[1] < 15_000, "LRU has 20,000: {misses:?}");
    let (policy, _) = run("lru-sp:revoke=32", [Manager::LruK(2), Manager::Rmin], &uses());
    assert_eq!(charges_ended(&policy), 0.0, "LRU-2 is wrong at times");
}

#[test]
fn whoever_has_the_number_of_a_fool_next_is_judged_anew() {
    let (mut policy, _) = run("lru-sp:revoke=32", [Manager::Mru, Manager::Lru], &uses());
    let ended =
        |policy: &mut LruSp, object| policy.control(&Control::ChargesEnded { object }).expect("it has managers");
    assert_eq!([None, Some(FOOL), Some(INNOCENT)].map(|object| ended(&mut policy, object)), [1, 1, 0]);
    policy.control(&Control::Leave { owner: FOOL }).expect("it has managers");
    let rounds = |policy: &mut LruSp| {
        (0..4_000).map(|at| (FOOL, at % 80)).fold(0, |misses, of| {
            let hit = policy.contains(of.1);
            if hit {
                policy.hit(&used(of))
            } else {
                policy.miss(&used(of), &mut Frames).expect("no victim is refused")
            }
            misses + u32::from(!hit)
        })
    };
    rounds(&mut policy);
    assert!(rounds(&mut policy) < 3_000, "under MRU a loop has hits");
    assert_eq!([None, Some(FOOL)].map(|object| ended(&mut policy, object)), [1, 0]);
}
