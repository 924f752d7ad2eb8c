//! Replay of reference traces through replacement policies.
//!
//! A [`Trace`] is read once: its pages are numbered densely, in the order of their first use, and all policies and sizes
//! share that numbering. A [`Sweep`] replays policies × sizes on all cores; each run is statically dispatched, so the inner
//! loop hashes nothing, allocates nothing and calls nothing through a pointer.

pub mod analysis;
pub mod curve;
mod device_time;
mod input;
pub mod levels;
pub mod readahead;
mod recency;
mod replay;
pub mod size;
pub mod study;
mod walk;
pub mod words;

pub use analysis::Analysis;
pub use curve::Curve;
pub use input::ingest::{Keep, LoadTimes};
pub use input::numbering::{Numbering, TooManyPages};
pub use input::opening::{Opening, SAMPLE};
pub use input::places::Places;
pub use input::requests::Requests;
pub use input::sample::{Sample, SampledReader, Slices};
pub use input::trace::{Dimensions, Trace};
pub use levels::Hierarchy;
pub use readahead::{Readahead, ReadaheadCounts};
pub use replay::ends::Ends;
pub use replay::misses::behind;
pub use replay::outcome::{ByDistance, Counts, PartCounts, RunOutcome, State};
pub use replay::stream::Streamed;
pub use replay::sweep::Sweep;
pub use replay::watch::{By, Watch};
pub use size::Size;
