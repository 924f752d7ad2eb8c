//! Who uses a file at the same time as others, under LRU-SP: a use long ago, and a file that is open no more, take nothing from its manager.

use crate::managed::{self, AnyVictim, refer, under};
use forebay_policy::managers::{Assignment, Manager};
use forebay_policy::{Control, LruSp, Policy, Reference};

const LOOPS: u32 = 0;
const STRAY: u32 = 1;
const PAGES: u32 = 1000;
const FRAMES: u32 = 500;

fn used(owner: u32, page: u32) -> Reference {
    managed::used(owner, 0, page)
}

/// A cache where `LOOPS` reads in the same order, and `also` by the same rule.
fn cache(settings: &str, frames: u32, also: &[u32]) -> LruSp {
    let mut assignment = Assignment::new(None);
    assignment.add(Manager::SameOrder, Some(&[&[LOOPS], also].concat()), None);
    LruSp::new(&under(settings, assignment).setup(frames, PAGES))
}

/// The hits of rounds over all pages; after each of these references of it the cache hears of something else.
fn looped(policy: &mut LruSp, rounds: u32, mut between: impl FnMut(&mut LruSp, u32)) -> u32 {
    let one = |at| {
        let hit = refer(policy, &used(LOOPS, at % PAGES));
        between(policy, at);
        u32::from(hit)
    };
    let sum = (0..rounds * PAGES).map(one).sum();
    policy.check_invariants();
    sum
}

#[test]
fn one_stray_use_costs_a_loop_little_and_everything_if_it_counts_for_ever() {
    let hits_of = |settings: &str, stray: bool, also: &[u32]| {
        let mut policy = cache(settings, FRAMES, also);
        looped(&mut policy, 20, |policy, at| {
            if stray && at == 2500 {
                refer(policy, &used(STRAY, 7));
            }
        })
    };
    assert_eq!(hits_of("lru-sp", false, &[]), 9500, "alone");
    let stray = hits_of("lru-sp", true, &[]);
    assert!(stray >= 9000, "{stray}");
    assert!(hits_of("lru-sp:sharing=0", true, &[]) >= 9400, "it counts for none beside the next user");
    assert!(hits_of("lru-sp:sharing=1000000", true, &[]) <= 1000, "it counts as long as pages are resident");
    assert!(hits_of("lru-sp:sharing=1000000", true, &[STRAY]) >= 9000, "they agree");
}

#[test]
fn two_who_use_a_file_all_the_time_have_to_agree() {
    let hits_of = |also: &[u32]| {
        let mut policy = cache("lru-sp", FRAMES, also);
        looped(&mut policy, 10, |policy, at| _ = refer(policy, &used(STRAY, at % PAGES)))
    };
    assert_eq!(hits_of(&[]), 0, "they do not: LRU");
    assert!(hits_of(&[STRAY]) > 4000, "they do");
}

#[test]
fn owners_whose_rules_name_equal_managers_agree() {
    let hits_of = |of_stray: Manager| {
        let mut assignment = Assignment::new(None);
        assignment.add(Manager::SameOrder, Some(&[LOOPS]), None);
        assignment.add(of_stray, Some(&[STRAY]), None);
        let mut policy = LruSp::new(&under("lru-sp", assignment).setup(FRAMES, PAGES));
        looped(&mut policy, 10, |policy, at| _ = refer(policy, &used(STRAY, at % PAGES)))
    };
    assert!(hits_of(Manager::SameOrder) > 4000, "two rules, one manager");
    assert_eq!(hits_of(Manager::LruK(2)), 0, "two managers");
    // So do rules that come while the cache runs, though each has a number of its own.
    let assign = |policy: &mut LruSp, owner, manager, rule| {
        let charge = Some(forebay_policy::Charge { manager, rule, listed: None });
        policy.control(&Control::Assign { owner: Some(owner), object: 0, charge }).expect("managers");
    };
    for (of_stray, least, most) in [(Manager::Mru, 2400, 3000), (Manager::SameOrder, 0, 0)] {
        let mut policy = LruSp::new(&under("lru-sp", Assignment::new(None)).setup(FRAMES, PAGES));
        assign(&mut policy, LOOPS, Manager::Mru, 1);
        assign(&mut policy, STRAY, of_stray, 2);
        let open = |policy: &mut LruSp, owner| policy.control(&Control::Open { owner: Some(owner), object: 0 });
        [LOOPS, STRAY].iter().for_each(|&owner| _ = open(&mut policy, owner).expect("managers"));
        looped(&mut policy, 1, |_, _| {});
        let hits = looped(&mut policy, 6, |_, _| {});
        assert!((least..=most).contains(&hits), "{hits}");
    }
}

#[test]
fn where_it_is_said_who_has_a_file_open_only_that_counts() {
    let open = |policy: &mut LruSp, owner| _ = policy.control(&Control::Open { owner, object: 0 }).expect("managers");
    let close = |policy: &mut LruSp, owner| _ = policy.control(&Control::Close { owner, object: 0 }).expect("managers");
    let mut policy = cache("lru-sp", FRAMES, &[]);
    open(&mut policy, None);
    open(&mut policy, Some(LOOPS));
    // The cache itself reads, and so does somebody who has nothing open.
    let others = |policy: &mut LruSp, at| _ = refer(policy, &used(if at % 2 == 0 { STRAY } else { 7 }, at % PAGES));
    assert!(looped(&mut policy, 10, others) > 4000, "uses of others change nothing");
    open(&mut policy, Some(STRAY));
    looped(&mut policy, 1, |_, _| {});
    assert_eq!(looped(&mut policy, 3, |_, _| {}), 0, "both have it open and do not agree, though one only uses it");
    close(&mut policy, STRAY);
    looped(&mut policy, 1, |_, _| {});
    assert!(looped(&mut policy, 3, |_, _| {}) > 1200, "it is one owner's again");
    close(&mut policy, LOOPS);
    assert!(looped(&mut policy, 3, |_, _| {}) > 1200, "nobody has it open: it stays whose it was");
    open(&mut policy, Some(STRAY));
    looped(&mut policy, 1, |_, _| {});
    assert_eq!(looped(&mut policy, 3, |_, _| {}), 0, "and becomes the next owner's");
    open(&mut policy, Some(LOOPS));
    policy.control(&Control::Leave { owner: STRAY }).expect("managers");
    looped(&mut policy, 1, |_, _| {});
    assert!(looped(&mut policy, 3, |_, _| {}) > 1200, "an owner that leaves has nothing open");
    policy.control(&Control::Forget { object: 0 }).expect("managers");
    (0..PAGES).for_each(|page| policy.remove(page, &mut AnyVictim));
    assert!(looped(&mut policy, 3, |_, _| {}) > 900, "another file of the number is as a new one");
    policy.check_invariants();
}
