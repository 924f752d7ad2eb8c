//! Hits and misses by owner, in the answers of `forebay compare`.

use crate::compare::Comparison;
use crate::failure::Failure;
use crate::output::grouped;
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay_sim::{Outcome, OwnerCounts};
use serde_json::json;
use std::io::Write;

/// Most owners that the table shows by name.
const SHOWN: usize = 8;

/// The numbers of the owners that made references, in falling order of these.
fn owners(comparison: &Comparison) -> Vec<usize> {
    let Some(first) = comparison.outcomes.first() else { return Vec::new() };
    let references = |&owner: &usize| first.by_owner.get(owner).map_or(0, |counts| counts.hits + counts.misses);
    let mut owners: Vec<usize> = (0..comparison.owners.len()).filter(|owner| references(owner) > 0).collect();
    owners.sort_by_key(|owner| (std::cmp::Reverse(references(owner)), &comparison.owners[*owner]));
    owners
}

fn counts(outcome: &Outcome, owner: usize) -> OwnerCounts {
    outcome.by_owner.get(owner).copied().unwrap_or_default()
}

/// Those of a run, or null where they were not asked for.
pub(crate) fn to_json(comparison: &Comparison, outcome: &Outcome) -> serde_json::Value {
    if comparison.owners.is_empty() {
        return serde_json::Value::Null;
    }
    let one = |owner: usize| {
        let OwnerCounts { hits, misses } = counts(outcome, owner);
        let references = hits + misses;
        json!({
            "owner": comparison.owners[owner],
            "references": references,
            "hits": hits,
            "misses": misses,
            "miss_ratio": misses as f64 / references as f64,
        })
    };
    owners(comparison).into_iter().map(one).collect()
}

/// Prints the misses of the owners with the most references under each policy, for each size.
pub(crate) fn print(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let (sizes, owners) = (&comparison.sizes, owners(comparison));
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let (shown, others) = owners.split_at(owners.len().min(SHOWN));
    for (column, &(pages, _)) in sizes.iter().enumerate() {
        let outcomes: Vec<&Outcome> = comparison.outcomes.iter().skip(column).step_by(sizes.len()).collect();
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let titles = ["references"].into_iter().chain(outcomes.iter().map(|outcome| outcome.policy.as_str()));
        table.add_row([Cell::new("owner")].into_iter().chain(titles.map(|title| right(title.to_owned()))));
        table.add_row(vec![Cell::new("─".repeat(8)); outcomes.len() + 2]);
        let mut row = |name: &str, of: &[usize]| {
            let sum = |count: &dyn Fn(usize) -> u64| right(grouped(of.iter().map(|&owner| count(owner)).sum()));
            let references = sum(&|owner| {
                let OwnerCounts { hits, misses } = counts(outcomes[0], owner);
                hits + misses
            });
            let misses = outcomes.iter().map(|outcome| sum(&|owner| counts(outcome, owner).misses));
            table.add_row([Cell::new(name), references].into_iter().chain(misses));
        };
        for &owner in shown {
            let name = comparison.owners[owner].as_str();
            row(if name.is_empty() { "(unnamed)" } else { name }, &[owner]);
        }
        if !others.is_empty() {
            row(&format!("{} others", grouped(others.len() as u64)), others);
        }
        writeln!(out, "\nmisses by owner, {} pages", grouped(u64::from(pages)))?;
        writeln!(out, "{}", table.trim_fmt())?;
    }
    Ok(())
}
