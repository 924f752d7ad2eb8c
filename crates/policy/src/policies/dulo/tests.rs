use super::eviction::MOST_INFLATION;
use super::*;
use crate::layout::Layout;
use crate::parts::long_run;
use crate::{Clock, Linux, Lru, Settings};
use forebay_basis::{DeviceCost, Place};
use std::sync::Arc;

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
                |dulo| dulo.disk.table.set_clock(u32::MAX - 5),
                |dulo| dulo.disk.table.set_clock(u32::MAX - 1_000),
                |dulo| dulo.stack.eviction.set_inflation(MOST_INFLATION - 2.0),
                |dulo| dulo.stack.eviction.set_inflation(MOST_INFLATION - 50.0),
            ],
        );
    }
}

#[test]
fn when_all_blocks_are_random_and_there_is_no_section_it_is_linux() {
    for capacity in [1, 2, 7, 100, 400] {
        for (bank, access) in [("0", "file"), ("2%", "file"), ("50%", "file"), ("0", "process"), ("50%", "process")] {
            let access = ("access", access);
            let settings = [("base", "linux"), ("correlation", "100%"), ("bank", bank), access];
            assert!(
                victims::<Dulo>(capacity, &settings, 5) == victims::<Linux>(capacity, &[access], 1),
                "{capacity} {bank} {access:?}"
            );
        }
    }
}

#[test]
fn memory_that_was_never_swapped_out_is_random_and_what_comes_back_from_swap_space_forms_sequences() {
    for (access, of_first_loop) in [("file", 10.0), ("process", 1.0)] {
        let settings = [("base", "linux"), ("correlation", "20%"), ("bank", "10"), ("access", access)];
        let settings = Settings::parse(Dulo::INFO.parameters, settings).unwrap();
        let mut dulo = Dulo::new(&Setup::new(100, 300, settings));
        let mut caller = AnyVictim(Vec::new());
        let mut means = [0.0; 2];
        for mean in &mut means {
            for page in 0..300 {
                let place = Place { object: 0, block: u64::from(page) };
                dulo.miss(&Reference { place, ..Reference::of(page) }, &mut caller).unwrap();
            }
            dulo.check_invariants();
            dulo.state(&mut |name, value| {
                if name == "mean sequence" {
                    *mean = value
                }
            });
        }
        assert_eq!(means, [of_first_loop, 10.0], "{access}");
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
    let (active, section) =
        (dulo.stack.active.as_ref().unwrap().len(), dulo.stack.eviction.len() + dulo.stack.bank.len());
    let inactive = dulo.stack.inactive();
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
    let timestamps = |dulo: &Dulo, block| dulo.disk.table.timestamps(Place { object: 0, block });
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
    let mut policy = P::new(&Setup::new(capacity, 2_000_000, settings));
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
    assert!(dulo.stack.correlation_max < 1_000, "{}", dulo.stack.correlation_max);
}

#[test]
fn where_a_loop_fits_into_lru_a_section_that_loses_it_is_left_soon() {
    // 8,000 blocks, read one after the other and then round after round in other orders; and 1,000 far apart in each round that do not come again.
    let round = |r: u32| {
        (0..9_000)
            .map(move |i| if i % 9 == 8 { 100_000 + 100 * (1_000 * r + i / 9) } else { (i - i / 9) * 3_011 % 8_000 })
    };
    let blocks = || (0..8_000).chain((0..12).flat_map(round));
    let (lru, _) = seeks::<Lru>(10_000, &[], blocks());
    let (adapts, _) = seeks::<Dulo>(10_000, &[], blocks());
    let (fixed, _) = seeks::<Dulo>(10_000, &[("correlation", "5%")], blocks());
    assert!(adapts < lru + lru / 10 && fixed > lru + lru / 2, "{adapts} {lru} {fixed}");
}

#[test]
fn a_section_that_is_too_large_leaves_in_the_order_of_the_stack() {
    let settings = Settings::parse(Dulo::INFO.parameters, [("correlation", "0"), ("bank", "50%")]).unwrap();
    let mut dulo = Dulo::new(&Setup::new(100, 2000, settings));
    let mut caller = AnyVictim(Vec::new());
    let mut fetch = |dulo: &mut Dulo, page: u32| {
        caller.0.clear();
        dulo.miss(&Reference::of(page), &mut caller).unwrap();
        caller.0.first().copied()
    };
    // Blocks far apart, and a sequence that has come after them.
    (0..50).for_each(|n| assert_eq!(fetch(&mut dulo, 100 + 10 * n), None));
    (0..50).for_each(|n| assert_eq!(fetch(&mut dulo, n), None));
    assert_eq!(fetch(&mut dulo, 900), Some(0), "the sequence leaves first");
    dulo.stack.approach(80);
    assert_eq!(fetch(&mut dulo, 910), Some(100), "the block that was fetched first");
    assert_eq!(fetch(&mut dulo, 920), Some(110));
    dulo.check_invariants();
    for n in 93..173 {
        fetch(&mut dulo, 10 * n);
    }
    assert_eq!(dulo.stack.eviction.len() + dulo.stack.bank.len(), 20);
    dulo.check_invariants();
}

#[test]
fn trials_keep_what_they_take_when_the_capacity_changes() {
    let skewed = |i: u32| (i * 7919 % 1009).min(i * 6007 % 1013) * 50;
    let blocks = (0..60_000u32).map(|i| if i % 17 == 0 { skewed(i / 17) } else { 60_001 + i % 35_000 });
    let (_, mut dulo) = seeks::<Dulo>(2_000, &[], blocks);
    let section = |dulo: &Dulo, capacity| capacity - dulo.trials.as_ref().unwrap().buffer(capacity);
    assert_eq!(section(&dulo, 2_000), 1_900);
    for (capacity, references) in [(2_500, 3_000), (2_501, 10), (40_000, 90_000), (20, 0), (1, 50), (3_000, 5_000)] {
        while dulo.len() > capacity {
            dulo.evict(&mut AnyVictim(Vec::new())).unwrap();
        }
        dulo.set_capacity(capacity, &mut AnyVictim(Vec::new()));
        dulo.check_invariants();
        assert_eq!(section(&dulo, 2_000), 1_900, "at {capacity}");
        for i in 0..references {
            let reference = Reference::of(i * 31 % 97_001);
            if dulo.contains(reference.page) {
                dulo.hit(&reference);
            } else {
                dulo.miss(&reference, &mut AnyVictim(Vec::new())).unwrap();
            }
        }
        dulo.check_invariants();
    }
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
    dulo.stack.eviction.mean_sequence()
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

/// Small files side by side on the disk, of which nothing is known at first.
#[derive(Debug, Default)]
struct Late(std::sync::atomic::AtomicBool);

impl Layout for Late {
    fn on_disk(&self, place: Place) -> Option<Place> {
        let known = self.0.load(std::sync::atomic::Ordering::Relaxed);
        known.then_some(Place { object: u32::MAX, block: u64::from(place.object) })
    }
}

#[test]
fn small_files_that_are_read_in_a_row_are_sequences_however_many_and_whenever_the_disk_s_numbers_come() {
    let layout = Arc::new(Late::default());
    let settings = Settings::parse(Dulo::INFO.parameters, [("correlation", "40%"), ("bank", "40")]).unwrap();
    let setup = Setup::new(400, 4_000, settings);
    let mut dulo = Dulo::new(&Setup { layout: Some(Arc::clone(&layout) as Arc<dyn Layout>), ..setup });
    let mut caller = AnyVictim(Vec::new());
    for round in 0..3 {
        for file in 0..4_000 {
            // The numbers of the first files come when they are in the correlation buffer.
            layout.0.store(round > 0 || file >= 100, std::sync::atomic::Ordering::Relaxed);
            let place = Place { object: file, block: 0 };
            dulo.miss(&Reference { place, ..Reference::of(file) }, &mut caller).unwrap();
            if (round, file) == (0, 399) {
                assert_eq!(dulo.stack.eviction.mean_sequence(), 40.0);
            }
        }
        dulo.check_invariants();
        assert_eq!(dulo.stack.eviction.mean_sequence(), 40.0, "round {round}");
    }
}

/// The mean sequence of 24 blocks in a row, every four in a request of their own, on a device with these prices.
fn mean_sequence_by_device(behind: f64, settings: &[(&str, &str)]) -> f64 {
    let given = [("correlation", "0"), ("bank", "50%")].iter().chain(settings).copied();
    let settings = Settings::parse(Dulo::INFO.parameters, given).unwrap();
    let device = Some(DeviceCost { request: 8.0, behind, page: 0.5 });
    let mut dulo = Dulo::new(&Setup { device, ..Setup::new(48, 1000, settings) });
    for page in 0..24 {
        if page % 4 == 0 {
            dulo.begin_request();
        }
        dulo.miss(&Reference::of(page), &mut AnyVictim(Vec::new())).unwrap();
    }
    dulo.check_invariants();
    dulo.stack.eviction.mean_sequence()
}

#[test]
fn where_each_request_costs_as_much_only_its_own_blocks_are_a_sequence() {
    let device = ("cost", "device");
    assert_eq!(mean_sequence_by_device(8.0, &[device]), 4.0);
    assert_eq!(mean_sequence_by_device(8.0, &[device, ("gap", "3")]), 4.0);
    assert_eq!(mean_sequence_by_device(0.0, &[device]), 24.0, "a disk's arm is there already");
    assert_eq!(mean_sequence_by_device(8.0, &[("cost", "seek")]), 24.0);
}

#[test]
fn trials_count_what_the_device_takes() {
    let settings = Settings::parse(Dulo::INFO.parameters, [("cost", "device")]).unwrap();
    let device = Some(DeviceCost { request: 9.0, behind: 9.0, page: 1.0 });
    let mut dulo = Dulo::new(&Setup { device, ..Setup::new(8_000, 10_000, settings) });
    let mut sampled = 0.0;
    for page in 0..4_000 {
        if page % 2 == 0 {
            dulo.begin_request();
        }
        dulo.miss(&Reference::of(page), &mut AnyVictim(Vec::new())).unwrap();
        let trials = dulo.trials.as_ref().unwrap();
        sampled += f64::from(u8::from(trials::is_sampled(Place { object: 0, block: page.into() }, trials.bits())));
    }
    // A request of two pages takes 11, and one of a single page 10, which counts 1.
    let cost = dulo.trials.as_ref().unwrap().costs()[0];
    assert!(cost > 0.8 * sampled / 2.0 * 1.1 && cost < sampled / 2.0 * 1.1, "{cost} of {sampled}");
}
