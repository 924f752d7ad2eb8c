//! What other policies would have had of what `forebay run` has recorded, in two lines.

use crate::failure::Failure;
use crate::input::How;
use crate::terminal::progress::Terminal;
use forebay_basis::show_bytes;
use forebay_policy::Spec;
use forebay_sim::study::comparison::Asked;
use forebay_sim::study::{counted, grouped};
use forebay_sim::{Readahead, RunOutcome, Size};
use forebay_trace::readahead_of;
use std::path::Path;

/// How many policies are named.
const NAMED: usize = 3;

/// The knowledge that no policy has.
const LIMIT: &str = "opt";

fn failed(error: impl std::error::Error + 'static) -> Failure {
    Failure::Failed(Box::new(error))
}

/// Replays a recording under each policy, with as much memory as the run's own had.
pub(crate) fn lines(out: &Path, bytes: u64, own: &Spec, readahead: u64) -> Result<[String; 2], Failure> {
    let size: Size = format!("{bytes}B").parse().map_err(failed)?;
    let ahead: Readahead = readahead_of(readahead).parse().map_err(failed)?;
    let useful = |spec: &Spec| !spec.needs_future() || ahead.is_none() && spec.label == LIMIT;
    let specs = Spec::each_once(std::iter::once(own.clone()).chain(Spec::all().into_iter().filter(useful)));
    let asked = Asked { specs, sizes: vec![size], readahead: Some(ahead.clone()), ..Asked::default() };
    let name = out.to_string_lossy();
    let mut reader = How::default().read(&name)?;
    let comparison = asked.of(&name, reader.as_mut(), &Terminal)?;
    let mut outcomes: Vec<&RunOutcome> = comparison.outcomes.iter().collect();
    outcomes.sort_by_key(|outcome| outcome.total.misses);
    // The policies are in the order in which they were asked.
    let here = comparison.outcomes.first().ok_or_else(|| Failure::Failed("it has no references".into()))?;
    Ok(in_words(here, &outcomes, bytes))
}

fn in_words(here: &RunOutcome, in_order: &[&RunOutcome], bytes: u64) -> [String; 2] {
    let beside = |outcome: &RunOutcome| {
        let more = 100.0 * (outcome.total.misses as f64 / here.total.misses.max(1) as f64 - 1.0);
        format!("{} {} ({more:+.1} %)", outcome.policy, grouped(outcome.total.misses))
    };
    let (misses, references) = (counted(here.total.misses, "page"), counted(here.total.references, "use"));
    let own = format!("replayed with {}: {}, as here, misses {misses} of {references}", show_bytes(bytes), here.policy);
    // LRU-SP without managers is LRU.
    let other =
        |outcome: &&&RunOutcome| !outcome.off_line && outcome.policy != here.policy && outcome.policy != "lru-sp";
    let fewest: Vec<String> = in_order.iter().filter(other).take(NAMED).map(|outcome| beside(outcome)).collect();
    let mut others = format!("fewest of the others: {}", fewest.join(", "));
    if let Some(limit) = in_order.iter().find(|outcome| outcome.off_line) {
        others += &format!("; the limit: {}", beside(limit));
    }
    [own, others]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_misses_come_first_beside_those_of_the_run() {
        let outcome = |policy: &str, misses: u64, off_line: bool| {
            let mut outcome = RunOutcome { policy: policy.to_owned(), off_line, ..RunOutcome::default() };
            (outcome.total.references, outcome.total.misses) = (10_000, misses);
            outcome
        };
        let all =
            [("opt", 500, true), ("arc", 900, false), ("lru", 1000, false), ("mq", 1100, false), ("mru", 2000, false)];
        let all: Vec<RunOutcome> = all.map(|(policy, misses, off_line)| outcome(policy, misses, off_line)).into();
        let in_order: Vec<&RunOutcome> = all.iter().collect();
        let [own, others] = in_words(in_order[2], &in_order, 1 << 20);
        assert_eq!(own, "replayed with 1 MiB: lru, as here, misses 1,000 pages of 10,000 uses");
        assert_eq!(
            others,
            "fewest of the others: arc 900 (-10.0 %), mq 1,100 (+10.0 %), mru 2,000 (+100.0 %); the limit: opt 500 (-50.0 %)"
        );
    }
}
