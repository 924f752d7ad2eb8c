//! How answers and work look on a terminal.

pub(crate) mod analysis;
pub(crate) mod comparison;
pub(crate) mod curves;
pub(crate) mod forms;
pub(crate) mod grid;
pub(crate) mod interrupt;
pub(crate) mod levels;
pub(crate) mod progress;
