//! Experiments: figures of commands in tables, printed ones beside them.

mod plan;
mod table;

pub use plan::{Plan, PlanError, Printed, Wanted, find};
pub use table::{HEADER, Mismatch, Table};
