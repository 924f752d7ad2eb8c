//! The managers that go round in a circle, against CLOCK and against the words of their rule.

use forebay_basis::Place;
use forebay_policy::managers::{Assignment, Manager};
use forebay_policy::{AllRefused, Caller, Clock, LruSp, Policy, Reference, Spec};
use proptest::prelude::*;
use std::sync::Arc;

const PAGES: u32 = 30;

#[derive(Default)]
struct Frames {
    victims: Vec<u32>,
    offers: Vec<u32>,
    refuses: bool,
}

impl Caller for Frames {
    fn evict(&mut self, page: u32) -> bool {
        self.offers.push(page);
        if !self.refuses {
            self.victims.push(page);
        }
        !self.refuses
    }

    fn forget(&mut self, _: u32) {}
}

fn refer(policy: &mut impl Policy, page: u32, frames: &mut Frames) -> Result<(), AllRefused> {
    let reference = Reference { place: Place { object: 0, block: u64::from(page) }, ..Reference::of(page) };
    if policy.contains(page) {
        policy.hit(&reference);
    } else {
        policy.miss(&reference, frames)?;
    }
    policy.check_invariants();
    Ok(())
}

/// One owner, whose manager alone decides.
fn managed(manager: Manager, capacity: u32) -> LruSp {
    let spec = Spec::parse("lru-sp:place-holders=off").expect("a policy");
    let spec = Spec { managers: Some(Arc::new(Assignment::new(Some(manager)))), ..spec };
    LruSp::new(&spec.setup(capacity, PAGES))
}

/// Skewed uses and loops.
fn uses() -> impl Strategy<Value = Vec<u32>> {
    let drawn = prop::collection::vec((0..PAGES, 0..PAGES).prop_map(|(one, two)| one.min(two)), 1..60);
    let looped = (1..PAGES, 1usize..4).prop_map(|(most, times)| (0..most).collect::<Vec<_>>().repeat(times));
    prop::collection::vec(prop_oneof![drawn, looped], 1..5).prop_map(|parts| parts.concat())
}

/// A page in the circle of a two-handed clock, from the hand that gives up on.
struct Seat {
    page: u32,
    used: bool,
    passed: bool,
}

/// The victims of a two-handed clock.
fn by_the_rule(spread: usize, capacity: usize, uses: &[u32]) -> Vec<u32> {
    let (mut circle, mut victims): (Vec<Seat>, _) = (Vec::new(), Vec::new());
    for &page in uses {
        if let Some(seat) = circle.iter_mut().find(|seat| seat.page == page) {
            seat.used = true;
            continue;
        }
        while circle.len() == capacity {
            while circle.iter().filter(|seat| seat.passed).count() < spread {
                let Some(seat) = circle.iter_mut().find(|seat| !seat.passed) else { break };
                (seat.passed, seat.used) = (true, false);
            }
            let seat = circle.remove(0);
            if seat.used {
                circle.push(Seat { passed: false, ..seat });
            } else {
                victims.push(seat.page);
            }
        }
        circle.push(Seat { page, used: false, passed: false });
    }
    victims
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 500 } else { 5_000 }))]

    #[test]
    fn second_chance_over_all_pages_is_clock(capacity in 1u32..12, uses in uses()) {
        let mut clock = Clock::new(&Spec::parse("clock").expect("a policy").setup(capacity, PAGES));
        let (mut policy, mut of_clock, mut of_manager) = (managed(Manager::SecondChance, capacity), Frames::default(), Frames::default());
        for page in uses {
            refer(&mut clock, page, &mut of_clock).expect("no victim is refused");
            refer(&mut policy, page, &mut of_manager).expect("no victim is refused");
        }
        prop_assert_eq!(of_manager.victims, of_clock.victims);
    }

    #[test]
    fn a_two_handed_clock_gives_up_what_was_not_used_between_its_hands(
        capacity in 1u32..12, spread in 1u32..14, uses in uses(),
    ) {
        let (mut policy, mut frames) = (managed(Manager::TwoHandedClock(spread), capacity), Frames::default());
        uses.iter().for_each(|&page| refer(&mut policy, page, &mut frames).expect("no victim is refused"));
        prop_assert_eq!(frames.victims, by_the_rule(spread as usize, capacity as usize, &uses));
    }

    #[test]
    fn where_all_are_refused_each_is_offered_twice_at_most(capacity in 1u32..12, spread in 0u32..14, uses in uses()) {
        let manager = if spread == 0 { Manager::SecondChance } else { Manager::TwoHandedClock(spread) };
        let (mut policy, mut frames) = (managed(manager, capacity), Frames::default());
        uses.iter().for_each(|&page| refer(&mut policy, page, &mut frames).expect("no victim is refused"));
        let resident: Vec<u32> = (0..PAGES).filter(|&page| policy.contains(page)).collect();
        let Some(absent) = (0..PAGES).find(|page| !resident.contains(page)) else { return Ok(()) };
        if resident.len() == capacity as usize {
            let mut refuses = Frames { refuses: true, ..Frames::default() };
            prop_assert_eq!(refer(&mut policy, absent, &mut refuses), Err(AllRefused));
            policy.check_invariants();
            for page in resident {
                let offers = refuses.offers.iter().filter(|&&other| other == page).count();
                prop_assert!((1..=2).contains(&offers), "page {page} is offered {offers} times");
            }
        }
    }
}

#[test]
fn pages_that_stay_used_are_passed_and_those_used_before_the_first_hand_came_go() {
    // Pages 0 to 3 came in this order; 0 and 1 were used since. Three pages apart, the first hand has cleared 0, 1 and 2.
    let victims = |manager: Manager| {
        let (mut policy, mut frames) = (managed(manager, 4), Frames::default());
        [0, 1, 2, 3, 0, 1, 4, 1, 5].into_iter().for_each(|page| {
            refer(&mut policy, page, &mut frames).expect("no victim is refused");
        });
        frames.victims
    };
    assert_eq!(victims(Manager::SecondChance), [2, 3], "0 and 1 have their second chance");
    assert_eq!(victims(Manager::TwoHandedClock(3)), [0, 2], "of those that were cleared 1 is used again");
}
