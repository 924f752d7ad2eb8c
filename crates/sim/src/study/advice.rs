//! What an answer says to do, in words: which policy and size to take, and why.

use super::comparison::Comparison;
use super::curves::{Curves, Line};
use crate::replay::outcome::RunOutcome;
use crate::size::show_bytes;
use crate::words::{grouped, percent, significant};

const OFF_LINE_ALONE: &str =
    "Only policies that know the future were asked: they bound what a cache can do, none can be run.";
/// No page is used twice.
pub(super) const NOTHING_AGAIN: &str = "No page is used twice: a cache of any size and policy is of no use here.";
/// The size to take is the smallest with this share of the hits at the largest size.
const ENOUGH: f64 = 0.9;
/// Policies nearer than this, in points, are equal for the purpose.
pub(super) const POINTS_THAT_MATTER: f64 = 0.1;

/// The on-line outcome with the most hits; the first one among equals.
pub fn best_on_line<'a>(outcomes: impl Iterator<Item = &'a RunOutcome>) -> Option<&'a RunOutcome> {
    outcomes.filter(|outcome| !outcome.off_line).fold(None, |best: Option<&RunOutcome>, outcome| match best {
        Some(best) if best.counted.hits >= outcome.counted.hits => Some(best),
        _ => Some(outcome),
    })
}

/// What an off-line policy is good for.
pub fn bound(policy: &str) -> &'static str {
    match policy {
        "opt" => "the limit",
        "worst" => "worst possible",
        _ => "knows the future",
    }
}

/// The hits of a policy over all sizes.
pub fn hits(of_policy: &[RunOutcome]) -> u64 {
    of_policy.iter().map(|outcome| outcome.counted.hits).sum()
}

/// Which policy and size to take, and why.
pub fn of_comparison(comparison: &Comparison) -> String {
    let trace = &comparison.trace;
    let rows: Vec<&[RunOutcome]> = comparison.policies().collect();
    // The first of the best: policies are listed from the simple to the elaborate.
    let best = rows.iter().filter(|row| !row[0].off_line).fold(None, |best: Option<&[RunOutcome]>, row| match best {
        Some(best) if hits(best) >= hits(row) => Some(best),
        _ => Some(row),
    });
    let Some(best) = best else {
        return OFF_LINE_ALONE.to_owned();
    };
    let most = best.last().expect("there is at least one size");
    if most.counted.hits == 0 {
        return if most.counted.misses == most.counted.compulsory_misses {
            NOTHING_AGAIN.to_owned()
        } else {
            "No policy hits anything at these sizes: try larger ones.".to_owned()
        };
    }
    let column = best.iter().position(|outcome| outcome.counted.hits as f64 >= ENOUGH * most.counted.hits as f64);
    let column = column.expect("the last size has all of its own hits");
    let take = &best[column];
    let ratio = |outcome: &RunOutcome| 100.0 * outcome.counted.hit_ratio();

    let mut text = format!(
        "Take {} with {} pages ({}, {}% of the footprint): it hits {} % of the references there",
        take.policy,
        grouped(u64::from(take.pages)),
        show_bytes(u64::from(take.pages) * trace.page_size),
        significant(100.0 * f64::from(take.pages) / f64::from(trace.pages)),
        percent(take.counted.hit_ratio()),
    );
    let at = |name: &str| rows.iter().find(|row| row[0].policy == name).map(|row| &row[column]);
    let others = || rows.iter().map(|row| &row[column]).filter(|outcome| outcome.policy != take.policy);
    if let Some(lru) = at("lru").filter(|_| take.policy != "lru") {
        let gain = ratio(take) - ratio(lru);
        text += &match gain {
            gain if gain >= POINTS_THAT_MATTER => format!(", {gain:.1} points more than lru"),
            gain if gain <= -POINTS_THAT_MATTER => {
                format!(", {:.1} points less than lru but more over all sizes", -gain)
            }
            _ => ", like lru, and more over all sizes".to_owned(),
        };
    } else if let Some(second) = best_on_line(others()) {
        let lead = ratio(take) - ratio(second);
        text += &match lead {
            lead if lead >= POINTS_THAT_MATTER => {
                format!(", {lead:.1} points more than the next best, {}", second.policy)
            }
            lead if lead <= -POINTS_THAT_MATTER => {
                format!(", {:.1} points less than {} but more over all sizes", -lead, second.policy)
            }
            _ => format!(", and no other policy asked does better over all sizes ({} is equal here)", second.policy),
        };
    }
    if let Some(opt) = at("opt") {
        text += &format!(", {:.1} below the limit", ratio(opt) - ratio(take));
    }
    if column + 1 < best.len() {
        text += &format!(
            "; {} times the memory would add {:.1} points",
            significant(f64::from(most.pages) / f64::from(take.pages)),
            ratio(most) - ratio(take),
        );
    } else if column > 0 {
        let smaller = &best[column - 1];
        text += &format!(
            "; with {} pages it hits {} %",
            grouped(u64::from(smaller.pages)),
            percent(smaller.counted.hit_ratio())
        );
    }
    text + "."
}

/// Which of the policies whose curves were made to take, and how large.
pub fn of_curves(curves: &Curves) -> String {
    let Curves { trace, sizes, lines, .. } = curves;
    let missed = |line: &Line| sizes.iter().map(|&size| line.curve.miss_ratio(size)).sum::<f64>();
    let on_line = lines.iter().filter(|line| !line.off_line);
    let Some(best) = on_line.min_by(|one, other| missed(one).total_cmp(&missed(other))) else {
        return OFF_LINE_ALONE.to_owned();
    };
    let hits = |size: u32| 1.0 - best.curve.miss_ratio(size);
    let most = sizes.last().map_or(0.0, |&size| hits(size));
    let Some(&take) = sizes.iter().find(|&&size| most > 0.0 && hits(size) >= ENOUGH * most) else {
        return "Nothing hits at these sizes: a cache is of no use here, or must be larger.".to_owned();
    };
    let mut text = format!(
        "With {} pages ({}, {}% of the footprint) {} misses {} % of the references, and has {:.0} % of the hits that it has with {}",
        grouped(u64::from(take)),
        show_bytes(u64::from(take) * trace.page_size),
        significant(100.0 * f64::from(take) / f64::from(trace.pages)),
        best.policy,
        percent(best.curve.miss_ratio(take)),
        100.0 * hits(take) / most,
        grouped(u64::from(sizes[sizes.len() - 1])),
    );
    if let Some(opt) = lines.iter().find(|line| line.policy == "opt") {
        text += &format!("; the limit at that size is {} %", percent(opt.curve.miss_ratio(take)));
    }
    text + "."
}
