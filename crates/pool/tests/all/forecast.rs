//! What the simulator says of the sample, as a real cache is asked for it: by one thread, in order.

#![allow(dead_code, reason = "each test program uses some of it")]

use forebay_basis::{Operation, Place};
use forebay_policy::Spec;
use forebay_sim::{Keep, Requests, RunOutcome, Sweep, Trace, Watch};
use forebay_trace::Options;
use std::collections::BTreeSet;
use std::path::Path;

/// That of the sample.
pub(crate) const PAGE_SIZE: u32 = 8192;

pub(crate) fn sample() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/sample.parquet");
    let (_, mut reader) = forebay_trace::open(&path, &Options::default()).expect("the sample opens");
    let keep = Keep { places: true, requests: true };
    Trace::load("sample", reader.as_mut(), None, keep, &mut |_| {}).expect("the sample is well-formed")
}

/// A trace in the bytes of a file, in pages of the sample's size.
pub(crate) fn load(name: &str, bytes: Vec<u8>) -> Trace {
    let input = forebay_trace::Input::from_bytes(name, bytes).expect("the trace opens");
    let (_, mut reader) = forebay_trace::reader::read(input, &Options::default()).expect("a known format");
    let keep = Keep { places: true, requests: true };
    Trace::load(name, reader.as_mut(), Some(PAGE_SIZE.into()), keep, &mut |_| {}).expect("the trace is well-formed")
}

/// The first references of a trace, each page as a request of its own, of which the pool sees as much as the simulator; and at the end the blocks that are passed over: a
/// policy that remembers pages which it no longer knows would take them for others, as their numbers come back at other times. The last
/// request writes, since the simulator reads nothing ahead behind the last one.
pub(crate) fn by_page(mut trace: Trace, count: usize) -> Trace {
    let ends = trace.requests.first.iter().skip(1).copied().chain([trace.len() as u32]);
    let mut requests = Requests::default();
    let mut request = |first, owner, operation| {
        requests.first.push(first);
        requests.owner.push(owner);
        requests.operation.push(operation);
    };
    for (index, (&first, end)) in trace.requests.first.iter().zip(ends).enumerate() {
        let (owner, operation) = (trace.requests.owner[index], trace.requests.operation[index]);
        (first..end.min(count as u32)).for_each(|reference| request(reference, owner, operation));
    }
    let known: BTreeSet<Place> = trace.places.iter().collect();
    let mut references = trace.references[..count].to_vec();
    for end in ends_of_objects(&trace) {
        for place in (0..end.block).map(|block| Place { block, ..end }).filter(|place| !known.contains(place)) {
            request(references.len() as u32, 0, Operation::Read);
            references.push(trace.pages);
            trace.places.push(place);
            trace.pages += 1;
        }
    }
    request(references.len() as u32, 0, Operation::Write);
    references.push(0);
    Trace { requests, references: references.into(), ..trace }
}

/// The place behind the last page of each object.
pub(crate) fn ends_of_objects(trace: &Trace) -> Vec<Place> {
    let mut ends: Vec<Place> = Vec::new();
    for Place { object, block } in trace.places.iter() {
        (ends.len() as u32..=object).for_each(|object| ends.push(Place { object, block: 0 }));
        let end = &mut ends[object as usize];
        end.block = end.block.max(block + 1);
    }
    ends
}

/// Hits, and pages read ahead, in a cache of some pages that reads at most that many bytes ahead of a stream.
pub(crate) fn simulated(trace: &Trace, specs: &[Spec], (pages, readahead): (u32, u32)) -> Vec<(u64, u64)> {
    let rule = if readahead == 0 { "none".to_owned() } else { format!("linux:max={}KiB", readahead >> 10) };
    let watch = Watch { readahead: rule.parse().expect("a rule"), ..Watch::default() };
    let sweep = Sweep { specs: specs.to_vec(), sizes: vec![pages], warmup: 0, threads: 0 };
    let fetched = |outcome: &RunOutcome| outcome.readahead.map_or(0, |counts| counts.fetched);
    let outcomes = sweep.run_watching(&watch, trace, &|_| true);
    outcomes.into_iter().map(|outcome| (outcome.total.hits, fetched(&outcome))).collect()
}

pub(crate) fn on_line() -> Vec<Spec> {
    Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect()
}
