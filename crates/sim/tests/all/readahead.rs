//! What is read ahead, and what becomes of it, worked by hand on small traces; and what holds on all.

use forebay_policy::Spec;
use forebay_sim::study::comparison::{Asked, Comparison};
use forebay_sim::study::{Monitor, Progress};
use forebay_sim::{Counts, Keep, Readahead, ReadaheadCounts, RunOutcome, Size, Sweep, Trace, Watch};
use forebay_trace::{Circumstances, Input, Names, Options, Reader, Request, Unit};
use proptest::prelude::*;

fn load(text: String) -> Trace {
    let input = Input::from_bytes("test", text).unwrap();
    let (_, mut reader) = forebay_trace::reader::read(input, &Options::default()).unwrap();
    Trace::load("test", reader.as_mut(), None, Keep { places: true, requests: true }, &mut |_| {}).unwrap()
}

/// References to pages of 8 KiB, of which eight are a run.
fn pages(blocks: impl IntoIterator<Item = u64>) -> Trace {
    load(blocks.into_iter().map(|block| format!("{block}\n")).collect())
}

/// Reads of one block each.
fn blocks(blocks: impl IntoIterator<Item = u64>) -> Trace {
    load(blocks.into_iter().map(|block| format!("{block} 1 0 0\n")).collect())
}

fn watch(readahead: &str) -> Watch {
    Watch { readahead: readahead.parse().unwrap(), ..Watch::default() }
}

fn sweep(policy: &str, pages: u32, warmup: usize) -> Sweep {
    Sweep { specs: vec![Spec::parse(policy).unwrap()], sizes: vec![pages], warmup, threads: 1 }
}

fn lru(trace: &Trace, pages: u32, readahead: &str) -> RunOutcome {
    sweep("lru", pages, 0).run_watching(&watch(readahead), trace, &|_| true).remove(0)
}

fn counts(fetched: u64, used: u64, wasted: u64) -> Option<ReadaheadCounts> {
    Some(ReadaheadCounts { fetched, used, wasted, late: None })
}

#[test]
fn fixed_readahead_fetches_the_next_pages_at_a_miss_and_holes_too_but_not_behind_the_object() {
    // 0 misses: 1, 2. 3 misses: 4, and 5, which the trace never refers to. Behind 9 there is nothing.
    let outcome = lru(&blocks([0, 1, 2, 3, 4, 9]), 10, "fixed:pages=2");
    assert_eq!((outcome.total.hits, outcome.readahead), (3, counts(4, 3, 1)));
}

#[test]
fn a_read_asks_for_all_of_its_own_pages_and_readahead_begins_behind_it() {
    // Blocks 0 to 3 miss, 4 and 5 are read ahead; the read of 4 to 6 misses in 6 alone, and has 7 and 8 read.
    let outcome = lru(&load("0 4 0 0\n4 3 0 1\n20 1 0 2\n".to_owned()), 12, "fixed:pages=2");
    assert_eq!((outcome.total.hits, outcome.readahead), (2, counts(4, 2, 2)));
}

#[test]
fn an_object_whose_length_is_known_is_read_ahead_to_its_end() {
    let mut trace = blocks(0..6);
    assert_eq!(lru(&trace, 64, "linux:max=32").readahead, counts(5, 5, 0));
    // Blocks of 512 bytes: behind 0, 1 to 3 are read ahead; at 1, 4 to 11; at 4, 12 to 27, of which 12 to 14 lie in the file.
    trace.names.set_length(0, 15 * 512 - 100);
    let outcome = lru(&trace, 64, "linux:max=32");
    assert_eq!((outcome.total.hits, outcome.readahead), (5, counts(14, 5, 9)));
    // A file that has become shorter ends no earlier than what was read of it.
    trace.names.set_length(0, 0);
    assert_eq!(lru(&trace, 64, "linux:max=32").readahead, counts(5, 5, 0));
}

#[test]
fn what_is_read_ahead_pushes_out_no_more_than_half_of_the_cache() {
    // Of 8 pages only 2 are read ahead into a cache of 4. Behind 0: 1 and 2, which are used; behind 3: 4 and 5, for which 0 and 1 leave.
    // These two wait, so behind 0 nothing is read.
    let outcome = lru(&blocks([0, 1, 2, 3, 0, 9]), 4, "fixed:pages=8");
    assert_eq!((outcome.total.hits, outcome.readahead), (2, counts(4, 2, 2)));
}

#[test]
fn linux_doubles_its_window_at_each_mark() {
    // Behind 0: 1 to 3; at 1, 4 to 11; at 4, 12 to 27; at 12 the rest.
    let outcome = lru(&blocks(0..40), 64, "linux:max=32");
    assert_eq!((outcome.total.misses, outcome.readahead), (1, counts(39, 39, 0)));
    // References without order are read alone.
    let outcome = lru(&blocks([500, 7, 130, 61, 300]), 64, "linux:max=32");
    assert_eq!(outcome.readahead, counts(0, 0, 0));
}

#[test]
fn linux_reads_nothing_ahead_of_writes() {
    let requests = |operation| (0..8).map(|page| format!("{},8192,{operation}\n", page * 8192)).collect::<String>();
    let trace = |operation| load(format!("offset,length,operation\n{}", requests(operation)));
    assert_eq!(lru(&trace("write"), 64, "linux:max=4").readahead, counts(0, 0, 0));
    assert_eq!(lru(&trace("read"), 64, "linux:max=4").readahead, counts(7, 7, 0));
}

#[test]
fn a_program_that_says_how_it_reads_has_that_read_ahead_or_nothing() {
    let requests = |word| (100..108).map(|page| format!("{},4096,{word}\n", page * 4096)).collect::<String>();
    let outcome = |word| {
        let trace = load(format!("offset,length,operation\n{}1000000,1,read\n", requests(word)));
        let outcome = lru(&trace, 64, "linux:max=4");
        (outcome.total.hits, outcome.readahead.map_or(0, |counts| counts.fetched))
    };
    // A stream begins at its second read: 101 has 102 read, 102 and 103 four more each, and 107, too. Or at once: 100 has 101 to 103 read, then 101 and 104
    // four more each.
    assert_eq!(outcome("read"), (6, 13));
    assert_eq!(outcome("sequential-read"), (7, 11));
    assert_eq!(outcome("random-read"), (0, 0));
}

#[test]
fn a_sequence_is_read_ahead_once_it_is_detected_and_always_half_a_window_before_it_is_used() {
    // Blocks 100 to 107 make a sequence. Behind 107: 108 to 111; behind 109, when 112 is not there, 112 and 113; and so on, at last
    // 122 and 123 behind 119.
    let outcome = lru(&pages([140].into_iter().chain(100..121)), 100, "regular:max=4");
    assert_eq!((outcome.total.misses, outcome.readahead), (9, counts(16, 13, 3)));
}

#[test]
fn a_loop_is_read_ahead_up_to_its_end_and_from_its_start_again() {
    // Blocks 0 to 7 miss, 8 to 15 are read ahead as a sequence, and 16 to 19, which are not used: the object goes on up to 40. The
    // second round begins where a known run began, so its first block is the last one that misses: 1 to 15, and at the end 0 to 2,
    // which are due again. In the last round these three are not used.
    let rounds = || std::iter::repeat_n(0..16, 4).flatten();
    assert_eq!(lru(&pages(rounds()), 12, "none").total.hits, 0);
    let outcome = lru(&pages(rounds().chain([40])), 12, "regular:max=4");
    assert_eq!((outcome.total.misses, outcome.readahead), (8 + 1 + 1, counts(62, 55, 4 + 3)));
}

#[test]
fn pages_read_ahead_in_the_warm_up_may_be_used_after_it() {
    let trace = blocks([0, 1, 2, 3]);
    let outcome = sweep("lru", 10, 2).run_watching(&watch("fixed:pages=3"), &trace, &|_| true).remove(0);
    assert_eq!(outcome.counted, Counts { references: 2, hits: 2, misses: 0, compulsory_misses: 2 });
    assert_eq!(outcome.readahead, counts(2, 2, 0));
    // If nothing comes after the warm-up, nothing is counted.
    let outcome = sweep("lru", 10, 4).run_watching(&watch("fixed:pages=3"), &trace, &|_| true).remove(0);
    assert_eq!((outcome.counted, outcome.readahead), (Counts::default(), counts(0, 0, 0)));
}

#[test]
fn what_is_read_ahead_is_late_unless_the_program_thinks_meanwhile() {
    // 0.1 ms to the first byte, one request at a time, and no time for the transfer to speak of.
    let flash = "[flash]\nread_us = 100.0\nwrite_us = 20.0\nchannels = 1\nmb_s = 1e9";
    let run = |think_ms| {
        let watch = Watch { device: Some(flash.parse().unwrap()), think_ms, ..watch("linux:max=2") };
        let outcome = sweep("lru", 10, 0).run_watching(&watch, &blocks([0, 1, 2, 3]), &|_| true).remove(0);
        let waits = 4.0 * outcome.device.unwrap().wait_mean_ms;
        (outcome.readahead.unwrap().late, (1e3 * waits).round() / 1e3)
    };
    // 1 comes with 0; 2 and 3 come 0.1 ms after 1 is used. None of that is thought away, half, or all.
    assert_eq!([0.0, 0.05, 0.2].map(run), [(Some(1), 0.2), (Some(1), 0.15), (Some(0), 0.1)]);
}

/// A trace that says how it was recorded.
pub(crate) struct Recording(pub(crate) Box<dyn Reader>, pub(crate) Circumstances);

impl Reader for Recording {
    fn unit(&self) -> Unit {
        self.0.unit()
    }

    fn circumstances(&self) -> Option<&Circumstances> {
        Some(&self.1)
    }

    fn next(&mut self, names: &mut Names) -> forebay_trace::Result<Option<Request>> {
        self.0.next(names)
    }
}

pub(crate) struct Nobody;

impl Monitor for Nobody {
    fn begin(&self, _: String, _: Option<u64>, _: bool) -> Box<dyn Progress + '_> {
        Box::new(Nobody)
    }

    fn warn(&self, message: &str) {
        assert!(message.contains("--readahead RULE"), "{message}");
    }
}

impl Progress for Nobody {
    fn add(&self, _: u64) -> bool {
        true
    }

    fn set(&self, _: u64, _: Option<f64>) -> bool {
        true
    }
}

#[test]
fn a_recording_is_replayed_with_what_its_cache_read_ahead_unless_it_is_asked_otherwise() {
    let compared = |recorded: &str, policies: &[&str], asked: Option<&str>| {
        let rows = (0..200).map(|block| format!("{} 1 0 0\n", block % 50)).collect::<String>();
        let (_, reader) =
            forebay_trace::reader::read(Input::from_bytes("test", rows).unwrap(), &Options::default()).unwrap();
        let readahead = Some(recorded.to_owned());
        let circumstances = Circumstances { front_end: "mount".to_owned(), readahead, ..Circumstances::default() };
        let asked = Asked {
            specs: policies.iter().map(|policy| Spec::parse(policy).unwrap()).collect(),
            sizes: vec![Size::Pages(40)],
            readahead: asked.map(|rule| rule.parse().unwrap()),
            ..Asked::default()
        };
        asked.of("test", &mut Recording(reader, circumstances), &Nobody)
    };
    let hits = |comparison: &Comparison| -> Vec<(String, u64)> {
        comparison.outcomes.iter().map(|outcome| (outcome.policy.clone(), outcome.total.hits)).collect()
    };
    let asked = compared("none", &["lru", "mru"], Some("linux:max=8")).unwrap();
    let recorded = compared("linux:max=8", &["lru", "opt", "mru"], None).unwrap();
    assert_eq!((hits(&recorded), &*recorded.readahead.label), (hits(&asked), "linux:max=8"));
    assert_eq!(recorded.left_out, ["opt"]);
    let without = compared("linux:max=8", &["lru", "opt"], Some("none")).unwrap();
    assert_eq!((hits(&without)[0].1, without.left_out.len(), without.outcomes.len()), (0, 0, 2));
    // What is not known here is said, and replayed without.
    assert_eq!(hits(&compared("magic", &["lru"], None).unwrap()), [("lru".to_owned(), 0)]);
    let error = compared("linux:max=8", &["opt"], None).unwrap_err().to_string();
    assert!(error.contains("--readahead none"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_trace_may_have_what_its_own_cache_has_read_ahead(
        requests in prop::collection::vec((0u64..40, 1u64..5, 0usize..5, 0u32..3), 1..150),
        capacity in 1u32..12,
    ) {
        let words = ["read", "write", "readahead", "random-read", "sequential-read"];
        let row = |&(page, length, word, owner): &(u64, u64, usize, u32)| {
            format!("{},{},{},{owner}\n", page * 4096, length * 4096, words[word])
        };
        let trace = load(format!("offset,length,operation,owner\n{}", requests.iter().map(row).collect::<String>()));
        let specs: Vec<Spec> = Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect();
        let sweep = Sweep { specs, sizes: vec![capacity], warmup: 0, threads: 1 };
        let plain = sweep.run(&trace, &|_| true);
        for rule in ["none", "fixed:pages=3", "linux:max=8", "kernel:max=8", "regular:max=8"] {
            let device = Some(forebay_model::presets::named("desktop-7200").unwrap().model());
            let watch = Watch { device, ..watch(rule) };
            for (outcome, plain) in sweep.run_watching(&watch, &trace, &|_| true).iter().zip(&plain) {
                prop_assert_eq!(outcome.total.hits + outcome.total.misses, trace.len() as u64);
                // A device and its figures change no decision.
                prop_assert!(rule != "none" || outcome.total == plain.total, "{}", plain.policy);
            }
        }
    }

    #[test]
    fn every_page_read_ahead_is_used_or_wasted_and_every_reference_hits_or_misses(
        reads in prop::collection::vec((0u64..150, 1u64..6, 0u64..8), 1..80),
        capacity in 1u32..40,
        warmup in 0usize..20,
    ) {
        // Each read is gone on with for a while, and then again: sequences, loops and others.
        let text: String = reads.iter().flat_map(|&(start, length, more)| {
            (0..=2 * more).map(move |step| format!("{} {length} 0 0\n", start + length * (step % (more + 1))))
        }).collect();
        let trace = load(text);
        let warmup = warmup.min(trace.len());
        let specs: Vec<Spec> = Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect();
        let sweep = Sweep { specs, sizes: vec![capacity], warmup, threads: 1 };
        let plain = sweep.run(&trace, &|_| true);
        for rule in ["none", "fixed:pages=3", "linux:max=8", "kernel:max=8", "regular:max=8"] {
            let device = Some(forebay_model::presets::named("desktop-7200").unwrap().model());
            let watch = Watch { device, ..watch(rule) };
            for (outcome, plain) in sweep.run_watching(&watch, &trace, &|_| true).iter().zip(&plain) {
                prop_assert_eq!(outcome.counted.hits + outcome.counted.misses, (trace.len() - warmup) as u64);
                match outcome.readahead {
                    None => prop_assert_eq!((rule, outcome.total, outcome.counted), ("none", plain.total, plain.counted)),
                    Some(ReadaheadCounts { fetched, used, wasted, late }) => {
                        prop_assert_eq!(used + wasted, fetched, "{}", rule);
                        prop_assert!(used <= outcome.counted.hits && late.is_some_and(|late| late <= used));
                    }
                }
            }
        }
    }
}

#[test]
fn the_default_reads_nothing_ahead() {
    assert!(Readahead::default().is_none() && Watch::default().readahead.is_none());
}

/// The same numbers at every run.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

fn misses(trace: &Trace, policies: &[&str], pages: u32, readahead: &str) -> Vec<(String, u64)> {
    let specs = policies.iter().map(|name| Spec::parse(name).unwrap()).collect();
    let sweep = Sweep { specs, sizes: vec![pages], warmup: 0, threads: 2 };
    let outcomes = sweep.run_watching(&watch(readahead), trace, &|_| true);
    outcomes.into_iter().map(|outcome| (outcome.policy, outcome.total.misses)).collect()
}

/// Each page of the scan is used once. A policy that took its readahead for that use, and the use for a second one, would keep the scan.
#[test]
fn hot_pages_stay_beside_a_scan_that_is_read_ahead() {
    let mut state = 1;
    let hot_or_next = |step: u64| if step % 2 == 1 { random(&mut state, 80) * 1000 + 7 } else { 1_000_000 + step / 2 };
    let trace = blocks((0..60_000).map(hot_or_next));
    let policies = ["clock-pro", "lirs", "mq", "2q", "s3-fifo", "ubm"];
    for (policy, misses) in misses(&trace, &policies, 100, "linux:max=16") {
        assert!(misses <= 5_000, "{policy}: {misses} misses, of which 1,875 are the scan's windows");
    }
}

#[test]
fn an_index_stays_beside_scans_that_are_read_ahead() {
    let mut state = 7;
    let scan = |at| [1_000_000 + at, random(&mut state, 256)];
    let trace = blocks((0..3).flat_map(|_| 0..3072_u64).flat_map(scan));
    for (policy, misses) in misses(&trace, &["clock-pro", "lirs", "mq", "s3-fifo", "ubm"], 1000, "linux:max=8") {
        assert!(misses <= 300, "{policy}: {misses} misses");
    }
}

#[test]
fn under_the_kernel_s_rule_each_window_is_a_request_and_a_folio_is_used_and_evicted_whole() {
    let device = || Some(forebay_model::presets::named("sata-ssd").unwrap().model());
    let run = |trace: &Trace, pages| {
        let watch = Watch { device: device(), ..watch("kernel:max=32") };
        sweep("linux:kernel=6", pages, 0).run_watching(&watch, trace, &|_| true).remove(0)
    };
    let figure = |outcome: &RunOutcome, name| outcome.state.iter().find(|(of, _)| *of == name).map(|(_, value)| *value);
    // Windows of 4, 8, 4, 8, 8, 16 and 16 blocks. Each folio was used once, though block by block.
    let outcome = run(&blocks(0..64), 100);
    let cost = outcome.device.unwrap();
    assert_eq!(
        (cost.requests, cost.read_requests, outcome.total.hits, outcome.readahead.unwrap().used),
        (7, 7, 63, 63)
    );
    assert_eq!(figure(&outcome, "active"), Some(0.0));
    // Behind these, 40 reads elsewhere need 20 pages: 16 to 23 leave as one. So 20 misses, comes alone, and 21 begins a window.
    let elsewhere = (0..40).map(|step| 1000 + 10 * step);
    let outcome = run(&blocks((0..64).chain(elsewhere).chain(20..24)), 84);
    assert_eq!(outcome.total.misses, 1 + 40 + 2);
    // A write that misses is no read, and the last request counts.
    let cost =
        run(&load("offset,length,operation\n20480,4096,write\n36864,4096,read\n".to_owned()), 80).device.unwrap();
    assert_eq!((cost.requests, cost.read_requests), (2, 1));
}

#[test]
fn under_the_kernel_s_rule_a_page_that_leaves_before_it_was_read_takes_no_other_with_it() {
    // In a cache of 3 pages, what a request of 3 misses leaves while the request goes on.
    let rows = "0,8192,readahead,0\n16384,8192,write,0\n24576,12288,read,0\n0,8192,readahead,0\n0,4096,read,0\n";
    let trace = load(format!("offset,length,operation,owner\n{rows}"));
    let specs: Vec<Spec> = Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect();
    let sweep = Sweep { specs, sizes: vec![3], warmup: 0, threads: 1 };
    for outcome in sweep.run_watching(&watch("kernel:max=8"), &trace, &|_| true) {
        assert_eq!(outcome.total.hits + outcome.total.misses, trace.len() as u64, "{}", outcome.policy);
    }
}

#[test]
fn under_the_kernel_s_rule_other_policies_learn_of_each_page_of_a_folio() {
    let mut state = 5;
    let trace = blocks((0..64).chain((0..2000).map(|_| random(&mut state, 200))));
    let specs: Vec<Spec> = Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect();
    let sweep = Sweep { specs, sizes: vec![20, 100], warmup: 0, threads: 2 };
    for outcome in sweep.run_watching(&watch("kernel:max=32"), &trace, &|_| true) {
        assert_eq!(outcome.total.hits + outcome.total.misses, trace.len() as u64, "{}", outcome.policy);
    }
}
