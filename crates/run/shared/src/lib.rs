//! What `forebay run` and the library in its programs share: settings.rs, how memory is paged; figures.rs, what became of it, with
//! sequences.rs, how reads follow each other; log.rs, what a policy saw.
//!
//! A crate of its own, so that the preloaded library does not link what only the command needs: readers of traces, Parquet among them.

mod figures;
pub mod log;
mod sequences;
mod settings;

pub use figures::{Figures, Page, Seen, Traffic, TrafficCounters};
pub use settings::{MESSAGES, Settings, VARIABLE};
