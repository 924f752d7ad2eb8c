//! The tests of the pager: one program, so that it is linked once.

mod common;
mod crashes;
mod failures;
mod program;
mod regions;
