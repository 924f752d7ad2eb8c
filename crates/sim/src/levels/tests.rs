//! Hierarchies worked by hand, and what holds for all.

use super::cache::Cache;
use super::run::Run;
use super::storage::Storage;
use super::*;
use crate::input::ingest::LoadTimes;
use crate::input::places::Places;
use crate::input::requests::Requests;
use crate::input::trace::Trace;
use forebay_basis::Operation;
use forebay_policy::{Reference, Spec};
use forebay_trace::Names;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What reaches the storage: `r3` a read of page 3, `w3` a write, `W3` one that is waited for.
#[derive(Default)]
struct Log(Vec<String>);

impl Storage for Log {
    fn read(&mut self, reference: &Reference) {
        self.0.push(format!("r{}", reference.page));
    }

    fn write(&mut self, reference: &Reference, waits: bool) {
        self.0.push(format!("{}{}", if waits { "W" } else { "w" }, reference.page));
    }
}

/// References as (owner, operation, page), each a request of its own. The pages have to be numbered by first use.
fn trace(references: &[(u32, Operation, u32)]) -> Trace {
    let mut requests = Requests::default();
    for (time, &(owner, operation, _)) in references.iter().enumerate() {
        requests.push(time as u32, owner, operation);
    }
    let references: Vec<u32> = references.iter().map(|&(_, _, page)| page).collect();
    Trace {
        name: "test".to_owned(),
        pages: references.iter().max().map_or(0, |&page| page + 1),
        references: Arc::new(references),
        page_size: 4096,
        page_size_origin: forebay_trace::Origin::Given,
        places: Places::default(),
        requests,
        names: Names::default(),
        circumstances: None,
        times: LoadTimes::default(),
    }
}

/// `r0 w1 r0`: reads and writes by one owner.
fn parse(text: &str) -> Trace {
    let reference = |word: &str| {
        let operation = if word.starts_with('w') { Operation::Write } else { Operation::Read };
        (0, operation, word[1..].parse().unwrap())
    };
    trace(&text.split(' ').map(reference).collect::<Vec<_>>())
}

const BACK: Write = Write::Back { flush: None };

fn level(policy: &str, pages: u32, write: Write) -> Level {
    Level { spec: Spec::parse(policy).unwrap(), pages, caches: 1, write }
}

fn hierarchy(mode: Mode, levels: Vec<Level>) -> Hierarchy {
    Hierarchy { levels, mode, device: None, analyze: false }
}

/// What passed the levels, and what reached the storage.
fn replay(hierarchy: &Hierarchy, trace: &Trace) -> (Vec<Passed>, String) {
    let mut run = Run::new(hierarchy, trace, Log::default());
    assert!(run.replay(&|_| true));
    run.caches().for_each(Cache::check);
    let (passed, log) = run.outcome();
    (passed, log.0.join(" "))
}

#[test]
fn an_inclusive_lower_level_hits_what_the_one_above_has_evicted() {
    // One page over two: 0, 1 and 2 are new, 1 is still below, then 2 is; 0 was evicted from both.
    let hierarchy = hierarchy(Mode::Inclusive, vec![level("lru", 1, BACK), level("lru", 2, BACK)]);
    let (passed, log) = replay(&hierarchy, &parse("r0 r0 r1 r2 r1 r2 r0"));
    assert_eq!((passed[0].references, passed[0].hits), (7, 1));
    assert_eq!((passed[1].references, passed[1].hits), (6, 2));
    assert_eq!(log, "r0 r1 r2 r0");
}

#[test]
fn a_page_written_back_goes_down_when_it_is_evicted_and_once() {
    let hierarchy = hierarchy(Mode::Inclusive, vec![level("lru", 1, BACK), level("lru", 1, BACK)]);
    // The second write of 0 hits. 1 evicts 0, which goes to level 2 after 1 has been read through it, and evicts 1 there; 2 likewise
    // evicts 0 there, which is dirty, and finds 1 clean.
    let (passed, log) = replay(&hierarchy, &parse("w0 w0 r1 r2"));
    assert_eq!(log, "r1 r2 w0");
    assert_eq!((passed[0].writes_received, passed[0].writes_sent), (2, 1));
    assert_eq!((passed[1].writes_received, passed[1].writes_sent), (1, 1));
    assert_eq!((passed[1].reads, passed[1].references, passed[1].hits), (2, 3, 0));
}

#[test]
fn a_write_sent_through_is_waited_for_as_far_as_it_goes() {
    let references = parse("w0 w0 r0 r1");
    let through = hierarchy(Mode::Inclusive, vec![level("lru", 2, Write::Through), level("lru", 1, Write::Through)]);
    let (passed, log) = replay(&through, &references);
    assert_eq!(log, "W0 W0 r1");
    assert_eq!((passed[1].references, passed[1].hits, passed[1].writes_sent), (3, 1, 2));
    // A lower level that writes back takes it, and nobody waits for its writeback.
    let back_below = hierarchy(Mode::Inclusive, vec![level("lru", 2, Write::Through), level("lru", 1, BACK)]);
    assert_eq!(replay(&back_below, &references).1, "r1 w0");
}

#[test]
fn dirty_pages_are_flushed_after_each_interval_and_stay() {
    let flushed = Write::Back { flush: Some(3) };
    let one = hierarchy(Mode::Inclusive, vec![level("lru", 4, flushed)]);
    let (passed, log) = replay(&one, &parse("w0 r1 w2 w0 r0 r0 r0 r0 r0"));
    assert_eq!(log, "r1 w0 w2 w0");
    assert_eq!((passed[0].hits, passed[0].writes_sent), (6, 3));
}

#[test]
fn an_exclusive_level_gives_its_page_up_and_gets_those_evicted() {
    // One page over one: 1 demotes 0; 0 comes up as 1 is demoted; both are held by turns, which inclusive caches do not do.
    let levels = vec![level("lru", 1, BACK), level("lru", 1, BACK)];
    let references = parse("r0 r1 r0 r1 r0");
    let (passed, log) = replay(&hierarchy(Mode::Exclusive, levels.clone()), &references);
    assert_eq!(log, "r0 r1");
    assert_eq!((passed[1].references, passed[1].hits, passed[1].demotions_received), (5, 3, 4));
    assert_eq!(replay(&hierarchy(Mode::Inclusive, levels), &references).1, "r0 r1 r0 r1 r0");
}

#[test]
fn a_dirty_page_is_demoted_and_comes_up_dirty() {
    let levels = vec![level("lru", 1, BACK), level("lru", 1, BACK)];
    // 0 is demoted dirty, comes up dirty for the read, is demoted again by 1, and is written when 2 demotes 1.
    let (passed, log) = replay(&hierarchy(Mode::Exclusive, levels), &parse("w0 r1 r0 r1 r2"));
    assert_eq!(log, "r1 r2 w0");
    assert_eq!((passed[0].writes_sent, passed[1].writes_received, passed[1].writes_sent), (2, 2, 1));
}

#[test]
fn a_write_in_an_exclusive_hierarchy_leaves_no_older_copy_below() {
    let levels = |write| vec![level("lru", 1, write), level("lru", 2, BACK)];
    // 0 is below when it is written again: its old content, dirty as it is, is never written.
    assert_eq!(replay(&hierarchy(Mode::Exclusive, levels(BACK)), &parse("w0 r1 w0 r2 r3 r4")).1, "r1 r2 r3 r4 w0");
    // Sent through, a write passes the level below, which does not keep what is above.
    let (passed, log) = replay(&hierarchy(Mode::Exclusive, levels(Write::Through)), &parse("w0 r1 w0"));
    assert_eq!(log, "W0 r1 W0");
    assert_eq!((passed[1].hits, passed[1].writes_received, passed[1].writes_sent), (1, 2, 2));
}

#[test]
fn owners_are_spread_over_the_first_level_and_meet_below() {
    let mut first = level("lru", 1, BACK);
    first.caches = 2;
    let hierarchy = hierarchy(Mode::Inclusive, vec![first, level("lru", 4, BACK)]);
    let read = |owner, page| (owner, Operation::Read, page);
    // Owner 2 shares the cache of owner 0.
    let (passed, log) = replay(&hierarchy, &trace(&[read(0, 0), read(1, 0), read(1, 1), read(2, 0), read(1, 0)]));
    assert_eq!((passed[0].references, passed[0].hits), (5, 1));
    assert_eq!((passed[1].references, passed[1].hits), (4, 2));
    assert_eq!(log, "r0 r1");
}

#[test]
fn a_hint_counts_as_a_use_of_the_page_below() {
    // 1 evicts 0 above, which below is used by that, after 1 has come. So it is 1 that makes room for 2, and 0 is still there.
    let levels = vec![level("lru", 1, BACK), level("lru", 2, BACK)];
    let references = parse("r0 r1 r2 r0");
    let (plain, _) = replay(&hierarchy(Mode::Inclusive, levels.clone()), &references);
    let (hinted, _) = replay(&hierarchy(Mode::Hints, levels), &references);
    assert_eq!((plain[1].hints_received, hinted[1].hints_received), (0, 3));
    assert_eq!((plain[1].hits, hinted[1].hits), (0, 1));
}

#[test]
fn hints_raise_a_page_of_mq_by_its_hits_above() {
    // 0 is used four times above, then evicted by 1, as 1 is by 2 and 2 by 3. Of MQ's two pages 0 is in a higher queue, if hinted.
    let levels = vec![level("lru", 1, BACK), level("mq:lifetime=100", 2, BACK)];
    let references = parse("r0 r0 r0 r0 r1 r2 r3 r0");
    assert_eq!(replay(&hierarchy(Mode::Inclusive, levels.clone()), &references).1, "r0 r1 r2 r3 r0");
    assert_eq!(replay(&hierarchy(Mode::Hints, levels), &references).1, "r0 r1 r2 r3");
}

#[test]
fn each_level_tells_the_distances_of_its_own_references() {
    let mut hierarchy = hierarchy(Mode::Inclusive, vec![level("lru", 1, BACK), level("lru", 2, BACK)]);
    hierarchy.analyze = true;
    let (passed, _) = replay(&hierarchy, &parse("r0 r0 r1 r0 r0 r1"));
    let analysis = |level: usize| passed[level].analysis.as_ref().unwrap();
    let distances =
        |level: usize| -> Vec<u64> { analysis(level).distances.iter().map(|point| point.references).collect() };
    // Above 1, 2, 1 and 3, below, of 0 1 0 1, 2 and 2.
    assert_eq!((distances(0), distances(1)), (vec![2, 1, 1], vec![0, 2]));
    // Both pages twice at least, and page 0 four times.
    assert_eq!(analysis(0).frequency.iter().map(|point| point.pages).collect::<Vec<_>>(), [2, 2, 1]);
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Inclusive), Just(Mode::Exclusive), Just(Mode::Hints)]
}

fn levels() -> impl Strategy<Value = Vec<Level>> {
    let policies = ["lru", "mq", "arc", "clock-pro", "2q", "lirs", "s3-fifo", "lru-sp"];
    let write = prop_oneof![
        Just(Write::Through),
        Just(BACK),
        (1..30u64).prop_map(|interval| Write::Back { flush: Some(interval) })
    ];
    let one = (0..policies.len(), 1..8u32, write);
    vec(one, 1..4).prop_map(move |levels| {
        levels.into_iter().map(|(policy, pages, write)| level(policies[policy], pages, write)).collect()
    })
}

fn references() -> impl Strategy<Value = Trace> {
    vec((0..5u32, prop_oneof![2 => Just(Operation::Read), 1 => Just(Operation::Write)], 0..20u32), 1..200).prop_map(
        |mut references| {
            let mut numbers: Vec<u32> = Vec::new();
            for (_, _, page) in &mut references {
                let known = numbers.iter().position(|&other| other == *page);
                *page = known.unwrap_or_else(|| {
                    numbers.push(*page);
                    numbers.len() - 1
                }) as u32;
            }
            trace(&references)
        },
    )
}

#[test]
fn what_a_trace_has_read_ahead_itself_passes_the_levels_as_references() {
    let ahead: Vec<_> = (0..12).chain(0..12).map(|page| (0, Operation::Readahead, page)).collect();
    for policy in ["lru", "clock-pro", "arc", "s3-fifo", "lru-sp"] {
        let levels = [4, 8].map(|pages| level(policy, pages, BACK));
        let (passed, _) = replay(&hierarchy(Mode::Inclusive, levels.into()), &trace(&ahead));
        assert_eq!(passed[0].references, 24, "{policy}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_at_the_storage_or_dirty_in_a_cache(
        mode in modes(),
        mut levels in levels(),
        caches in 1..4u32,
        trace in references(),
    ) {
        levels[0].caches = caches;
        let hierarchy = hierarchy(mode, levels);
        let mut run = Run::new(&hierarchy, &trace, Log::default());
        let mut not_stored = BTreeSet::new();
        for (time, &page) in trace.references.iter().enumerate() {
            let operation = trace.requests.operation[time];
            if operation == Operation::Write {
                not_stored.insert(page);
            }
            run.reference(time, trace.requests.owner[time], operation);
            for entry in run.storage().0.drain(..).filter(|entry| !entry.starts_with('r')) {
                not_stored.remove(&entry[1..].parse().unwrap());
            }
            let dirty: BTreeSet<u32> = run.caches().flat_map(|cache| cache.dirty_pages()).collect();
            prop_assert!(not_stored.is_subset(&dirty), "{:?} of {:?}", dirty, not_stored);
            run.caches().for_each(Cache::check);
        }
    }

    #[test]
    fn a_page_is_in_one_level_of_an_exclusive_hierarchy(levels in levels(), trace in references()) {
        let hierarchy = hierarchy(Mode::Exclusive, levels);
        let mut run = Run::new(&hierarchy, &trace, Log::default());
        for (time, &page) in trace.references.iter().enumerate() {
            run.reference(time, 0, trace.requests.operation[time]);
            for page in 0..trace.pages {
                let copies = run.caches().filter(|cache| cache.contains(page)).count();
                prop_assert!(copies <= 1, "{} is in {} levels", page, copies);
            }
            prop_assert!(run.caches().next().unwrap().contains(page));
        }
    }

    #[test]
    fn what_a_level_sends_is_what_the_next_one_gets(
        mode in modes(),
        mut levels in levels(),
        caches in 1..4u32,
        trace in references(),
    ) {
        levels[0].caches = caches;
        let (passed, log) = replay(&hierarchy(mode, levels), &trace);
        let written = log.split(' ').filter(|entry| !entry.is_empty() && !entry.starts_with('r')).count() as u64;
        let received = passed[1..].iter().map(|level| level.writes_received).chain([written]);
        let sent = passed.iter().map(|level| level.writes_sent);
        prop_assert!(sent.eq(received), "{:?} {}", passed, log);
        let missed = passed.iter().map(|level| level.reads - level.read_hits);
        let read = log.split(' ').filter(|entry| entry.starts_with('r')).count() as u64;
        prop_assert!(missed.eq(passed[1..].iter().map(|level| level.reads).chain([read])));
        prop_assert_eq!(passed[0].references, trace.len() as u64);
    }
}
