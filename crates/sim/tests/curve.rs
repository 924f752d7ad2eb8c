//! Curves against replay at every size.

use forebay_policy::Spec;
use forebay_sim::curve::{Distances, Lru, Opt, Stack};
use forebay_sim::{Keep, Sweep, Trace};
use std::path::Path;

fn load(path: &Path) -> Trace {
    let (_, mut reader) = forebay_trace::open(path, &forebay_trace::Options::default()).expect("the trace opens");
    Trace::load("test", reader.as_mut(), None, Keep::default(), &mut |_| {}).expect("the trace is well-formed")
}

fn distances<S: Stack>(trace: &Trace) -> Distances {
    Distances::count(&mut S::new(trace.pages), &trace.references, trace.pages, &|_| true).expect("nothing stops it")
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
            let replayed: Vec<u64> = sweep.run(&trace, &|_| true).iter().map(|outcome| outcome.total.hits).collect();
            assert_eq!(counted.hits(&sizes), replayed, "{policy} on {name}");
        }
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
