//! Curves against replay at every size.

use forebay_policy::Spec;
use forebay_sim::curve::{Distances, Lru, Opt, Stack};
use forebay_sim::{Keep, RunOutcome, Sweep, Trace, Watch};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

fn load(path: &Path) -> Trace {
    let (_, mut reader) = forebay_trace::open(path, &forebay_trace::Options::default()).expect("the trace opens");
    Trace::load("test", reader.as_mut(), None, Keep::default(), &mut |_| {}).expect("the trace is well-formed")
}

fn distances<S: Stack>(trace: &Trace) -> Distances {
    Distances::count(&mut S::new(trace.pages), &trace.references, trace.pages, &|_| true).expect("nothing stops it")
}

/// Asked for besides hits, distances make a sweep replay each size.
fn replayed() -> Watch {
    Watch { distances: true, ..Watch::default() }
}

#[test]
fn every_size_has_the_hits_of_a_replay_at_that_size() {
    for seed in 0..60 {
        let pages = 2 + seed % 40;
        let alpha = [0.0, 0.7, 1.2][seed as usize % 3];
        let name = format!("zipf:pages={pages},references=2000,alpha={alpha},seed={seed}");
        let trace = load(Path::new(&name));
        let sizes: Vec<u32> = (1..=trace.pages + 2).collect();
        for (policy, counted) in [("lru", distances::<Lru>(&trace)), ("opt", distances::<Opt>(&trace))] {
            let sweep =
                Sweep { specs: vec![Spec::parse(policy).unwrap()], sizes: sizes.clone(), warmup: 0, threads: 1 };
            let replayed = sweep.run_watching(&replayed(), &trace, &|_| true);
            let replayed: Vec<u64> = replayed.iter().map(|outcome| outcome.total.hits).collect();
            assert_eq!(counted.hits(&sizes), replayed, "{policy} on {name}");
        }
    }
}

proptest! {
    #[test]
    fn one_pass_gives_the_outcomes_of_a_replay_at_each_size(
        pages in 1..60u32,
        seed in 0..1000u32,
        sizes in vec(1..80u32, 1..30),
        warmup in 0..=600usize,
    ) {
        let name = format!("zipf:pages={pages},references=600,alpha=0.8,seed={seed}");
        let trace = load(Path::new(&name));
        let specs = ["lru", "fifo", "opt"].map(|policy| Spec::parse(policy).unwrap()).to_vec();
        let sweep = Sweep { specs, sizes, warmup, threads: 1 };
        let in_one_pass = sweep.run(&trace, &|_| true);
        let replayed = sweep.run_watching(&replayed(), &trace, &|_| true);
        let told = |outcomes: &[RunOutcome]| -> Vec<_> {
            let told = |it: &RunOutcome| (it.policy.clone(), it.off_line, it.pages, it.total, it.counted, it.state.clone());
            outcomes.iter().map(told).collect()
        };
        prop_assert_eq!(told(&in_one_pass), told(&replayed));
    }
}

#[test]
fn a_stack_grows_with_the_pages_of_a_stream() {
    let trace = load(Path::new("zipf:pages=3000,references=20000,alpha=0.6"));
    let (half, rest) = trace.references.split_at(5_000);
    let grown = half.iter().max().unwrap() + 1;
    assert!(grown < trace.pages);
    fn check(mut stack: impl Stack, mut whole: impl Stack, [half, rest]: [&[u32]; 2], pages: u32) {
        half.iter().for_each(|&page| assert_eq!(stack.reference(page), whole.reference(page)));
        stack.reserve(pages);
        rest.iter().for_each(|&page| assert_eq!(stack.reference(page), whole.reference(page)));
    }
    check(Lru::new(grown), Lru::new(trace.pages), [half, rest], trace.pages);
    let sizes = vec![5, 100, 1000];
    check(Opt::at(grown, sizes.clone()), Opt::at(trace.pages, sizes), [half, rest], trace.pages);
}

#[test]
fn a_page_taken_out_of_the_stack_of_lru_was_never_used() {
    let trace = load(Path::new("zipf:pages=100,references=3000,alpha=0.6"));
    let (mut some, mut others) = (Lru::new(trace.pages), Lru::new(trace.pages));
    let (gone, left) = trace.references.split_at(1_000);
    let goes = |page: u32| page.is_multiple_of(3);
    for &page in gone {
        some.reference(page);
        if !goes(page) {
            others.reference(page);
        }
    }
    (0..trace.pages).filter(|&page| goes(page)).for_each(|page| some.remove(page));
    for &page in left {
        assert_eq!(some.reference(page), others.reference(page));
    }
}

#[test]
fn opt_at_some_sizes_is_opt_at_all_sizes() {
    let trace = load(Path::new("zipf:pages=300,references=9000,alpha=0.8"));
    let all = distances::<Opt>(&trace);
    for sizes in [vec![1], vec![2, 3, 50], vec![7, 100, 299, 1000], (1..=40).map(|size| size * 6).collect()] {
        let mut opt = Opt::at(trace.pages, sizes.clone());
        let some = Distances::count(&mut opt, &trace.references, 1000, &|_| true).expect("nothing stops it");
        assert_eq!(some.hits(&sizes), all.hits(&sizes), "{sizes:?}");
    }
}
