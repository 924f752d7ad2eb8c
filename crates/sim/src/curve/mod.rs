//! Miss-ratio curves: what a policy misses, as a function of the cache's size.
//!
//! A stack algorithm keeps, at every size, a subset of what it keeps at the next larger one (R. L. Mattson et al., IBM Systems
//! Journal 9(2), 1970). So every reference has a *stack distance*, the smallest size that hits, and one pass that counts
//! these distances gives the hits at all sizes: [`Lru`], [`Opt`]. The other policies are replayed at the sizes asked.

mod fixed_size;
mod lru;
mod min_tree;
mod opt;
mod ranks;
mod sampled;

pub use fixed_size::FixedSize;
pub use lru::Lru;
pub use opt::Opt;
pub use sampled::{Sampling, lru_spread, miniature, shards};

/// A policy's stack, which tells the stack distance of each reference.
pub trait Stack {
    /// An empty stack for page numbers below `pages`.
    fn new(pages: u32) -> Self;

    /// A page is referenced: the smallest cache, in pages, that hits; 0 if none does, as for a first use.
    fn reference(&mut self, page: u32) -> u32;

    /// A page will be referenced soon: what that will read may be fetched.
    fn prefetch(&self, page: u32);

    /// Page numbers below `pages` may occur.
    fn reserve(&mut self, pages: u32);
}

/// How many references ahead a stack is told of: about as many as pass while memory answers.
const AHEAD: usize = 24;

/// How many references have each stack distance. At 0: those that no size hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distances(Vec<u64>);

impl Distances {
    /// Those of some references. `progress` is told of each further number of references done; `false` stops the count.
    pub fn count<S: Stack>(
        stack: &mut S,
        references: &[u32],
        pages: u32,
        progress: &dyn Fn(u64) -> bool,
    ) -> Option<Self> {
        let mut distances = Self::new(pages);
        distances.add(stack, references, progress).then_some(distances)
    }

    /// None, for distances up to `pages`.
    pub(crate) fn new(pages: u32) -> Self {
        Self(vec![0; pages as usize + 1])
    }

    /// Distances up to `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        self.0.resize(self.0.len().max(pages as usize + 1), 0);
    }

    /// Adds those of some references; whether that was not stopped.
    pub(crate) fn add<S: Stack>(&mut self, stack: &mut S, references: &[u32], progress: &dyn Fn(u64) -> bool) -> bool {
        let mut ahead = references.iter().skip(AHEAD);
        references.chunks(1 << 18).all(|chunk| {
            for &page in chunk {
                if let Some(&soon) = ahead.next() {
                    stack.prefetch(soon);
                }
                self.0[stack.reference(page) as usize] += 1;
            }
            progress(chunk.len() as u64)
        })
    }

    /// The hits of a cache of each of these sizes.
    pub fn hits(&self, sizes: &[u32]) -> Vec<u64> {
        let mut rising: Vec<usize> = (0..sizes.len()).collect();
        rising.sort_by_key(|&index| sizes[index]);
        let mut hits = vec![0; sizes.len()];
        let (mut sum, mut from) = (0, 1);
        for index in rising {
            let to = (sizes[index] as usize + 1).clamp(from, self.0.len().max(from));
            sum += self.0.get(from..to).into_iter().flatten().sum::<u64>();
            from = to;
            hits[index] = sum;
        }
        hits
    }
}

/// A miss-ratio curve: the hits of a cache as they rise with its size. Estimated hits need not be whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Hits and misses.
    references: f64,
    /// Sizes in pages, rising, from each of which on there are so many hits.
    steps: Vec<(u32, f64)>,
}

impl Curve {
    /// The exact curve of a stack algorithm over a whole trace.
    pub fn exact(distances: &Distances) -> Self {
        Self::scaled(distances, 1.0, distances.0.iter().map(|&count| count as f64).sum(), 0.0)
    }

    /// The curve whose distances are `scale` times those counted, with so many references and so many hits added at size 1.
    fn scaled(distances: &Distances, scale: f64, references: f64, added: f64) -> Self {
        let mut hits = added;
        let counts = distances.0.iter().enumerate().skip(1).filter(|&(_, &count)| count > 0);
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

    /// The hits of a cache of so many pages.
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
