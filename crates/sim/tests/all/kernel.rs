//! The kernel's own page cache beside what a front end has recorded, and what the advice says of it.

use crate::readahead::{Nobody, Recording};
use forebay_policy::Spec;
use forebay_sim::study::Comparison;
use forebay_sim::study::advice::of_comparison;
use forebay_sim::study::comparison::{Asked, USUAL_SIZES};
use forebay_sim::study::kernel::brought_in;
use forebay_sim::{Readahead, RunOutcome, Size};
use forebay_trace::{Circumstances, Input, Options};

const MIB: u64 = 1 << 20;

fn specs(names: &[&str]) -> Vec<Spec> {
    names.iter().map(|name| Spec::parse(name).expect("a policy")).collect()
}

/// A loop of single pages in the reverse order, which nothing reads ahead.
fn back_and_back() -> String {
    (0..4_000).map(|time| format!("{} 1 0 0\n", 999 - time % 1_000)).collect()
}

fn compared(rows: &str, recorded: Circumstances, asked: &Asked) -> Comparison {
    let input = Input::from_bytes("test", rows.to_owned()).expect("text");
    let (_, reader) = forebay_trace::reader::read(input, &Options::default()).expect("a trace");
    asked.of("test", &mut Recording(reader, recorded), &Nobody).expect("an answer")
}

fn by_mount() -> Circumstances {
    Circumstances {
        front_end: "mount".to_owned(),
        readahead: Some("none".to_owned()),
        cache: Some(64 * MIB),
        policy_bytes: Some(62 * MIB),
        ..Circumstances::default()
    }
}

fn asked(policies: &[&str], pages: u64) -> Asked {
    Asked { specs: specs(policies), sizes: vec![Size::Pages(pages)], ..Asked::default() }
}

#[test]
fn the_kernel_has_all_the_memory_and_its_own_readahead_alone_and_steered() {
    let rows: String = (0..3_000).map(|time| format!("{} 1 0 0\n", time % 400)).collect();
    let beside = compared(&rows, by_mount(), &asked(&["lru", "arc", "clock-pro"], 310));
    let kernel = beside.beside_kernel.expect("a mount recorded it");
    let of_readahead = |policies: &[&str]| {
        let readahead: Option<Readahead> = Some("kernel".parse().expect("a rule"));
        let asked = Asked { readahead, kernel: Some(false), ..asked(policies, 320) };
        compared(&rows, Circumstances::default(), &asked).outcomes
    };
    let told = |outcomes: &[RunOutcome]| -> Vec<_> {
        outcomes.iter().map(|of| (of.policy.clone(), of.pages, of.counted, of.readahead)).collect()
    };
    assert_eq!(told(&kernel.alone), told(&of_readahead(&["linux:kernel=6"])));
    assert_eq!(told(&kernel.steered), told(&of_readahead(&["lru", "arc", "clock-pro"])));
    assert_eq!((beside.sizes[0].0, kernel.alone[0].pages, kernel.requests), (310, 320, 3_000));
}

#[test]
fn only_what_a_front_end_has_recorded_is_replayed_in_the_kernel_s_cache_unless_that_is_asked() {
    let rows = back_and_back();
    let is_there = |front_end: &str, kernel: Option<bool>| {
        let recorded = Circumstances { front_end: front_end.to_owned(), ..by_mount() };
        let comparison = compared(&rows, recorded, &Asked { kernel, ..asked(&["lru"], 100) });
        comparison.beside_kernel.map(|kernel| (kernel.readahead.label, kernel.steered.len()))
    };
    let said = |readahead: &str, steered| Some((readahead.to_owned(), steered));
    assert_eq!(is_there("mount", None), said("kernel", 1));
    assert_eq!([is_there("serve", None), is_there("steer", None)], [said("kernel", 0), said("kernel", 0)]);
    assert_eq!(is_there("run", None), said("none", 0));
    assert_eq!([is_there("record", None), is_there("mount", Some(false))], [None, None]);
    assert_eq!(is_there("record", Some(true)), said("kernel", 1));
}

#[test]
fn the_advice_leaves_to_the_kernel_what_it_does_as_well() {
    // Pages of one use beside pages that are used all the time: every policy keeps the latter.
    let rows: String = (0..6_000_u64)
        .map(|time| {
            format!("{} 1 0 0\n", if time % 10 == 9 { 100_000 + time * 977 % 50_000 } else { time * 7919 % 40 })
        })
        .collect();
    let advice = of_comparison(&compared(&rows, by_mount(), &asked(&["lru", "arc"], 100))).text;
    let all = "with the same memory, 51.5 KiB with the part that is not the policy's, would bring in";
    assert!(advice.contains(all), "{advice}");
    assert!(advice.ends_with("So a mount saves next to nothing: leave it to the kernel."), "{advice}");
}

/// Loops over 4,000 blocks of 512 bytes, forward and with a readahead like the kernel's.
fn looped(times: Option<u64>, front_end: &str, policies: &[&str]) -> (Comparison, String) {
    let rows: String = (0..20_000).map(|time| format!("{} 1 0 0\n", time % 4_000)).collect();
    let recorded = Circumstances {
        front_end: front_end.to_owned(),
        readahead: Some("linux:max=8KiB".to_owned()),
        request_ns: times,
        hit_ns: times.map(|_| 400),
        read_ns: times.map(|_| 100_000),
        ..by_mount()
    };
    let comparison = compared(&rows, recorded, &asked(policies, 2_000));
    let advice = of_comparison(&comparison).text;
    (comparison, advice)
}

#[test]
fn the_advice_steers_where_that_brings_in_as_little_and_no_time_was_measured() {
    let (comparison, advice) = looped(None, "mount", &["lru", "mru"]);
    let kernel = comparison.beside_kernel.as_ref().expect("a mount recorded it");
    let steered = kernel.best_steered(0).expect("it can be steered");
    let [alone, best, ours] = [&kernel.alone[0], steered, &comparison.outcomes[1]].map(brought_in);
    assert!(best * 100 < alone * 97 && best * 100 <= ours * 102, "{best} of {alone}, and {ours}: {advice}");
    let command =
        "So steer it: `forebay steer DIRECTORY --policy mru --cache 1032KiB --folio-limit 128KiB` would bring in";
    assert!(advice.contains(command), "{advice}");
}

#[test]
fn times_that_were_measured_decide_between_the_kernel_and_a_front_end() {
    // 0.1 ms for each page that is read: what mru saves is worth more than 10 µs for a request, and less than 5 ms.
    let (_, cheap) = looped(Some(10_000), "serve", &["mru"]);
    let (_, dear) = looped(Some(5_000_000), "serve", &["mru"]);
    assert!(cheap.contains("took 10 µs on its way") && cheap.ends_with("The volume is worth its own time."), "{cheap}");
    assert!(dear.contains("took 5,000 µs on its way") && dear.ends_with("Leave it to the kernel."), "{dear}");
    // Where it can be steered that takes no request's time.
    let (_, steered) = looped(Some(10_000), "mount", &["mru"]);
    assert!(steered.contains("So steer it: `forebay steer DIRECTORY --policy mru"), "{steered}");
}

#[test]
fn a_budget_is_of_all_the_memory_and_the_recorded_size_is_among_those_that_nobody_names() {
    let rows = back_and_back();
    let sizes = |asked: &Asked| -> Vec<u32> {
        compared(&rows, by_mount(), asked).sizes.iter().map(|&(pages, _)| pages).collect()
    };
    let budget = Asked { at_most: Some(Size::Pages(320)), ..asked(&["lru"], 100) };
    assert_eq!(sizes(&budget), [100, 310]);
    let recorded = Circumstances { cache: Some(64 << 10), policy_bytes: Some(62 << 10), ..by_mount() };
    let usual = Asked { sizes: USUAL_SIZES.map(Size::Percent).to_vec(), ..asked(&["lru"], 1) };
    let comparison = compared(&rows, recorded, &usual);
    let sizes: Vec<u32> = comparison.sizes.iter().map(|&(pages, _)| pages).collect();
    assert_eq!(sizes, [10, 20, 50, 100, 124, 200, 500]);
}
