//! How unevenly pages are referenced, as in MQ's figure 4: what part of the pages is referenced at least f times, and what part of
//! the references goes to them.

use crate::input::trace::Trace;
use serde::Serialize;

/// The pages that are referenced at least this many times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FrequencyPoint {
    /// At least this many times, a power of two,
    pub times: u64,
    /// this many pages are referenced,
    pub pages: u64,
    /// which is this percentage of all pages,
    pub pages_percent: f64,
    /// and this many references go to them,
    pub references: u64,
    /// which is this percentage of all references.
    pub references_percent: f64,
    /// The pages that are referenced exactly this many times.
    pub pages_exactly: u64,
}

/// Pages by the number of references to them, in octaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frequencies(Vec<Octave>);

#[derive(Clone, Debug, Default)]
struct Octave {
    pages: u64,
    references: u64,
    /// The pages at its very start.
    exactly: u64,
}

impl Frequencies {
    /// Adds pages, each with this many references.
    pub(crate) fn add(&mut self, counts: &[u32]) {
        for &count in counts.iter().filter(|&&count| count > 0) {
            let octave = count.ilog2() as usize;
            if octave >= self.0.len() {
                self.0.resize(octave + 1, Octave::default());
            }
            let Octave { pages, references, exactly } = &mut self.0[octave];
            *pages += 1;
            *references += u64::from(count);
            *exactly += u64::from(count.is_power_of_two());
        }
    }

    /// A point for each power of two up to the most times that a page is referenced.
    pub(crate) fn points(&self) -> Vec<FrequencyPoint> {
        let all = |of: fn(&Octave) -> u64| self.0.iter().map(of).sum::<u64>();
        let (mut pages, mut references) = (all(|octave| octave.pages), all(|octave| octave.references));
        let (all_pages, all_references) = (pages, references);
        let percent = |part: u64, all: u64| 100.0 * part as f64 / all as f64;
        let point = |(octave, of): (usize, &Octave)| {
            let point = FrequencyPoint {
                times: 1 << octave,
                pages,
                pages_percent: percent(pages, all_pages),
                references,
                references_percent: percent(references, all_references),
                pages_exactly: of.exactly,
            };
            (pages, references) = (pages - of.pages, references - of.references);
            point
        };
        self.0.iter().enumerate().map(point).collect()
    }
}

/// The points of a trace.
pub(super) fn points(trace: &Trace) -> Vec<FrequencyPoint> {
    let mut counts = vec![0u32; trace.pages as usize];
    trace.references.iter().for_each(|&page| counts[page as usize] += 1);
    let mut frequencies = Frequencies::default();
    frequencies.add(&counts);
    frequencies.points()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::trace;

    #[test]
    fn few_pages_have_most_of_the_references() {
        // Block 7 five times, 8 and 9 twice, 10 once.
        let points = points(&trace("7\n8\n7\n9\n7\n8\n10\n7\n9\n7\n"));
        let found = points.iter().map(|point| (point.times, point.pages, point.references, point.pages_exactly));
        assert_eq!(found.collect::<Vec<_>>(), [(1, 4, 10, 1), (2, 3, 9, 2), (4, 1, 5, 0)]);
        assert_eq!((points[2].pages_percent, points[2].references_percent), (25.0, 50.0));
    }
}
