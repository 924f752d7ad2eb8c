//! What is to be looked at in an analysis: the section of a report, its charts in the order in which the table tells them.

use super::analysis_tables::tables;
use super::distances::near_and_far;
use super::{in_pages, trace_name};
use crate::model::{Axis, Chart, Grid, Key, Kind, Section, Series, Unit, View, X};
use forebay_policy::Spec;
use forebay_sim::analysis::{
    Analysis, Classes, DistancePoint, FootprintPoint, FrequencyPoint, HitsByDistance, LengthPoint, Lengths, OwnerHits,
    OwnerRun, Owners, SpaceTime, TemporalDistances, WorkingSetPoint, no_longer,
};
use forebay_sim::study::analysis::advice;
use forebay_sim::study::grouped;
use forebay_sim::words::owner_name;

/// What the trace itself is called beside policies.
const TRACE: &str = "trace";
/// The most cells of the space–time graph along an axis: a screen shows no more, and a page is to stay small.
const MOST_CELLS: u32 = 1024;
/// The most owners that are drawn: those with the most references.
const MOST_OWNERS: usize = 16;

/// The policies, all shown, and the trace where it is held against them.
pub fn keys(analysis: &Analysis, specs: &[Spec]) -> Vec<Key> {
    let policies = specs.iter().map(|spec| (spec.label.as_str(), spec.needs_future()));
    let compared = analysis.hits_by_distance.is_some() || analysis.request_length.is_some();
    let all = policies.chain(compared.then_some((TRACE, true)));
    all.map(|(name, bound)| Key { name: name.to_owned(), bound, shown: true }).collect()
}

/// An analysis as a section.
pub fn section(analysis: &Analysis, specs: &[Spec]) -> Section {
    let mut charts = Vec::new();
    charts.extend(analysis.footprint.as_ref().map(|points| footprint(points, analysis.page_size)));
    charts.extend(analysis.working_set.as_ref().map(|points| working_set(points, analysis.page_size)));
    charts.extend(analysis.space_time.as_ref().map(|graph| space_time(graph, analysis)));
    charts.extend(analysis.temporal_distance.as_ref().map(temporal_distance));
    charts.extend(analysis.frequency.as_ref().map(|points| frequency(points)));
    if let Some(found) = &analysis.classes {
        charts.push(classes(found, analysis.references));
        if found.looping > 0 {
            charts.push(periods(found));
        }
    }
    if let Some(runs) = &analysis.hits_by_distance {
        charts.push(hits_by_distance(runs, analysis));
        charts.push(distances(runs));
    }
    charts.extend(analysis.request_length.as_ref().map(|all| request_length(all)));
    charts.extend(analysis.owners.as_ref().and_then(owners));
    Section {
        title: trace_name(&analysis.trace).to_owned(),
        subtitle: analysis.dimensions().in_words(""),
        advice: advice(analysis, specs),
        charts,
        tables: tables(analysis),
    }
}

fn footprint(points: &[FootprintPoint], page_size: u64) -> Chart {
    let x = points.iter().map(|point| point.references as f64).collect();
    let pages = Series::new("footprint", points.iter().map(|point| f64::from(point.pages)));
    let words = (
        "footprint",
        "Footprint over time",
        "Distinct pages so far: where the line is steep the trace goes to new pages, where it is flat it uses old ones again.",
    );
    let axes = (Axis::linear("references", Unit::Number), Axis::linear("footprint", Unit::Pages(page_size)));
    Chart::new(words, Kind::Lines, axes).with([View::only(X::Numbers(x), vec![pages])])
}

fn working_set(points: &[WorkingSetPoint], page_size: u64) -> Chart {
    let x = points.iter().map(|point| point.window as f64).collect();
    let pages = Series::new("working set", points.iter().map(|point| point.mean_pages));
    let words = (
        "working-set",
        "Working set by window",
        "Distinct pages in a window of that length, on average over the trace: where the line flattens, the pages in use fit.",
    );
    let axes = (Axis::log("window in references", Unit::Number), Axis::log("working set", Unit::Pages(page_size)));
    Chart::new(words, Kind::Lines, axes).with([View::only(X::Numbers(x), vec![pages])])
}

fn space_time(graph: &SpaceTime, analysis: &Analysis) -> Chart {
    let graph = graph.at_most(MOST_CELLS, MOST_CELLS);
    let series = |(name, counts): (&str, &Vec<u32>)| Series::new(name, counts.iter().map(|&count| f64::from(count)));
    let classes = [("sequential", &graph.sequential), ("looping", &graph.looping), ("other", &graph.other)];
    let grid = Grid {
        columns: graph.columns as usize,
        rows: graph.rows as usize,
        x: (0.0, analysis.references as f64),
        y: (0.0, f64::from(analysis.footprint_pages)),
    };
    let view = View { grid: Some(grid), ..View::only(X::Numbers(Vec::new()), classes.map(series).into()) };
    let words = (
        "space-time",
        "Space and time",
        "References by time and position, coloured by the class that UBM tells, the deeper the more: a sequence is a line, a loop the same line again. \
            A position is a page's rank by file or volume and block.",
    );
    let axes = (Axis::linear("references", Unit::Number), Axis::linear("position in pages", Unit::Number));
    Chart::new(words, Kind::Grid, axes).with([view])
}

/// Bars by powers of two.
fn by_distance(points: &[DistancePoint]) -> (Vec<String>, Vec<f64>) {
    points.iter().map(|point| (grouped(point.distance), point.references as f64)).unzip()
}

fn temporal_distance(distances: &TemporalDistances) -> Chart {
    let (mut labels, mut counts) = by_distance(&distances.points);
    labels.push("first use".to_owned());
    counts.push(distances.first_uses as f64);
    let words = (
        "temporal-distance",
        "References by temporal distance",
        "How many references lie between two of a page: each bar counts distances up to its own and above the one before it. \
            LRU holds what comes back before as many references as it has pages.",
    );
    let axes =
        (Axis::linear("temporal distance in references", Unit::Number), Axis::linear("references", Unit::Number));
    Chart::new(words, Kind::Bars, axes).with([View::only(X::Labels(labels), vec![Series::new("references", counts)])])
}

fn frequency(points: &[FrequencyPoint]) -> Chart {
    let x = points.iter().map(|point| point.times as f64).collect();
    let pages = Series::new("pages", points.iter().map(|point| point.pages_percent / 100.0));
    let references = Series::new("references to them", points.iter().map(|point| point.references_percent / 100.0));
    let words = (
        "frequency",
        "Pages and references by frequency",
        "The share of the pages that are referenced at least N times, and of the references that go to them: the farther \
            apart the lines, the more a few pages are worth.",
    );
    let axes = (Axis::log("times referenced, at least", Unit::Number), Axis::linear("share", Unit::Ratio));
    Chart::new(words, Kind::Lines, axes).with([View::only(X::Numbers(x), vec![pages, references])])
}

fn classes(classes: &Classes, references: u64) -> Chart {
    let counts = [("sequential", classes.sequential), ("looping", classes.looping), ("other", classes.other)];
    let share = |(name, count): (&str, u64)| Series::new(name, [count as f64 / references as f64]);
    let words = (
        "classes",
        "Reference classes",
        "Runs of successive blocks that are new, runs that come again after a regular interval, and all else, as UBM tells them: \
            files of fewer than 8 blocks make no run.",
    );
    let axes = (Axis::linear("", Unit::Text), Axis::linear("share of the references", Unit::Ratio));
    Chart::new(words, Kind::Ranking, axes)
        .with([View::only(X::Labels(vec!["references".to_owned()]), counts.map(share).into())])
}

fn periods(classes: &Classes) -> Chart {
    let (labels, counts) = by_distance(&classes.by_period);
    let words = (
        "periods",
        "Looping references by the period of their loop",
        "References from one use of a block to its next in what UBM takes for a loop, up to each bar's figure: a loop whose blocks do not all fit is where LRU \
            evicts each block just before its use.",
    );
    let axes = (Axis::linear("period in references", Unit::Number), Axis::linear("looping references", Unit::Number));
    Chart::new(words, Kind::Bars, axes)
        .with([View::only(X::Labels(labels), vec![Series::new("looping references", counts)])])
}

/// The sizes of runs in their order, each once.
fn sizes(pages: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut sizes: Vec<u32> = pages.collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The views of the largest size, which the advice is about.
fn at_largest(sizes: &[u32]) -> impl Fn(&View) -> bool {
    let largest = sizes.last().map(|&pages| in_pages(pages));
    move |view| largest.as_ref() == Some(&view.label)
}

fn hits_by_distance(runs: &[HitsByDistance], analysis: &Analysis) -> Chart {
    let sizes = sizes(runs.iter().map(|run| run.pages));
    let of_size = |pages: u32| runs.iter().filter(move |run| run.pages == pages);
    // Every run counts the same references, hits or misses, and so has the same distances.
    let x = || X::Numbers(runs.iter().take(1).flat_map(|run| &run.points).map(|at| at.distance as f64).collect());
    let up_to = |counts: &mut dyn Iterator<Item = u64>| -> Vec<f64> {
        let sums = counts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum as f64 / analysis.references as f64)
        });
        sums.collect()
    };
    let all = |pages: u32| {
        let line =
            |run: &HitsByDistance| Series::new(&run.policy, up_to(&mut run.points.iter().map(|point| point.hits)));
        let mut series: Vec<Series> = of_size(pages).map(line).collect();
        let trace = of_size(pages).take(1).flat_map(|run| &run.points).map(|point| point.hits + point.misses);
        series.push(Series::new(TRACE, up_to(&mut { trace })));
        View { group: "up to a distance".to_owned(), label: in_pages(pages), ..View::only(x(), series) }
    };
    let each = |pages: u32| {
        let ratio = |hits: u64, all: u64| (all > 0).then(|| hits as f64 / all as f64);
        let line = |run: &HitsByDistance| Series {
            name: run.policy.clone(),
            y: run.points.iter().map(|point| ratio(point.hits, point.hits + point.misses)).collect(),
            shown: true,
        };
        View {
            group: "at each distance".to_owned(),
            label: in_pages(pages),
            ..View::only(x(), of_size(pages).map(line).collect())
        }
    };
    let words = (
        "hits-by-distance",
        "Hits by temporal distance",
        "The share of all references that are hits at distances up to this one, which ends at the hit ratio; the \
        trace's line is what a cache without bounds would hit. Or, of the references at each distance, the share that hit.",
    );
    Chart::new(
        words,
        Kind::Lines,
        (Axis::log("temporal distance in references", Unit::Number), Axis::linear("share that hits", Unit::Ratio)),
    )
    .keyed(sizes.iter().copied().map(all).chain(sizes.iter().copied().map(each)))
    .opened_at(at_largest(&sizes))
}

fn distances(runs: &[HitsByDistance]) -> Chart {
    let counts = |run: &HitsByDistance| (run.policy.clone(), run.by_distance());
    let of_size = |pages: u32| (pages, runs.iter().filter(|run| run.pages == pages).map(counts).collect());
    let sizes = sizes(runs.iter().map(|run| run.pages));
    near_and_far(sizes.iter().copied().map(of_size)).opened_at(at_largest(&sizes))
}

/// What is measured of a trace, or of what a policy lets through.
type Measured = (&'static str, fn(&Lengths) -> &[LengthPoint]);

fn request_length(all: &[Lengths]) -> Chart {
    let measured: [Measured; 2] =
        [("requests", |lengths| &lengths.requests), ("sequences", |lengths| &lengths.sequences)];
    let view = |(group, points): Measured, pages: u32| {
        let of_size = || all.iter().filter(|lengths| lengths.pages.is_none_or(|of| of == pages));
        let mut x: Vec<u64> = of_size().flat_map(points).map(|point| point.length).collect();
        x.sort_unstable();
        x.dedup();
        let line = |lengths: &Lengths| {
            let shares = x.iter().map(|&length| no_longer(points(lengths), length) / 100.0);
            Series::new(lengths.policy.as_deref().unwrap_or(TRACE), shares)
        };
        // Policies first, as in the other charts.
        let mut series: Vec<Series> = of_size().map(line).collect();
        series.rotate_left(1);
        let x = X::Numbers(x.iter().map(|&length| length as f64).collect());
        View { group: group.to_owned(), label: in_pages(pages), ..View::only(x, series) }
    };
    let sizes = sizes(all.iter().filter_map(|lengths| lengths.pages));
    let words = (
        "request-length",
        "Lengths of requests before and after the policies",
        "The share of the requests that have at most N pages: the trace's own, and those of the misses that \
        reach the device. A sequence is what a disk sees of them: adjacent pages one after the other, whichever request they are of.",
    );
    Chart::new(
        words,
        Kind::Steps,
        (Axis::log("length in pages", Unit::Number), Axis::linear("share that is no longer", Unit::Ratio)),
    )
    .keyed(
        measured
            .into_iter()
            .flat_map(|what| sizes.iter().map(move |&pages| (what, pages)))
            .map(|(what, pages)| view(what, pages)),
    )
    .opened_at(at_largest(&sizes))
}

/// Miss ratios by source, by program and by owner; nothing where there is but one.
fn owners(Owners { owners, sources, programs }: &Owners) -> Option<Chart> {
    let group = |what: &'static str, all: &[OwnerHits]| -> Vec<View> {
        let most = &all[..all.len().min(MOST_OWNERS)];
        let runs = || most.iter().take(1).flat_map(|hits| &hits.runs);
        let view = |pages: u32| {
            let line = |(run, of): (usize, &OwnerRun)| {
                (of.pages == pages).then(|| Series::new(&of.policy, most.iter().map(|hits| hits.runs[run].miss_ratio)))
            };
            let labels = most.iter().map(|hits| owner_name(&hits.owner).to_owned()).collect();
            let series = runs().enumerate().filter_map(line).collect();
            View { group: what.to_owned(), label: in_pages(pages), ..View::only(X::Labels(labels), series) }
        };
        sizes(runs().map(|run| run.pages)).into_iter().map(view).collect()
    };
    let views: Vec<View> = [("by source", sources), ("by program", programs), ("by owner", owners)]
        .into_iter()
        .filter(|(_, all)| all.len() > 1)
        .flat_map(|(what, all)| group(what, all))
        .collect();
    let explanation = format!(
        "Who gains from the cache that all share, and who loses; those with the most references first, {MOST_OWNERS} at most."
    );
    let words = ("owners", "Miss ratio by owner", explanation.as_str());
    let axes = (Axis::linear("owner", Unit::Text), Axis::linear("miss ratio", Unit::Ratio));
    let largest = owners.iter().flat_map(|owner| &owner.runs).map(|run| run.pages).max();
    let opened = at_largest(largest.as_slice());
    (!views.is_empty()).then(|| Chart::new(words, Kind::Bars, axes).keyed(views).opened_at(opened))
}
