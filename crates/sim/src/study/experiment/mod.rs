//! Experiments: figures of commands in tables, printed ones beside them.

mod plan;
mod table;

pub use plan::{Plan, PlanError, Printed, Wanted, find, typed};
pub use table::{HEADER, Mismatch, Table};

use serde_json::{Value, json};
use std::path::Path;

impl Plan {
    /// All figures of the tables that are made, by the experiment of that file.
    pub fn json(&self, file: &Path, tables: &[Table]) -> Value {
        json!({
            "file": file.display().to_string(),
            "title": self.title,
            "source": self.source,
            "finding": self.finding,
            "tables": tables.iter().map(Table::json).collect::<Vec<_>>(),
        })
    }
}
