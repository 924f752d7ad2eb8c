//! What `forebay run` and the library in its programs share: settings.rs, how memory is paged; figures.rs, what became of it;
//! log.rs, what a policy saw.
//!
//! A crate of its own, so that the preloaded library does not link what only the command needs: readers of traces, Parquet among them.

mod figures;
pub mod log;
mod settings;

pub use figures::{Figures, Page};
pub use settings::{MESSAGES, Settings, VARIABLE};
