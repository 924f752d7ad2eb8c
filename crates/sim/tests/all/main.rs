//! The crate as its users see it, one module for each of its sides.

mod advice;
mod curve;
mod dulo;
mod explain;
mod golden;
mod kernel;
mod levels;
mod readahead;
#[path = "../../../trace/tests/all/real_trace/mod.rs"]
mod real_trace;
mod replay;
mod schemas;
mod ubm;

/// The page size that the figures of a trace were taken at, where that is not its own.
fn page_size_of(file: &str) -> Option<u64> {
    file.ends_with(".vscsi.zst").then_some(8192)
}
