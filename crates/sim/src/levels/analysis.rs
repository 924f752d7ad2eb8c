//! The references that a cache gets, by temporal distance and by frequency: figures 2 to 4 of MQ's paper for any level.

/// Counts by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    fn add(&mut self, power: u32, count: u64) {
        let power = power as usize;
        if power >= self.counts.len() {
            self.counts.resize(power + 1, 0);
        }
        self.counts[power] += count;
    }

    fn join(&mut self, other: &Self) {
        for (power, &count) in other.counts.iter().enumerate() {
            self.add(power as u32, count);
        }
    }

    /// The counts at 1, 2, 4, … up to the last one that is not 0.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The sums of the counts from each power of two on, by the sum of all.
    pub fn at_least(&self) -> Vec<f64> {
        let all: u64 = self.counts.iter().sum();
        let mut left = all;
        let share = |count: &u64| {
            let share = left as f64 / all as f64;
            left -= count;
            share
        };
        self.counts.iter().map(share).collect()
    }
}

/// The references of a level's caches, each cache for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// References by temporal distance, rounded up to a power of two as in the paper. First uses of a page have none.
    pub distances: Histogram,
    /// Pages by the number of references to them, rounded down to a power of two.
    pub pages: Histogram,
    /// References by the number of references to their page, rounded down.
    pub references: Histogram,
}

impl Analysis {
    pub(super) fn join(&mut self, other: &Self) {
        self.distances.join(&other.distances);
        self.pages.join(&other.pages);
        self.references.join(&other.references);
    }
}

/// What an analysis is made from while a cache is at work: 12 bytes a page.
#[derive(Debug)]
pub(super) struct Analyst {
    /// The reference to each page that was the last; the first one is 1.
    last: Vec<u64>,
    /// How many references each page had.
    references: Vec<u32>,
    now: u64,
    distances: Histogram,
}

impl Analyst {
    pub(super) fn new(pages: u32) -> Self {
        let pages = pages as usize;
        Self { last: vec![0; pages], references: vec![0; pages], now: 0, distances: Histogram::default() }
    }

    pub(super) fn refer(&mut self, page: u32) {
        self.now += 1;
        let last = std::mem::replace(&mut self.last[page as usize], self.now);
        if last > 0 {
            self.distances.add((self.now - last).next_power_of_two().ilog2(), 1);
        }
        let references = &mut self.references[page as usize];
        *references = references.saturating_add(1);
    }

    pub(super) fn analysis(&self) -> Analysis {
        let mut analysis = Analysis { distances: self.distances.clone(), ..Analysis::default() };
        for &references in self.references.iter().filter(|&&references| references > 0) {
            analysis.pages.add(references.ilog2(), 1);
            analysis.references.add(references.ilog2(), u64::from(references));
        }
        analysis
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
        let analysis = analyst.analysis();
        assert_eq!(analysis.distances.counts(), [2, 0, 1, 1]);
        // C and D once, B and A twice, X three times.
        assert_eq!(analysis.pages.counts(), [2, 3]);
        assert_eq!(analysis.references.counts(), [2, 7]);
        assert_eq!(analysis.pages.at_least(), [1.0, 0.6]);
        let mut twice = analysis.clone();
        twice.join(&analysis);
        assert_eq!((twice.pages.counts(), twice.distances.counts()), (&[4, 6][..], &[4, 0, 2, 2][..]));
    }
}
