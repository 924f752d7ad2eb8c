//! Policies × sizes.

use super::device;
use super::distances::near_and_far;
use super::table::Columns;
use super::{cache_size, in_pages, number, trace_name, unit};
use crate::model::{Axis, Chart, Key, Kind, Mark, Section, Series, Table, Unit, View, X};
use forebay_sim::study::advice::{self, Take, hits};
use forebay_sim::study::comparison::part_sum;
use forebay_sim::study::figure::named;
use forebay_sim::study::figures::{BY_DISTANCE, COST, COUNTS, PART, READAHEAD, RUN};
use forebay_sim::study::{Comparison, grouped};
use forebay_sim::words::owner_name;
use forebay_sim::{By, RunOutcome};
use std::cmp::Reverse;

/// The most policies that are shown at first: as many as there are colours that are told apart.
const SHOWN: usize = 8;

/// What ranks a policy over all sizes, the best first: its hits, or the device's time.
fn rank(of_policy: &[RunOutcome]) -> (u64, Reverse<u64>) {
    // In nanoseconds the order of sums of times is that of whole numbers.
    let time = of_policy.iter().filter_map(|outcome| outcome.device).map(|cost| cost.device_ms).sum::<f64>();
    ((time * 1e6) as u64, Reverse(hits(of_policy)))
}

/// The policies; where they are many, the advised one, lru, the limit and the best, by time if a device was asked for, are shown at first.
pub fn keys(comparison: &Comparison) -> Vec<Key> {
    let advised = advice::of_comparison(comparison).take.map(|take| take.policy);
    let rows: Vec<&[RunOutcome]> = comparison.policies().collect();
    let mut ranked: Vec<&[RunOutcome]> = rows.iter().copied().filter(|row| !row[0].off_line).collect();
    let first = |policy: &str| policy == "lru" || advised.as_deref() == Some(policy);
    ranked.sort_by_key(|row| (!first(&row[0].policy), rank(row)));
    ranked.truncate(SHOWN - 2);
    let shown = |row: &[RunOutcome]| {
        rows.len() <= SHOWN || row[0].policy == "opt" || ranked.iter().any(|other| other[0].policy == row[0].policy)
    };
    let key = |row: &&[RunOutcome]| Key { name: row[0].policy.clone(), bound: row[0].off_line, shown: shown(row) };
    rows.iter().map(key).collect()
}

/// A comparison as a section. Its first chart is the hit ratio by size.
pub fn section(comparison: &Comparison) -> Section {
    let Comparison { trace, outcomes, warmup, device, readahead, .. } = comparison;
    let mut subtitle = trace.in_words("");
    if *warmup > 0 {
        subtitle += &format!("; the first {} warm up and are not counted", grouped(*warmup));
    }
    if let Some(device) = device {
        subtitle += &format!("; misses go to {}: {}", device.name, device.model.title);
    }
    if !readahead.is_none() {
        subtitle += &format!("; readahead {}", readahead.label);
    }
    for line in [comparison.recorded_in_words(), comparison.larger_blocks_in_words(), comparison.left_out_in_words()]
        .into_iter()
        .flatten()
    {
        subtitle += &format!("; {line}");
    }
    let advised = advice::of_comparison(comparison);
    let take = advised.take.as_ref();
    let sizes = Sizes::of(comparison, take);
    let hit_ratio = named(COUNTS, "hit_ratio");
    let mut charts = vec![sizes.chart(
        ("hit-ratio", "Hit ratio by cache size", hit_ratio.meaning),
        Axis::linear(hit_ratio.title, unit(hit_ratio)),
        |outcome| Some(outcome.counted.hit_ratio()),
    )];
    if sizes.x.len() > 1 {
        charts.push(sizes.chart(
            (
                "miss-ratio",
                "Miss ratio by cache size",
                "The share of the references that must be fetched; on the logarithmic axis equal distances are equal factors of work.",
            ),
            Axis::log("miss ratio", Unit::Ratio),
            |outcome| Some(1.0 - outcome.counted.hit_ratio()),
        ));
    }
    charts.extend(device.iter().flat_map(|device| device_charts(&sizes, &device.name)));
    if outcomes.iter().any(|outcome| !outcome.states.is_empty()) {
        charts.push(states(comparison, take));
    }
    if comparison.tells_distances() {
        charts.push(distances(comparison, take));
    }
    if let Some(take) = take {
        let mark = Mark { series: take.policy.clone(), x: take.pages.into() };
        charts
            .iter_mut()
            .filter(|chart| chart.keyed && chart.kind == Kind::Lines)
            .for_each(|chart| chart.mark = Some(mark.clone()));
    }
    Section {
        title: trace_name(&trace.name).to_owned(),
        subtitle,
        advice: advised.text,
        charts,
        tables: comparison
            .by
            .map(|by| parts(comparison, by, take))
            .into_iter()
            .flatten()
            .chain([figures(comparison)])
            .collect(),
    }
}

/// What charts by size have along them.
struct Sizes<'a> {
    comparison: &'a Comparison,
    x: Vec<f64>,
    /// A cache of all pages, if it is advised and was not asked: the same under every policy.
    with_all: Option<RunOutcome>,
}

impl<'a> Sizes<'a> {
    fn of(comparison: &'a Comparison, take: Option<&Take>) -> Self {
        let pages: Vec<u32> = comparison.sizes.iter().map(|&(pages, _)| pages).collect();
        // Of sizes beyond the footprint the first stands for it.
        let missing = take.is_some_and(|take| pages.iter().all(|&pages| pages < take.pages));
        let with_all = if missing { comparison.with_all() } else { None };
        let last = with_all.is_some().then_some(comparison.trace.pages);
        Self { comparison, x: pages.into_iter().chain(last).map(f64::from).collect(), with_all }
    }

    /// A figure by size, a line for each policy. A chart has a name in addresses, a title and an explanation.
    fn chart(&self, words: (&str, &str, &str), y: Axis, figure: impl Fn(&RunOutcome) -> Option<f64>) -> Chart {
        let size = cache_size(&self.comparison.trace).with_ticks(self.x.clone());
        let line = |row: &[RunOutcome]| Series {
            name: row[0].policy.clone(),
            y: row.iter().chain(&self.with_all).map(&figure).collect(),
            shown: true,
        };
        Chart::new(words, Kind::Lines, (size, y))
            .keyed([View::only(X::Numbers(self.x.clone()), self.comparison.policies().map(line).collect())])
    }
}

/// What the misses cost on the device.
fn device_charts(sizes: &Sizes<'_>, name: &str) -> Vec<Chart> {
    device::charts(name, |words, axis, figure| {
        sizes.chart(words, axis, |outcome| outcome.device.as_ref().and_then(|cost| number(figure, cost)))
    })
}

/// Each policy's state over time, of that with the most hits first. Figures that stay within the cache's size and its ghosts' are shown at first: partitions, targets, queues.
fn states(comparison: &Comparison, take: Option<&Take>) -> Chart {
    let view = |outcome: &RunOutcome| {
        let names = outcome.states.last()?.figures.iter().map(|figure| figure.0);
        let series = names.enumerate().map(|(index, name)| {
            let y: Vec<f64> = outcome.states.iter().map(|state| state.figures[index].1).collect();
            let most = y.iter().copied().fold(0.0, f64::max);
            let within = most >= 1.0 && most <= 2.0 * f64::from(outcome.pages);
            Series { shown: within, ..Series::new(name, y) }
        });
        let mut series: Vec<Series> = series.collect();
        if series.is_empty() {
            return None;
        }
        if series.iter().all(|series| !series.shown) {
            series.iter_mut().for_each(|series| series.shown = true);
        }
        let x = outcome.states.iter().map(|state| state.references as f64).collect();
        Some(View {
            group: outcome.policy.clone(),
            label: in_pages(outcome.pages),
            ..View::only(X::Numbers(x), series)
        })
    };
    let mut ranked: Vec<&[RunOutcome]> = comparison.policies().collect();
    ranked.sort_by_key(|row| (row[0].off_line, rank(row)));
    let words =
        ("states", "Policy state over time", "How a policy divides its cache, and what it aims at, along the trace.");
    let y = Axis::linear("pages, or what a name says", Unit::Number);
    Chart::new(words, Kind::Lines, (Axis::linear("references", Unit::Number), y))
        .with(ranked.into_iter().flatten().filter_map(view))
        .opened_at(|view| {
            let is_taken =
                |take: &Take| view.group == take.policy && Some(&view.label) == nearest(comparison, take).as_ref();
            take.is_some_and(is_taken)
        })
}

/// The size that was run and is nearest to the advised one, which may be that of all pages.
fn nearest(comparison: &Comparison, take: &Take) -> Option<String> {
    let sizes = comparison.sizes.iter().map(|&(pages, _)| pages);
    sizes.min_by_key(|pages| pages.abs_diff(take.pages)).map(in_pages)
}

/// Hits and misses by temporal distance.
fn distances(comparison: &Comparison, take: Option<&Take>) -> Chart {
    let counts = |outcome: &&RunOutcome| (outcome.policy.clone(), outcome.by_distance.unwrap_or_default());
    let of_size = |(pages, outcomes): (u32, Vec<&RunOutcome>)| (pages, outcomes.iter().map(counts).collect());
    near_and_far(comparison.by_size().map(of_size))
        .opened_at(|view| take.and_then(|take| nearest(comparison, take)).as_ref() == Some(&view.label))
}

/// The most programs or files that a table names.
const PARTS: usize = 200;

/// What programs or files miss under each policy, at the size that is advised or the largest.
fn parts(comparison: &Comparison, by: By, take: Option<&Take>) -> Option<Table> {
    let (pages, outcomes) = comparison.at_size(take.map(|take| take.pages))?;
    let mut parts = comparison.parts_together(by);
    parts.truncate(PARTS);
    let name = |(name, of): &(&str, Vec<usize>)| match of[..] {
        [alone] => owner_name(&comparison.parts[alone]).to_owned(),
        _ => format!("{name} ({} processes)", grouped(of.len() as u64)),
    };
    let rows: Vec<(String, Vec<usize>)> = parts.into_iter().map(|part| (name(&part), part.1)).collect();
    let [references, misses] = ["references", "misses"].map(|name| named(PART, name));
    let title =
        format!("Misses by {}, {} ({})", by.in_words(), comparison.trace.bytes_in_words(pages), in_pages(pages));
    let mut table = Columns::new(&title, &rows)
        .text(by.in_words(), |(name, _)| name)
        .figure(references, |(_, of)| Some(part_sum(outcomes[0], of)));
    for outcome in &outcomes {
        table = table.number(&outcome.policy, unit(misses), |(_, of)| number(misses, &part_sum(outcome, of)));
    }
    Some(table.table())
}

/// All figures of all runs.
fn figures(comparison: &Comparison) -> Table {
    let (trace, hit_ratio) = (&comparison.trace, named(COUNTS, "hit_ratio"));
    let counts = COUNTS.iter().filter(|figure| figure.name != hit_ratio.name);
    Columns::new("All figures", &comparison.outcomes)
        .text("policy", |outcome| &outcome.policy)
        .number("cache size", Unit::Bytes, |outcome| Some(trace.bytes(outcome.pages) as f64))
        .figure(named(RUN, "pages"), Some)
        .figures([hit_ratio].into_iter().chain(counts), |outcome| Some(&outcome.counted))
        .figures(COST.iter().filter(|figure| figure.name != "device_bytes"), |outcome| outcome.device.as_ref())
        .figures(BY_DISTANCE, |outcome| outcome.by_distance.as_ref())
        .figures_of("read ahead, ", READAHEAD, |outcome| outcome.readahead.as_ref())
        .figures(["metadata_bytes", "seconds"].map(|name| named(RUN, name)), Some)
        .table()
}
