//! Temporal distances, and from them the working set.
//!
//! The histogram of temporal distances by powers of two is that of MQ (Y. Zhou, J. F. Philbin and K. Li, USENIX 2001, figures 2
//! and 3). The working set w(t, T) is what was referenced in the T references up to t, and its mean size over all t follows from the
//! distances alone (P. J. Denning and S. C. Schwartz, "Properties of the Working-Set Model", CACM 15(3), 1972): a reference keeps
//! its page in the working set for T references, but no longer than to the page's next one or to the end of the trace.

use crate::recency::Recency;
use crate::walk::walk;
use forebay_basis::Histogram;
use serde::Serialize;

/// The references up to a temporal distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DistancePoint {
    /// Up to this distance, and above that of the point before,
    pub distance: u64,
    /// this many references.
    pub references: u64,
}

/// References by temporal distance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TemporalDistances {
    /// References that are the first to their page: they have no distance.
    pub first_uses: u64,
    /// The others by powers of two.
    pub points: Vec<DistancePoint>,
}

/// The mean size of the working set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSetPoint {
    /// In this many references up to some time
    pub window: u64,
    /// there are this many distinct pages, on average over all times.
    pub mean_pages: f64,
}

/// What is counted by distance, each rounded up to a power of two, as points.
pub(crate) fn points<T: Clone + Default>(
    counts: &Histogram<T, 0>,
    references: impl Fn(&T) -> u64,
) -> Vec<DistancePoint> {
    let point =
        |(_, below, count): (u64, u64, &T)| DistancePoint { distance: below + 1, references: references(count) };
    counts.iter().map(point).collect()
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    of_gaps: u64,
}

/// Distances between references of a page.
pub(super) struct Gaps {
    references: u64,
    pages: u64,
    /// From one reference to the next of its page.
    between: Histogram<Sum, 0>,
    /// From the last reference of a page to the end of the trace.
    to_end: Histogram<Sum, 0>,
}

impl Gaps {
    pub(super) fn of(references: &[u32]) -> Self {
        let pages = references.iter().max().map_or(0, |&page| page + 1);
        let mut recency = Recency::new(pages);
        let (mut between, mut to_end) = (Histogram::default(), Histogram::default());
        let add = |histogram: &mut Histogram<Sum, 0>, gap: u64| {
            let sum = histogram.at(gap - 1);
            sum.count += 1;
            sum.of_gaps += gap;
        };
        walk(references, 0..references.len(), &|_| true, |_, page, soon| {
            if let Some(soon) = soon {
                recency.prefetch(soon);
            }
            if let Some(gap) = recency.refer(page) {
                add(&mut between, gap);
            }
        });
        recency.to_end().for_each(|gap| add(&mut to_end, gap));
        Self { references: references.len() as u64, pages: pages.into(), between, to_end }
    }

    pub(super) fn distances(&self) -> TemporalDistances {
        TemporalDistances { first_uses: self.pages, points: points(&self.between, |sum| sum.count) }
    }

    /// Windows of 1 reference up to the first power of two that the whole trace is not longer than.
    pub(super) fn working_set(&self) -> Vec<WorkingSetPoint> {
        let windows = (0..64).map(|octave| 1u64 << octave);
        let last = self.references.next_power_of_two();
        let kept = |histogram: &Histogram<Sum, 0>, window: u64| -> u128 {
            let kept = histogram.iter().map(|(_, below, sum)| match below < window {
                true => u128::from(sum.of_gaps),
                false => u128::from(sum.count) * u128::from(window),
            });
            kept.sum()
        };
        let mean = |window| (kept(&self.between, window) + kept(&self.to_end, window)) as f64 / self.references as f64;
        let windows = windows.take_while(|&window| window <= last);
        windows.map(|window| WorkingSetPoint { window, mean_pages: mean(window) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_example_of_the_mq_paper_has_its_distances() {
        // A B C D B A X: the second B is 3 after the first, the second A 5.
        let TemporalDistances { first_uses, points } = Gaps::of(&[0, 1, 2, 3, 1, 0, 4]).distances();
        assert_eq!(first_uses, 5);
        assert_eq!(
            points.iter().map(|point| (point.distance, point.references)).collect::<Vec<_>>(),
            [(1, 0), (2, 0), (4, 1), (8, 1)]
        );
    }

    proptest! {
        #[test]
        fn every_reference_is_a_first_use_or_has_a_distance(pages in prop::collection::vec(0u32..9, 1..80)) {
            let references = numbered(&pages);
            let distances = Gaps::of(&references).distances();
            let counted: u64 = distances.points.iter().map(|point| point.references).sum();
            prop_assert_eq!(counted + distances.first_uses, references.len() as u64);
        }

        #[test]
        fn the_working_set_is_the_mean_over_all_windows(pages in prop::collection::vec(0u32..9, 1..80)) {
            let references = numbered(&pages);
            for WorkingSetPoint { window, mean_pages } in Gaps::of(&references).working_set() {
                let size = |end: usize| references[end.saturating_sub(window as usize)..end].iter().collect::<BTreeSet<_>>().len();
                let sizes: usize = (1..=references.len()).map(size).sum();
                prop_assert!((mean_pages - sizes as f64 / references.len() as f64).abs() < 1e-9, "window {}", window);
            }
        }
    }

    /// The pages numbered by first use.
    fn numbered(pages: &[u32]) -> Vec<u32> {
        let mut known = Vec::new();
        let mut number = |page: &u32| {
            let number = known.iter().position(|other| other == page).unwrap_or(known.len());
            known.extend((number == known.len()).then_some(*page));
            number as u32
        };
        pages.iter().map(&mut number).collect()
    }
}
