//! The advice against runs of its own: the policy that it names is the best at the size that it names, or as good but for noise.

use crate::real_trace::real_trace;
use forebay_model::presets::Named;
use forebay_policy::Spec;
use forebay_sim::Size;
use forebay_sim::study::comparison::Asked;
use forebay_sim::study::error::Stop;
use forebay_sim::study::monitor::{Monitor, Progress};
use forebay_sim::study::{Answer, Comparison};
use forebay_trace::{Input, Options, Reader};
use std::path::Path;

struct Quiet;

impl Progress for Quiet {
    fn add(&self, _: u64) -> bool {
        true
    }

    fn set(&self, _: u64, _: Option<f64>) -> bool {
        true
    }
}

impl Monitor for Quiet {
    fn begin(&self, _: String, _: Option<u64>, _: bool) -> Box<dyn Progress + '_> {
        Box::new(Quiet)
    }

    fn warn(&self, message: &str) {
        panic!("{message}");
    }
}

fn specs(names: &[&str]) -> Vec<Spec> {
    match names {
        [] => Spec::all(),
        names => names.iter().map(|name| Spec::parse(name).expect("a policy")).collect(),
    }
}

fn compare(reader: &mut dyn Reader, specs: Vec<Spec>, sizes: &[Size], device: Option<&str>) -> Comparison {
    let asked = Asked {
        specs,
        sizes: sizes.to_vec(),
        device: device.map(|name| name.parse::<Named>().expect("a device")),
        ..Asked::default()
    };
    asked.of("trace", reader, &Quiet).expect("an answer")
}

/// The policy and the pages that the advice names, and its words.
fn named(comparison: &Comparison) -> (String, u32, String) {
    let advice = comparison.json()["advice"].as_str().expect("there is advice").to_owned();
    let named = || {
        let (policy, rest) = advice.strip_prefix("Take ")?.split_once(" with ")?;
        let (_, rest) = rest.split_once('(')?;
        let pages = rest.split_once(" pages")?.0.replace(',', "").parse().ok()?;
        Some((policy.to_owned(), pages))
    };
    let (policy, pages) = named().unwrap_or_else(|| panic!("{advice}"));
    (policy, pages, advice)
}

/// That the advice holds where its size alone is asked, and among other sizes.
fn holds(name: &str, open: &dyn Fn() -> Box<dyn Reader>, policies: &[&str], device: Option<&str>) {
    let percent = |sizes: &[f64]| sizes.iter().map(|&share| Size::Percent(share)).collect::<Vec<_>>();
    let (policy, pages, advice) =
        named(&compare(open().as_mut(), specs(policies), &percent(&[2.0, 10.0, 40.0]), device));
    let alone = compare(open().as_mut(), specs(policies), &[Size::Pages(pages.into())], device);
    let cost = |of: &forebay_sim::RunOutcome| match device {
        Some(_) => of.device.expect("a device was asked for").device_ms,
        None => of.counted.misses as f64,
    };
    let least = alone.outcomes.iter().filter(|of| !of.off_line).map(cost).fold(f64::INFINITY, f64::min);
    let taken = alone.outcomes.iter().find(|of| of.policy == policy).expect("it was asked");
    let references = taken.counted.references as f64;
    let noise = match device {
        Some(_) => 0.01 * least,
        None if policy == "lru" => (0.01 * references).min(0.05 * cost(taken)).max(0.001 * references),
        None => 0.001 * references,
    };
    assert!(cost(taken) <= least + noise + 1e-6, "{name} {device:?}: {} for {least}: {advice}", cost(taken));
    assert_eq!(named(&alone).0, policy, "{name} {device:?}: {advice}");
}

fn holds_in_hits_and_in_time(name: &str, open: &dyn Fn() -> Box<dyn Reader>) {
    holds(name, open, &[], None);
    for device in ["nearline", "nvme", "network-block"] {
        holds(name, open, &["lru", "mru", "arc", "lirs", "ubm", "dulo", "clock-pro", "s3-fifo", "opt"], Some(device));
    }
}

fn file(path: &Path) -> Box<dyn Reader> {
    forebay_trace::open(path, &Options::default()).expect("the trace opens").1
}

fn text(blocks: &[u64]) -> Box<dyn Reader> {
    let text: String = blocks.iter().map(|block| format!("{block}\n")).collect();
    let options = Options { format: Some("lirs".to_owned()), ..Options::default() };
    forebay_trace::reader::read(Input::from_bytes("made", text).expect("text"), &options).expect("a trace").1
}

#[test]
fn it_holds_on_published_traces() {
    for name in ["2_pools", "cpp", "cs", "gli", "multi1", "multi3", "sprite"] {
        let Some(path) = real_trace(&format!("lirs/{name}.trace.gz")) else { return };
        holds_in_hits_and_in_time(name, &|| file(&path));
    }
}

#[test]
fn it_holds_on_recorded_programs() {
    for name in ["samples/sample.parquet", "crates/sim/tests/all/advice/program.parquet"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        holds_in_hits_and_in_time(name, &|| file(&path));
    }
}

#[test]
fn it_holds_on_loops_scans_skew_mixes_and_phases() {
    // Draws that repeat, skewed to the front.
    let draw = |time: u64, pages: u64| {
        let hash = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % pages;
        hash(2 * time) * hash(2 * time + 1) / pages
    };
    let looping: Vec<u64> = (0..12_000).map(|time| time % 700).collect();
    let skewed: Vec<u64> = (0..20_000).map(|time| draw(time, 3_000)).collect();
    // A hot set with a scan through it, which comes again and again.
    let scanned: Vec<u64> =
        (0..20_000).map(|time| if time % 3 == 0 { 5_000 + time / 3 % 2_000 } else { draw(time, 900) }).collect();
    let phases: Vec<u64> = (0..24_000).map(|time| time / 6_000 * 10_000 + draw(time, 800)).collect();
    let growing: Vec<u64> = (0..20_000).map(|time| draw(time, 50 + time / 10)).collect();
    let traces = [("loop", looping), ("skew", skewed), ("scan", scanned), ("phases", phases), ("growth", growing)];
    for (name, blocks) in &traces {
        holds_in_hits_and_in_time(name, &|| text(blocks));
    }
}

fn percent(shares: &[f64]) -> Vec<Size> {
    shares.iter().map(|&share| Size::Percent(share)).collect()
}

#[test]
fn three_passes_over_files_take_the_size_that_holds_them_all() {
    // Every fourth page twice in a row, as programs read that have small buffers: a small cache hits the second use, no more.
    let again = |every: u64| {
        (0..4).flat_map(move |_| {
            (0..4_400).flat_map(move |page| (0..if page % every == 0 { 2 } else { 1 }).map(move |_| page))
        })
    };
    let usual = percent(&[1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    for policies in [&[][..], &["lru", "arc"]] {
        let blocks: Vec<u64> = again(4).collect();
        let (_, pages, advice) = named(&compare(text(&blocks).as_mut(), specs(policies), &usual, None));
        assert_eq!(pages, 4_400, "{advice}");
        assert!(advice.contains("80.0 % of the references"), "{advice}");
        // Where half is hit at once, the other half is a word of the advice.
        let blocks: Vec<u64> = again(1).collect();
        let (_, pages, advice) = named(&compare(text(&blocks).as_mut(), specs(policies), &usual, None));
        assert!(pages < 100 && advice.contains("up to 34.4 MiB, which holds all pages, 3"), "{advice}");
    }
}

#[test]
fn no_size_beyond_the_footprint_is_advised() {
    let blocks: Vec<u64> = (0..5_000).map(|time| time * time % 700).collect();
    let footprint = blocks.iter().collect::<std::collections::HashSet<_>>().len() as u32;
    for device in [None, Some("nvme")] {
        for sizes in [&[1_000, 2_000][..], &[5_000], &[20, 1_000]] {
            let sizes: Vec<Size> = sizes.iter().map(|&pages| Size::Pages(pages)).collect();
            let (_, pages, advice) =
                named(&compare(text(&blocks).as_mut(), specs(&["lru", "arc", "lirs"]), &sizes, device));
            assert!(pages <= footprint, "{footprint}: {advice}");
        }
    }
}

#[test]
fn where_no_page_is_likelier_than_another_the_advice_says_that_no_policy_matters() {
    for trace in ["uniform:pages=1000,references=20000", "uniform:pages=10000,references=100000,seed=7"] {
        let open = || file(Path::new(trace));
        let usual = percent(&[1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        for (sizes, device) in [(&usual[..], None), (&usual[4..5], None), (&usual[..], Some("nvme"))] {
            let (policy, _, advice) = named(&compare(open().as_mut(), specs(&[]), sizes, device));
            assert!(
                advice.contains("No policy matters at these sizes") && policy == "lru",
                "{trace} {device:?}: {advice}"
            );
        }
    }
    let (_, _, advice) = named(&compare(
        file(Path::new("zipf:pages=1000,references=20000")).as_mut(),
        specs(&[]),
        &percent(&[10.0]),
        None,
    ));
    assert!(!advice.contains("No policy matters"), "{advice}");
}

/// Policies as users ask for them, the best of each trace among most of them.
const ASKED: [&[&str]; 5] = [
    &["lru", "mru", "arc", "lirs", "ubm", "dulo", "clock-pro", "s3-fifo", "opt"],
    &["lru", "arc", "lirs", "s3-fifo"],
    &["arc", "clock-pro", "dulo"],
    &["lru", "arc"],
    &["s3-fifo", "sieve", "lirs", "fifo"],
];

/// That the size is the same for all policies, or the next one for those that are far from the best; and that a further size is taken
/// or it is not, but makes no other look better.
fn the_size_stays(name: &str, open: &dyn Fn() -> Box<dyn Reader>) {
    let usual = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
    for device in [None, Some("nearline"), Some("nvme"), Some("network-block")] {
        let advised = |policies: &[&str], sizes: &[f64]| {
            let comparison = compare(open().as_mut(), specs(policies), &percent(sizes), device);
            let (_, pages, advice) = named(&comparison);
            let mut run: Vec<u32> = comparison.sizes.iter().map(|&(pages, _)| pages).collect();
            run.push(comparison.trace.pages);
            let place = run.iter().position(|&size| size == pages);
            (place.unwrap_or_else(|| panic!("{name} {device:?}: no such run: {advice}")), pages, advice)
        };
        let first = advised(ASKED[0], &usual);
        for policies in &ASKED[1..] {
            let other = advised(policies, &usual);
            assert!(other.0.abs_diff(first.0) <= 1, "{name} {device:?}: {}\n{}", first.2, other.2);
        }
        for further in [0.5, 30.0, 100.0] {
            let mut sizes = usual.to_vec();
            sizes.push(further);
            let (_, pages, advice) = advised(ASKED[0], &sizes);
            let own = advised(&["lru", "arc"], &[further]).1;
            assert!([first.1, own].contains(&pages), "{name} {device:?} {further}: {}\n{advice}", first.2);
        }
    }
}

#[test]
fn the_size_does_not_jump_with_the_policies_or_sizes_that_are_asked() {
    for name in ["samples/sample.parquet", "crates/sim/tests/all/advice/program.parquet"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        the_size_stays(name, &|| file(&path));
    }
    // A database's index beside scans of its tables, and two loops beside a hot set.
    let draw = |time: u64, pages: u64| {
        let hash = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % pages;
        hash(3 * time) * hash(3 * time + 1) / pages * hash(3 * time + 2) / pages
    };
    let scans: Vec<u64> =
        (0..16_000).map(|time| if time % 4 == 0 { 10_000 + time / 4 % 2_500 } else { draw(time, 1_500) }).collect();
    let loops: Vec<u64> = (0..16_000)
        .map(|time| match time % 4 {
            0 => 5_000 + time / 4 % 2_000,
            1 => 1_000 + time / 4 % 700,
            _ => draw(time, 300),
        })
        .collect();
    for (name, blocks) in [("scans", scans), ("loops", loops)] {
        the_size_stays(name, &|| text(&blocks));
    }
}

#[test]
fn mostly_first_uses_are_named_with_the_hits_that_no_cache_can_exceed() {
    // Of ten references `of_ten` go to a new page each, and the others to 16 pages.
    let advice = |of_ten: u64| {
        let page = |time: u64| if time % 10 < of_ten { 1_000 + time } else { time * 7919 % 40 };
        let blocks: Vec<u64> = (0..20_000).map(page).collect();
        let answer = compare(text(&blocks).as_mut(), specs(&["lru", "arc"]), &[Size::Pages(100)], None).json();
        answer["advice"].as_str().expect("there is advice").to_owned()
    };
    let mostly = advice(6);
    let ceiling =
        "Most of the references, 60.1 %, are first uses, and no cache hits more than the other 39.9 %. A longer trace";
    assert!(mostly.starts_with("Take lru") && mostly.contains(ceiling), "{mostly}");
    assert!(!advice(4).contains("first uses"), "{}", advice(4));
}

#[test]
fn words_are_about_the_sizes_asked() {
    let in_a_loop: Vec<u64> = (0..20_000).map(|time| time % 1_000).collect();
    let pages = |sizes: &[u64]| sizes.iter().map(|&size| Size::Pages(size)).collect::<Vec<_>>();
    let advice = |blocks: &[u64], policies: &[&str], sizes: &[u64]| {
        let answer = compare(text(blocks).as_mut(), specs(policies), &pages(sizes), None).json();
        answer["advice"].as_str().expect("there is advice").to_owned()
    };
    let nothing = advice(&in_a_loop, &["lru", "arc"], &[100, 500]);
    assert!(
        nothing.ends_with("A cache of all pages has 7.8 MiB (1,000 pages), and hits 95.0 % of the references."),
        "{nothing}"
    );
    let kept = advice(&in_a_loop, &["lru", "mru"], &[500]);
    assert!(kept.starts_with("Take mru") && kept.contains("mru keeps its oldest pages whatever comes later"), "{kept}");
    // Fifty pages are much likelier than the others: a size of one page does not show it.
    // Each reference comes twice, so that it hits something.
    let hot = (0..20_000).map(|time| if time % 10 == 9 { 50 + time } else { time * 7919 % 50 });
    let hot: Vec<u64> = hot.flat_map(|block| [block, block]).collect();
    let one = advice(&hot, &[], &[1]);
    assert!(one.starts_with("Take ") && !one.contains("No policy matters"), "{one}");
}

/// Each round has a loop over 50 pages, and pages that are used once.
fn scans_beside_a_loop(rounds: u64, scan: u64) -> Vec<u64> {
    (0..rounds).flat_map(|round| (0..50).chain((0..scan).map(move |page| 1_000_000 + round * scan + page))).collect()
}

#[test]
fn where_the_best_policy_gains_less_than_a_point_lru_will_do() {
    let compared = |blocks: &[u64]| {
        let comparison =
            compare(text(blocks).as_mut(), specs(&["lru", "fifo", "arc", "lirs"]), &[Size::Pages(60)], None);
        let hits = |policy: &str| {
            comparison.outcomes.iter().find(|of| of.policy == policy).expect("it was asked").counted.hit_ratio()
        };
        let best = comparison.outcomes.iter().map(|of| of.counted.hit_ratio()).fold(0.0, f64::max);
        (named(&comparison), 100.0 * (best - hits("lru")), 100.0 * (1.0 - hits("lru")))
    };
    // The loop fits beside a short scan, and not beside a long one.
    let ((policy, _, advice), gain, misses) = compared(&scans_beside_a_loop(400, 9));
    assert!(gain < 1.0 && gain < 0.05 * misses, "{gain} of {misses}");
    assert_eq!(policy, "lru", "{advice}");
    let ((policy, _, advice), gain, _) = compared(&scans_beside_a_loop(400, 30));
    assert!(gain > 1.0 && policy != "lru" && !advice.contains("hardly matters"), "{gain}: {advice}");
    // Less than a point, and more than a twentieth of the few misses: most references go to eight pages.
    let often =
        |chunk: &[u64]| chunk.iter().copied().chain((0..20_000).map(|time| 5_000 + time % 8)).collect::<Vec<u64>>();
    let rare: Vec<u64> = scans_beside_a_loop(40, 60).chunks(110).flat_map(often).collect();
    let ((policy, _, advice), gain, misses) = compared(&rare);
    assert!(gain < 1.0 && gain > 0.05 * misses, "{gain} of {misses}");
    assert!(policy != "lru", "{advice}");
}

#[test]
fn what_memory_gains_is_said_for_each_unit() {
    let blocks: Vec<u64> = (0..40_000_u64).map(|time| (time * time * 31) % 1_000 * ((time * 7) % 3) / 2).collect();
    let comparison = compare(text(&blocks).as_mut(), specs(&["lru"]), &percent(&[5.0, 10.0, 20.0, 50.0]), None);
    let (sizes, trace) = (&comparison.sizes, &comparison.trace);
    let advice = comparison.json()["advice"].as_str().expect("there is advice").to_owned();
    let taken = sizes.iter().position(|&(pages, _)| advice.contains(&format!("({pages} pages"))).expect("a size asked");
    let hits = |column: usize| (1_000.0 * comparison.outcomes[column].counted.hit_ratio()).round() / 10.0;
    let next = (trace.bytes(sizes[taken + 1].0) - trace.bytes(sizes[taken].0)) as f64 / 1024.0;
    let points = hits(taken + 1) - hits(taken);
    let said = format!(" up to {}", trace.bytes_in_words(sizes[taken + 1].0));
    let (_, of_next) = advice.split_once(&said).unwrap_or_else(|| panic!("{said}: {advice}"));
    let (_, rate) = of_next.split_once('(').expect("points for each KiB");
    let (_, points_said) = of_next[..of_next.len() - rate.len()].rsplit_once("points").map_or(("", ""), |of| of);
    assert!(points_said.trim().is_empty() || points_said.starts_with(" ("), "{advice}");
    let rate: f64 =
        rate.split([' ', ')']).next().and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("{advice}"));
    assert!((rate - points / next).abs() <= 0.06 * rate, "{rate} for {}: {advice}", points / next);
}

#[test]
fn a_budget_is_the_largest_size_and_nothing_beyond_it_is_named() {
    let blocks: Vec<u64> = (0..40_000_u64).map(|time| (time * time * 31) % 1_000).collect();
    let asked = Asked {
        specs: specs(&["lru", "arc"]),
        sizes: percent(&[10.0, 20.0, 50.0]),
        at_most: Some(Size::Pages(130)),
        ..Asked::default()
    };
    let comparison = asked.of("trace", text(&blocks).as_mut(), &Quiet).expect("an answer");
    let sizes: Vec<u32> = comparison.sizes.iter().map(|&(pages, _)| pages).collect();
    assert!(sizes.len() >= 2 && sizes.last() == Some(&130) && sizes.iter().all(|&pages| pages <= 130), "{sizes:?}");
    let (_, pages, advice) = named(&comparison);
    assert!(pages <= 130 && !advice.contains("holds all pages"), "{advice}");
}

#[test]
fn the_least_memory_that_hits_as_much_as_is_asked_is_found() {
    let blocks: Vec<u64> = (0..60_000_u64).map(|time| (time * time * 31 + time / 7) % 2_000 * (time % 3) / 2).collect();
    let policies = ["lru", "arc", "lirs", "opt"];
    let most = |pages: u32| {
        let alone = compare(text(&blocks).as_mut(), specs(&policies), &[Size::Pages(pages.into())], None);
        alone.outcomes.iter().filter(|of| !of.off_line).map(|of| of.counted.hit_ratio()).fold(0.0, f64::max)
    };
    for share in [0.5, 0.8, 0.95] {
        let asked = Asked { specs: specs(&policies), sizes: percent(&[10.0]), reach: Some(share), ..Asked::default() };
        let comparison = asked.of("trace", text(&blocks).as_mut(), &Quiet).expect("an answer");
        let found = comparison.reached.as_ref().and_then(|reached| reached.found.clone());
        let (found, hits) = found.expect("a size");
        let advice = comparison.json()["advice"].as_str().expect("there is advice").to_owned();
        assert!(advice.contains(&format!("a policy that was asked hits {:.1} %", 100.0 * share)), "{advice}");
        assert!(advice.contains(&format!("it hits {:.1} % of the references", 100.0 * hits)), "{advice}");
        assert_eq!(hits, most(found.pages));
        assert!(comparison.sizes.iter().any(|&(pages, _)| pages == found.pages), "it is in the table");
        assert!(most(found.pages) >= share && most((0.969 * f64::from(found.pages)) as u32) < share, "{found:?}");
    }
    let asked = Asked { specs: specs(&policies), sizes: percent(&[10.0]), reach: Some(0.9999), ..Asked::default() };
    let comparison = asked.of("trace", text(&blocks).as_mut(), &Quiet).expect("an answer");
    let advice = comparison.json()["advice"].as_str().expect("there is advice").to_owned();
    assert!(advice.starts_with("No cache hits 100.0 % of the references: one that holds all pages"), "{advice}");
}

#[test]
fn advice_on_a_part_says_that_it_is_one() {
    let blocks: Vec<u64> = (0..5_000).map(|time| time * time % 700).collect();
    let mut comparison = compare(text(&blocks).as_mut(), specs(&["lru", "arc"]), &[Size::Pages(100)], None);
    comparison.stopped = Some(Stop::Runs(2, 9, "trace".to_owned()));
    let advice = comparison.json()["advice"].as_str().expect("there is advice").to_owned();
    assert!(advice.starts_with("Stopped after 2 of 9 runs over trace. By these runs: Take "), "{advice}");
}
