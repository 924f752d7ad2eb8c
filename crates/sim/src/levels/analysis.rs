//! The references that a cache gets, by temporal distance and by frequency: figures 2 to 4 of MQ's paper for any level.

use crate::analysis::distances::{DistancePoint, points};
use crate::analysis::frequency::{Frequencies, FrequencyPoint};
use crate::recency::Recency;
use forebay_basis::Histogram;

/// The references of a level's caches, each cache for itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// References by temporal distance, rounded up to a power of two as in the paper. First uses of a page have none.
    pub distances: Vec<DistancePoint>,
    /// Pages by the number of references to them, and these references.
    pub frequency: Vec<FrequencyPoint>,
}

impl Analysis {
    /// That of some caches.
    pub(super) fn of<'a>(caches: impl Iterator<Item = &'a Analyst>) -> Self {
        let (mut distances, mut frequencies) = (Histogram::default(), Frequencies::default());
        for analyst in caches {
            distances.join(&analyst.distances);
            frequencies.add(&analyst.references);
        }
        Self { distances: points(&distances, |&references| references), frequency: frequencies.points() }
    }

    /// The share of the pages that are referenced at least so often as each point says, and the share of their references.
    pub fn shares(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = self.frequency.first();
        let share = move |point: &FrequencyPoint| {
            let all = all.expect("a point has a first one");
            (point.pages as f64 / all.pages as f64, point.references as f64 / all.references as f64)
        };
        self.frequency.iter().map(share)
    }
}

/// What an analysis is made from while a cache is at work: 12 bytes a page.
#[derive(Debug)]
pub(super) struct Analyst {
    recency: Recency,
    /// How many references each page had.
    references: Vec<u32>,
    distances: Histogram<u64, 0>,
}

impl Analyst {
    pub(super) fn new(pages: u32) -> Self {
        let references = vec![0; pages as usize];
        Self { recency: Recency::new(pages), references, distances: Histogram::default() }
    }

    pub(super) fn refer(&mut self, page: u32) {
        if let Some(distance) = self.recency.refer(page) {
            *self.distances.at(distance - 1) += 1;
        }
        let references = &mut self.references[page as usize];
        *references = references.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_rounded_up_and_frequencies_down() {
        // The paper's example, ABCDBAX: B after 3, A after 5. Then X twice after 1.
        let mut analyst = Analyst::new(5);
        for page in [0, 1, 2, 3, 1, 0, 4, 4, 4] {
            analyst.refer(page);
        }
        let counts = |analysis: &Analysis| {
            let distances: Vec<u64> = analysis.distances.iter().map(|point| point.references).collect();
            let frequency = analysis.frequency.iter().map(|point| (point.times, point.pages, point.references));
            (distances, frequency.collect::<Vec<_>>())
        };
        // C and D once, B and A twice, X three times.
        let analysis = Analysis::of([&analyst].into_iter());
        assert_eq!(counts(&analysis), (vec![2, 0, 1, 1], vec![(1, 5, 9), (2, 3, 7)]));
        assert_eq!(analysis.shares().map(|(pages, _)| pages).collect::<Vec<_>>(), [1.0, 0.6]);
        let twice = Analysis::of([&analyst, &analyst].into_iter());
        assert_eq!(counts(&twice), (vec![4, 0, 2, 2], vec![(1, 10, 18), (2, 6, 14)]));
    }
}
