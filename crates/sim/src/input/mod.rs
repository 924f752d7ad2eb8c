//! From a trace's file to numbered references in memory.

mod ahead;
pub(crate) mod ingest;
pub(crate) mod numbering;
pub(crate) mod opening;
pub(crate) mod places;
pub(crate) mod requests;
pub(crate) mod sample;
pub(crate) mod trace;
