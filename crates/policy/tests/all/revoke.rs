//! Under LRU-SP with `revoke` a manager that is caught at mistakes loses its charge; one that is right keeps it.

use crate::managed::{self, AnyVictim, refer, under};
use forebay_basis::Operation;
use forebay_policy::managers::{Assignment, Manager};
use forebay_policy::readahead::WithReadahead;
use forebay_policy::{Charge, Control, Future, LruSp, Policy, Reference};
use std::collections::HashMap;
use std::sync::Arc;

const FOOL: u32 = 0;
const INNOCENT: u32 = 1;
const FRAMES: u32 = 60;
const PAGES: u32 = 200;

fn used((owner, page): (u32, u32)) -> Reference {
    managed::used(owner, owner, page)
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
    let mut setup = under(settings, assignment).setup(FRAMES, PAGES);
    let pages = uses.iter().map(|of| of.1).collect();
    setup.future = Some(Arc::new(Future::new(Arc::new(pages), PAGES)));
    let mut policy = LruSp::new(&setup);
    let mut misses = [0, 0];
    for &of in uses {
        misses[of.0 as usize] += u32::from(!refer(&mut policy, &used(of)));
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

/// The misses of each owner where each brings the next pages of its own ahead, and the mistakes caught.
fn run_ahead(settings: &str, managers: [Manager; 2]) -> ([u32; 2], f64, f64) {
    let mut assignment = Assignment::new(None);
    (0..).zip(managers).for_each(|(owner, manager)| assignment.add(manager, Some(&[owner]), None));
    let mut policy = WithReadahead::<LruSp>::new(&under(settings, assignment).setup(FRAMES, PAGES));
    let mut misses = [0, 0];
    for of @ (owner, page) in uses() {
        if policy.waits(page) {
            policy.first_use(&used(of), &mut AnyVictim);
            continue;
        }
        if refer(&mut policy, &used(of)) {
            continue;
        }
        misses[owner as usize] += 1;
        for ahead in (page + 1..page + 3).filter(|ahead| ahead / 100 == owner) {
            if !policy.contains(ahead) {
                // It may be that too many wait.
                let _ =
                    policy.miss(&Reference { operation: Operation::Readahead, ..used((owner, ahead)) }, &mut AnyVictim);
            }
        }
    }
    policy.check_invariants();
    let mut figures = HashMap::new();
    policy.state(&mut |figure, value| _ = figures.insert(figure, value));
    (misses, figures["mistakes caught"], figures["charges ended"])
}

#[test]
fn mistakes_are_caught_where_pages_are_read_ahead() {
    let (lru, ..) = run_ahead("lru-sp", [Manager::Lru, Manager::Lru]);
    let ([_, without], ..) = run_ahead("lru-sp:place-holders=off", [Manager::Mru, Manager::Lru]);
    let ([_, innocent], caught, _) = run_ahead("lru-sp", [Manager::Mru, Manager::Lru]);
    assert!(caught > 1000.0, "{caught}");
    assert!(without > lru[1] * 103 / 100 && innocent <= lru[1], "{innocent} for {}, {without} without", lru[1]);
    let (revoked, caught, ended) = run_ahead("lru-sp:revoke=32", [Manager::Mru, Manager::Lru]);
    assert!(ended == 1.0 && (32.0..300.0).contains(&caught), "{ended}, {caught}");
    assert!(revoked[0] < lru[0] + 150, "{revoked:?} for {lru:?}");
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
    let rounds =
        |policy: &mut LruSp| (0..4_000).map(|at| u32::from(!refer(policy, &used((FOOL, at % 80))))).sum::<u32>();
    rounds(&mut policy);
    assert!(rounds(&mut policy) < 3_000, "under MRU a loop has hits");
    assert_eq!([None, Some(FOOL)].map(|object| ended(&mut policy, object)), [1, 0]);
}

#[test]
fn other_managers_of_its_own_choice_do_not_give_a_fool_its_charge_back_but_other_rules_do() {
    let (mut policy, _) = run("lru-sp:revoke=32", [Manager::Mru, Manager::Lru], &uses());
    let assign = |policy: &mut LruSp, manager, rule| {
        let charge = Some(Charge { manager, rule, listed: None });
        policy.control(&Control::Assign { owner: Some(FOOL), object: FOOL, charge }).expect("it has managers");
        // A page goes to its new manager at its next use.
        let mut low = uses();
        low.retain(|of| of.0 == FOOL);
        low.iter().take(500).for_each(|&of| _ = refer(policy, &used(of)));
        policy.control(&Control::ChargesEnded { object: Some(FOOL) }).expect("it has managers")
    };
    for own in [Manager::LruK(3), Manager::TwoHandedClock(7), Manager::Mru, Manager::LruK(2)] {
        assert_eq!(assign(&mut policy, own.clone(), 0), 1, "its own word: {own:?}");
    }
    assert_eq!(assign(&mut policy, Manager::LruK(2), 7), 1, "the first word of a rule is none of another");
    assert_eq!(assign(&mut policy, Manager::LruK(3), 8), 0, "another rule");
    policy.check_invariants();
}
