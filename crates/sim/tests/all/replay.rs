//! What a sweep reports, worked by hand on small traces.

use forebay_policy::Spec;
use forebay_sim::{Counts, Keep, RunOutcome, Sweep, Trace, Watch};
use forebay_trace::{Input, Options};
use std::sync::atomic::{AtomicU64, Ordering};

fn load(text: &'static str) -> Trace {
    let input = Input::from_bytes("test", text).unwrap();
    let (_, mut reader) = forebay_trace::reader::read(input, &Options::default()).unwrap();
    Trace::load("test", reader.as_mut(), None, Keep::default(), &mut |_| {}).unwrap()
}

fn sweep(trace: &Trace, policies: &[&str], sizes: &[u32], warmup: usize, threads: usize) -> Vec<RunOutcome> {
    let specs = policies.iter().map(|policy| Spec::parse(policy).unwrap()).collect();
    Sweep { specs, sizes: sizes.to_vec(), warmup, threads }.run(trace, &|_| true)
}

#[test]
fn hits_and_misses_are_counted_after_the_warm_up_and_in_all() {
    // LRU of 2 pages:       m  m  h  m  m  h  m   (7 evicts 5, 5 evicts 9, 9 evicts 7)
    let trace = load("5\n9\n5\n9\n7\n7\n5\n");
    let outcome = &sweep(&trace, &["lru"], &[2], 2, 1)[0];
    assert_eq!(outcome.total, Counts { references: 7, hits: 3, misses: 4, compulsory_misses: 3 });
    assert_eq!(outcome.counted, Counts { references: 5, hits: 3, misses: 2, compulsory_misses: 1 });
    assert!(outcome.bytes >= 3 * 8 && outcome.seconds >= 0.0);
}

#[test]
fn outcomes_stand_by_policy_then_size_whatever_the_threads() {
    let trace = load("0\n1\n2\n3\n0\n1\n2\n3\n4\n0\n1\n2\n3\n");
    let policies = ["lru", "mru", "opt", "clock-pro"];
    let key = |outcome: &RunOutcome| (outcome.policy.clone(), outcome.pages, outcome.total.hits);
    let one: Vec<_> = sweep(&trace, &policies, &[1, 3, 9], 0, 1).iter().map(key).collect();
    let two: Vec<_> = sweep(&trace, &policies, &[1, 3, 9], 0, 2).iter().map(key).collect();
    assert_eq!(one, two);
    let order: Vec<_> = one.iter().map(|(policy, pages, _)| (policy.as_str(), *pages)).collect();
    let expected = policies.iter().flat_map(|&policy| [1, 3, 9].map(|size| (policy, size)));
    assert_eq!(order, expected.collect::<Vec<_>>());
}

#[test]
fn a_cache_as_large_as_the_footprint_misses_only_what_it_must() {
    let trace = load("3\n1\n4\n1\n5\n9\n2\n6\n5\n3\n5\n");
    for outcome in sweep(
        &trace,
        &["lru", "fifo", "mru", "random", "lfu", "clock", "gclock", "clock-pro", "opt", "worst"],
        &[7, 5000],
        0,
        0,
    ) {
        assert_eq!(outcome.total.misses, outcome.total.compulsory_misses, "{}", outcome.policy);
        assert_eq!(outcome.total.misses, 7);
    }
}

#[test]
fn progress_adds_up_to_the_work_and_can_stop_it() {
    let trace = load("0\n1\n2\n0\n");
    let sweep = Sweep {
        specs: vec![Spec::parse("lru").unwrap(), Spec::parse("opt").unwrap()],
        sizes: vec![1, 2],
        warmup: 1,
        threads: 2,
    };
    let done = AtomicU64::new(0);
    let outcomes = sweep.run(&trace, &|more| {
        done.fetch_add(more, Ordering::Relaxed);
        true
    });
    assert_eq!((done.into_inner(), outcomes.len()), (sweep.work(&Watch::default(), &trace), 4));
    assert!(sweep.run(&trace, &|_| false).is_empty());
}
