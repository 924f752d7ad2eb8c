//! What is to be looked at in a comparison and in curves: the sections of a report.

use crate::advice::{advice, advice_of_curves};
use crate::compare::Comparison;
use crate::curve::{Curves, Line};
use crate::output::grouped;
use forebay_report::{Axis, Cell, Chart, Column, Key, Kind, Section, Series, Table, Unit, View, X};
use forebay_sim::size::show_bytes;
use forebay_sim::{ByDistance, Cost, Extent, Outcome};

/// So many policies at most are shown at first: as many as there are colours that are told apart.
const SHOWN: usize = 8;

/// The hits of a policy over all sizes.
fn hits(row: &[Outcome]) -> u64 {
    row.iter().map(|outcome| outcome.counted.hits).sum()
}

/// The policies of a comparison; where they are many, lru, the limit and those with the most hits are shown at first.
pub(crate) fn keys_of_comparison(comparison: &Comparison) -> Vec<Key> {
    let rows: Vec<&[Outcome]> = rows(comparison).collect();
    let mut ranked: Vec<&[Outcome]> = rows.iter().copied().filter(|row| !row[0].off_line).collect();
    ranked.sort_by_key(|row| (row[0].policy != "lru", std::cmp::Reverse(hits(row))));
    ranked.truncate(SHOWN - 2);
    let shown = |row: &[Outcome]| {
        rows.len() <= SHOWN || row[0].policy == "opt" || ranked.iter().any(|other| other[0].policy == row[0].policy)
    };
    let key = |row: &&[Outcome]| Key { name: row[0].policy.clone(), bound: row[0].off_line, shown: shown(row) };
    rows.iter().map(key).collect()
}

/// A comparison as a section. Its first chart is the hit ratio by size.
pub(crate) fn of_comparison(comparison: &Comparison) -> Section {
    let Comparison { trace, sizes, outcomes, warmup, device, .. } = comparison;
    let mut subtitle = extent(trace, "");
    if *warmup > 0 {
        subtitle += &format!("; the first {} warm up and are not counted", grouped(*warmup));
    }
    if let Some(device) = device {
        subtitle += &format!("; misses go to {}: {}", device.name, device.model.title);
    }
    let hit_ratio = by_size(
        comparison,
        "hit-ratio",
        "Hit ratio by cache size",
        "The share of the references that a cache of so many pages holds; the higher, the better.",
        Axis::linear("hit ratio", Unit::Ratio),
        |outcome| Some(outcome.counted.hit_ratio()),
    );
    let mut charts = vec![hit_ratio];
    if sizes.len() > 1 {
        charts.push(by_size(
            comparison,
            "miss-ratio",
            "Miss ratio by cache size",
            "The share of the references that must be fetched; on the logarithmic axis equal distances are equal factors of work.",
            Axis::log("miss ratio", Unit::Ratio),
            |outcome| Some(1.0 - outcome.counted.hit_ratio()),
        ));
    }
    charts.extend(device.iter().flat_map(|device| device_charts(comparison, &device.name)));
    if outcomes.iter().any(|outcome| !outcome.states.is_empty()) {
        charts.push(states(comparison));
    }
    if outcomes.iter().any(|outcome| outcome.by_distance.is_some()) {
        charts.push(distances(comparison));
    }
    Section {
        title: trace.name.clone(),
        subtitle,
        advice: advice(comparison),
        charts,
        tables: vec![figures(comparison)],
    }
}

/// The policies of curves, all shown.
pub(crate) fn keys_of_curves(curves: &Curves) -> Vec<Key> {
    let key = |line: &Line| Key { name: line.policy.clone(), bound: line.off_line, shown: true };
    curves.lines.iter().map(key).collect()
}

/// Curves as a section, of one chart.
pub(crate) fn of_curves(curves: &Curves) -> Section {
    let Curves { trace, sizes, sample, lines } = curves;
    let x = sizes.iter().map(|&size| f64::from(size)).collect();
    let y = |line: &Line| sizes.iter().map(|&size| line.curve.miss_ratio(size)).collect::<Vec<_>>();
    let series = lines.iter().map(|line| Series::new(&line.policy, y(line))).collect();
    let chart = Chart {
        id: "miss-ratio".to_owned(),
        title: "Miss ratio by cache size".to_owned(),
        explanation: "The share of the references that a cache of so many pages must fetch; the lower, the better."
            .to_owned(),
        kind: Kind::Lines,
        x: cache_size(trace),
        y: Axis::linear("miss ratio", Unit::Ratio),
        keyed: true,
        views: vec![View::only(X::Numbers(x), series)],
    };
    let columns = [column("policy", Unit::Text), column("pages", Unit::Number), column("memory", Unit::Bytes)];
    let ratios = [column("hit ratio", Unit::Ratio), column("miss ratio", Unit::Ratio)];
    let row = |line: &Line, pages: u32| {
        let miss_ratio = line.curve.miss_ratio(pages);
        let memory = f64::from(pages) * trace.page_size as f64;
        vec![
            Cell::Text(line.policy.clone()),
            Cell::Number(f64::from(pages)),
            Cell::Number(memory),
            Cell::Number(1.0 - miss_ratio),
            Cell::Number(miss_ratio),
        ]
    };
    let rows = lines.iter().flat_map(|line| sizes.iter().map(move |&pages| row(line, pages))).collect();
    let table = Table { title: "All figures".to_owned(), columns: columns.into_iter().chain(ratios).collect(), rows };
    let mut subtitle = extent(trace, if sample.is_some() { "about " } else { "" });
    if let Some((rate, pages)) = sample {
        subtitle +=
            &format!("; estimated from {} sampled pages, {:.3} % of all", grouped(u64::from(*pages)), 100.0 * rate);
    }
    Section {
        title: trace.name.clone(),
        subtitle,
        advice: advice_of_curves(curves),
        charts: vec![chart],
        tables: vec![table],
    }
}

/// How much there is of a trace, in words.
pub(crate) fn extent(trace: &Extent, about: &str) -> String {
    format!(
        "{} references to {about}{} pages of {} ({})",
        grouped(trace.references),
        grouped(u64::from(trace.pages)),
        show_bytes(trace.page_size),
        show_bytes(u64::from(trace.pages) * trace.page_size),
    )
}

fn cache_size(trace: &Extent) -> Axis {
    Axis::log("cache size in pages", Unit::Pages(trace.page_size))
}

/// The outcomes of each policy.
fn rows(comparison: &Comparison) -> impl Iterator<Item = &[Outcome]> {
    comparison.outcomes.chunks(comparison.sizes.len())
}

/// A figure by size, a line for each policy.
fn by_size(
    comparison: &Comparison,
    id: &str,
    title: &str,
    explanation: &str,
    y: Axis,
    figure: fn(&Outcome) -> Option<f64>,
) -> Chart {
    let x = comparison.sizes.iter().map(|&(pages, _)| f64::from(pages)).collect();
    let line =
        |row: &[Outcome]| Series { name: row[0].policy.clone(), y: row.iter().map(figure).collect(), shown: true };
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        explanation: explanation.to_owned(),
        kind: Kind::Lines,
        x: cache_size(&comparison.trace),
        y,
        keyed: true,
        views: vec![View::only(X::Numbers(x), rows(comparison).map(line).collect())],
    }
}

/// What the misses cost on the device.
fn device_charts(comparison: &Comparison, device: &str) -> Vec<Chart> {
    vec![
        by_size(
            comparison,
            "device-time",
            &format!("Device time by cache size, on {device}"),
            "How long the device is at work for what misses; many misses in a row may cost less than a few scattered ones.",
            Axis::linear("device time", Unit::Seconds),
            |outcome| outcome.device.map(|cost| cost.device_ms / 1e3),
        ),
        by_size(
            comparison,
            "mean-wait",
            &format!("Mean wait by cache size, on {device}"),
            "How long a reference waits in the mean, over hits and misses.",
            Axis::linear("mean wait", Unit::Milliseconds),
            |outcome| outcome.device.map(|cost| cost.wait_mean_ms),
        ),
        by_size(
            comparison,
            "long-wait",
            &format!("The longest waits by cache size, on {device}"),
            "99 of 100 references wait no longer.",
            Axis::linear("wait of the 99th percentile", Unit::Milliseconds),
            |outcome| outcome.device.map(|cost| cost.wait_p99_ms),
        ),
        by_size(
            comparison,
            "request-length",
            &format!("Mean request by cache size, on {device}"),
            "How many pages a request to the device fetches in the mean: misses of adjacent pages go together.",
            Axis::linear("pages in a request", Unit::Number),
            |outcome| outcome.device.map(|cost| cost.mean_request_pages),
        ),
    ]
}

/// Each policy's state over time, of that with the most hits first. Figures that stay within the cache's size and its ghosts' are shown at first: partitions, targets, queues.
fn states(comparison: &Comparison) -> Chart {
    let view = |outcome: &Outcome| {
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
    let mut ranked: Vec<&[Outcome]> = rows(comparison).collect();
    ranked.sort_by_key(|row| (row[0].off_line, std::cmp::Reverse(hits(row))));
    Chart {
        id: "states".to_owned(),
        title: "Policy state over time".to_owned(),
        explanation: "How a policy divides its cache, and what it aims at, along the trace.".to_owned(),
        kind: Kind::Lines,
        x: Axis::linear("references", Unit::Number),
        y: Axis::linear("pages, or what the name says", Unit::Number),
        keyed: false,
        views: ranked.into_iter().flatten().filter_map(view).collect(),
    }
}

/// A part of the bars by distance, and what is counted in it.
type Distance = (&'static str, fn(&ByDistance) -> u64);

const DISTANCES: [Distance; 4] = [
    ("hits, nearer than the size", |counts| counts.near_hits),
    ("hits, farther", |counts| counts.far_hits),
    ("misses, nearer", |counts| counts.near_misses),
    ("misses, farther", |counts| counts.far_misses),
];

/// Hits and misses of a comparison by temporal distance.
fn distances(comparison: &Comparison) -> Chart {
    let of_size = |column: usize, pages: u32| {
        let outcomes = comparison.outcomes.iter().skip(column).step_by(comparison.sizes.len());
        let counts = outcomes.map(|outcome| (outcome.policy.clone(), outcome.by_distance.unwrap_or_default()));
        (pages, counts.collect())
    };
    let sizes = comparison.sizes.iter().enumerate().map(|(column, &(pages, _))| of_size(column, pages));
    near_and_far(sizes.collect())
}

/// Hits and misses by temporal distance, nearer and farther than the cache has pages: of each size the policies' counts.
pub(crate) fn near_and_far(sizes: Vec<(u32, Vec<(String, ByDistance)>)>) -> Chart {
    let view = |(pages, counts): (u32, Vec<(String, ByDistance)>)| {
        let labels = counts.iter().map(|(policy, _)| policy.clone()).collect();
        let series = |(name, count): &Distance| Series::new(*name, counts.iter().map(|(_, of)| count(of) as f64));
        View { label: in_pages(pages), ..View::only(X::Labels(labels), DISTANCES.iter().map(series).collect()) }
    };
    Chart {
        id: "distances".to_owned(),
        title: "Hits and misses by temporal distance".to_owned(),
        explanation: "References nearer to the page's last use than the cache has pages, which LRU always hits, and farther ones, \
            which it takes more than recency to hit; first uses are left out."
            .to_owned(),
        kind: Kind::Ranking,
        x: Axis::linear("policy", Unit::Text),
        y: Axis::linear("references", Unit::Number),
        keyed: true,
        views: sizes.into_iter().map(view).collect(),
    }
}

/// A view's label: the cache's size.
pub(crate) fn in_pages(pages: u32) -> String {
    format!("{} pages", grouped(u64::from(pages)))
}

pub(crate) fn column(title: &str, unit: Unit) -> Column {
    Column { title: title.to_owned(), unit }
}

/// A column of the table and what stands in it; `None` where it was not asked for.
type Figure = (&'static str, Unit, fn(&Outcome) -> Option<f64>);

const FIGURES: [Figure; 17] = [
    ("hit ratio", Unit::Ratio, |outcome| Some(outcome.counted.hit_ratio())),
    ("references", Unit::Number, |outcome| Some(outcome.counted.references as f64)),
    ("hits", Unit::Number, |outcome| Some(outcome.counted.hits as f64)),
    ("misses", Unit::Number, |outcome| Some(outcome.counted.misses as f64)),
    ("compulsory misses", Unit::Number, |outcome| Some(outcome.counted.compulsory_misses as f64)),
    ("device time", Unit::Seconds, |outcome| cost(outcome, |cost| cost.device_ms / 1e3)),
    ("mean wait", Unit::Milliseconds, |outcome| cost(outcome, |cost| cost.wait_mean_ms)),
    ("99 % wait at most", Unit::Milliseconds, |outcome| cost(outcome, |cost| cost.wait_p99_ms)),
    ("requests", Unit::Number, |outcome| cost(outcome, |cost| cost.requests as f64)),
    ("pages each", Unit::Number, |outcome| cost(outcome, |cost| cost.mean_request_pages)),
    ("price", Unit::Number, |outcome| outcome.device.and_then(|cost| cost.price)),
    ("nearer hits", Unit::Number, |outcome| Some(outcome.by_distance?.near_hits as f64)),
    ("nearer misses", Unit::Number, |outcome| Some(outcome.by_distance?.near_misses as f64)),
    ("farther hits", Unit::Number, |outcome| Some(outcome.by_distance?.far_hits as f64)),
    ("farther misses", Unit::Number, |outcome| Some(outcome.by_distance?.far_misses as f64)),
    ("metadata", Unit::Bytes, |outcome| Some(outcome.bytes as f64)),
    ("replay", Unit::Seconds, |outcome| Some(outcome.seconds)),
];

fn cost(outcome: &Outcome, figure: fn(&Cost) -> f64) -> Option<f64> {
    outcome.device.as_ref().map(figure)
}

/// All figures of all runs.
fn figures(comparison: &Comparison) -> Table {
    let outcomes = &comparison.outcomes;
    let asked: Vec<&Figure> =
        FIGURES.iter().filter(|(_, _, figure)| outcomes.iter().any(|outcome| figure(outcome).is_some())).collect();
    let mut columns = vec![column("policy", Unit::Text), column("pages", Unit::Number)];
    columns.extend(asked.iter().map(|(title, unit, _)| column(title, *unit)));
    let row = |outcome: &Outcome| {
        let mut row = vec![Cell::Text(outcome.policy.clone()), Cell::Number(f64::from(outcome.pages))];
        row.extend(asked.iter().map(|(_, _, figure)| figure(outcome).map_or(Cell::Empty, Cell::Number)));
        row
    };
    Table { title: "All figures".to_owned(), columns, rows: outcomes.iter().map(row).collect() }
}
