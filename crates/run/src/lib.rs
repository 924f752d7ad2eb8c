//! Programs whose memory is under any replacement policy.
//!
//! ```text
//!   forebay run --memory 64MiB -- sort big
//!     |  program.rs, preload.rs: starts it with the library preloaded, passes signals on, waits for its end
//!     |  shared/settings.rs: an environment variable says how it is paged
//!     v
//!   sort, and all that it starts          each pages its own large memory: paged/, a package of its own, as a package makes one library
//!     |  folder.rs: where they leave what is known of them
//!     |  shared/figures.rs: in files that they have mapped, there however they end
//!     |  shared/sequences.rs: how their reads follow each other
//!     |  shared/log.rs: what their policies saw
//!     v
//!   one line of figures, a trace                references.rs
//! ```

mod folder;
pub mod preload;
mod program;
mod references;

pub use forebay_run_shared::Figures;
pub use program::{Asked, Ended};
