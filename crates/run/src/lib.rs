//! Programs whose memory is under any replacement policy.
//!
//! ```text
//!   forebay run --memory 64MiB -- sort big
//!     |  program.rs: starts it with the library preloaded, passes signals on, waits for its end
//!     |  settings.rs: an environment variable says how it is paged
//!     v
//!   sort, and all that it starts          each pages its own large memory: crates/paged
//!     |  folder.rs: where they leave what is known of them
//!     |  figures.rs: in files that they have mapped, there however they end
//!     |  sequences.rs: how their reads follow each other
//!     |  references.rs: what their policies saw
//!     v
//!   one line of figures, a trace
//! ```

mod figures;
mod folder;
mod program;
mod references;
mod sequences;
mod settings;

pub use figures::{Figures, Page, Seen, Traffic, TrafficCounters};
pub use program::{Asked, Ended};
pub use references::Log;
pub use settings::{Settings, VARIABLE};
