//! Replay of reference traces through replacement policies.
//!
//! A [`Trace`] is read once: its pages are numbered densely, in the order of their first use, and all policies and sizes
//! share that numbering. A [`Sweep`] replays policies × sizes on all cores; each run is statically dispatched, so the inner
//! loop hashes nothing, allocates nothing and calls nothing through a pointer.

mod ahead;
pub mod analysis;
pub mod curve;
mod ingest;
pub mod levels;
pub mod numbering;
mod one_pass;
pub mod places;
pub mod readahead;
pub mod replay;
pub mod sample;
pub mod size;
pub mod stream;
pub mod study;
pub mod sweep;
pub mod trace;
pub mod watch;
mod watched;
pub mod words;

pub use analysis::Analysis;
pub use curve::Curve;
pub use levels::Hierarchy;
pub use numbering::Numbering;
pub use places::Places;
pub use readahead::{Readahead, ReadaheadCounts};
pub use replay::{Counts, Outcome};
pub use sample::{Sample, SampledReader};
pub use size::Size;
pub use stream::Streamed;
pub use sweep::Sweep;
pub use trace::{Extent, Keep, LoadTimes, Requests, Trace};
pub use watch::{ByDistance, OwnerCounts, State, Watch};
