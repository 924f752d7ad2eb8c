//! A figure, declared once: name, title, unit, meaning, and where its number is. Tables, CSV, JSON and reports are made from the
//! declaration.

use crate::words::{grouped, percent, significant};
use serde_json::{Value, json};

/// What a figure is measured in, which says how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things that are counted: whole numbers.
    Count,
    /// A number that need not be whole.
    Number,
    /// A ratio; a person reads it in percent.
    Ratio,
    /// Time.
    Seconds,
    /// Time.
    Milliseconds,
    /// A sum of many times, in milliseconds; a chart shows it in seconds.
    TotalMilliseconds,
    /// Memory, or what is transferred: whole numbers.
    Bytes,
    /// Money.
    Money,
}

impl Unit {
    /// The unit of the number in CSV and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Number => "number",
            Self::Ratio => "0 to 1",
            Self::Seconds => "s",
            Self::Milliseconds | Self::TotalMilliseconds => "ms",
            Self::Bytes => "bytes",
            Self::Money => "as the device's price",
        }
    }
}

/// A column of CSV.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its numbers, or what else is in it.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

impl Column {
    /// A column that is no figure.
    pub(super) fn new(&(name, unit, meaning): &(&str, &'static str, &'static str)) -> Self {
        Self { name: name.to_owned(), unit, meaning }
    }
}

/// A figure of a `T`.
#[derive(Debug)]
pub struct Figure<T> {
    /// Its name in CSV and JSON.
    pub name: &'static str,
    /// Its name for a person.
    pub title: &'static str,
    /// Its name above a narrow column, with its unit.
    pub heading: &'static str,
    /// What it is measured in.
    pub unit: Unit,
    /// The digits behind the point in CSV, unless it is whole.
    pub decimals: usize,
    /// What it says, in a sentence.
    pub meaning: &'static str,
    /// Its number; none where it is not known, or was not asked for.
    pub of: fn(&T) -> Option<f64>,
}

/// The figures of a `T`, in their order.
pub type Figures<T> = [Figure<T>];

impl<T> Figure<T> {
    fn is_whole(&self) -> bool {
        matches!(self.unit, Unit::Count | Unit::Bytes)
    }

    /// Its column.
    pub(super) fn column(&self) -> Column {
        Column { name: self.name.to_owned(), unit: self.unit.word(), meaning: self.meaning }
    }

    /// As a script reads it.
    pub fn csv(&self, of: &T) -> String {
        match (self.of)(of) {
            None => String::new(),
            Some(number) if self.is_whole() => (number as u64).to_string(),
            Some(number) => format!("{number:.*}", self.decimals),
        }
    }

    /// As a program reads it.
    pub fn json(&self, of: &T) -> Value {
        match (self.of)(of) {
            Some(number) if self.is_whole() => json!(number as u64),
            number => json!(number),
        }
    }

    /// As a person reads it, in the column under the heading.
    pub fn shown(&self, of: &T) -> String {
        let Some(number) = (self.of)(of) else { return String::new() };
        match self.unit {
            Unit::Count | Unit::Bytes | Unit::TotalMilliseconds => grouped(number.round() as u64),
            Unit::Ratio => percent(number),
            Unit::Number | Unit::Seconds | Unit::Milliseconds => significant(number),
            Unit::Money => format!("{number:.4}"),
        }
    }
}

/// The names of figures.
pub fn names<T>(figures: &'static Figures<T>) -> impl Iterator<Item = &'static str> {
    figures.iter().map(|figure| figure.name)
}

/// The figure of that name.
///
/// # Panics
/// If there is none.
pub fn named<T>(figures: &'static Figures<T>, name: &str) -> &'static Figure<T> {
    figures.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("there is no figure {name}"))
}

/// Cells for a script; empty where there is nothing to have figures of.
pub(super) fn csv<T>(figures: &'static Figures<T>, of: Option<&T>) -> impl Iterator<Item = String> {
    figures.iter().map(move |figure| of.map_or_else(String::new, |of| figure.csv(of)))
}

/// An object with each figure under its name; null where there is nothing to have figures of.
pub(super) fn json<T>(figures: &'static Figures<T>, of: Option<&T>) -> Value {
    of.map_or(Value::Null, |of| with(json!({}), figures, of))
}

/// Adds the figures to an object.
pub(super) fn with<T>(mut object: Value, figures: &'static Figures<T>, of: &T) -> Value {
    for figure in figures {
        object[figure.name] = figure.json(of);
    }
    object
}
