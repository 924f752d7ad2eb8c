//! How answers and work look on a terminal.

pub(crate) mod analysis;
pub(crate) mod comparison;
pub(crate) mod curves;
pub(crate) mod forms;
pub(crate) mod grid;
pub(crate) mod interrupt;
pub(crate) mod levels;
pub(crate) mod progress;

/// A text in lines as wide as the terminal, if it goes to one.
pub(crate) fn to_width(text: &str) -> String {
    forebay_top::width().map_or_else(|| text.to_owned(), |width| forebay_sim::words::folded(text, width))
}
