//! Owners who say that they use nothing twice, on files of others, under LRU-SP: what their word gives the others, and what it cannot take.

use forebay_basis::Place;
use forebay_policy::managers::{Assignment, Manager};
use forebay_policy::{AllRefused, Caller, Control, LruSp, Policy, Reference, Spec};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// Owners below this use pages as usual; those from here on once.
const USUAL: u32 = 2;
const OWNERS: u32 = 4;
const PAGES: u32 = 24;
const SCANS: u32 = 2;
const READS: u32 = 0;

#[derive(Default)]
struct Frames {
    /// This many offers are refused before one is accepted.
    refusals: u32,
}

impl Caller for Frames {
    fn evict(&mut self, _: u32) -> bool {
        let accepted = self.refusals == 0;
        self.refusals -= u32::from(!accepted);
        accepted
    }

    fn forget(&mut self, _: u32) {}
}

/// A use of a page of the one file that all share.
fn used(owner: u32, page: u32) -> Reference {
    let place = Place { object: 0, block: u64::from(page) };
    Reference { owner, place, ..Reference::of(page) }
}

/// Owners from `USUAL` on use everything once, each by a rule of its own; `usual` manages the others.
fn cache(capacity: u32, usual: Manager) -> LruSp {
    let mut assignment = Assignment::new(Some(usual));
    (USUAL..OWNERS).for_each(|owner| assignment.add(Manager::AccessOnce, Some(&[owner]), None));
    let spec = Spec { managers: Some(Arc::new(assignment)), ..Spec::parse("lru-sp").expect("a policy") };
    LruSp::new(&spec.setup(capacity, PAGES))
}

fn refer(policy: &mut LruSp, reference: &Reference, frames: &mut Frames) -> Result<bool, AllRefused> {
    let hit = policy.contains(reference.page);
    if hit {
        policy.hit(reference);
    } else {
        policy.miss(reference, frames)?;
    }
    policy.check_invariants();
    Ok(hit)
}

/// Whether each use hits.
fn run(policy: &mut LruSp, uses: &[(u32, u32)]) -> Vec<bool> {
    let mut one = |&(owner, page): &(u32, u32)| refer(policy, &used(owner, page), &mut Frames::default());
    uses.iter().map(|of| one(of).expect("no victim is refused")).collect()
}

fn resident(policy: &LruSp) -> Vec<u32> {
    (0..PAGES).filter(|&page| policy.contains(page)).collect()
}

/// Whether each use hits in a cache under LRU.
fn under_lru(capacity: usize, uses: &[(u32, u32)]) -> Vec<bool> {
    let mut list: Vec<u32> = Vec::new();
    let one = |&(_, page): &(u32, u32)| {
        let hit = list.contains(&page);
        list.retain(|&other| other != page);
        list.insert(0, page);
        list.truncate(capacity);
        hit
    };
    uses.iter().map(one).collect()
}

/// Uses by owner and page, skewed, beside loops. The first is an ordinary one.
fn uses() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let drawn = prop::collection::vec((0..OWNERS, prop_oneof![0..6u32, 0..PAGES]), 1..40);
    let scan = (USUAL..OWNERS, 0..PAGES, 1..PAGES)
        .prop_map(|(owner, from, length)| (from..from + length).map(|page| (owner, page % PAGES)).collect::<Vec<_>>());
    let parts = prop::collection::vec(prop_oneof![3 => drawn, 1 => scan], 1..6);
    parts.prop_map(|parts| [vec![(READS, 0)], parts.concat()].concat())
}

fn usually(&(owner, _): &(u32, u32)) -> bool {
    owner < USUAL
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_000 } else { 20_000 }))]

    #[test]
    fn what_is_used_once_goes_first_in_its_order_and_the_rest_is_lru(capacity in 1usize..12, uses in uses()) {
        let mut policy = cache(capacity as u32, Manager::Lru);
        let (mut ordinary, mut once): (VecDeque<u32>, VecDeque<u32>) = Default::default();
        for of @ &(_, page) in &uses {
            let known = [ordinary.contains(&page), once.contains(&page)];
            prop_assert_eq!(run(&mut policy, &[*of])[0], known.contains(&true));
            if known == [false; 2] && ordinary.len() + once.len() == capacity {
                let _ = once.pop_back().or_else(|| ordinary.pop_back());
            }
            if usually(of) {
                ordinary.retain(|&other| other != page);
                once.retain(|&other| other != page);
                ordinary.push_front(page);
            } else if known == [false; 2] {
                once.push_front(page);
            }
        }
    }

    #[test]
    fn others_hit_wherever_they_would_alone_with_a_frame_less(capacity in 2usize..12, uses in uses()) {
        let hits = run(&mut cache(capacity as u32, Manager::Lru), &uses);
        let of_others: Vec<(u32, u32)> = uses.iter().copied().filter(usually).collect();
        let mut alone = under_lru(capacity - 1, &of_others).into_iter();
        for (of, hit) in uses.iter().zip(hits).filter(|(of, _)| usually(of)) {
            prop_assert!(hit || alone.next() == Some(false), "{of:?}");
            if hit { alone.next(); }
        }
    }

    #[test]
    fn what_others_have_used_hits_wherever_global_lru_hits(capacity in 1usize..12, uses in uses()) {
        let hits = run(&mut cache(capacity as u32, Manager::Lru), &uses);
        let lru = under_lru(capacity, &uses);
        let mut last = [OWNERS; PAGES as usize];
        for (now, &(owner, page)) in uses.iter().enumerate() {
            let kept_by_others = owner < USUAL && last[page as usize] < USUAL;
            prop_assert!(!kept_by_others || hits[now] || !lru[now], "use {now} of page {page}");
            last[page as usize] = owner;
        }
    }

    #[test]
    fn the_state_is_sound_whatever_is_refused_removed_or_given_up(
        capacity in 1u32..12,
        uses in uses(),
        manager in prop_oneof![Just(Manager::Lru), Just(Manager::Mru), Just(Manager::LruK(2)), Just(Manager::Sequential)],
        happens in prop::collection::vec((0u8..6, 0..PAGES), 200),
    ) {
        let mut policy = cache(capacity, manager);
        for ((owner, page), (what, at)) in uses.into_iter().zip(happens.into_iter().cycle()) {
            let mut frames = Frames { refusals: if what == 0 { at } else { 0 } };
            let before = resident(&policy);
            let answer = refer(&mut policy, &used(owner, page), &mut frames);
            match what {
                2 => policy.remove(at, &mut frames),
                3 => _ = policy.control(&Control::GiveUp { owner: READS, pages: vec![at, page] }).expect("it has managers"),
                4 => policy.resize(1 + at % 12, &mut frames).expect("no victim is refused"),
                _ if answer.is_err() => prop_assert_eq!(before, resident(&policy)),
                _ => prop_assert!(policy.contains(page)),
            }
            policy.check_invariants();
        }
    }
}

#[test]
fn a_scan_takes_one_frame_of_those_who_share_its_file() {
    let mut policy = cache(4, Manager::Lru);
    run(&mut policy, &[(READS, 0), (READS, 1), (READS, 2), (READS, 3)]);
    run(&mut policy, &[(SCANS, 10), (SCANS, 11), (SCANS, 12)]);
    assert_eq!(resident(&policy), [1, 2, 3, 12]);
    // A hit of the scan keeps nothing: 1 goes before 2, after what the scan has brought.
    run(&mut policy, &[(SCANS, 1), (READS, 4), (READS, 5)]);
    assert_eq!(resident(&policy), [2, 3, 4, 5]);
    // The next user makes a page of the scan an ordinary one.
    run(&mut policy, &[(SCANS, 13), (READS, 13), (SCANS, 14), (READS, 6)]);
    assert_eq!(resident(&policy), [4, 5, 6, 13], "3 went for 14, and 14 for 6");
}

#[test]
fn a_file_keeps_the_manager_of_those_who_use_it_as_usual() {
    // Under MRU page 1 goes, which was used last; with two owners who disagree it would be 0, by LRU.
    for order in [[READS, SCANS], [SCANS, READS]] {
        let mut policy = cache(3, Manager::Mru);
        run(&mut policy, &order.map(|owner| (owner, 10)));
        run(&mut policy, &[(READS, 0), (READS, 1), (SCANS, 0), (READS, 2)]);
        assert_eq!(resident(&policy), [0, 2, 10], "first {order:?}");
    }
}

#[test]
fn an_owner_alone_with_its_file_has_its_manager_as_the_paper_says() {
    let mut policy = cache(3, Manager::Lru);
    // Of 0, 1, 2 page 1 goes: the last one but one. What goes then is 2, as 3 may still be in use.
    run(&mut policy, &[(SCANS, 0), (SCANS, 1), (SCANS, 2), (SCANS, 3), (SCANS, 4)]);
    assert_eq!(resident(&policy), [0, 3, 4].map(|page| page), "nobody else is asked");
}

#[test]
fn a_backup_under_no_reuse_leaves_an_unmanaged_service_all_but_a_frame() {
    // The service uses pages of its file, skewed; between its uses a backup reads three pages of its own.
    let (capacity, pages) = (60, 40_000);
    let skewed = |time: u64| {
        let drawn = time.wrapping_mul(6_364_136_223_846_793_005) >> 33;
        (drawn % 100) * (drawn / 100 % 100) / 100
    };
    let of_service =
        |page: u32| Reference { owner: 0, place: Place { object: 0, block: u64::from(page) }, ..Reference::of(page) };
    let of_backup =
        |page: u32| Reference { owner: 1, place: Place { object: 1, block: u64::from(page) }, ..Reference::of(page) };
    let misses = |manager: Option<Manager>, capacity: u32, backup: bool| {
        let mut assignment = Assignment::new(None);
        manager.into_iter().for_each(|manager| assignment.add(manager, Some(&[1]), None));
        let spec = Spec { managers: Some(Arc::new(assignment)), ..Spec::parse("lru-sp").expect("a policy") };
        let mut policy = LruSp::new(&spec.setup(capacity, pages));
        let mut frames = Frames::default();
        let mut refer = |reference: &Reference| {
            let hit = policy.contains(reference.page);
            if hit {
                policy.hit(reference)
            } else {
                policy.miss(reference, &mut frames).expect("no victim is refused")
            }
            u32::from(!hit)
        };
        let mut missed = 0;
        for time in 0..10_000_u32 {
            missed += refer(&of_service(skewed(u64::from(time)) as u32));
            for page in (0..if backup { 3 } else { 0 }).map(|next| 100 + 3 * time + next) {
                refer(&of_backup(page));
            }
        }
        policy.check_invariants();
        missed
    };
    let alone = misses(None, capacity - 1, false);
    let beside =
        [None, Some(Manager::AccessOnce), Some(Manager::NoReuse)].map(|manager| misses(manager, capacity, true));
    assert_eq!(beside[0], beside[1], "access-once decides among the backup's own pages");
    assert!(beside[2] <= alone && 2 * alone < beside[0], "{beside:?}, and {alone} alone with a frame less");
}

#[test]
fn owners_that_agree_on_access_once_manage_their_file_together() {
    let by_one_rule = || {
        let mut assignment = Assignment::new(None);
        assignment.add(Manager::AccessOnce, Some(&[SCANS, 3]), None);
        let spec = Spec { managers: Some(Arc::new(assignment)), ..Spec::parse("lru-sp").expect("a policy") };
        LruSp::new(&spec.setup(3, PAGES))
    };
    for mut policy in [by_one_rule(), cache(3, Manager::Lru)] {
        run(&mut policy, &[(SCANS, 0), (3, 0), (SCANS, 1), (3, 2), (SCANS, 3)]);
        assert_eq!(resident(&policy), [0, 2, 3], "1 goes, which both have done with; 2 may still be in use");
    }
}

#[test]
fn who_uses_a_file_once_has_no_say_when_its_users_agree_anew() {
    let mut policy = cache(3, Manager::Lru);
    run(&mut policy, &[(READS, 0), (1, 1), (SCANS, 2), (1, 2)]);
    let manage = |owner, manager| Control::Assign {
        owner: Some(owner),
        object: 0,
        charge: Some(forebay_policy::Charge { manager, rule: 0, listed: None }),
    };
    for (owner, manager) in [(READS, Manager::Mru), (1, Manager::Mru), (SCANS, Manager::AccessOnce)] {
        policy.control(&manage(owner, manager)).expect("it has managers");
    }
    policy.control(&Control::Agree { object: 0 }).expect("it has managers");
    run(&mut policy, &[(READS, 0), (1, 1), (READS, 2), (SCANS, 2), (READS, 3)]);
    assert_eq!(resident(&policy), [0, 1, 3], "MRU is in charge: 2 goes, which was used last as usual");
}
