//! The tests of the pager once more, with faults that are handled on the thread that has them, and those of what is particular to that.

#[path = "all/common.rs"]
mod common;
#[path = "all/crashes.rs"]
mod crashes;
#[path = "all/failures.rs"]
mod failures;
#[path = "all/freezing.rs"]
mod freezing;
#[path = "all/mappings.rs"]
mod mappings;
#[path = "all/program.rs"]
mod program;
#[path = "all/regions.rs"]
mod regions;
#[path = "all/signals.rs"]
mod signals;
#[path = "all/stalls.rs"]
mod stalls;
#[path = "all/storms.rs"]
mod storms;
#[path = "all/uses.rs"]
mod uses;
