//! Rows and columns of text.

use crate::failure::Failure;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table, Width, presets};
use std::io::{IsTerminal, Write};
use std::ops::Range;

/// The spaces around a cell.
pub(super) const PADDING: usize = 2;
/// A letter without width around what stands out. The layout does not see it, and what is printed has a terminal's codes in its place.
const MARK: &str = "\u{2060}";
const BOLD: [&str; 2] = ["\x1b[1m", "\x1b[0m"];
/// Names are not folded to fewer columns than this.
const NARROWEST: usize = 12;

/// A table whose cells are set to the right, but for those of the columns named.
pub(crate) struct Grid {
    table: Table,
    left: Vec<usize>,
    columns: usize,
    in_blocks: bool,
}

impl Grid {
    /// With a head of titles.
    pub(crate) fn new<T: Into<String>>(left: &[usize], titles: impl IntoIterator<Item = T>) -> Self {
        let titles: Vec<String> = titles.into_iter().map(T::into).collect();
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut grid = Self { table, left: left.to_vec(), columns: titles.len(), in_blocks: false };
        grid.row(titles);
        grid
    }

    /// With names on the left under a title, and figures under headings.
    pub(crate) fn of_figures<T: Into<String>>(title: &str, headings: impl IntoIterator<Item = T>) -> Self {
        Self::new(&[0], std::iter::once(title.to_owned()).chain(headings.into_iter().map(T::into))).in_blocks()
    }

    /// Columns that do not fit beside the others on a terminal come below them, after the first column again.
    pub(crate) fn in_blocks(mut self) -> Self {
        self.in_blocks = true;
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.row_with_marks(cells.into_iter().map(|text| (text, false)));
    }

    /// A row under [`of_figures`](Self::of_figures).
    pub(crate) fn figures(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        self.row(std::iter::once(name.to_owned()).chain(cells));
    }

    /// The same; those cells that are marked stand out.
    pub(crate) fn marked_figures(&mut self, name: &str, cells: impl IntoIterator<Item = (String, bool)>) {
        self.row_with_marks(std::iter::once((name.to_owned(), false)).chain(cells));
    }

    /// A line across.
    pub(crate) fn rule(&mut self) {
        self.table.add_row(vec![Cell::new("─".repeat(8)); self.columns]);
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        let widths: Vec<usize> =
            self.table.column_max_content_widths().into_iter().map(|width| usize::from(width) + PADDING).collect();
        let room = super::width().filter(|_| self.in_blocks).unwrap_or(usize::MAX);
        let half = names(&widths, room);
        for (index, block) in blocks(&widths, room).into_iter().enumerate() {
            let mut table = self.table.clone();
            if let (true, Some(names)) = (half < widths[0], table.column_mut(0)) {
                names.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(half as u16)));
            }
            for (_, column) in table.column_iter_mut().enumerate().skip(1).filter(|(index, _)| !block.contains(index)) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
            writeln!(out, "{}{}", if index > 0 { "\n" } else { "" }, standing_out(&table.trim_fmt()))?;
        }
        Ok(())
    }

    fn row_with_marks(&mut self, cells: impl Iterator<Item = (String, bool)>) {
        let plain = super::is_plain() || !std::io::stdout().is_terminal();
        let cell = |(column, (text, marked)): (usize, (String, bool))| {
            let side = if self.left.contains(&column) { CellAlignment::Left } else { CellAlignment::Right };
            // A trace's names are whatever they are.
            let text = text.replace(|letter: char| letter.is_control() && letter != '\n', "?");
            Cell::new(if marked && !plain { format!("{MARK}{text}{MARK}") } else { text }).set_alignment(side)
        };
        let cells: Vec<Cell> = cells.enumerate().map(cell).collect();
        self.table.add_row(cells);
    }
}

/// A text with what was marked in bold.
fn standing_out(text: &str) -> String {
    let mut parts = text.split(MARK);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.zip(BOLD.into_iter().cycle()).fold(first, |shown, (part, code)| shown + code + part)
}

/// The width of the first column, which each block begins with: names that would fill more than half of the room are folded.
fn names(widths: &[usize], room: usize) -> usize {
    widths[0].min((room / 2).max(NARROWEST))
}

/// The columns of each block, besides the first column.
fn blocks(widths: &[usize], room: usize) -> Vec<Range<usize>> {
    let first = names(widths, room);
    let (mut blocks, mut start, mut used) = (Vec::new(), 1, first);
    for (column, &width) in widths.iter().enumerate().skip(1) {
        if column > start && used + width > room {
            blocks.push(start..column);
            (start, used) = (column, first);
        }
        used += width;
    }
    blocks.push(start..widths.len());
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_and_to(widths: &[usize], room: usize) -> Vec<(usize, usize)> {
        blocks(widths, room).into_iter().map(|block| (block.start, block.end)).collect()
    }

    #[test]
    fn columns_that_do_not_fit_come_in_blocks() {
        assert_eq!(from_and_to(&[10, 10, 10], 30), [(1, 3)]);
        assert_eq!(from_and_to(&[10, 10, 10], 29), [(1, 2), (2, 3)]);
        assert_eq!(from_and_to(&[10, 5, 5, 5, 20], 20), [(1, 3), (3, 4), (4, 5)]);
        assert_eq!(from_and_to(&[10], 30), [(1, 1)]);
    }

    #[test]
    fn what_stands_out_is_as_wide_as_the_rest() {
        assert_eq!(standing_out("no mark"), "no mark");
        let mut table = Table::new();
        table.load_style(presets::NOTHING).add_row(vec![format!("{MARK}20.8{MARK}")]).add_row(vec!["120.8"]);
        assert_eq!(standing_out(&table.trim_fmt()).trim_start(), "\x1b[1m20.8\x1b[0m\n 120.8");
    }

    #[test]
    fn names_have_half_of_a_line_at_most() {
        assert_eq!((names(&[41, 20, 20, 20], 80), from_and_to(&[41, 20, 20, 20], 80)), (40, vec![(1, 3), (3, 4)]));
        assert_eq!(names(&[41, 20], 5), NARROWEST);
    }
}
