//! The tables of an analysis's report: the figures behind its charts.

use super::table::Columns;
use crate::model::{Table, Unit};
use forebay_sim::PartCounts;
use forebay_sim::analysis::{
    Analysis, BlockRun, HitsByDistance, LengthPoint, Lengths, OwnerHits, OwnerRun, Runs, count_and_mean,
};
use forebay_sim::study::figure::named;
use forebay_sim::study::figures::{BY_DISTANCE, COUNTS, PART};
use forebay_sim::words::owner_name;

/// The most owners in the table.
const MOST_OWNERS: usize = 100;

/// The tables of what was asked.
pub(super) fn tables(analysis: &Analysis) -> Vec<Table> {
    let mut tables = Vec::new();
    if let Some(runs) = &analysis.hits_by_distance {
        tables.push(hits(runs, analysis.references));
    }
    if let Some(all) = &analysis.request_length {
        tables.push(lengths(all));
    }
    if let Some(classes) = &analysis.classes {
        let both = [("The longest loops", &classes.loops), ("The longest sequential runs", &classes.runs)];
        tables.extend(both.into_iter().filter(|(_, runs)| runs.count > 0).map(|(title, runs)| blocks(title, runs)));
    }
    if let Some(all) = &analysis.owners {
        let all = [("source", &all.sources), ("program", &all.programs), ("owner", &all.owners)];
        let titled = all.map(|(what, owners)| (format!("Hits and misses by {what}"), owners));
        tables.extend(titled.iter().filter(|(_, owners)| !owners.is_empty()).map(|(title, all)| owners(title, all)));
    }
    tables
}

fn hits(runs: &[HitsByDistance], references: u64) -> Table {
    let hits = |run: &HitsByDistance| (run.near_hits + run.far_hits) as f64;
    let [hit_ratio, all] = ["hit_ratio", "hits"].map(|name| named(COUNTS, name).title);
    Columns::new("Hits and misses by temporal distance", runs)
        .text("policy", |run| &run.policy)
        .number("pages", Unit::Number, |run| Some(run.pages.into()))
        .number(hit_ratio, Unit::Ratio, |run| Some(hits(run) / references as f64))
        .number(all, Unit::Number, |run| Some(hits(run)))
        .figures(BY_DISTANCE, |run| Some(run.by_distance()))
        .table()
}

fn lengths(all: &[Lengths]) -> Table {
    let count = |points: &[LengthPoint]| Some(count_and_mean(points).0 as f64);
    let mean = |points: &[LengthPoint]| (!points.is_empty()).then(|| count_and_mean(points).1);
    Columns::new("Requests and sequences", all)
        .text("policy", |of| of.policy.as_deref().unwrap_or("the trace itself"))
        .number("pages", Unit::Number, |of| of.pages.map(f64::from))
        .number("requests", Unit::Number, |of| count(&of.requests))
        .number("pages each", Unit::Number, |of| mean(&of.requests))
        .number("sequences", Unit::Number, |of| count(&of.sequences))
        .number("pages each", Unit::Number, |of| mean(&of.sequences))
        .table()
}

fn blocks(title: &str, runs: &Runs) -> Table {
    Columns::new(title, &runs.longest)
        .text("file or volume", |run| &run.object)
        .number("pages", Unit::Number, |run| Some((run.last_block - run.first_block + 1) as f64))
        .number("first block", Unit::Number, |run| Some(run.first_block as f64))
        .number("last block", Unit::Number, |run| Some(run.last_block as f64))
        .number("period in references", Unit::Number, |run: &BlockRun| run.period.map(f64::round))
        .table()
}

fn owners(title: &str, all: &[OwnerHits]) -> Table {
    let owners = all.iter().take(MOST_OWNERS);
    let rows: Vec<(&OwnerHits, &OwnerRun)> =
        owners.flat_map(|owner| owner.runs.iter().map(move |run| (owner, run))).collect();
    Columns::new(title, &rows)
        .text("owner", |(owner, _)| owner_name(&owner.owner))
        .text("policy", |(_, run)| &run.policy)
        .number("pages", Unit::Number, |(_, run)| Some(run.pages.into()))
        .figures(["references", "misses", "miss_ratio"].map(|name| named(PART, name)), |(_, run)| {
            Some(PartCounts { hits: run.hits, misses: run.misses })
        })
        .table()
}
