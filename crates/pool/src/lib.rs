//! A buffer pool: frames of memory in front of a [`device`](device::Device), under any of Forebay's replacement policies.

mod background;
mod bytes;
mod config;
pub mod device;
mod discard;
mod error;
mod frames;
mod handle;
mod judge;
mod load;
#[cfg(all(test, feature = "model-check"))]
mod model_check;
mod page;
mod pool;
mod replacement;
mod replacer;
mod slots;
mod stats;
mod streams;
mod sync;
mod table;
mod volume;
mod waiters;
mod writeback;

pub use bytes::Durability;
pub use config::{Config, LEAST_PAGE_SIZE, MOST_PAGE_SIZE, VolumeConfig, WriteMode};
pub use error::Error;
pub use handle::{Handle, Hint, ReadPin, WritePin};
pub use pool::Pool;
pub use slots::MOST_HANDLES;
pub use stats::{Distribution, Statistics, VolumeStatistics};
pub use volume::Volume;
