//! Hierarchies against what is known of single caches.

use crate::real_trace::real_trace;
use forebay_basis::Operation;
use forebay_model::Model;
use forebay_model::presets;
use forebay_policy::Spec;
use forebay_sim::levels::{HierarchyOutcome, Level, Mode, Write};
use forebay_sim::{Hierarchy, Keep, Sweep, Trace, Watch, behind};
use std::path::Path;

const EVERYTHING: Keep = Keep { places: true, requests: true };

fn load(path: &Path) -> Trace {
    let (_, mut reader) = forebay_trace::open(path, &forebay_trace::Options::default()).expect("the trace opens");
    Trace::load("test", reader.as_mut(), None, EVERYTHING, &mut |_| {}).expect("the trace is well-formed")
}

fn sample() -> Trace {
    load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/sample.parquet").as_ref())
}

/// The sample, its writes made reads.
fn sample_of_reads() -> Trace {
    let mut trace = sample();
    trace.requests.operation.fill(Operation::Read);
    trace
}

fn on_line() -> Vec<Spec> {
    let mut specs = Spec::all();
    specs.retain(|spec| !spec.needs_future());
    assert!(specs.len() >= 25, "{} policies do not know the future", specs.len());
    specs
}

fn disk() -> Option<Model> {
    Some(presets::named("desktop-7200").unwrap().model())
}

fn replay(trace: &Trace, levels: &[(&Spec, u32)], mode: Mode) -> HierarchyOutcome {
    replay_over(None, trace, levels, mode)
}

fn replay_over(device: Option<Model>, trace: &Trace, levels: &[(&Spec, u32)], mode: Mode) -> HierarchyOutcome {
    let write = Write::Back { flush: None };
    let level = |&(spec, pages): &(&Spec, u32)| Level { spec: spec.clone(), pages, caches: 1, write };
    let levels = levels.iter().map(level).collect();
    let hierarchy = Hierarchy { levels, mode, device, analyze: false };
    hierarchy.run(trace, &|_| true).expect("nothing stops it")
}

#[test]
fn one_level_is_a_cache() {
    let trace = sample();
    let watch = Watch { device: disk(), ..Watch::default() };
    let reads = sample_of_reads();
    let sweep = Sweep { specs: on_line(), sizes: vec![447], warmup: 0, threads: 0 };
    let alone = sweep.run(&trace, &|_| true);
    let reads_alone = sweep.run_watching(&watch, &reads, &|_| true);
    for (spec, (alone, reads_alone)) in sweep.specs.iter().zip(alone.iter().zip(&reads_alone)) {
        for mode in [Mode::Inclusive, Mode::Exclusive, Mode::Hints] {
            let level = &replay(&trace, &[(spec, 447)], mode).levels[0];
            assert_eq!((level.references, level.hits), (alone.total.references, alone.total.hits), "{}", spec.label);
        }
        let level = replay_over(disk(), &reads, &[(spec, 447)], Mode::Inclusive);
        assert_eq!((level.storage_reads, level.storage_writes), (reads_alone.total.misses, 0), "{}", spec.label);
        assert_eq!(level.device, reads_alone.device, "{}", spec.label);
    }
}

fn second_level_is_as_behind_the_first(trace: &Trace, first_level: (&Spec, u32), specs: &[Spec], size: u32) {
    let below = behind(trace, first_level.0, first_level.1).expect("something misses");
    let sweep = Sweep { specs: specs.to_vec(), sizes: vec![size], warmup: 0, threads: 0 };
    for (spec, behind) in specs.iter().zip(sweep.run(&below, &|_| true)) {
        let outcome = replay(trace, &[first_level, (spec, size)], Mode::Inclusive);
        let level = &outcome.levels[1];
        assert_eq!((level.references, level.hits), (behind.total.references, behind.total.hits), "{}", spec.label);
        assert_eq!(outcome.storage_reads, behind.total.misses, "{}", spec.label);
    }
}

#[test]
fn of_reads_a_second_level_hits_as_a_cache_behind_the_first() {
    let trace = sample_of_reads();
    for first_level in ["lru", "clock-pro"] {
        let first_level = Spec::parse(first_level).unwrap();
        second_level_is_as_behind_the_first(&trace, (&first_level, 179), &on_line(), 894);
    }
    let specs = ["lru", "mq", "2q"].map(|policy| Spec::parse(policy).unwrap());
    for (file, first_level, size) in [("arc/OLTP.lis.zst", 1000, 4000), ("lirs/sprite.trace.gz", 100, 400)] {
        let Some(path) = real_trace(file) else { continue };
        second_level_is_as_behind_the_first(&load(&path), (&specs[0], first_level), &specs, size);
    }
}

#[test]
fn demotion_makes_of_two_lru_caches_one_of_both_sizes() {
    // Wong and Wilkes, section 2: one client's cache and an LRU cache below it, to which it demotes, hit as one.
    let trace = sample_of_reads();
    let lru = Spec::parse("lru").unwrap();
    let whole = replay_over(disk(), &trace, &[(&lru, 179 + 894)], Mode::Inclusive);
    let parts = replay_over(disk(), &trace, &[(&lru, 179), (&lru, 894)], Mode::Exclusive);
    assert_eq!(parts.levels.iter().map(|level| level.hits).sum::<u64>(), whole.levels[0].hits);
    assert_eq!(parts.device, whole.device);
}

#[test]
fn a_hierarchy_that_is_stopped_has_no_outcome() {
    let trace = sample();
    let level = |pages| Level { spec: Spec::parse("lru").unwrap(), pages, caches: 1, write: Write::Through };
    let hierarchy = Hierarchy { levels: vec![level(100)], mode: Mode::Inclusive, device: None, analyze: false };
    assert!(hierarchy.run(&trace, &|_| false).is_none());
}
