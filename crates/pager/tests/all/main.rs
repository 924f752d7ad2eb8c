//! The tests of the pager: one program, so that it is linked once.

mod common;
mod crashes;
mod failures;
mod freezing;
mod mappings;
mod program;
mod regions;
mod stalls;
mod storms;
mod uses;
