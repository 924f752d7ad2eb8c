//! DULO against its paper's Table I and, in device time, against LRU on real traces.

use crate::page_size_of;
use crate::real_trace::real_trace;
use forebay_basis::Place;
use forebay_model::presets;
use forebay_model::{Model, SimulatedDevice};
use forebay_policy::{AllRefused, Caller, Policy, Reference, Setup, Spec, Visitor, registry};
use forebay_sim::{Keep, RunOutcome, Sweep, Trace, Watch};

struct AnyVictim;

impl Caller for AnyVictim {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

fn table_one_disk() -> Model {
    presets::named("table-1").expect("it is a preset").model()
}

/// The disk time of each reference of Table I, in a cache of eight blocks.
struct TableOne<'a>(&'a Spec);

impl Visitor for TableOne<'_> {
    type Output = Result<Vec<f64>, AllRefused>;

    fn visit<P: Policy>(self) -> Self::Output {
        const REFERENCES: &str = "A B C D X1 X2 X3 X4 Y1 Y2 Y3 Y4 X1 X2 X3 X4 A B C D";
        // Each letter is a track of its own, the digits are neighbours on it.
        let place = |name: &str| {
            let digit = name[1..].parse::<u64>().unwrap_or(0);
            Place { object: 0, block: u64::from(name.as_bytes()[0]) * 1000 + digit }
        };
        let mut pages: Vec<Place> = Vec::new();
        let mut policy = P::new(&Setup::new(8, 12, self.0.settings.clone()));
        let mut device = SimulatedDevice::new(&table_one_disk(), 4096);
        let mut times = Vec::new();
        for name in REFERENCES.split(' ') {
            let place = place(name);
            let page = pages.iter().position(|&other| other == place).unwrap_or_else(|| {
                pages.push(place);
                pages.len() - 1
            });
            let before = device.cost(1).device_ms;
            let reference = Reference { place, ..Reference::of(page as u32) };
            if policy.contains(reference.page) {
                policy.hit(&reference);
            } else {
                policy.miss(&reference, &mut AnyVictim)?;
                device.miss(place, true, false);
            }
            times.push(device.cost(1).device_ms - before);
        }
        Ok(times)
    }
}

fn table_one(policy: &str) -> Vec<f64> {
    let spec = Spec::parse(policy).unwrap();
    registry::visit(spec.info.name, TableOne(&spec)).unwrap().unwrap()
}

#[test]
fn table_one_costs_what_the_paper_says_reference_by_reference() {
    #[rustfmt::skip]
    let traditional = [
        9.5, 9.5, 9.5, 9.5,  9.5, 0.0, 0.0, 0.0,  9.5, 0.0, 0.0, 0.0,  0.0, 0.0, 0.0, 0.0,  9.5, 9.5, 9.5, 9.5,
    ];
    #[rustfmt::skip]
    let dual = [
        9.5, 9.5, 9.5, 9.5,  9.5, 0.0, 0.0, 0.0,  9.5, 0.0, 0.0, 0.0,  9.5, 0.0, 0.0, 0.0,  0.0, 0.0, 0.0, 0.0,
    ];
    assert_eq!((traditional.iter().sum::<f64>(), dual.iter().sum::<f64>()), (95.0, 66.5));
    assert_eq!(table_one("lru"), traditional);
    // The table has no correlation buffer, and its cache is sequenced by halves.
    assert_eq!(table_one("dulo:correlation=0:bank=50%"), dual);
}

/// How much more device time DULO takes than LRU on a trace, in percent, at caches of these shares of the distinct pages.
fn over_lru(file: &str, shares: &[f64]) -> Option<Vec<f64>> {
    let path = real_trace(file)?;
    let (_, mut reader) = forebay_trace::open(&path, &forebay_trace::Options::default()).expect("the trace opens");
    let keep = Keep { places: true, requests: true };
    let trace =
        Trace::load(file, reader.as_mut(), page_size_of(file), keep, &mut |_| {}).expect("the trace is well-formed");
    let sizes: Vec<u32> = shares.iter().map(|share| (f64::from(trace.pages) * share).round() as u32).collect();
    let specs = ["lru", "dulo"].map(|policy| Spec::parse(policy).expect("a policy")).to_vec();
    let watch = Watch { device: Some(table_one_disk()), ..Watch::default() };
    let outcomes = Sweep { specs, sizes, warmup: 0, threads: 0 }.run_watching(&watch, &trace, &|_| true);
    let (lru, dulo) = outcomes.split_at(shares.len());
    let time = |outcome: &RunOutcome| outcome.device.expect("a device was given").device_ms;
    Some(lru.iter().zip(dulo).map(|(lru, dulo)| 100.0 * (time(dulo) / time(lru) - 1.0)).collect())
}

/// That no size takes over 2 % more than LRU, and the best of them saves at least this many percent.
fn check(what: &str, over: &[f64], saved: f64) {
    assert!(over.iter().all(|&over| over <= 2.0), "{what}: {over:.2?}");
    assert!(over.iter().any(|&over| over <= -saved), "{what}: {over:.2?}");
}

#[test]
fn device_time_on_three_traces_of_disks_is_on_average_15_percent_below_that_of_lru() {
    let mut all = Vec::new();
    let traces = [("arc/OLTP.lis.zst", 4.0, 10.0), ("arc/P6.lis.zst", 10.0, 30.0), ("arc/P12.lis.zst", 9.0, 20.0)];
    for (file, saved_in_a_small_cache, saved) in traces {
        let Some(over) = over_lru(file, &[0.01, 0.05, 0.1, 0.2, 0.5]) else { return };
        check(file, &over[..4], saved_in_a_small_cache);
        check(file, &over[1..], saved);
        all.extend_from_slice(&over[1..]);
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!(mean <= -15.0, "{mean:.2} {all:.2?}");
}

#[test]
fn device_time_on_a_virtual_disk_is_nowhere_2_percent_over_that_of_lru_and_at_best_15_percent_below() {
    const FILE: &str = "block/cloudPhysicsIO.vscsi.zst";
    let Some(over) = over_lru(FILE, &[0.01, 0.05, 0.1, 0.2, 0.3, 0.45, 0.5]) else { return };
    check(FILE, &over[..4], 4.0);
    check(FILE, &over, 15.0);
}
