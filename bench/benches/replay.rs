//! Replay alone of every policy of the registry: one thread, one size, the trace in memory.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_bench::Workload;
use forebay_policy::Spec;
use forebay_sim::Sweep;
use std::time::Duration;

fn replay(criterion: &mut Criterion) {
    let workload = Workload::chosen();
    let trace = workload.load();
    let mut group = criterion.benchmark_group("replay");
    group.sample_size(10).throughput(Throughput::Elements(workload.references));
    for spec in Spec::all() {
        let name = spec.info.name;
        let sweep = Sweep { specs: vec![spec], sizes: vec![workload.size], warmup: 0, threads: 1 };
        // The run's own clock: what a sweep prepares for all its runs (threads, the future) is not the policy's.
        group.bench_with_input(BenchmarkId::from_parameter(name), &sweep, |bencher, sweep| {
            bencher.iter_custom(|times| {
                let run = |_| Duration::from_secs_f64(sweep.run(&trace, &|_| true)[0].seconds);
                (0..times).map(run).sum()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
