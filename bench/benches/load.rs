//! What comes before replay: reading each trace format, and numbering pages.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_bench::Workload;
use forebay_trace::{ConvertOptions, FORMATS, Format, Input, Names, OUTPUTS, Options, Result, convert, reader};
use std::path::Path;
use std::sync::Arc;

/// The least bytes of a trace that we cannot write.
const LEAST: usize = 8 << 20;

/// A trace of the format, if there is a way to make one.
fn bytes(format: &Format, workload: &Workload) -> Option<Arc<[u8]>> {
    let Some(output) = OUTPUTS.iter().find(|output| output.name == format.name) else {
        return repeated(format);
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("zipf.{}", output.extensions[0]));
    let options = ConvertOptions { force: true, ..ConvertOptions::default() };
    convert(workload.open().as_mut(), &file, &options, &mut |_| {}).expect("a synthetic trace converts");
    Some(std::fs::read(file).expect("what was written can be read").into())
}

/// The format's example again and again, but for the lines at its front that stand once in a trace; `None` if others do too.
fn repeated(format: &Format) -> Option<Arc<[u8]>> {
    let lines: Vec<&[u8]> = format.example.split_inclusive(|&byte| byte == b'\n').collect();
    let with_front = |front: usize| -> Arc<[u8]> {
        let (once, again) = lines.split_at(front);
        let mut bytes = once.concat();
        while bytes.len() < LEAST {
            again.iter().for_each(|line| bytes.extend_from_slice(line));
        }
        bytes.into()
    };
    let mut candidates = (0..lines.len().min(4)).map(with_front);
    candidates.find(|bytes| read(format, bytes).is_ok())
}

/// Reads a whole trace, and returns its requests.
fn read(format: &Format, bytes: &Arc<[u8]>) -> Result<u64> {
    let input = Input::from_bytes(format.name, Arc::clone(bytes))?;
    let options = Options { format: Some(format.name.to_owned()), ..Options::default() };
    let (_, mut reader) = reader::read(input, &options)?;
    let (mut names, mut batch, mut requests, mut more) = (Names::new(), Vec::new(), 0, true);
    while more {
        batch.clear();
        more = reader.fill(&mut names, 4096, &mut batch)?;
        requests += batch.len() as u64;
    }
    Ok(requests)
}

fn reading(criterion: &mut Criterion) {
    let workload = Workload::chosen();
    let mut group = criterion.benchmark_group("reading");
    group.sample_size(10);
    for format in FORMATS {
        let Some(bytes) = bytes(format, &workload) else {
            println!("reading/{}: left out, for its example cannot be repeated", format.name);
            continue;
        };
        group.throughput(Throughput::Elements(read(format, &bytes).expect("the trace is well formed")));
        group.bench_with_input(BenchmarkId::from_parameter(format.name), &bytes, |bencher, bytes| {
            bencher.iter(|| read(format, bytes).expect("the trace is well formed"));
        });
    }
    group.finish();
}

fn numbering(criterion: &mut Criterion) {
    let workload = Workload::chosen();
    let mut group = criterion.benchmark_group("numbering");
    group.sample_size(10).throughput(Throughput::Elements(workload.references));
    group.bench_function("zipf", |bencher| {
        bencher.iter_custom(|times| (0..times).map(|_| workload.load().times.numbering).sum());
    });
    group.finish();
}

criterion_group!(benches, reading, numbering);
criterion_main!(benches);
