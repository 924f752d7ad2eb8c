//! One thread that uses files through a mount has the hits of the simulator.

use crate::forecast::{PAGE_SIZE, by_page, ends_of_objects, on_line, sample, simulated};
use crate::hints::hint;
use crate::mounted::{Mounted, wait_until};
use forebay_basis::{Operation, Place};
use forebay_policy::Spec;
use forebay_pool::{Config, WriteMode};
use forebay_sim::Trace;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Frames of the policy.
const PAGES: u32 = 900;

/// How many of the sample's references are made: each is a request of the kernel's.
const REFERENCES: usize = 20_000;

/// The most that is read ahead of a stream, where something is.
const READAHEAD: u32 = 128 << 10;

#[test]
fn every_policy_has_the_hits_of_the_simulator() {
    check_equal(0);
}

#[test]
fn every_policy_has_the_hits_of_the_simulator_with_readahead() {
    check_equal(READAHEAD);
}

/// Of three objects one is read at random, as its user says, and one in order.
#[test]
fn programs_that_say_how_they_read_have_the_hits_of_the_simulator() {
    let mut trace = by_page(sample(), REFERENCES);
    trace.requests.owner.fill(0);
    let of = |number: u32| trace.places.of(number).object % 3;
    let said = [Operation::Read, Operation::RandomRead, Operation::SequentialRead];
    let objects: Vec<u32> = trace.requests.first.iter().map(|&first| of(trace.references[first as usize])).collect();
    for (operation, object) in trace.requests.operation.iter_mut().zip(objects) {
        if *operation != Operation::Write {
            *operation = said[object as usize];
        }
    }
    let specs = [Spec::parse("lru").expect("a policy"), Spec::parse("clock-pro").expect("a policy")];
    let simulated = simulated(&trace, &specs, (PAGES, READAHEAD));
    for (spec, simulated) in specs.iter().zip(simulated) {
        let Some(mounted) = mounted(&trace, spec, READAHEAD, 0) else { return };
        assert_eq!(mounted, simulated, "{}", spec.label);
    }
}

#[test]
fn files_whose_ends_are_never_read_are_forecast_by_their_lengths() {
    const BEHIND: u64 = 100;
    let mut trace = by_page(sample(), REFERENCES);
    trace.requests.owner.fill(0);
    let specs = [Spec::parse("lru").expect("a policy"), Spec::parse("clock-pro").expect("a policy")];
    let without = simulated(&trace, &specs, (PAGES, READAHEAD));
    for Place { object, block } in ends_of_objects(&trace) {
        trace.names.set_length(object, (block + BEHIND) * u64::from(PAGE_SIZE));
    }
    let with = simulated(&trace, &specs, (PAGES, READAHEAD));
    for ((spec, without), with) in specs.iter().zip(without).zip(with) {
        let Some(mounted) = mounted(&trace, spec, READAHEAD, BEHIND) else { return };
        assert!(mounted == with && mounted != without, "{}: {mounted:?} {with:?} {without:?}", spec.label);
    }
}

fn check_equal(readahead: u32) {
    let mut trace = by_page(sample(), REFERENCES);
    // Here one process does it all.
    trace.requests.owner.fill(0);
    let specs = on_line();
    let simulated = simulated(&trace, &specs, (PAGES, readahead));
    let mut different = Vec::new();
    for (spec, simulated) in specs.iter().zip(simulated) {
        let Some(mounted) = mounted(&trace, spec, readahead, 0) else { return };
        if mounted != simulated {
            different.push((&spec.label, simulated, mounted));
        }
    }
    assert!(different.is_empty(), "policy, hits and pages read ahead simulated, mounted: {different:#?}");
}

/// The hits of a mount, and the pages that it has read ahead. With readahead it writes through, as readahead gives way to a laundry that is
/// full. Files have this many pages behind those that the trace refers to.
fn mounted(trace: &Trace, spec: &Spec, readahead: u32, behind: u64) -> Option<(u64, u64)> {
    let mounted = Mounted::start(|options, config| {
        options.readahead = readahead;
        options.mode = if readahead == 0 { WriteMode::Back } else { WriteMode::Through };
        let capacity = u64::from(PAGES + 3) * u64::from(PAGE_SIZE);
        *config = Config::new(capacity, spec.clone()).with_page_size(PAGE_SIZE);
        (config.laundry, config.known_pages) = (3, trace.pages);
    })?;
    let open = |Place { object, block }| {
        let (name, length) = (object.to_string(), (block + behind) * u64::from(PAGE_SIZE));
        File::create(mounted.below(&name)).and_then(|file| file.set_len(length)).expect("a file below");
        File::options().read(true).write(true).open(mounted.seen(&name)).expect("the file is seen")
    };
    let files: Vec<File> = ends_of_objects(trace).into_iter().map(open).collect();
    for (&first, operation) in trace.requests.first.iter().zip(&trace.requests.operation) {
        let file = &files[trace.places.of(trace.references[first as usize]).object as usize];
        match operation {
            Operation::RandomRead => hint(file, 0, 0, libc::POSIX_FADV_RANDOM).expect("a hint"),
            Operation::SequentialRead => hint(file, 0, 0, libc::POSIX_FADV_SEQUENTIAL).expect("a hint"),
            _ => {}
        }
    }
    let mut page = vec![7; PAGE_SIZE as usize];
    for (&number, operation) in trace.references.iter().zip(&trace.requests.operation) {
        let place = trace.places.of(number);
        let (file, offset) = (&files[place.object as usize], place.block * u64::from(PAGE_SIZE));
        match operation {
            Operation::Write => file.write_all_at(&page, offset).expect("a write"),
            _ => file.read_exact_at(&mut page, offset).expect("a read"),
        }
        wait_until("what is read ahead is there", || !mounted.pool.is_reading_ahead());
    }
    drop(files);
    // Hits are counted later than they happen.
    let (misses, ahead) = (mounted.pool.statistics().misses, mounted.mount.statistics().pages_read_ahead);
    mounted.stop();
    Some((trace.len() as u64 - misses, ahead))
}
