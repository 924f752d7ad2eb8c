use super::*;
use crate::Lirs;
use crate::parts::long_run;
use crate::registry::Spec;

struct AnyVictim;

impl Caller for AnyVictim {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

fn clock_pro(spec: &str, capacity: u32, pages: u32) -> ClockPro {
    ClockPro::new(&Spec::parse(spec).unwrap().setup(capacity, pages))
}

/// Whether it hits.
fn refer<P: Policy>(policy: &mut P, page: u32) -> bool {
    let (hit, reference) = (policy.contains(page), Reference::of(page));
    if hit {
        policy.hit(&reference);
    } else {
        policy.miss(&reference, &mut AnyVictim).unwrap();
    }
    hit
}

/// The hits of these references.
fn hits<P: Policy>(policy: &mut P, pages: impl IntoIterator<Item = u32>) -> u32 {
    let mut hits = 0;
    for page in pages {
        hits += u32::from(refer(policy, page));
        policy.check_invariants();
    }
    hits
}

#[test]
fn a_page_used_in_its_test_makes_it_succeed_though_hand_hot_sees_it_first() {
    let mut policy = clock_pro("clock-pro", 4, 5);
    // 0 and 1 are hot, 2 and 3 cold, all bits set.
    assert_eq!(hits(&mut policy, [0, 1, 2, 3, 0, 1, 2, 3]), 4);
    assert_eq!(policy.cold_target, 2);
    // HAND_cold turns 2 hot: 3. HAND_hot spares 0 and 1, passes 3 and ends its test: 4. It turns 2 cold, which goes.
    assert_eq!(hits(&mut policy, [4]), 0);
    assert_eq!(policy.cold_target, 4);
    assert!(policy.contains(3) && !policy.contains(2));
}

#[test]
fn pages_that_come_once_leave_a_hundredth_of_the_memory_to_cold_pages() {
    for (spec, left) in [("clock-pro", 10), ("clock-pro:least=2", 2), ("clock-pro:least=5%", 50)] {
        let mut policy = clock_pro(spec, 1000, 20_000);
        hits(&mut policy, (0..1000).chain(0..500));
        // A test ends when HAND_test or HAND_hot comes: not while there are fewer ghosts than pages.
        policy.cold_target = 100;
        for page in 1000..20_000 {
            policy.miss(&Reference::of(page), &mut AnyVictim).unwrap();
        }
        assert_eq!(policy.cold_target, left, "{spec}");
        policy.set_capacity(2000, &mut AnyVictim);
        policy.check_invariants();
    }
}

#[test]
fn a_loop_over_more_than_twice_the_memory_hits_only_where_pages_are_admitted_hot() {
    let rounds = || (0..10).flat_map(|_| 0..250);
    assert_eq!(hits(&mut clock_pro("clock-pro:warm-up=cold:recovery=off", 100, 250), rounds()), 0);
    // The 98 hot pages hit in each further round.
    assert_eq!(hits(&mut clock_pro("clock-pro", 100, 250), rounds()), 9 * 98);
}

/// A number below `below`, drawn anew each time.
fn draw(state: &mut u64, below: u32) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % u64::from(below)) as u32
}

/// A working set that moves slowly, with few references far behind, and then laps of a loop. The pages of the loop are from 1,000 on.
fn phases(first: u32, pages: u32, laps: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut behind = || (-60.0 * (f64::from(1 + draw(&mut state, 10_000)) / 10_000.0).ln()) as u32;
    let set = (0..first).map(|time| time / 20 + behind().min(400));
    set.chain((0..laps).flat_map(|_| 1_000..1_000 + pages)).collect()
}

#[test]
fn a_loop_after_another_working_set_hits_nearly_as_often_as_under_lirs() {
    for (first, pages, seed) in
        [(1_000, 120, 1), (3_000, 150, 2), (10_000, 180, 3), (2_500, 110, 4), (700, 400, 5), (5_000, 900, 6)]
    {
        let references = phases(first, pages, 100, seed);
        let setup = Spec::parse("lirs").unwrap().setup(100, 2_000);
        let lirs = hits(&mut Lirs::new(&setup), references.iter().copied());
        let mut policy = clock_pro("clock-pro", 100, 2_000);
        let ours = hits(&mut policy, references.iter().copied());
        assert!(10 * ours >= 9 * lirs, "{first}, {pages}: {ours} hits, LIRS {lirs}");
        assert!((1_000..1_000 + pages).filter(|&page| policy.contains(page)).count() >= 95);
        // The paper's rules keep the first working set for ever, if the loop is longer than the ghosts and cold pages.
        let mut literal = clock_pro("clock-pro:recovery=off", 100, 2_000);
        let theirs = hits(&mut literal, references.iter().copied());
        assert!(pages == 110 || 10 * theirs < 5 * lirs, "{first}, {pages}: {theirs} hits, LIRS {lirs}");
    }
}

#[test]
fn pages_in_use_stay_hot_beside_a_scan_and_a_long_loop() {
    // 80 pages at random, in turns with pages that come once, or with a loop of 2,000 pages.
    for loop_of in [60_000, 2_000] {
        let mut state = 7;
        let references: Vec<u32> = (0..60_000)
            .map(|time| if time % 2 == 0 { draw(&mut state, 80) } else { 80 + time / 2 % loop_of })
            .collect();
        let of = |spec: &str| hits(&mut clock_pro(spec, 100, 60_100), references.iter().copied());
        let (ours, literal) = (of("clock-pro"), of("clock-pro:recovery=off"));
        assert!(
            ours >= 29_700 && ours + 300 >= literal,
            "a loop of {loop_of}: {ours} hits, without recovery {literal}"
        );
    }
}

#[test]
fn witnesses_are_few_and_speak_for_more_the_longer_the_list_is() {
    let mut policy = clock_pro("clock-pro", 80, 100_000);
    hits(&mut policy, (0..80).chain(0..80));
    for (scanned, least) in [(200, 1), (1_000, 5), (20_000, 5), (99_000, 5)] {
        hits(&mut policy, 80..80 + scanned);
        assert!((least..=10).contains(&policy.witnesses.list.len()), "{scanned}: {}", policy.witnesses.list.len());
        assert!(policy.ghosts() <= 80);
        policy = clock_pro("clock-pro", 80, 100_000);
        hits(&mut policy, (0..80).chain(0..80));
    }
    // Too small for a witness.
    let mut small = clock_pro("clock-pro", 7, 1_000);
    hits(&mut small, 0..1_000);
    assert_eq!(small.witnesses.list.len(), 0);
}

#[test]
fn a_page_that_a_look_has_seen_used_is_spared_once() {
    let mut policy = clock_pro("clock-pro", 16, 1_000);
    // 14 hot pages, all used; then a scan until the limit of the ghosts has ended enough tests for a look.
    hits(&mut policy, (0..16).chain(0..14));
    hits(&mut policy, 100..200);
    assert!((0..14).all(|page| policy.contains(page) && policy.status[page].seen > 0 && policy.awaits_use(page)));
    policy.demote(&mut AnyVictim);
    policy.check_invariants();
    // HAND_hot has spared all, and then turned the first one cold.
    assert!((1..14).all(|page| policy.status[page].state == State::Hot && policy.status[page].seen == 0));
    assert_eq!(policy.status[0].state, State::Cold);
}

/// 14 hot pages and 2 cold ones, and then a scan that leaves witnesses. The oldest witness.
fn with_witnesses() -> (ClockPro, u32) {
    let mut policy = clock_pro("clock-pro", 16, 1_000);
    hits(&mut policy, (0..16).chain(100..200));
    let witness = policy.witnesses.list.back().expect("the limit has ended tests");
    (policy, witness)
}

#[test]
fn a_witness_used_again_turns_hot_for_a_page_used_before_it_and_leaves_m_c_as_it_is() {
    let (mut policy, witness) = with_witnesses();
    let (hot, cold_target) = (policy.hot.len(), policy.cold_target);
    assert_eq!(hits(&mut policy, [witness]), 0);
    assert_eq!(policy.status[witness].state, State::Hot);
    assert_eq!((policy.hot.len(), policy.cold_target), (hot, cold_target));
}

#[test]
fn a_witness_finds_no_room_where_all_hot_pages_were_used_after_it() {
    let (mut policy, witness) = with_witnesses();
    let hot: Vec<u32> = policy.hot.back_to_front(&policy.status).collect();
    hits(&mut policy, hot.iter().copied().chain([witness]));
    assert_eq!(policy.status[witness].state, State::Tested);
    assert!(hot.iter().all(|&page| policy.status[page].state == State::Hot));
}

#[test]
fn witnesses_used_in_order_bring_the_pages_between_them_and_others_do_not() {
    for in_order in [true, false] {
        let mut policy = clock_pro("clock-pro", 320, 10_000);
        hits(&mut policy, (0..320).chain(1_000..5_000));
        let witnesses: Vec<u32> = policy.witnesses.list.back_to_front(&policy.status).collect();
        let (first, second) = if in_order { (witnesses[0], witnesses[1]) } else { (witnesses[3], witnesses[1]) };
        hits(&mut policy, [first, second, 9_000]);
        let state = policy.status[9_000].state;
        assert_eq!(state == State::Hot, in_order, "{state:?}");
    }
}

#[test]
fn the_hands_take_a_few_steps_a_reference_whatever_the_references_are() {
    for seed in 1..=8 {
        let mut state = seed;
        let mut policy = clock_pro("clock-pro", 100, 4_000);
        let mut references = 0;
        while references < 60_000 {
            // A loop, pages at random, or pages in falling order, each with a part of the hot pages used.
            let (kind, pages, used) = (draw(&mut state, 3), 50 + draw(&mut state, 1_500), draw(&mut state, 4));
            for time in 0..1_000 {
                let page = match kind {
                    0 => 100 + time % pages,
                    1 => draw(&mut state, 100 + pages),
                    _ => 3_999 - time % pages,
                };
                refer(&mut policy, page);
                if time % 4 < used {
                    refer(&mut policy, time / 4 % 100);
                }
                references += 2;
            }
        }
        policy.check_invariants();
        assert!(policy.steps <= 4 * references, "{} steps at {references} references, seed {seed}", policy.steps);
    }
}

#[test]
fn a_hand_steps_once_a_fault_over_a_scan_and_more_where_pages_are_used_again() {
    let steps = |policy: &ClockPro| {
        let mut steps = 0.0;
        policy.state(&mut |name, value| {
            if name == "hand steps a fault" {
                steps = value;
            }
        });
        steps
    };
    let mut policy = clock_pro("clock-pro:recovery=off", 100, 1000);
    hits(&mut policy, 0..100);
    assert_eq!(steps(&policy), 0.0);
    hits(&mut policy, 100..200);
    assert_eq!(steps(&policy), 0.5); // 100 of 200 faults needed a frame: one step each
    hits(&mut policy, (0..98).chain(198..200).chain(200..300));
    assert!(steps(&policy) > 0.67, "{}", steps(&policy));
}

#[test]
fn counting_anew_changes_nothing() {
    for spec in ["clock-pro", "clock-pro:recovery=off"] {
        long_run::is_as_the_first::<ClockPro>(spec, &[|p| p.now = u32::MAX - 5, |p| p.now = u32::MAX - 2_000]);
    }
}
