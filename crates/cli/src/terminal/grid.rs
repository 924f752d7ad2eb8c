//! Rows and columns of text.

use crate::failure::Failure;
use comfy_table::{Attribute, Cell, CellAlignment, Table, presets};
use std::io::Write;

/// A table whose cells are set to the right, but for those of the columns named.
pub(crate) struct Grid {
    table: Table,
    left: Vec<usize>,
    columns: usize,
}

impl Grid {
    /// With a head of titles.
    pub(crate) fn new<T: Into<String>>(left: &[usize], titles: impl IntoIterator<Item = T>) -> Self {
        let titles: Vec<String> = titles.into_iter().map(T::into).collect();
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut grid = Self { table, left: left.to_vec(), columns: titles.len() };
        grid.row(titles);
        grid
    }

    /// With names on the left under a title, and figures under headings.
    pub(crate) fn of_figures<T: Into<String>>(title: &str, headings: impl IntoIterator<Item = T>) -> Self {
        Self::new(&[0], std::iter::once(title.to_owned()).chain(headings.into_iter().map(T::into)))
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
        Ok(writeln!(out, "{}", self.table.trim_fmt())?)
    }

    fn row_with_marks(&mut self, cells: impl Iterator<Item = (String, bool)>) {
        let cell = |(column, (text, marked)): (usize, (String, bool))| {
            let side = if self.left.contains(&column) { CellAlignment::Left } else { CellAlignment::Right };
            let cell = Cell::new(text).set_alignment(side);
            if marked { cell.add_attribute(Attribute::Bold) } else { cell }
        };
        let cells: Vec<Cell> = cells.enumerate().map(cell).collect();
        self.table.add_row(cells);
    }
}
