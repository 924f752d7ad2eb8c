//! How unevenly pages are referenced, as in MQ's figure 4: what part of the pages is referenced at least f times, and what part of
//! the references goes to them.

use crate::input::trace::Trace;
use serde::Serialize;

/// The pages that are referenced at least so many times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FrequencyPoint {
    /// At least so many times, a power of two,
    pub times: u64,
    /// so many pages are referenced,
    pub pages: u64,
    /// which is this percentage of all pages,
    pub pages_percent: f64,
    /// and so many references go to them,
    pub references: u64,
    /// which is this percentage of all references.
    pub references_percent: f64,
    /// The pages that are referenced exactly so many times.
    pub pages_exactly: u64,
}

/// A point for each power of two up to the most times that a page is referenced.
pub(super) fn points(trace: &Trace) -> Vec<FrequencyPoint> {
    let mut counts = vec![0u32; trace.pages as usize];
    trace.references.iter().for_each(|&page| counts[page as usize] += 1);
    let most = counts.iter().copied().max().unwrap_or(0);
    let octaves = if most == 0 { 0 } else { most.ilog2() as usize + 1 };
    // By octave: the pages, their references, and the pages at its very start.
    let mut by_octave = vec![(0u64, 0u64, 0u64); octaves];
    for &count in counts.iter().filter(|&&count| count > 0) {
        let (pages, references, exactly) = &mut by_octave[count.ilog2() as usize];
        *pages += 1;
        *references += u64::from(count);
        *exactly += u64::from(count.is_power_of_two());
    }
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all as f64;
    let (mut pages, mut references) = (0, 0);
    let mut points: Vec<FrequencyPoint> = by_octave
        .into_iter()
        .enumerate()
        .rev()
        .map(|(octave, (more_pages, more_references, pages_exactly))| {
            (pages, references) = (pages + more_pages, references + more_references);
            FrequencyPoint {
                times: 1 << octave,
                pages,
                pages_percent: percent(pages, trace.pages.into()),
                references,
                references_percent: percent(references, trace.len() as u64),
                pages_exactly,
            }
        })
        .collect();
    points.reverse();
    points
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
