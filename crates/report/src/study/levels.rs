//! Hierarchies of caches.

use super::device;
use super::table::Columns;
use super::{cache_size, number, trace_name};
use crate::model::{Axis, Chart, Key, Kind, Section, Series, Table, Unit, View, X};
use forebay_basis::show_bytes;
use forebay_model::Cost;
use forebay_sim::levels::{Hierarchy, HierarchyOutcome, Level, Passed};
use forebay_sim::study::Levels;
use forebay_sim::study::figures::{COST, LEVEL, READS, STORAGE};
use std::collections::{BTreeMap, BTreeSet};

type Run = (Hierarchy, HierarchyOutcome);

/// The lines of the first chart, all shown.
pub fn keys(levels: &Levels) -> Vec<Key> {
    let along = along(levels);
    let names: BTreeSet<String> = levels.runs.iter().map(|(hierarchy, _)| line(levels, hierarchy, along)).collect();
    names.into_iter().map(|name| Key { name, bound: false, shown: true }).collect()
}

/// Hierarchies as a section. Its first chart is the storage's reads by the size of a level.
pub fn section(levels: &Levels) -> Section {
    let Levels { trace, device, runs, .. } = levels;
    let mut subtitle = trace.in_words("");
    if let Some((first, _)) = runs.first() {
        subtitle += &format!("; {}{}", first.mode, in_common(levels));
    }
    if let Some(device) = device {
        subtitle += &format!("; misses go to {}: {}", device.name, device.model.title);
    }
    let costs = device.iter().flat_map(|device| device_charts(levels, &device.name));
    let mut tables = vec![passed(levels), left(levels)];
    tables.retain(|table| !table.rows.is_empty());
    Section {
        title: trace_name(&trace.name).to_owned(),
        subtitle,
        advice: String::new(),
        charts: [storage_reads(levels)].into_iter().chain(costs).chain([served(levels)]).collect(),
        tables,
    }
}

/// The level along which sizes differ, the last of several, or the last of all.
fn along(levels: &Levels) -> usize {
    let depth = levels.runs.first().map_or(1, |(hierarchy, _)| hierarchy.levels.len());
    let sizes = |level: &usize| {
        levels.runs.iter().map(|(hierarchy, _)| hierarchy.levels[*level].pages).collect::<BTreeSet<_>>().len()
    };
    (0..depth).rev().find(|level| sizes(level) > 1).unwrap_or(depth - 1)
}

/// `lru 8 MiB * 12`
fn level_name(levels: &Levels, level: &Level, sized: bool) -> String {
    let mut name = level.spec.label.clone();
    if sized {
        name += &format!(" {}", show_bytes(levels.trace.bytes(level.pages)));
    }
    if level.caches > 1 {
        name += &format!(" * {}", level.caches);
    }
    name
}

/// A hierarchy, but for the size along which it is drawn: what other lines have, too, is not said, unless there is nothing else.
fn line(levels: &Levels, hierarchy: &Hierarchy, along: usize) -> String {
    let name = |index| level_name(levels, &hierarchy.levels[index], index != along);
    let names = (0..hierarchy.levels.len()).map(name).collect();
    let differs = |&index: &usize| !is_same(levels, index, index != along);
    let own: Vec<String> = (0..hierarchy.levels.len()).filter(differs).map(name).collect();
    if own.is_empty() { names } else { own }.join(", ")
}

/// Whether a level is called the same in all hierarchies.
fn is_same(levels: &Levels, index: usize, sized: bool) -> bool {
    let names: BTreeSet<String> =
        levels.runs.iter().map(|(hierarchy, _)| level_name(levels, &hierarchy.levels[index], sized)).collect();
    names.len() == 1
}

/// What all hierarchies have: `; level 1 is lru 256 KiB * 4`. Nothing if they are one.
fn in_common(levels: &Levels) -> String {
    let Some((first, _)) = levels.runs.first().filter(|_| levels.runs.len() > 1) else { return String::new() };
    let same = (0..first.levels.len()).filter(|&index| is_same(levels, index, true));
    same.map(|index| format!("; level {} is {}", index + 1, level_name(levels, &first.levels[index], true))).collect()
}

/// A hierarchy among others.
fn short_name(levels: &Levels, hierarchy: &Hierarchy) -> String {
    line(levels, hierarchy, hierarchy.levels.len())
}

fn hierarchy_name(levels: &Levels, hierarchy: &Hierarchy) -> String {
    hierarchy.levels.iter().map(|level| level_name(levels, level, true)).collect::<Vec<_>>().join(", ")
}

fn references((_, outcome): &Run) -> f64 {
    outcome.levels.first().map_or(0, |passed| passed.references).max(1) as f64
}

/// A figure by the size of a level, a line for what the hierarchies are but for that.
fn by_size(levels: &Levels, words: (&str, &str, &str), y: Axis, figure: impl Fn(&Run) -> Option<f64>) -> Chart {
    let along = along(levels);
    let size = |(hierarchy, _): &Run| hierarchy.levels[along].pages;
    let sizes: Vec<u32> = levels.runs.iter().map(size).collect::<BTreeSet<_>>().into_iter().collect();
    let mut lines: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for run in &levels.runs {
        let points = lines.entry(line(levels, &run.0, along)).or_insert_with(|| vec![None; sizes.len()]);
        if let Ok(place) = sizes.binary_search(&size(run)) {
            points[place] = figure(run);
        }
    }
    let series = lines.into_iter().map(|(name, y)| Series { name, y, shown: true }).collect();
    let x: Vec<f64> = sizes.into_iter().map(f64::from).collect();
    let axis = Axis { title: format!("size of a cache at level {}", along + 1), ..cache_size(&levels.trace) };
    Chart::new(words, Kind::Lines, (axis.with_ticks(x.clone()), y)).keyed([View::only(X::Numbers(x), series)])
}

fn storage_reads(levels: &Levels) -> Chart {
    let words = (
        "storage-reads",
        "Storage reads by size",
        "The references for which a page is read from storage, by all references: what every level misses.",
    );
    let share = |run: &Run| Some(run.1.storage_reads as f64 / references(run));
    by_size(levels, words, Axis::linear("storage reads", Unit::Ratio), share)
}

/// What is left for the storage costs on the device.
fn device_charts(levels: &Levels, name: &str) -> Vec<Chart> {
    device::charts(name, |words, axis, figure| {
        by_size(levels, words, axis, |(_, outcome)| outcome.device.as_ref().and_then(|cost| number(figure, cost)))
    })
}

/// By which level references are served.
fn served(levels: &Levels) -> Chart {
    let depth = levels.runs.iter().map(|(_, outcome)| outcome.levels.len()).max().unwrap_or(0);
    let labels = levels.runs.iter().map(|(hierarchy, _)| short_name(levels, hierarchy)).collect();
    let hits = |level: usize| {
        let share = move |run: &Run| run.1.levels.get(level).map_or(0, |passed| passed.hits) as f64 / references(run);
        Series::new(format!("level {}", level + 1), levels.runs.iter().map(share))
    };
    let storage = levels.runs.iter().map(|run| run.1.storage_reads as f64 / references(run));
    let series = (0..depth).map(hits).chain([Series::new("storage", storage)]).collect();
    let words = (
        "served",
        "Where references find their pages",
        "The hits of each level, and what is read from storage, by all references. Writes count where they arrive; those that every level misses read nothing, and are left out.",
    );
    let axes = (Axis::linear("hierarchy", Unit::Text), Axis::linear("share of the references", Unit::Ratio));
    Chart::new(words, Kind::Ranking, axes).with([View::only(X::Labels(labels), series)])
}

/// All figures of all levels.
fn passed(levels: &Levels) -> Table {
    let of = |run: &(Hierarchy, HierarchyOutcome)| -> Vec<(String, u32, Level, Passed)> {
        let name = hierarchy_name(levels, &run.0);
        let both = run.0.levels.iter().zip(&run.1.levels).zip(1..);
        both.map(|((level, passed), number)| (name.clone(), number, level.clone(), passed.clone())).collect()
    };
    let rows: Vec<(String, u32, Level, Passed)> = levels.runs.iter().flat_map(of).collect();
    Columns::new("What comes to each level", &rows)
        .text("hierarchy", |(name, ..)| name)
        .number("level", Unit::Number, |(_, number, ..)| Some(f64::from(*number)))
        .text("policy", |(_, _, level, _)| &level.spec.label)
        .number("cache size", Unit::Bytes, |(_, _, level, _)| Some(levels.trace.bytes(level.pages) as f64))
        .number("caches", Unit::Number, |(_, _, level, _)| Some(f64::from(level.caches)))
        .figures(LEVEL.iter().chain(READS), |(.., passed)| Some(passed))
        .table()
}

/// What is left for the storage.
fn left(levels: &Levels) -> Table {
    let named = |run: &'_ Run| (hierarchy_name(levels, &run.0), run.1.device);
    let rows: Vec<((String, Option<Cost>), &HierarchyOutcome)> =
        levels.runs.iter().map(|run| (named(run), &run.1)).collect();
    Columns::new("What is left for the storage", &rows)
        .text("hierarchy", |((name, _), _)| name)
        .figures(STORAGE, |(_, outcome)| Some(*outcome))
        .figures(COST, |((_, cost), _)| cost.as_ref())
        .table()
}
