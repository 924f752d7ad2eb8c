//! How answers and work look on a terminal.

pub(crate) mod analysis;
pub(crate) mod comparison;
pub(crate) mod curves;
pub(crate) mod explanation;
pub(crate) mod forms;
pub(crate) mod grid;
pub(crate) mod interrupt;
pub(crate) mod levels;
pub(crate) mod progress;

use crate::failure::Failure;
use forebay_sim::words::folded;
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal, Write};

/// Whether the user wants text without attributes: `NO_COLOR`, or a terminal that has none.
pub(crate) fn is_plain() -> bool {
    let set = |name| std::env::var_os(name).unwrap_or_default();
    !set("NO_COLOR").is_empty() || set("TERM") == "dumb"
}

/// The width of the terminal that standard output goes to, if it is one and knows its width: one that does not says 0.
pub(crate) fn width() -> Option<usize> {
    let size = io::stdout().is_terminal().then(|| tcgetwinsize(io::stdout()).ok());
    size.flatten().map(|size| size.ws_col.into()).filter(|&width| width > 0)
}

/// A text in lines as wide as the terminal, if it goes to one.
pub(crate) fn to_width(text: &str) -> String {
    let width = width().unwrap_or(usize::MAX);
    let lines: Vec<String> = text.split('\n').map(|line| folded(line, width)).collect();
    lines.join("\n")
}

/// Prints a sentence or title so.
pub(crate) fn say(out: &mut impl Write, text: impl AsRef<str>) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", to_width(text.as_ref()))?)
}

/// A name's end where all of it would fill more than half of the terminal: paths begin alike.
pub(crate) fn short(name: &str) -> String {
    end_of(name, width().map_or(usize::MAX, |width| (width / 2).saturating_sub(grid::PADDING)))
}

/// What fits of a name that begins at this column of the terminal: its end.
pub(crate) fn end(name: &str, column: usize) -> String {
    end_of(name, width().map_or(usize::MAX, |width| width.saturating_sub(column).max(SHORTEST)))
}

/// So much of a name is shown on any terminal.
const SHORTEST: usize = 12;

fn end_of(name: &str, room: usize) -> String {
    let length = name.chars().count();
    let skipped = (length + 1).saturating_sub(room);
    if length <= room { name.to_owned() } else { std::iter::once('…').chain(name.chars().skip(skipped)).collect() }
}

/// A name, and beside it what is said of it: in lines as wide as the terminal, from the same column on.
pub(crate) fn beside(name: &str, column: usize, text: &str) -> String {
    let width = width().map_or(usize::MAX, |width| width.saturating_sub(column));
    let lines = folded(text, width);
    format!("{name:<column$}{}", lines.replace('\n', &format!("\n{:column$}", "")))
}
