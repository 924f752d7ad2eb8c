//! An analysis for a person: each section as a few lines or a small histogram.

use super::grid::Grid;
use super::{say, short};
use crate::failure::Failure;
use forebay_basis::show_bytes;
use forebay_sim::analysis::{
    Analysis, BlockRun, Classes, DistanceHits, FootprintPoint, FrequencyPoint, HitsByDistance, Lengths, OwnerHits,
    Owners, Runs, SpaceTime, TemporalDistances, WorkingSetPoint, count_and_mean, no_longer,
};
use forebay_sim::study::{grouped, percent};
use forebay_sim::words::owner_name;
use std::io::Write;

/// The width of the longest bar.
const WIDTH: usize = 20;
/// Rows of a list that has no natural end.
const ROWS: usize = 10;

/// Prints the sections that there are.
pub(crate) fn print(analysis: &Analysis, out: &mut impl Write) -> Result<(), Failure> {
    let page_size = analysis.page_size;
    let bytes = |pages: u64| show_bytes(pages * page_size);
    say(out, format!("{}: {}", analysis.trace, analysis.dimensions().in_words("")))?;
    if let Some(short) = in_short(analysis) {
        say(out, format!("\n{short}"))?;
    }
    if let Some(points) = &analysis.footprint {
        footprint(points, out)?;
    }
    if let Some(points) = &analysis.working_set {
        working_set(points, &bytes, out)?;
    }
    if let Some(graph) = &analysis.space_time {
        space_time(graph, out)?;
    }
    if let Some(distances) = &analysis.temporal_distance {
        temporal_distance(distances, analysis.references, out)?;
    }
    if let Some(points) = &analysis.frequency {
        frequency(points, out)?;
    }
    if let Some(found) = &analysis.classes {
        classes(found, analysis.references, out)?;
    }
    for hits in analysis.hits_by_distance.iter().flatten() {
        hits_by_distance(hits, out)?;
    }
    if let Some(lengths) = &analysis.request_length {
        request_length(lengths, out)?;
    }
    if let Some(Owners { owners: all, sources, programs }) = &analysis.owners {
        let groups = [("source", sources), ("program", programs)];
        for (what, group) in groups.into_iter().filter(|(_, group)| !group.is_empty()) {
            owners(what, group, out)?;
        }
        owners("owner", all, out)?;
    }
    Ok(())
}

/// What the sections below say in detail.
fn in_short(analysis: &Analysis) -> Option<String> {
    let classes = analysis.classes.as_ref()?;
    let runs = at_largest_size(analysis);
    let pages = runs.first()?.pages;
    let of_all = |count: u64| ratio(count, analysis.references);
    let hits: Vec<String> =
        runs.iter().map(|run| format!("{} {} %", run.policy, of_all(run.near_hits + run.far_hits))).collect();
    Some(format!(
        "In short: {} % of the references are first uses; {} % are to pages in sequential order and {} % to those of loops, as UBM \
         tells them. With {}, hits are: {}. `forebay compare` has all policies.",
        of_all(analysis.footprint_pages.into()),
        of_all(classes.sequential),
        of_all(classes.looping),
        show_bytes(u64::from(pages) * analysis.page_size),
        hits.join(", "),
    ))
}

/// Each policy at the largest size at which policies were run.
fn at_largest_size(analysis: &Analysis) -> Vec<&HitsByDistance> {
    let runs = || analysis.hits_by_distance.iter().flatten();
    let most = runs().map(|run| run.pages).max();
    runs().filter(|run| Some(run.pages) == most).collect()
}

/// Prints a line for each of several traces: how large, of which classes, and what the policies hit at the largest size.
pub(crate) fn summary(analyses: &[Analysis], out: &mut impl Write) -> Result<(), Failure> {
    let policies: Vec<&String> =
        analyses.first().map(at_largest_size).into_iter().flatten().map(|run| &run.policy).collect();
    let heads = ["references", "footprint", "first uses %", "sequential %", "looping %"];
    let hits = policies.iter().map(|policy| format!("{policy} hits %"));
    let mut grid =
        Grid::of_figures("trace", heads.into_iter().map(str::to_owned).chain(["cache".to_owned()]).chain(hits));
    grid.rule();
    for analysis in analyses {
        let class = |count: fn(&Classes) -> u64| {
            let classes = analysis.classes.as_ref();
            classes.map_or_else(String::new, |classes| ratio(count(classes), analysis.references))
        };
        let bytes = |pages: u32| show_bytes(u64::from(pages) * analysis.page_size);
        let runs = at_largest_size(analysis);
        let cells = [
            grouped(analysis.references),
            bytes(analysis.footprint_pages),
            ratio(analysis.footprint_pages.into(), analysis.references),
            class(|classes| classes.sequential),
            class(|classes| classes.looping),
            runs.first().map_or_else(String::new, |run| bytes(run.pages)),
        ];
        let hits = runs.iter().map(|run| ratio(run.near_hits + run.far_hits, analysis.references));
        grid.figures(&short(&analysis.trace), cells.into_iter().chain(hits));
    }
    say(out, "\nall traces, with the policies at the largest size")?;
    grid.print(out)
}

/// A bar of this part of the longest one.
fn bar(part: u64, longest: u64) -> String {
    "█".repeat((part as f64 / longest.max(1) as f64 * WIDTH as f64).round() as usize)
}

fn ratio(part: u64, all: u64) -> String {
    percent(if all == 0 { 0.0 } else { part as f64 / all as f64 })
}

fn footprint(points: &[FootprintPoint], out: &mut impl Write) -> Result<(), Failure> {
    say(out, "\nfootprint: distinct pages after this many references")?;
    let mut rows = Grid::new(&[2], ["references", "pages", ""]);
    let all = points.last().map_or(0, |last| last.pages);
    let step = points.len().div_ceil(ROWS).max(1);
    for point in points.iter().skip((points.len() + step - 1) % step).step_by(step) {
        rows.row([grouped(point.references), grouped(point.pages.into()), bar(point.pages.into(), all.into())]);
    }
    rows.print(out)
}

fn working_set(points: &[WorkingSetPoint], bytes: &dyn Fn(u64) -> String, out: &mut impl Write) -> Result<(), Failure> {
    say(out, "\nworking set: distinct pages in a window of this many references, on average")?;
    let mut rows = Grid::new(&[3], ["window", "pages", "bytes", ""]);
    let most = points.last().map_or(0.0, |last| last.mean_pages) as u64;
    for &WorkingSetPoint { window, mean_pages } in points {
        let pages = mean_pages.round() as u64;
        rows.row([grouped(window), format!("{mean_pages:.1}"), bytes(pages), bar(pages, most)]);
    }
    rows.print(out)
}

/// The graph in few characters: in each the class that most of the references are of.
fn space_time(graph: &SpaceTime, out: &mut impl Write) -> Result<(), Failure> {
    let (columns, rows) = (graph.columns.min(72) as usize, graph.rows.min(20) as usize);
    let mut cells = vec![[0u64; 3]; columns * rows];
    for row in 0..graph.rows as usize {
        for column in 0..graph.columns as usize {
            let from = row * graph.columns as usize + column;
            let to = (row * rows / graph.rows as usize) * columns + column * columns / graph.columns as usize;
            for (sum, counts) in cells[to].iter_mut().zip([&graph.sequential, &graph.looping, &graph.other]) {
                *sum += u64::from(counts[from]);
            }
        }
    }
    say(out, "\nspace and time: position upwards, time to the right; mostly sequential /, looping o, other .")?;
    for row in cells.chunks(columns).rev() {
        let mark = |&[sequential, looping, other]: &[u64; 3]| match sequential.max(looping).max(other) {
            0 => ' ',
            most if most == other => '.',
            most if most == looping => 'o',
            _ => '/',
        };
        writeln!(out, " |{}", row.iter().map(mark).collect::<String>().trim_end())?;
    }
    Ok(writeln!(out, " +{}", "-".repeat(columns))?)
}

fn temporal_distance(distances: &TemporalDistances, references: u64, out: &mut impl Write) -> Result<(), Failure> {
    say(out, "\ntemporal distance: references since the last one to the page, rounded up to powers of two")?;
    let mut rows = Grid::new(&[3], ["distance", "references", "%", ""]);
    let most = distances.points.iter().map(|point| point.references).max().unwrap_or(0).max(distances.first_uses);
    let points = distances.points.iter().map(|point| (grouped(point.distance), point.references));
    for (distance, count) in points.chain([("first use".to_owned(), distances.first_uses)]) {
        rows.row([distance, grouped(count), ratio(count, references), bar(count, most)]);
    }
    rows.print(out)
}

fn frequency(points: &[FrequencyPoint], out: &mut impl Write) -> Result<(), Failure> {
    say(out, "\nfrequency: pages referenced at least this many times, and the references to them")?;
    let mut rows = Grid::new(&[5], ["times", "pages", "% of pages", "references", "% of references", ""]);
    for point in points {
        rows.row([
            grouped(point.times),
            grouped(point.pages),
            format!("{:.1}", point.pages_percent),
            grouped(point.references),
            format!("{:.1}", point.references_percent),
            bar(point.references, points[0].references),
        ]);
    }
    rows.print(out)
}

fn classes(classes: &Classes, references: u64, out: &mut impl Write) -> Result<(), Failure> {
    say(out, "\nreference classes, as UBM detects them")?;
    let mut rows = Grid::new(&[0, 3], ["class", "references", "%", ""]);
    let counts = [("sequential", classes.sequential), ("looping", classes.looping), ("other", classes.other)];
    for (class, count) in counts {
        rows.row([class.to_owned(), grouped(count), ratio(count, references), bar(count, references)]);
    }
    rows.print(out)?;
    for (what, Runs { count, pages, longest }) in [("sequential runs", &classes.runs), ("loops", &classes.loops)] {
        say(out, format!("\n{what} at the end: {} of {} pages together", grouped(*count), grouped(*pages)))?;
        if longest.is_empty() {
            continue;
        }
        let mut rows = Grid::new(&[4], ["pages", "first block", "last block", "period", "object"]);
        for BlockRun { object, first_block, last_block, period } in longest.iter().take(ROWS) {
            rows.row([
                grouped(last_block - first_block + 1),
                first_block.to_string(),
                last_block.to_string(),
                period.map_or_else(String::new, |period| grouped(period.round() as u64)),
                short(object),
            ]);
        }
        rows.print(out)?;
    }
    Ok(())
}

fn hits_by_distance(hits: &HitsByDistance, out: &mut impl Write) -> Result<(), Failure> {
    let pages = grouped(hits.pages.into());
    say(out, format!("\n{} with {pages} pages: hits and misses by temporal distance", hits.policy))?;
    let mut rows = Grid::new(&[4], ["distance", "hits", "misses", "% hit", ""]);
    // Quarters of an octave are for a picture.
    let octaves = hits.octaves();
    let most = octaves.iter().map(|point| point.hits).max().unwrap_or(0);
    for DistanceHits { distance, hits, misses } in octaves {
        rows.row([grouped(distance), grouped(hits), grouped(misses), ratio(hits, hits + misses), bar(hits, most)]);
    }
    let near_and_far = [("<", hits.near_hits, hits.near_misses), (">=", hits.far_hits, hits.far_misses)];
    for (side, hits, misses) in near_and_far {
        let ratio = ratio(hits, hits + misses);
        rows.row([format!("{side} {pages}"), grouped(hits), grouped(misses), ratio, String::new()]);
    }
    rows.print(out)
}

fn request_length(all: &[Lengths], out: &mut impl Write) -> Result<(), Failure> {
    let what = "lengths in pages, of the trace's requests and of the misses' that reach the device: at most this long, in percent";
    say(out, format!("\n{what}"))?;
    let bounds = [1, 2, 4, 8, 16, 32, 64, 128];
    let titles = bounds.iter().map(|bound| format!("{bound}"));
    let titles = ["", "count", "mean"].map(str::to_owned).into_iter().chain(titles);
    let mut rows = Grid::new(&[0], titles).in_blocks();
    for lengths in all {
        let title = match (&lengths.policy, lengths.pages) {
            (Some(policy), Some(pages)) => format!("{policy}, {} pages", grouped(pages.into())),
            _ => "trace".to_owned(),
        };
        for (kind, points) in [("requests", &lengths.requests), ("sequences", &lengths.sequences)] {
            let (count, mean) = count_and_mean(points);
            let shares = bounds.iter().map(|&bound| format!("{:.1}", no_longer(points, bound)));
            rows.row([format!("{title}: {kind}"), grouped(count), format!("{mean:.2}")].into_iter().chain(shares));
        }
    }
    rows.print(out)
}

fn owners(what: &str, all: &[OwnerHits], out: &mut impl Write) -> Result<(), Failure> {
    say(out, format!("\nmiss ratios in percent by {what}"))?;
    let runs = all.first().map_or(&[][..], |first| &first.runs);
    let policies = runs.iter().map(|run| run.policy.as_str());
    let mut rows = Grid::of_figures(what, ["references"].into_iter().chain(policies));
    let sizes = runs.iter().map(|run| grouped(run.pages.into()));
    rows.row(["", "pages"].map(str::to_owned).into_iter().chain(sizes));
    for hits in all.iter().take(ROWS) {
        let ratios = hits.runs.iter().map(|run| percent(run.miss_ratio));
        rows.figures(&short(owner_name(&hits.owner)), [grouped(hits.references)].into_iter().chain(ratios));
    }
    rows.print(out)?;
    if all.len() > ROWS {
        say(out, format!("and {} more: --format json has them all", all.len() - ROWS))?;
    }
    Ok(())
}
