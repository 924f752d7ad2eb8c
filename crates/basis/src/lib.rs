//! What policies, traces and models of devices share: how a page is used and where it is, bytes and names as users write them, counts by number,
//! and when an epoch of memory is over.
//!
//! It is below all of them, and depends on none of ours.

mod bytes;
mod cost;
mod epoch;
mod histogram;
mod operation;
mod place;
pub mod spelling;

pub use bytes::{parse_bytes, show_bytes};
pub use cost::DeviceCost;
pub use epoch::has_come_enough;
pub use histogram::Histogram;
pub use operation::Operation;
pub use place::Place;
