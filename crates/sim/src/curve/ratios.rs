//! A curve, whatever it was made from.

use super::stack::Distances;

/// A miss-ratio curve: the hits of a cache as they rise with its size. Estimated hits need not be whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Hits and misses.
    references: f64,
    /// Sizes in pages, rising, from each of which on there are this many hits.
    steps: Vec<(u32, f64)>,
}

impl Curve {
    /// The exact curve of a stack algorithm over a whole trace.
    pub fn exact(distances: &Distances) -> Self {
        Self::scaled(distances, 1.0, distances.counts.iter().map(|&count| count as f64).sum(), 0.0)
    }

    /// The curve whose distances are `scale` times those counted, with this many references and this many hits added at size 1.
    pub(super) fn scaled(distances: &Distances, scale: f64, references: f64, added: f64) -> Self {
        let mut hits = added;
        let counts = distances.counts.iter().enumerate().skip(1).filter(|&(_, &count)| count > 0);
        let steps = counts.map(|(distance, &count)| {
            hits += count as f64;
            ((distance as f64 * scale).round().clamp(1.0, f64::from(u32::MAX)) as u32, hits)
        });
        Self { references, steps: steps.collect() }
    }

    /// The curve through the hits at some sizes, which rise; between them it stays at those of the smaller one.
    pub fn through(references: f64, steps: Vec<(u32, f64)>) -> Self {
        Self { references, steps }
    }

    /// The references, hits and misses together.
    pub fn references(&self) -> f64 {
        self.references
    }

    /// The hits of a cache of this many pages.
    pub fn hits(&self, pages: u32) -> f64 {
        let smaller = self.steps.partition_point(|&(size, _)| size <= pages);
        smaller.checked_sub(1).map_or(0.0, |step| self.steps[step].1)
    }

    /// Misses by references.
    pub fn miss_ratio(&self, pages: u32) -> f64 {
        1.0 - (self.hits(pages) / self.references).clamp(0.0, 1.0)
    }

    /// The mean, over these sizes, of how far the two curves' miss ratios lie apart.
    pub fn mean_absolute_error(&self, other: &Self, sizes: &[u32]) -> f64 {
        let apart = sizes.iter().map(|&size| (self.miss_ratio(size) - other.miss_ratio(size)).abs());
        apart.sum::<f64>() / sizes.len() as f64
    }
}

/// How the points of a curve are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At equal differences.
    Even,
    /// At equal ratios.
    Log,
}

impl Spacing {
    /// Up to `points` sizes from 1 to `largest`, which is among them, rising, each once.
    pub fn sizes(self, points: u32, largest: u32) -> Vec<u32> {
        let (points, most) = (f64::from(points), f64::from(largest));
        let mut sizes: Vec<u32> = (1..=points as u32)
            .map(|point| match self {
                Self::Even => most * f64::from(point) / points,
                Self::Log => most.powf(f64::from(point) / points),
            })
            .map(|size| (size.round() as u32).clamp(1, largest.max(1)))
            .collect();
        sizes.dedup();
        sizes
    }
}
