//! The crate as its users see it, one module for each of its sides.

mod curve;
mod dulo;
mod golden;
mod levels;
mod readahead;
#[path = "../../../trace/tests/all/real_trace/mod.rs"]
mod real_trace;
mod replay;
mod ubm;
