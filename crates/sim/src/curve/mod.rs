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
mod ratios;
mod sampled;
mod stack;

pub use fixed_size::FixedSize;
pub use lru::Lru;
pub use opt::Opt;
pub use ratios::{Curve, Spacing};
pub use sampled::{Sampling, lru_spread, miniature, shards};
pub use stack::{Distances, Stack};
