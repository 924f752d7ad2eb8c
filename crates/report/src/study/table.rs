//! A table made column by column.

use super::{number, unit};
use crate::model::{Cell, Column, Table, Unit};
use forebay_sim::study::Figure;
use std::borrow::Borrow;

/// A row for each of some things.
pub(super) struct Columns<'a, R> {
    of: &'a [R],
    table: Table,
}

impl<'a, R> Columns<'a, R> {
    pub(super) fn new(title: &str, of: &'a [R]) -> Self {
        let rows = of.iter().map(|_| Vec::new()).collect();
        Self { of, table: Table { title: title.to_owned(), columns: Vec::new(), rows } }
    }

    fn push(mut self, title: &str, unit: Unit, cells: impl Iterator<Item = Cell>) -> Self {
        self.table.columns.push(Column { title: title.to_owned(), unit });
        self.table.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
        self
    }

    /// A column of words.
    pub(super) fn text(self, title: &str, text: impl Fn(&'a R) -> &'a str) -> Self {
        let cells = self.of.iter().map(|of| Cell::Text(text(of).to_owned()));
        self.push(title, Unit::Text, cells)
    }

    /// A column of numbers, some of which may not be known.
    pub(super) fn number(self, title: &str, unit: Unit, number: impl Fn(&'a R) -> Option<f64>) -> Self {
        let cells = self.of.iter().map(|of| number(of).map_or(Cell::Empty, Cell::Number));
        self.push(title, unit, cells)
    }

    /// A column of a declared figure; none if it is known of no row.
    pub(super) fn figure<T, B: Borrow<T>>(self, figure: &Figure<T>, part: impl Fn(&'a R) -> Option<B>) -> Self {
        self.titled_figure(figure.title, figure, part)
    }

    fn titled_figure<T, B: Borrow<T>>(
        self,
        title: &str,
        figure: &Figure<T>,
        part: impl Fn(&'a R) -> Option<B>,
    ) -> Self {
        let value = |of: &'a R| part(of).and_then(|part| number(figure, part.borrow()));
        if self.of.iter().all(|of| value(of).is_none()) {
            return self;
        }
        self.number(title, unit(figure), value)
    }

    /// Columns of declared figures.
    pub(super) fn figures<T: 'static, B: Borrow<T>>(
        self,
        figures: impl IntoIterator<Item = &'static Figure<T>>,
        part: impl Fn(&'a R) -> Option<B>,
    ) -> Self {
        figures.into_iter().fold(self, |columns, figure| columns.figure(figure, &part))
    }

    /// The same; their titles say what they are of.
    pub(super) fn figures_of<T: 'static, B: Borrow<T>>(
        self,
        what: &str,
        figures: &'static [Figure<T>],
        part: impl Fn(&'a R) -> Option<B>,
    ) -> Self {
        let titled = |columns: Self, figure: &'static Figure<T>| {
            columns.titled_figure(&format!("{what}{}", figure.title), figure, &part)
        };
        figures.iter().fold(self, titled)
    }

    pub(super) fn table(self) -> Table {
        self.table
    }
}
