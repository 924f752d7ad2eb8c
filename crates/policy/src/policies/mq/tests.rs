use super::*;
use crate::parts::long_run;
use crate::registry::Spec;

#[test]
fn times_of_32_bits_may_come_round() {
    let later: [fn(&mut Mq); 2] = [|mq| mq.begin_at((1 << 32) - 7), |mq| mq.begin_at((1 << 45) - 3_000)];
    for spec in ["mq", "mq:lifetime=50", "mq:lifetime=3:queues=3:out=1"] {
        long_run::is_as_the_first(spec, &later);
    }
}

impl Mq {
    fn begin_at(&mut self, now: u64) {
        match &mut self.0 {
            Form::Fixed(form) => form.now = now,
            Form::Adaptive(form) => form.trials.begin_at(now as u32),
        }
    }

    fn adaptive(&mut self) -> &mut Ranked {
        match &mut self.0 {
            Form::Adaptive(form) => form,
            Form::Fixed(_) => panic!("its lifeTime is fixed"),
        }
    }
}

struct AnyVictim;

impl Caller for AnyVictim {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

fn make(spec: &str, capacity: u32, pages: u32) -> Mq {
    Mq::new(&Spec::parse(spec).expect("a policy of the registry").setup(capacity, pages))
}

fn refer(mq: &mut Mq, page: u32) -> bool {
    let hit = mq.contains(page);
    if hit {
        mq.hit(&Reference::of(page));
    } else {
        mq.miss(&Reference::of(page), &mut AnyVictim).expect("any victim will do");
    }
    hit
}

/// Skewed references.
fn skewed(pages: u32) -> impl Iterator<Item = u32> {
    let mut state = 1u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (state >> 40) as f64 / (1u64 << 24) as f64;
        (part * part * part * f64::from(pages)) as u32
    })
}

#[test]
fn a_victim_pushes_the_oldest_ghost_out_before_qout_is_looked_into() {
    let mut mq = make("mq:lifetime=100:out=1", 1, 3);
    for page in [0, 0, 1] {
        refer(&mut mq, page);
    }
    // 0 is in Qout, used twice. To make room for it 1 goes there, and there is room for one.
    refer(&mut mq, 0);
    assert_eq!(mq.blocks().nodes[0].reference(), 1);
    assert_eq!(mq.blocks().place(0), Place::Queue(0));
}

#[test]
fn by_rank_the_same_lifetime_gives_the_hits_of_figure_5() {
    for turns in [8, 64, 256] {
        let mut ranked = make("mq", 320, 5_000);
        ranked.adaptive().trials.always(turns);
        let mut figure_5 = make(&format!("mq:lifetime={}", turns * 10), 320, 5_000);
        let mut hits = [0, 0];
        for page in skewed(5_000).take(200_000) {
            hits[0] += u32::from(refer(&mut ranked, page));
            hits[1] += u32::from(refer(&mut figure_5, page));
        }
        assert!(hits[0].abs_diff(hits[1]) <= 200, "{hits:?} with a lifeTime of {turns} turns");
    }
}

fn hits(spec: &str, capacity: u32, references: &[u32]) -> u32 {
    let pages = references.iter().max().expect("there are references") + 1;
    let mut mq = make(spec, capacity, pages);
    references.iter().map(|&page| u32::from(refer(&mut mq, page))).sum()
}

#[test]
fn what_qout_forgets_begins_anew_in_the_trials_too() {
    // Every 11th reference is to one of 512 pages in turn, which come back after 5.5 times the cache, when Qout has forgotten them.
    // Of the others few are used twice, at 0.7 times the cache: so a long lifeTime only keeps what is not used again.
    let mut references = Vec::new();
    let (mut new, mut state) = (512, 5u32);
    for time in 0..14 * 5_632 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let page = match () {
            () if time % 11 == 0 => time / 11 % 512,
            () if new > 1_300 && state >> 24 < 16 => new - 717,
            () => {
                new += 1;
                new - 1
            }
        };
        references.push(page);
    }
    let of_lru = hits("mq:lifetime=128", 1_024, &references);
    for spec in ["mq", "mq:density=off"] {
        let adaptive = hits(spec, 1_024, &references);
        assert!(f64::from(adaptive) >= 0.95 * f64::from(of_lru), "{spec}: {adaptive} for {of_lru}");
    }
}

#[test]
fn the_first_working_set_makes_room_for_a_loop() {
    for (first, length) in [(1_000, 120), (3_000, 150), (10_000, 180)] {
        let mut references: Vec<u32> =
            skewed(400).take(first).enumerate().map(|(i, page)| i as u32 / 20 + page).collect();
        references.extend((0..200 * length).map(|time| 20_000 + time % length));
        // All but 20, 50 and 80 pages of the loop can be hits of every round.
        let most = 200 * 99;
        let [by_density, by_lifetimes] = ["mq", "mq:density=off"].map(|spec| hits(spec, 100, &references));
        let of_first = hits("mq", 100, &references[..first]);
        assert!(
            by_density - of_first >= most * 4 / 5,
            "{by_density} hits, {of_first} of the first, a loop of {length}"
        );
        assert!(by_lifetimes < by_density / 2, "{by_lifetimes} for {by_density}");
    }
}

#[test]
fn when_turns_have_another_length_pages_are_as_old_as_before() {
    let ages = |mq: &mut Mq| -> Vec<(u32, u32)> {
        let ranked = mq.adaptive();
        let (now, width) = (ranked.trials.now(), ranked.trials.width());
        let age = |page| now.wrapping_sub(ranked.blocks.nodes[page].entered) * width;
        ranked.blocks.resident().map(|page| (page, age(page))).collect()
    };
    for capacity in [3_200, 100] {
        let mut mq = make("mq", 400, 5_000);
        for page in skewed(5_000).take(20_000) {
            refer(&mut mq, page);
        }
        let before = ages(&mut mq);
        mq.resize(capacity, &mut AnyVictim).expect("any victim will do");
        mq.check_invariants();
        let after = ages(&mut mq);
        assert!(after.iter().any(|&(_, age)| age > 400), "{after:?}");
        for (page, age) in after {
            let was = before.iter().find(|&&(other, _)| other == page).expect("it was resident").1;
            assert!(was.abs_diff(age) <= 100, "{page}: {age} references for {was}");
        }
    }
}

#[test]
fn a_capacity_that_changes_bit_by_bit_leaves_the_trials_what_they_know() {
    let mut mq = make("mq", 100, 500);
    let mut late = 0;
    for time in 0..40_000 {
        if time % 100 == 0 {
            mq.resize(90 + time / 100 % 20, &mut AnyVictim).expect("any victim will do");
            mq.check_invariants();
        }
        late += u32::from(refer(&mut mq, time % 150) && time >= 20_000);
    }
    assert!(late > 10_000, "{late} hits of 20,000 in a loop of 150 pages");
}

#[test]
fn lifetime_is_twice_the_cache_at_first_and_is_looked_at_32_times_a_cache() {
    let mut mq = make("mq", 320, 5_000);
    assert_eq!((mq.adaptive().trials.life_time_in_references(), mq.adaptive().trials.width()), (640, 10));
}

#[test]
fn more_than_eight_queues_count_as_eight_where_lifetime_adapts() {
    let references: Vec<u32> = skewed(2_000).take(50_000).collect();
    assert_eq!(make("mq:queues=20", 320, 2_000).blocks().queues.len(), 8);
    assert_eq!(make("mq:queues=20:lifetime=50", 320, 2_000).blocks().queues.len(), 20);
    assert_eq!(hits("mq:queues=20", 320, &references), hits("mq", 320, &references));
}

#[test]
fn without_density_a_loop_larger_than_the_cache_is_left_to_lifetimes() {
    for (spec, by_density) in [("mq", true), ("mq:density=off", false)] {
        let mut mq = make(spec, 320, 400);
        (0..60_000).for_each(|time| _ = refer(&mut mq, time % 400));
        assert_eq!(mq.adaptive().trials.by_density(), by_density, "{spec}");
    }
}

#[test]
fn a_sampled_ghost_that_has_left_qout_is_remembered_and_begins_again_at_q0() {
    let mut mq = make("mq:out=1", 10, 1_000);
    // The small trials sample every page. 0 is used four times, and leaves the queues and Qout for 30 others.
    for page in [0, 0, 0, 0].into_iter().chain(1..1_000) {
        refer(&mut mq, page);
        if mq.blocks().place(0) == Place::Far {
            break;
        }
    }
    assert_eq!(mq.blocks().place(0), Place::Far);
    refer(&mut mq, 0);
    assert_eq!((mq.blocks().place(0), mq.blocks().nodes[0].reference()), (Place::Queue(0), 1));
}

#[test]
fn a_page_takes_16_bytes_and_a_sampled_one_4_more() {
    const PAGES: u32 = 1 << 20;
    let bytes = |spec: &str, capacity: u32| {
        let mut mq = make(spec, capacity, PAGES);
        skewed(PAGES).take(100_000).for_each(|page| _ = refer(&mut mq, page));
        mq.bytes() as u64
    };
    let pages = u64::from(PAGES);
    assert!((16 * pages..16 * pages + 1024).contains(&bytes("mq:lifetime=5000", 4_096)));
    for (capacity, sampled) in [(2_000, pages), (4_096, pages / 2), (8_192, pages / 4), (65_536, pages / 32)] {
        let least = 16 * pages + 4 * sampled;
        let bytes = bytes("mq", capacity);
        assert!((least..least + (160 << 10)).contains(&bytes), "{capacity}: {} more", bytes - least);
    }
}

#[test]
fn the_capacity_may_be_any_at_any_time() {
    let mut mq = make("mq", 400, 5_000);
    for (time, page) in skewed(5_000).take(40_000).enumerate() {
        refer(&mut mq, page);
        if time % 5_000 == 0 {
            mq.resize(100 + time as u32 / 10, &mut AnyVictim).expect("any victim will do");
            mq.check_invariants();
        }
    }
    mq.check_invariants();
}
