//! Curves against replay at every size.

#[path = "../../trace/tests/real_trace/mod.rs"]
mod real_trace;

use forebay_policy::Spec;
use forebay_sim::curve::{Distances, Lru, Opt, Stack};
use forebay_sim::{Keep, Sweep, Trace};
use std::path::Path;

fn load(path: &Path) -> Trace {
    let (_, mut reader) = forebay_trace::open(path, &forebay_trace::Options::default()).expect("the trace opens");
    Trace::load("test", reader.as_mut(), None, Keep::default(), &mut |_| {}).expect("the trace is well-formed")
}

#[test]
#[ignore]
fn speed() {
    let path = std::env::var("T").unwrap();
    let trace = load(Path::new(&path));
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let d = Distances::count(&mut Lru::new(trace.pages), &trace.references, trace.pages, &|_| true).unwrap();
        eprintln!("lru {:?} {:?}", start.elapsed(), d.hits(&[trace.pages / 10]));
        let start = std::time::Instant::now();
        let d = Distances::count(&mut Opt::new(trace.pages), &trace.references, trace.pages, &|_| true).unwrap();
        eprintln!("opt {:?} {:?}", start.elapsed(), d.hits(&[trace.pages / 10]));
    }
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
            let sweep = Sweep { specs: vec![Spec::parse(policy).unwrap()], sizes: sizes.clone(), warmup: 0, threads: 1 };
            let replayed: Vec<u64> = sweep.run(&trace, &|_| true).iter().map(|outcome| outcome.total.hits).collect();
            assert_eq!(counted.hits(&sizes), replayed, "{policy} on {name}");
        }
    }
}
