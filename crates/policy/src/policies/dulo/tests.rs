use super::eviction::MOST_INFLATION;
use super::*;
use crate::parts::long_run;
use crate::{Clock, Linux, Lru, Settings};

struct AnyVictim(Vec<u32>);

impl Caller for AnyVictim {
    fn evict(&mut self, page: u32) -> bool {
        self.0.push(page);
        true
    }

    fn forget(&mut self, _: u32) {}
}

/// The victims of references, some skewed and some a loop, to pages whose blocks stand so far `apart`.
fn victims<P: Policy>(capacity: u32, settings: &[(&str, &str)], apart: u64) -> Vec<u32> {
    let settings = Settings::parse(P::INFO.parameters, settings.iter().copied()).unwrap();
    let mut policy = P::new(&Setup::new(capacity, 1000, settings));
    let mut caller = AnyVictim(Vec::new());
    for i in 0..20_000u64 {
        let page = if i % 3 == 0 { i * i % 1009 % 97 } else { i / 3 % 1000 } as u32;
        let place = Place { object: 0, block: u64::from(page) * apart };
        let reference = Reference { place, ..Reference::of(page) };
        if policy.contains(page) {
            policy.hit(&reference);
        } else {
            policy.miss(&reference, &mut caller).unwrap();
        }
    }
    policy.check_invariants();
    caller.0
}

// The whole of what was evicted is too long to be shown: so `assert!`.
#[test]
fn when_all_blocks_are_random_it_is_its_base_clock_or_lru() {
    for capacity in [1, 2, 7, 100, 400] {
        for bank in ["0", "2%", "50%"] {
            let dulo = |correlation| victims::<Dulo>(capacity, &[("correlation", correlation), ("bank", bank)], 5);
            assert!(dulo("0") == victims::<Clock>(capacity, &[], 1), "{capacity} {bank}");
            assert!(dulo("100%") == victims::<Lru>(capacity, &[], 1), "{capacity} {bank}");
        }
    }
}

#[test]
fn sequences_change_what_is_evicted() {
    let of_blocks = |apart| victims::<Dulo>(100, &[("correlation", "20%"), ("bank", "20%")], apart);
    assert!(of_blocks(1) != of_blocks(5));
}

#[test]
fn setting_the_clock_and_the_inflation_back_changes_nothing() {
    for spec in ["dulo", "dulo:correlation=20%:bank=20%:longest=8", "dulo:correlation=0:bank=0:gap=9"] {
        long_run::is_as_the_first::<Dulo>(
            spec,
            &[
                |dulo| dulo.table.set_clock(u32::MAX - 5),
                |dulo| dulo.table.set_clock(u32::MAX - 1_000),
                |dulo| dulo.eviction.set_inflation(MOST_INFLATION - 2.0),
                |dulo| dulo.eviction.set_inflation(MOST_INFLATION - 50.0),
            ],
        );
    }
}

#[test]
fn when_all_blocks_are_random_and_there_is_no_section_it_is_linux() {
    for capacity in [1, 2, 7, 100, 400] {
        for bank in ["0", "2%", "50%"] {
            let settings = [("base", "linux"), ("correlation", "100%"), ("bank", bank)];
            assert!(victims::<Dulo>(capacity, &settings, 5) == victims::<Linux>(capacity, &[], 1), "{capacity} {bank}");
        }
    }
}

#[test]
fn linux_keeps_its_inactive_list_twice_as_long_as_the_section() {
    let settings = Settings::parse(Dulo::INFO.parameters, [("base", "linux")]).unwrap();
    let mut dulo = Dulo::new(&Setup::new(800, 10_000, settings));
    let mut caller = AnyVictim(Vec::new());
    for i in 0..20_000u32 {
        // Most of the references are to 700 pages, each twice in a row.
        let page = if i % 8 < 6 { i / 8 * 3 % 700 + i % 8 / 2 } else { 800 + i / 2 % 9_000 };
        let reference = Reference::of(page);
        if dulo.contains(page) {
            dulo.hit(&reference);
        } else {
            dulo.miss(&reference, &mut caller).unwrap();
        }
    }
    dulo.check_invariants();
    let (active, section) = (dulo.active.as_ref().unwrap().len(), dulo.eviction.len() + dulo.bank.len());
    let inactive = dulo.inactive();
    assert!(
        active > 500 && inactive >= 200 && section > 90,
        "{active} active, {inactive} inactive, {section} in the section"
    );
}

#[test]
fn a_discarded_block_that_is_not_resident_keeps_no_timestamps() {
    let mut dulo = Dulo::new(&Setup::new(8, 1000, Settings::defaults(Dulo::INFO.parameters)));
    let mut caller = AnyVictim(Vec::new());
    for page in 0..100 {
        dulo.miss(&Reference::of(page), &mut caller).unwrap();
    }
    let timestamps = |dulo: &Dulo, block| dulo.table.timestamps(Place { object: 0, block });
    assert!(!dulo.contains(3) && timestamps(&dulo, 3) != block_table::Timestamps::default());
    dulo.discard(0, 2..5);
    for block in 2..5 {
        assert_eq!(timestamps(&dulo, block), block_table::Timestamps::default());
    }
    assert!(timestamps(&dulo, 1).newest == 2 && timestamps(&dulo, 5).newest == 6);
    dulo.check_invariants();
}

/// How many seeks references to blocks cost, and the policy afterwards.
fn seeks<P: Policy>(capacity: u32, spec: &[(&str, &str)], blocks: impl Iterator<Item = u32>) -> (u32, P) {
    let settings = Settings::parse(P::INFO.parameters, spec.iter().copied()).unwrap();
    let mut policy = P::new(&Setup::new(capacity, 100_000, settings));
    let (mut seeks, mut behind) = (0, u32::MAX);
    for block in blocks {
        let reference = Reference::of(block);
        if policy.contains(block) {
            policy.hit(&reference);
        } else {
            policy.miss(&reference, &mut AnyVictim(Vec::new())).unwrap();
            seeks += u32::from(behind != block);
            behind = block + 1;
        }
    }
    policy.check_invariants();
    (seeks, policy)
}

#[test]
fn where_random_blocks_come_again_the_section_grows_and_seeks_are_saved() {
    // Scattered blocks, low ones asked for most, and between them files of 16 blocks that come once.
    let skewed = |i: u32| (i * 7919 % 1009).min(i * 6007 % 1013) * 50;
    let blocks = || (0..60_000u32).map(|i| if i % 17 == 0 { skewed(i / 17) } else { 60_001 + i % 35_000 });
    let (lru, _) = seeks::<Lru>(2_000, &[], blocks());
    let (adapts, dulo) = seeks::<Dulo>(2_000, &[], blocks());
    assert!(adapts < lru * 9 / 10, "{adapts} {lru}");
    assert!(dulo.correlation_max < 1_000, "{}", dulo.correlation_max);
}

#[test]
fn where_a_loop_just_fits_into_lru_nothing_is_lost() {
    // 1,000 blocks, read one after the other and then round after round in another order; and 5 in each round that do not come again.
    let round = |r: u32| (0..1_000).map(|i| i % 125 * 8 + i / 125 * 3 % 8).chain(5_000 + 5 * r..5_005 + 5 * r);
    let blocks = || (0..1_000).chain((0..60).flat_map(round));
    let (lru, _) = seeks::<Lru>(1_030, &[], blocks());
    let (adapts, _) = seeks::<Dulo>(1_030, &[], blocks());
    let (fixed, _) = seeks::<Dulo>(1_030, &[("correlation", "20%")], blocks());
    assert!(adapts <= lru + lru / 50 && fixed > 2 * lru, "{adapts} {lru} {fixed}");
}

/// Two blocks of a file lie far from each other, and each beside one of the next file.
#[derive(Debug)]
struct Torn;

impl Layout for Torn {
    fn on_disk(&self, place: Place) -> Option<Place> {
        let block = (1000 * place.block) + u64::from(place.object);
        (place.block < 6).then_some(Place { object: u32::MAX, block })
    }
}

/// The mean sequence of blocks that were fetched in this order, one file after the other or across them.
fn mean_sequence(
    settings: &[(&str, &str)],
    layout: Option<Arc<dyn Layout>>,
    blocks: impl Iterator<Item = (u32, u64)>,
) -> f64 {
    let given = [("correlation", "0"), ("bank", "50%")].iter().chain(settings).copied();
    let settings = Settings::parse(Dulo::INFO.parameters, given).unwrap();
    let mut dulo = Dulo::new(&Setup { layout, ..Setup::new(48, 1000, settings) });
    let mut caller = AnyVictim(Vec::new());
    for (page, (object, block)) in blocks.enumerate() {
        let reference = Reference { place: Place { object, block }, ..Reference::of(page as u32) };
        dulo.miss(&reference, &mut caller).unwrap();
    }
    dulo.check_invariants();
    dulo.eviction.mean_sequence()
}

#[test]
fn sequences_are_those_of_the_disk_where_it_is_known() {
    let torn = || Some(Arc::new(Torn) as Arc<dyn Layout>);
    let by_file = || (0..6).flat_map(|file| (0..4).map(move |block| (file, block)));
    let across = || (0..4).flat_map(|block| (0..6).map(move |file| (file, block)));
    assert_eq!(mean_sequence(&[], None, by_file()), 4.0);
    assert_eq!(mean_sequence(&[], torn(), by_file()), 1.0, "neighbours in a file are far apart");
    assert_eq!(mean_sequence(&[], None, across()), 1.0);
    assert_eq!(mean_sequence(&[], torn(), across()), 6.0, "small files lie side by side");
    assert_eq!(mean_sequence(&[("numbers", "file")], torn(), across()), 1.0);
    // Of blocks 6 and 7 no place is known.
    assert_eq!(mean_sequence(&[], torn(), (0..12).flat_map(|file| (6..8).map(move |block| (file, block)))), 2.0);
}
