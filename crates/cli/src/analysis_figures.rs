//! The tables of an analysis's report: the figures behind its charts.

use crate::analysis_charts::owner_name;
use crate::charts::column;
use forebay_report::{Cell, Column, Table, Unit};
use forebay_sim::Analysis;
use forebay_sim::analysis::{BlockRun, HitsByDistance, Lengths, OwnerHits, Runs};

/// The most owners in the table.
const MOST_OWNERS: usize = 100;

/// The tables of what was asked.
pub(crate) fn tables(analysis: &Analysis) -> Vec<Table> {
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
        let both = [("Hits and misses by source", &all.sources), ("Hits and misses by owner", &all.owners)];
        tables.extend(both.into_iter().filter(|(_, owners)| !owners.is_empty()).map(|(title, all)| owners(title, all)));
    }
    tables
}

fn columns<const N: usize>(columns: [(&str, Unit); N]) -> Vec<Column> {
    columns.into_iter().map(|(title, unit)| column(title, unit)).collect()
}

fn number(count: u64) -> Cell {
    Cell::Number(count as f64)
}

fn hits(runs: &[HitsByDistance], references: u64) -> Table {
    let row = |run: &HitsByDistance| {
        let hits = run.near_hits + run.far_hits;
        let counts = [hits, run.near_hits, run.near_misses, run.far_hits, run.far_misses].map(number);
        let first =
            [Cell::Text(run.policy.clone()), number(run.pages.into()), Cell::Number(hits as f64 / references as f64)];
        first.into_iter().chain(counts).collect()
    };
    Table {
        title: "Hits and misses by temporal distance".to_owned(),
        columns: columns([
            ("policy", Unit::Text),
            ("pages", Unit::Number),
            ("hit ratio", Unit::Ratio),
            ("hits", Unit::Number),
            ("nearer hits", Unit::Number),
            ("nearer misses", Unit::Number),
            ("farther hits", Unit::Number),
            ("farther misses", Unit::Number),
        ]),
        rows: runs.iter().map(row).collect(),
    }
}

fn lengths(all: &[Lengths]) -> Table {
    let row = |lengths: &Lengths| {
        let policy = lengths.policy.clone().unwrap_or_else(|| "the trace itself".to_owned());
        let mut row = vec![Cell::Text(policy), lengths.pages.map_or(Cell::Empty, |pages| number(pages.into()))];
        for points in [&lengths.requests, &lengths.sequences] {
            let count: u64 = points.iter().map(|point| point.count).sum();
            let pages: u64 = points.iter().map(|point| point.count * point.length).sum();
            row.extend([
                number(count),
                if count == 0 { Cell::Empty } else { Cell::Number(pages as f64 / count as f64) },
            ]);
        }
        row
    };
    Table {
        title: "Requests and sequences".to_owned(),
        columns: columns([
            ("policy", Unit::Text),
            ("pages", Unit::Number),
            ("requests", Unit::Number),
            ("pages each", Unit::Number),
            ("sequences", Unit::Number),
            ("pages each", Unit::Number),
        ]),
        rows: all.iter().map(row).collect(),
    }
}

fn blocks(title: &str, runs: &Runs) -> Table {
    let row = |BlockRun { object, first_block, last_block, period }: &BlockRun| {
        let pages = number(last_block - first_block + 1);
        let period = period.map_or(Cell::Empty, |period| Cell::Number(period.round()));
        vec![Cell::Text(object.clone()), pages, number(*first_block), number(*last_block), period]
    };
    Table {
        title: title.to_owned(),
        columns: columns([
            ("file or volume", Unit::Text),
            ("pages", Unit::Number),
            ("first block", Unit::Number),
            ("last block", Unit::Number),
            ("period in references", Unit::Number),
        ]),
        rows: runs.longest.iter().map(row).collect(),
    }
}

fn owners(title: &str, all: &[OwnerHits]) -> Table {
    let rows = |owner: &OwnerHits| {
        let name = owner_name(&owner.owner).to_owned();
        let runs = owner.runs.iter().map(move |run| {
            vec![
                Cell::Text(name.clone()),
                Cell::Text(run.policy.clone()),
                number(run.pages.into()),
                number(run.hits + run.misses),
                number(run.misses),
                Cell::Number(run.miss_ratio),
            ]
        });
        runs.collect::<Vec<_>>()
    };
    Table {
        title: title.to_owned(),
        columns: columns([
            ("owner", Unit::Text),
            ("policy", Unit::Text),
            ("pages", Unit::Number),
            ("references", Unit::Number),
            ("misses", Unit::Number),
            ("miss ratio", Unit::Ratio),
        ]),
        rows: all.iter().take(MOST_OWNERS).flat_map(rows).collect(),
    }
}
