//! LRU-SP's worked examples and its three principles (section 3 of the paper, where it says "we can prove that this algorithm
//! satisfies all three").
//!
//! The principles hold of owners that share no page. What each says exactly, as it is tested here:
//!
//! 1. An owner that never overrules misses nowhere that it would hit under global LRU: reference by reference, whatever the
//!    managers of the others do.
//! 2. An owner whose overrulings are all foolish changes nothing for the others: each of their references hits or
//!    misses as if it had never overruled, whatever their managers are.
//! 3. An owner whose overrulings are all wise has no more misses than under global LRU, whatever the managers of the others do.
//!
//! What is *not* true is principle 3 read as "one more owner that decides wisely makes nobody worse off than before". Both
//! are bounded by global LRU, but others may lose a gain that they owed to a third owner's wise decisions:
//! `a_wise_owner_may_cost_another_what_a_third_had_given` is the example. Nor is it true of an owner whose own
//! overrulings are of both kinds: its own foolish ones cost it what they cost.

use forebay_basis::Place;
use forebay_policy::managers::{Assignment, FileOrder, Filter, Manager, Weights};
use forebay_policy::{Caller, Future, LruSp, Opt, Policy, Reference, Spec};
use proptest::prelude::*;
use std::sync::Arc;

const OWNERS: u32 = 3;
const FILES: u32 = 3;
const PAGES: u32 = 27;

/// Pages of three owners, each with three files.
fn reference(page: u32) -> Reference {
    let object = page % (OWNERS * FILES);
    let place = Place { object, block: u64::from(page / (OWNERS * FILES)) };
    Reference { owner: object % OWNERS, place, ..Reference::of(page) }
}

fn owner(page: u32) -> u32 {
    reference(page).owner
}

/// A cache with what its managers have given up, in order.
struct Cache {
    policy: LruSp,
    victims: Victims,
}

#[derive(Default)]
struct Victims(Vec<u32>);

impl Caller for Victims {
    fn evict(&mut self, page: u32) -> bool {
        self.0.push(page);
        true
    }

    fn forget(&mut self, _: u32) {}
}

impl Cache {
    fn new(settings: &str, capacity: u32, assignment: Assignment, future: &[u32]) -> Self {
        let spec = Spec { managers: Some(Arc::new(assignment)), ..Spec::parse(settings).unwrap() };
        let mut setup = spec.setup(capacity, PAGES);
        setup.future = Some(Arc::new(Future::new(Arc::new(future.to_vec()), PAGES)));
        Self { policy: LruSp::new(&setup), victims: Victims::default() }
    }

    fn hits(&mut self, reference: &Reference) -> bool {
        let hit = self.policy.contains(reference.page);
        if hit {
            self.policy.hit(reference);
        } else {
            self.policy.miss(reference, &mut self.victims).unwrap();
        }
        self.policy.check_invariants();
        hit
    }

    fn state(&self, name: &str) -> f64 {
        let mut found = None;
        self.policy.state(&mut |figure, value| found = found.or((figure == name).then_some(value)));
        found.unwrap()
    }
}

/// Which references hit.
fn run(capacity: u32, pages: &[u32], assignment: Assignment) -> Vec<bool> {
    let mut cache = Cache::new("lru-sp", capacity, assignment, pages);
    pages.iter().map(|&page| cache.hits(&reference(page))).collect()
}

fn misses(pages: &[u32], hits: &[bool], of: u32) -> usize {
    pages.iter().zip(hits).filter(|&(&page, hit)| owner(page) == of && !hit).count()
}

/// By owner.
fn assign(managers: impl IntoIterator<Item = (u32, Manager)>) -> Assignment {
    let mut assignment = Assignment::new(None);
    for (owner, manager) in managers {
        assignment.add(manager, Some(&[owner]), None);
    }
    assignment
}

fn any_manager() -> impl Strategy<Value = Manager> {
    let filter = Just((0..OWNERS * FILES).collect::<Vec<u32>>()).prop_shuffle();
    prop_oneof![
        Just(Manager::Mru),
        Just(Manager::Sequential),
        Just(Manager::FileOrder(FileOrder::new(vec![1..3, 0..1]))),
        filter.prop_map(|files| Manager::Filter(Filter::new(&files))),
        Just(Manager::AccessOnce),
        Just(Manager::Weights(Weights::new(&[(0, 3.0), (1, 0.5), (5, 3.0)]).unwrap())),
        (1usize..4).prop_map(Manager::LruK),
        Just(Manager::SecondChance),
        (1u32..6).prop_map(Manager::TwoHandedClock),
        Just(Manager::Rmin),
        Just(Manager::Foolish),
    ]
}

fn pages() -> impl Strategy<Value = Vec<u32>> {
    let drawn = prop::collection::vec(0..PAGES, 1..20);
    let few = prop::collection::vec(0..9u32, 1..20);
    let repeated = (drawn.clone(), 1usize..4).prop_map(|(pages, times)| pages.repeat(times));
    prop::collection::vec(prop_oneof![drawn, few, repeated], 1..4).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_000 } else { 20_000 }))]

    #[test]
    fn one_who_never_overrules_hits_wherever_global_lru_hits(
        capacity in 1u32..12, pages in pages(), managers in [any_manager(), any_manager()],
    ) {
        let lru = run(capacity, &pages, assign([]));
        let managed = run(capacity, &pages, assign((1..).zip(managers)));
        for (now, &page) in pages.iter().enumerate() {
            prop_assert!(owner(page) != 0 || managed[now] || !lru[now], "reference {now} to page {page}");
        }
    }

    #[test]
    fn foolish_decisions_change_nothing_for_others(
        capacity in 1u32..12, pages in pages(), managers in [any_manager(), any_manager()],
    ) {
        let others = || (1..).zip(managers.clone());
        let without = run(capacity, &pages, assign(others()));
        let with = run(capacity, &pages, assign(others().chain([(0, Manager::Foolish)])));
        for (now, &page) in pages.iter().enumerate() {
            prop_assert!(owner(page) == 0 || with[now] == without[now], "reference {now} to page {page}");
        }
    }

    /// Wise in many ways: each file of owner 0 falls to one of two managers that know the future, or to none.
    #[test]
    fn wise_decisions_cost_nothing_against_global_lru(
        capacity in 1u32..12, pages in pages(), fate in [0..3, 0..3, 0..3], managers in [any_manager(), any_manager()],
    ) {
        let mut assignment = assign((1..).zip(managers));
        for manager in 1..3 {
            let files = (0..FILES).filter(|&file| fate[file as usize] == manager).map(|file| file * OWNERS);
            assignment.add(Manager::Rmin, Some(&[0]), Some(&files.collect::<Vec<_>>()));
        }
        let lru = run(capacity, &pages, assign([]));
        let managed = run(capacity, &pages, assignment);
        prop_assert!(misses(&pages, &managed, 0) <= misses(&pages, &lru, 0));
    }

    #[test]
    fn rmin_over_all_pages_is_the_optimum(capacity in 1u32..12, pages in pages()) {
        let mut cache = Cache::new("lru-sp:manager=rmin", capacity, assign([]), &pages);
        let mut setup = Spec::parse("opt").unwrap().setup(capacity, PAGES);
        setup.future = Some(Arc::new(Future::new(Arc::new(pages.clone()), PAGES)));
        let (mut opt, mut hits, mut most) = (Opt::new(&setup), 0, 0);
        for page in pages {
            hits += u32::from(cache.hits(&Reference::of(page)));
            most += u32::from(opt.contains(page));
            if opt.contains(page) { opt.hit(&Reference::of(page)) } else { opt.miss(&Reference::of(page), &mut Victims::default()).unwrap() }
        }
        prop_assert_eq!(hits, most);
    }

    #[test]
    fn where_nobody_overrules_it_is_global_lru(capacity in 1u32..12, pages in pages()) {
        let mut lru: Vec<u32> = Vec::new();
        let hits = run(capacity, &pages, assign([]));
        for (now, &page) in pages.iter().enumerate() {
            prop_assert_eq!(hits[now], lru.contains(&page));
            lru.retain(|&other| other != page);
            lru.insert(0, page);
            lru.truncate(capacity as usize);
        }
    }
}

/// One step of a worked example: the page used, and the pages resident afterwards.
type Step = (char, &'static str);

/// Replays an example of the paper. Its pages are letters; A to C are P's, the others Q's.
fn replay(settings: &str, first: &str, steps: &[Step], assignment: Assignment) -> (Cache, u32) {
    let number = |letter: char| u32::from(letter) - u32::from('A');
    let future: Vec<u32> = first.chars().chain(steps.iter().map(|step| step.0)).map(number).collect();
    let mut cache = Cache::new(settings, first.len() as u32, assignment, &future);
    let mut misses = 0;
    let hits = |cache: &mut Cache, letter| {
        let owner = u32::from(letter > 'C');
        cache.hits(&Reference { owner, place: Place { object: owner, block: 0 }, ..Reference::of(number(letter)) })
    };
    first.chars().for_each(|letter| assert!(!hits(&mut cache, letter)));
    for &(letter, expected) in steps {
        misses += u32::from(!hits(&mut cache, letter));
        let resident: String = ('A'..='Z').filter(|&letter| cache.policy.contains(number(letter))).collect();
        assert_eq!(resident, expected, "after {letter}");
    }
    (cache, misses)
}

/// The paper's first example: the list is A W X B, A at its end; then Y, Z, A, B. P saves A and gives up B.
fn saves_a(settings: &str, steps: &[Step]) -> (Cache, u32) {
    replay(settings, "AWXB", steps, assign([(0, Manager::Rmin)]))
}

#[test]
fn without_swapping_a_wise_owner_is_asked_again_too_soon() {
    let steps = [('Y', "AWXY"), ('Z', "WXYZ"), ('A', "AXYZ"), ('B', "ABYZ")];
    let (cache, misses) = saves_a("lru-sp:swapping=off", &steps);
    assert_eq!((misses, cache.state("overrulings"), cache.state("swaps")), (4, 1.0, 0.0));
}

#[test]
fn with_swapping_the_page_that_is_saved_is_hit() {
    let (cache, misses) = saves_a("lru-sp", &[('Y', "AWXY"), ('Z', "AXYZ"), ('A', "AXYZ"), ('B', "ABYZ")]);
    assert_eq!((misses, cache.state("overrulings"), cache.state("swaps")), (3, 1.0, 1.0));
    assert_eq!((cache.state("mistakes caught"), cache.state("place-holders")), (0.0, 0.0));
}

/// The paper's second example: the list is X A Y; then Z, Y, A. Q gives up Y, which it needs next.
fn gives_up_y(settings: &str, steps: &[Step]) -> (Cache, u32) {
    replay(settings, "XAY", steps, assign([(1, Manager::Foolish)]))
}

#[test]
fn without_place_holders_a_foolish_owner_costs_another_a_miss() {
    let (cache, misses) = gives_up_y("lru-sp:place-holders=off", &[('Z', "AXZ"), ('Y', "XYZ"), ('A', "AYZ")]);
    assert_eq!((misses, cache.state("mistakes caught")), (3, 0.0));
}

#[test]
fn with_place_holders_a_foolish_owner_pays_alone() {
    let (cache, misses) = gives_up_y("lru-sp", &[('Z', "AXZ"), ('Y', "AYZ"), ('A', "AYZ")]);
    assert_eq!((misses, cache.state("overrulings"), cache.state("mistakes caught")), (2, 1.0, 1.0));
    assert_eq!(cache.victims.0.len(), 2);
}

/// Four frames; owner 0 uses pages 0 and 3, owner 1 pages 1 and 4, owner 2 page 2. Owners 0 and 1 decide as wisely as can be.
#[test]
fn a_wise_owner_may_cost_another_what_a_third_had_given() {
    let pages = [0, 1, 3, 2, 4, 0, 1, 3, 2, 0];
    let all = |hits: Vec<bool>| [0, 1, 2].map(|owner| misses(&pages, &hits, owner));
    assert_eq!(all(run(4, &pages, assign([]))), [4, 3, 2]);
    assert_eq!(all(run(4, &pages, assign([(1, Manager::Rmin)]))), [3, 2, 1]);
    assert_eq!(all(run(4, &pages, assign([(0, Manager::Rmin), (1, Manager::Rmin)]))), [3, 2, 2]);
}

#[test]
fn a_shared_file_has_the_manager_that_its_users_agree_on_or_none() {
    // Owners 0 and 1 use pages 0 to 2 of one file in turn; page 3 evicts one of them.
    let victim = |assignment: Assignment| {
        let pages = [0, 1, 2, 0, 1, 2, 3];
        let mut cache = Cache::new("lru-sp", 3, assignment, &pages);
        for (now, page) in pages.into_iter().enumerate() {
            let place = Place { object: page / 3, block: u64::from(page) };
            cache.hits(&Reference { owner: now as u32 % 2, place, ..Reference::of(page) });
        }
        cache.victims.0[0]
    };
    let both = |manager: Manager| {
        let mut assignment = Assignment::new(None);
        assignment.add(manager, Some(&[0, 1]), None);
        assignment
    };
    assert_eq!(victim(assign([])), 0);
    assert_eq!(victim(both(Manager::Mru)), 2);
    assert_eq!(victim(both(Manager::AccessOnce)), 1);
    // Equal managers agree, also by two rules. One owner's manager alone does not rule over the other.
    assert_eq!(victim(assign([(0, Manager::Mru), (1, Manager::Mru)])), 2);
    assert_eq!(victim(assign([(0, Manager::Mru), (1, Manager::LruK(2))])), 0);
    assert_eq!(victim(assign([(1, Manager::Mru)])), 0);
    // A rule about the file is one for both.
    let mut of_file = assign([]);
    of_file.add(Manager::Mru, None, Some(&[0]));
    assert_eq!(victim(of_file), 2);
    assert_eq!(victim(Assignment::new(Some(Manager::Mru))), 2);
}

#[test]
fn each_manager_gives_up_what_its_pattern_says() {
    // One owner uses pages 0 to 8 of two files (0 to 4, 5 to 8) as given, then a page of another owner's: who goes?
    let victims = |manager: Manager, pages: &[u32], more: u32| {
        let mut assignment = Assignment::new(None);
        assignment.add(manager, Some(&[0]), None);
        let mut cache = Cache::new("lru-sp", 6, assignment, pages);
        for &page in pages {
            let place = if page < 5 { (0, page) } else { (1, page - 5) };
            let place = Place { object: place.0, block: u64::from(place.1) };
            cache.hits(&Reference { place, ..Reference::of(page) });
        }
        for page in 20..20 + more {
            cache.hits(&Reference { owner: 1, place: Place { object: 2, block: 0 }, ..Reference::of(page) });
        }
        cache.victims.0
    };
    let in_turn = [0, 1, 5, 2, 3, 6];
    assert_eq!(victims(Manager::Mru, &in_turn, 3), [6, 3, 2]);
    assert_eq!(victims(Manager::SameOrder, &in_turn, 3), [6, 3, 2]);
    assert_eq!(victims(Manager::AccessOnce, &in_turn, 3), [3, 2, 5]);
    // Of the candidate's file, 0, block 3 was read last. Below: 5 is the candidate, of whose file 6 was read last; then 2, whose
    // file is at block 1 of its second pass.
    assert_eq!(victims(Manager::Sequential, &in_turn, 2), [3, 2]);
    assert_eq!(victims(Manager::Sequential, &[0, 1, 5, 2, 3, 6, 0, 1], 2), [6, 1]);
    // Blocks 3 and 4 are read first, then 0 to 2: after 3 come 0, 1, 2, so that 3 is needed last, then 2.
    assert_eq!(victims(Manager::FileOrder(FileOrder::new(vec![3..5, 0..3])), &in_turn, 2), [3, 2]);
    // The second file is read before the first: behind its block 1 comes all of the first.
    assert_eq!(victims(Manager::Filter(Filter::new(&[1, 0])), &in_turn, 3), [6, 5, 3]);
    // Ages 5 4 3 2 1 0 and one more: those of the first file count for a tenth.
    assert_eq!(victims(Manager::Weights(Weights::new(&[(0, 10.0)]).unwrap()), &in_turn, 3), [5, 6, 0]);
    // Used twice: 0, 1. The others go by LRU first, then those two by their last use but one.
    assert_eq!(victims(Manager::LruK(2), &[1, 0, 5, 2, 3, 6, 0, 1], 5), [5, 2, 3, 6, 1]);
    // Never used again: none of these, until 0, which is used last of all.
    assert_eq!(victims(Manager::Rmin, &[0, 1, 5, 2, 3, 6, 7, 6, 3, 2, 5, 1], 0), [0]);
    assert_eq!(victims(Manager::Foolish, &[0, 1, 5, 2, 3, 6, 7, 6], 0)[0], 6);
}

#[test]
fn a_refused_choice_is_followed_by_the_managers_next_then_by_other_managers() {
    struct Refuses(Vec<u32>);
    impl Caller for Refuses {
        fn evict(&mut self, page: u32) -> bool {
            self.0.push(page);
            false
        }

        fn forget(&mut self, page: u32) {
            panic!("page {page} is still there");
        }
    }
    // List, from its end: 0 (owner 0), 1 (owner 1), 3 (owner 0), 2 (owner 2), 4 (owner 1).
    let pages = [0, 1, 3, 2, 4];
    let mut cache = Cache::new("lru-sp", 5, assign([(0, Manager::Mru), (1, Manager::AccessOnce)]), &pages);
    pages.iter().for_each(|&page| assert!(!cache.hits(&reference(page))));
    let mut refuses = Refuses(Vec::new());
    assert!(cache.policy.miss(&reference(5), &mut refuses).is_err());
    assert_eq!(refuses.0, [3, 0, 1, 4, 2]);
    cache.policy.check_invariants();
}
