//! The kernel's own page cache beside what a front end has recorded, and what the advice says of it.

use crate::readahead::{Nobody, Recording};
use forebay_policy::Spec;
use forebay_sim::study::Comparison;
use forebay_sim::study::advice::of_comparison;
use forebay_sim::study::comparison::Asked;
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
    assert!(advice.contains("The kernel's own page cache with the same memory, 824 KiB, would bring in"), "{advice}");
    assert!(advice.ends_with("leave it to the kernel."), "{advice}");
}

#[test]
fn the_advice_steers_where_a_policy_saves_much_and_a_front_end_costs_time() {
    let comparison = compared(&back_and_back(), by_mount(), &asked(&["lru", "mru"], 500));
    let advice = of_comparison(&comparison).text;
    let kernel = comparison.beside_kernel.as_ref().expect("a mount recorded it");
    let [alone, steered] = [&kernel.alone[0], kernel.best_steered(0).expect("it can be steered")].map(brought_in);
    assert!(steered < alone, "{steered} for {alone}");
    assert!(advice.contains("`forebay steer --policy mru --cache 2.0 MiB`"), "{advice}");
}

#[test]
fn a_front_end_s_own_time_is_weighed_where_nothing_can_be_steered() {
    let rows = back_and_back();
    let advice = |request_ns: u64| {
        let times =
            Circumstances { request_ns: Some(request_ns), hit_ns: Some(400), miss_ns: Some(100_000), ..by_mount() };
        let recorded = Circumstances { front_end: "serve".to_owned(), ..times };
        of_comparison(&compared(&rows, recorded, &asked(&["mru"], 500))).text
    };
    // It saves some 1,500 misses of 0.1 ms in 4,000 requests.
    let (cheap, dear) = (advice(10_000), advice(90_000));
    assert!(cheap.contains("took 10 µs on its way") && cheap.ends_with("is worth its own time."), "{cheap}");
    assert!(dear.contains("took 90 µs on its way") && dear.ends_with("leave it to the kernel."), "{dear}");
}
