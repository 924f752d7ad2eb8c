//! Comma-separated columns that a first line names; quotes have no meaning.

use crate::error::Result;
use crate::input::{Head, Lines};

/// Where the columns are that a reader looks at.
pub(super) struct NamedColumns<const N: usize> {
    /// How many columns there are.
    count: usize,
    /// By column that is looked at, its place if the file has it.
    places: [Option<usize>; N],
}

impl<const N: usize> NamedColumns<N> {
    /// The columns of that header.
    pub(super) fn of(header: &str, names: [&str; N]) -> Self {
        let place = |name: &str| header.split(',').position(|column| column.trim_ascii() == name);
        Self { count: header.split(',').count(), places: names.map(place) }
    }

    /// Whether the file has the first `required` columns.
    pub(super) fn have(&self, required: usize) -> bool {
        self.places[..required].iter().all(Option::is_some)
    }

    /// The fields of the line read last; empty where the file has no such column.
    pub(super) fn fields<'a>(&self, lines: &'a Lines) -> Result<[&'a str; N]> {
        let (mut fields, mut found) = ([""; N], 0);
        for (index, field) in lines.line().split(',').enumerate() {
            found += 1;
            if let Some(place) = self.places.iter().position(|&place| place == Some(index)) {
                fields[place] = field.trim_ascii();
            }
        }
        let count = self.count;
        match found == count {
            true => Ok(fields),
            false => Err(lines.error(format!("expected {count} fields, as the first line names, found {found}"))),
        }
    }
}

/// The header of a text that is one.
pub(super) fn header<'a>(head: &Head<'a>) -> &'a str {
    let first = head.bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    std::str::from_utf8(first).unwrap_or_default()
}
