//! How near the simulator's misses are to the faults of a real region: each reference of a trace is a read or a write of its page's first byte, by one
//! thread, without readahead. The pager sees a use of a resident page when the page's mapping has been taken away before; the simulator sees each.
//! By default all uses are seen that policies with reference bits wait for: SAMPLING is 1. Prints a line of JSON for each policy and size, a percentage of the
//! trace's pages. With REFERENCES the first of them alone.
//!
//!     forebay record --memory -o gzip.parquet -- gzip -k FILE
//!     cargo run --release -p forebay-bench --example pager_forecast -- gzip.parquet [POLICY,… [SAMPLING [SIZE,… [REFERENCES]]]]

use forebay_pager::{Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::MemoryDevice;
use forebay_sim::{Keep, Sweep, Trace};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const PAGE: usize = 4096;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a trace");
    let policies = arguments.next().unwrap_or_else(|| "clock,clock-pro,car".to_owned());
    let sampling: f64 = arguments.next().map_or(1.0, |share| share.parse().expect("a share of a processor"));
    let sizes = arguments.next().unwrap_or_else(|| "30,50,70".to_owned());
    let sizes: Vec<u32> = sizes.split(',').map(|size| size.parse().expect("a percentage")).collect();
    let most: usize = arguments.next().map_or(usize::MAX, |most| most.parse().expect("a number of references"));
    let (_, mut reader) = forebay_trace::open(Path::new(&path), &forebay_trace::Options::default()).expect("a trace");
    let keep = Keep { places: true, requests: true };
    let trace = Trace::load(&path, reader.as_mut(), Some(PAGE as u64), keep, &mut |_| {}).expect("references");
    let trace = Trace { references: trace.references[..most.min(trace.len())].to_vec().into(), ..trace };
    for policy in policies.split(',') {
        for &percent in &sizes {
            let spec = Spec::parse(policy).expect("a policy");
            let wanted = trace.pages * percent / 100;
            let map = |memory: u64| {
                let options = Options { sampling, ..Options::new(memory, spec.clone()) };
                let pager = Pager::new(&options).expect("a pager");
                let device = Arc::new(MemoryDevice::new(u64::from(trace.pages) * PAGE as u64));
                let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("region") };
                let region = Region::map(&pager, device, config).expect("a region");
                let frames = pager.statistics().policy_frames;
                (pager, region, frames)
            };
            // A part of the limit is for what it takes to manage the pages, and for pages that wait to be written.
            let mut memory = u64::from(wanted.max(16)) * PAGE as u64;
            let (mut pager, mut region, mut frames) = map(memory);
            for _ in 0..5 {
                memory = memory * u64::from(wanted) / u64::from(frames);
                (pager, region, frames) = map(memory);
            }
            let (base, start) = (region.as_ptr(), Instant::now());
            for &page in trace.references.iter() {
                // SAFETY: a byte of the region, which this thread alone uses.
                std::hint::black_box(unsafe { base.add(page as usize * PAGE).read_volatile() });
            }
            let (seconds, faults) = (start.elapsed().as_secs_f64(), pager.faults());
            region.close().expect("nothing was written");
            let sweep = Sweep { specs: vec![spec], sizes: vec![frames], warmup: 0, threads: 1 };
            let misses = sweep.run(&trace, &|_| true)[0].counted.misses;
            println!(
                "{{\"trace\": \"{}\", \"references\": {}, \"pages\": {}, \"policy\": \"{policy}\", \"sampling\": {sampling}, \"frames\": {frames}, \"major_faults\": {}, \"minor_faults\": {}, \"unmapped\": {}, \"misses\": {misses}, \"faults_against_misses\": {:.4}, \"seconds\": {seconds:.2}}}",
                Path::new(&path).file_stem().expect("a name").display(),
                trace.len(),
                trace.pages,
                faults.major,
                faults.minor,
                faults.unmapped,
                faults.major as f64 / misses as f64,
            );
        }
    }
}
