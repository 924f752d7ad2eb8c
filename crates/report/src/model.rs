//! What a report holds. `assets/report.js` reads the same names.

use crate::numbers::{compact, compact_all, compact_options};
use serde::Serialize;

/// A report: one section for each trace, as a rule.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// What it is about, in a few words.
    pub title: String,
    /// How it was made.
    pub made: Made,
    /// The policies that keyed charts draw, and what they are held against: each has one colour in all of them, and is shown or hidden in all at once.
    pub keys: Vec<Key>,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// How a report was made.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Made {
    /// The command line.
    pub command: String,
    /// When.
    pub date: String,
}

/// A policy, in all charts that are keyed, or what policies are held against there.
#[derive(Clone, Debug, Serialize)]
pub struct Key {
    /// Its name: that of its series.
    pub name: String,
    /// Whether it is no policy that can be run: a bound, as OPT is, or the trace before any cache; it is drawn without a colour of its own.
    pub bound: bool,
    /// Whether it is shown at first.
    pub shown: bool,
}

/// A part of a report.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// What it is about: the trace's name.
    pub title: String,
    /// How much there is of it.
    pub subtitle: String,
    /// What to do, in a paragraph; may be empty.
    pub advice: String,
    /// What is to be looked at.
    pub charts: Vec<Chart>,
    /// The figures behind it.
    pub tables: Vec<Table>,
}

/// Something to look at.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Its name in addresses, unique in its section.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How it is to be read, in a sentence.
    pub explanation: String,
    /// How it is drawn.
    pub kind: Kind,
    /// What lies along it.
    pub x: Axis,
    /// What goes up.
    pub y: Axis,
    /// Whether its series, or the bars of [`Kind::Ranking`], are the report's [keys](Document::keys).
    pub keyed: bool,
    /// One, or several of which the reader chooses one.
    pub views: Vec<View>,
    /// The one that is shown at first.
    pub first: usize,
    /// The point that is recommended.
    pub mark: Option<Mark>,
}

/// A point of a line.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// The line's name.
    pub series: String,
    /// Where on it.
    #[serde(serialize_with = "compact")]
    pub x: f64,
}

impl Chart {
    /// A chart of that name in addresses, title and explanation, without keys and views.
    pub fn new((id, title, explanation): (&str, &str, &str), kind: Kind, (x, y): (Axis, Axis)) -> Self {
        let (id, title, explanation) = (id.to_owned(), title.to_owned(), explanation.to_owned());
        Self { id, title, explanation, kind, x, y, keyed: false, views: Vec::new(), first: 0, mark: None }
    }

    /// With these views.
    #[must_use]
    pub fn with(self, views: impl IntoIterator<Item = View>) -> Self {
        Self { views: views.into_iter().collect(), ..self }
    }

    /// With these views, whose series are the report's keys.
    #[must_use]
    pub fn keyed(self, views: impl IntoIterator<Item = View>) -> Self {
        Self { keyed: true, ..self.with(views) }
    }

    /// Shown first at the first view that is such, or the first of all.
    #[must_use]
    pub fn opened_at(self, wanted: impl Fn(&View) -> bool) -> Self {
        Self { first: self.views.iter().position(wanted).unwrap_or(0), ..self }
    }
}

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A line through points: curves by size, states over time.
    Lines,
    /// Steps, each value holding until the next point: cumulative distributions.
    Steps,
    /// Bars that stand side by side on labels: histograms.
    Bars,
    /// Bars that lie, one for each label, the series stacked along it: a ranking.
    Ranking,
    /// Cells of time × position, coloured by series, the deeper the more: the space–time graph.
    Grid,
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it measures.
    pub title: String,
    /// In what.
    pub unit: Unit,
    /// Whether it is logarithmic at first.
    pub log: bool,
    /// Where it has ticks; round numbers if this is empty.
    #[serde(serialize_with = "compact_all")]
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis that is linear at first.
    pub fn linear(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, log: false, ticks: Vec::new() }
    }

    /// An axis that is logarithmic at first.
    pub fn log(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, log: true, ticks: Vec::new() }
    }

    /// With ticks at these places.
    #[must_use]
    pub fn with_ticks(self, ticks: Vec<f64>) -> Self {
        Self { ticks, ..self }
    }
}

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Words.
    Text,
    /// Things that are counted, and plain numbers.
    Number,
    /// A ratio, shown in percent: 1 is 100 %.
    Ratio,
    /// Time.
    Seconds,
    /// Time.
    Milliseconds,
    /// Memory.
    Bytes,
    /// Pages of this many bytes, shown with the memory they make.
    Pages(u64),
}

/// The data of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// Views of one group stand together where the reader chooses; may be empty.
    pub group: String,
    /// What the reader chooses it by; may be empty where there is no choice.
    pub label: String,
    /// Where its points are.
    pub x: X,
    /// What is there.
    pub series: Vec<Series>,
    /// The cells of [`Kind::Grid`], and of no other.
    pub grid: Option<Grid>,
}

/// Where points are.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum X {
    /// On a scale, rising.
    Numbers(#[serde(serialize_with = "compact_all")] Vec<f64>),
    /// On labels: what bars stand for.
    Labels(Vec<String>),
}

/// One line, or one colour of bars or cells.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its value at each point, in the order of [`View::x`]; of a grid its count in each cell, row by row from the least y.
    #[serde(serialize_with = "compact_options")]
    pub y: Vec<Option<f64>>,
    /// Whether it is shown at first, where the chart is not keyed.
    pub shown: bool,
}

impl Series {
    /// A series that is shown.
    pub fn new(name: impl Into<String>, y: impl IntoIterator<Item = f64>) -> Self {
        Self { name: name.into(), y: y.into_iter().map(Some).collect(), shown: true }
    }
}

/// The cells of a space–time graph.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Grid {
    /// Cells along x.
    pub columns: usize,
    /// Cells along y.
    pub rows: usize,
    /// From where to where they go along x.
    pub x: (f64, f64),
    /// From where to where they go along y.
    pub y: (f64, f64),
}

impl View {
    /// The only view of a chart.
    pub fn only(x: X, series: Vec<Series>) -> Self {
        Self { group: String::new(), label: String::new(), x, series, grid: None }
    }
}

/// Figures in rows and columns, folded at first.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it holds.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A table's column.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// What it holds.
    pub title: String,
    /// In what.
    pub unit: Unit,
}

/// A table's cell.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A word.
    Text(String),
    /// A figure.
    Number(#[serde(serialize_with = "compact")] f64),
    /// Nothing is known.
    Empty,
}
