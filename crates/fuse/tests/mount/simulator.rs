//! One thread that uses files through a mount has the hits of the simulator.

use crate::mounted::Mounted;
use forebay_policy::{Operation, Spec};
use forebay_sim::{Keep, Sweep, Trace};
use forebay_trace::Options;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// That of the sample.
const PAGE_SIZE: u32 = 8192;
const PAGES: u32 = 900;

fn sample() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/sample.parquet");
    let (_, mut reader) = forebay_trace::open(&path, &Options::default()).expect("the sample opens");
    let keep = Keep { places: true, requests: true };
    Trace::load("sample", reader.as_mut(), None, keep, &mut |_| {}).expect("the sample is well-formed")
}

#[test]
fn one_thread_has_the_hits_of_the_simulator() {
    let trace = sample();
    for policy in ["lru", "clock-pro", "ubm"] {
        let spec = Spec::parse(policy).expect("a policy");
        let mounted = Mounted::start(|options, config| {
            options.readahead = 0;
            let capacity = u64::from(PAGES + 3) * u64::from(PAGE_SIZE);
            *config = forebay_pool::Config::new(capacity, spec.clone()).with_page_size(PAGE_SIZE);
            (config.laundry, config.known_pages) = (3, trace.pages);
        });
        let Some(mounted) = mounted else { return };
        let objects = trace.places.iter().map(|place| place.object).max().expect("the trace has pages") + 1;
        let mut lengths = vec![0; objects as usize];
        for place in trace.places.iter() {
            let end = (place.block + 1) * u64::from(PAGE_SIZE);
            let length: &mut u64 = &mut lengths[place.object as usize];
            *length = end.max(*length);
        }
        let open = |(object, &length): (usize, &u64)| {
            let name = object.to_string();
            File::create(mounted.below(&name)).and_then(|file| file.set_len(length)).expect("a file below");
            File::options().read(true).write(true).open(mounted.seen(&name)).expect("the file is seen")
        };
        let files: Vec<File> = lengths.iter().enumerate().map(open).collect();
        let mut page = vec![7; PAGE_SIZE as usize];
        let ends = trace.requests.first.iter().skip(1).copied().chain([trace.len() as u32]);
        for (request, (&first, end)) in trace.requests.first.iter().zip(ends).enumerate() {
            for &number in &trace.references[first as usize..end as usize] {
                let place = trace.places.of(number);
                let (file, offset) = (&files[place.object as usize], place.block * u64::from(PAGE_SIZE));
                match trace.requests.operation[request] {
                    Operation::Write => file.write_all_at(&page, offset).expect("a write"),
                    _ => file.read_exact_at(&mut page, offset).expect("a read"),
                }
            }
        }
        drop(files);
        let statistics = mounted.pool.statistics();
        let sweep = Sweep { specs: vec![spec], sizes: vec![PAGES], warmup: 0, threads: 1 };
        let hits = sweep.run(&trace, &|_| true)[0].total.hits;
        assert_eq!(statistics.misses, trace.len() as u64 - hits, "{policy}: misses");
        mounted.stop();
    }
}
