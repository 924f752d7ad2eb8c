//! The footprint: how many distinct pages have been referenced after how many references.

use serde::Serialize;

/// How many points are told at most.
const POINTS: usize = 256;

/// The footprint at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FootprintPoint {
    /// After this many references,
    pub references: u64,
    /// this many distinct pages.
    pub pages: u32,
}

/// The footprint at equal numbers of references apart, at the end at the latest.
pub(super) fn growth(references: &[u32]) -> Vec<FootprintPoint> {
    let step = references.len().div_ceil(POINTS).max(1);
    let mut pages = 0;
    let mut done = 0;
    let point = |chunk: &[u32]| {
        // Pages are numbered in the order of their first use.
        pages = chunk.iter().fold(pages, |pages, &page| pages.max(page + 1));
        done += chunk.len() as u64;
        FootprintPoint { references: done, pages }
    };
    references.chunks(step).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footprint_grows_with_first_uses_alone() {
        let points: Vec<(u64, u32)> =
            growth(&[0, 1, 0, 2, 2]).iter().map(|point| (point.references, point.pages)).collect();
        assert_eq!(points, [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)]);
        let long: Vec<u32> = (0..1000).collect();
        let points = growth(&long);
        assert_eq!((points.len(), points[0]), (250, FootprintPoint { references: 4, pages: 4 }));
        assert_eq!(points[249], FootprintPoint { references: 1000, pages: 1000 });
    }
}
