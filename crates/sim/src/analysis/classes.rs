//! Reference classes: sequential, looping and other, as UBM's detector tells them (OSDI 2000, section 3.1).

use super::distances::{DistancePoint, points};
use super::space_time::SpaceTime;
use crate::input::trace::Trace;
use crate::walk::walk;
use forebay_basis::Histogram;
use forebay_policy::ubm::{Class, Classifier, KnownRun};
use serde::Serialize;

/// How many runs are named.
const NAMED: usize = 64;

/// References by class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Classes {
    /// References in runs of consecutive blocks that were not known before.
    pub sequential: u64,
    /// References in runs of consecutive blocks, again after a regular interval.
    pub looping: u64,
    /// All others.
    pub other: u64,
    /// The looping references by the period of their loop, which is rounded up to powers of two.
    pub by_period: Vec<DistancePoint>,
    /// Runs whose last references were sequential.
    pub runs: Runs,
    /// Runs whose last references were looping.
    pub loops: Runs,
}

/// What was found of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Runs {
    /// How many.
    pub count: u64,
    /// The blocks in them.
    pub pages: u64,
    /// The longest ones, in falling order of their length.
    pub longest: Vec<BlockRun>,
}

/// Consecutive blocks that were referenced in their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockRun {
    /// The file or volume; empty for the unnamed one.
    pub object: String,
    /// The first block, counted in pages.
    pub first_block: u64,
    /// The last block.
    pub last_block: u64,
    /// References from one use of a block to its next, of a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<f64>,
}

impl Classes {
    /// Classifies all references, and adds them to the space–time graph, if there is one.
    pub(super) fn of(trace: &Trace, mut grid: Option<&mut SpaceTime>, progress: &(dyn Fn(u64) + Sync)) -> Self {
        let mut finder = Classifier::new(trace.pages, trace.page_size);
        let mut counts = [0u64; 3];
        let mut by_period = Histogram::<u64, 0>::default();
        let rows = grid.as_ref().map(|grid| grid.rows_of(trace));
        let progress = |more| {
            progress(more);
            true
        };
        walk(&trace.references, 0..trace.len(), &progress, |time, page, soon| {
            if let Some(soon) = soon {
                trace.places.prefetch(soon);
            }
            let found = finder.refer(trace.places.of(page));
            counts[found.class as usize] += 1;
            if found.class == Class::Looping {
                *by_period.at((found.period.ceil() as u64).max(1) - 1) += 1;
            }
            if let (Some(grid), Some(rows)) = (&mut grid, &rows) {
                grid.add(time, rows[page as usize], found.class);
            }
        });
        let found = |class| Runs::of(trace, finder.runs().filter(move |run| run.class == class));
        let [sequential, looping, other] =
            [Class::Sequential, Class::Looping, Class::Other].map(|class| counts[class as usize]);
        Self {
            sequential,
            looping,
            other,
            by_period: points(&by_period, |&references| references),
            runs: found(Class::Sequential),
            loops: found(Class::Looping),
        }
    }
}

impl Runs {
    fn of(trace: &Trace, known: impl Iterator<Item = KnownRun>) -> Self {
        let mut all: Vec<KnownRun> = known.collect();
        let pages = |run: &KnownRun| run.end - run.start.block + 1;
        all.sort_by_key(|run| (std::cmp::Reverse(pages(run)), run.start));
        let longest = all.iter().take(NAMED).map(|run| BlockRun {
            object: trace.names.object_name(run.start.object).to_owned(),
            first_block: run.start.block,
            last_block: run.end,
            period: run.period.is_finite().then_some(run.period.into()),
        });
        Self { count: all.len() as u64, pages: all.iter().map(pages).sum(), longest: longest.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::trace;

    #[test]
    fn a_loop_is_found_with_its_blocks_and_its_period() {
        // Blocks 100 to 119 three times over, then 500 to 539 once.
        let blocks = (0..3).flat_map(|_| 100..120).chain(500..540);
        let text: String = blocks.map(|block| format!("{block}\n")).collect();
        let classes = Classes::of(&trace(&text), None, &|_| {});
        // The first 7 references of each of the two are no run yet.
        assert_eq!((classes.sequential, classes.looping, classes.other), (13 + 33, 40, 14));
        assert_eq!(classes.by_period.last(), Some(&DistancePoint { distance: 32, references: 40 }));
        let looping = BlockRun { object: String::new(), first_block: 100, last_block: 119, period: Some(20.0) };
        assert_eq!(classes.loops, Runs { count: 1, pages: 20, longest: vec![looping] });
        let runs = Runs { count: 1, pages: 40, ..Runs::default() };
        let run = BlockRun { object: String::new(), first_block: 500, last_block: 539, period: None };
        assert_eq!(classes.runs, Runs { longest: vec![run], ..runs });
    }
}
