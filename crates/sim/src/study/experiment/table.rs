//! A table of figures, printed ones beside ours.

use super::plan::{Plan, Printed, SEED, Wanted, for_every_seed, typed, with_seed};
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;

/// The columns of the CSV of experiments.
pub const HEADER: [&str; 8] = ["experiment", "table", "row", "column", "theirs", "ours", "least", "most"];

/// A table: rows by columns.
#[derive(Debug)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The command that gives its figures; of several seeds that with the first.
    pub command: String,
    seeds: Vec<u64>,
    decimals: usize,
    columns: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    /// By column; the figures with each seed.
    ours: Vec<Vec<f64>>,
    theirs: Vec<Option<f64>>,
}

impl Table {
    /// One of the tables of a plan, without figures.
    pub fn new(plan: &Plan, table: &Wanted) -> Self {
        let title = table.title.clone().unwrap_or_else(|| for_every_seed(&table.trace));
        let command = typed(&table.words(plan.seeds()[0], Path::new(""), |trace| trace.into()));
        let (seeds, decimals) = (plan.seeds.clone(), table.decimals);
        Self { title, command, seeds, decimals, columns: Vec::new(), rows: Vec::new() }
    }

    /// Which of the seeds the command has, where there are several.
    pub fn note(&self) -> Option<String> {
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let (last, others) = seeds.split_last().filter(|(_, others)| !others.is_empty())?;
        let (count, others) = (seeds.len(), others.join(", "));
        Some(format!(
            "The command is the first of {count}, with the seeds {others} and {last}; figures are means, ± half the range"
        ))
    }

    /// Adds the figures of an answer, which is that with this seed.
    ///
    /// # Errors
    /// What the answer lacks, or which printed figures are for nothing in it.
    pub fn add(&mut self, table: &Wanted, seed: Option<u64>, answer: &Value) -> Result<(), Mismatch> {
        // Commands that take several traces answer with a list; an experiment names one.
        let answer = answer.as_array().and_then(|answers| answers.first()).unwrap_or(answer);
        let list = at(answer, &table.list).and_then(Value::as_array);
        let list = list.ok_or_else(|| Mismatch::NoList(table.list.clone(), keys(answer)))?;
        let missing = |what, element: &Value| Mismatch::Missing(what, table.list.clone(), keys(element));
        for element in list {
            let name = |paths: &[&str]| {
                let found = paths.iter().find_map(|path| at(element, path)).map(plain);
                found.ok_or_else(|| missing(paths.join("` or `"), element))
            };
            let row = without_seed(table, name(&[&table.rows])?, seed);
            for (column, value) in table.values() {
                let column = column.map_or_else(|| name(&table.columns()), |column| Ok(column.to_owned()))?;
                let figure = at(element, value).ok_or_else(|| missing(value.to_owned(), element))?;
                if let Some(figure) = figure.as_f64() {
                    self.cell(table, &row, &column).push(figure * table.scale);
                }
            }
        }
        for row in table.theirs.keys() {
            if self.rows.iter().all(|known| known.name != *row) {
                let known: Vec<_> = self.rows.iter().map(|row| row.name.as_str()).collect();
                return Err(Mismatch::NoRow(row.clone(), known.join(", ")));
            }
        }
        match self.rows.iter().find(|row| row.theirs.len() > self.columns.len()) {
            Some(row) => Err(Mismatch::TooMany(row.name.clone(), row.theirs.len(), self.columns.len())),
            None => Ok(()),
        }
    }

    /// Our figures of a row and column, which are made where they are new.
    fn cell(&mut self, table: &Wanted, row: &str, column: &str) -> &mut Vec<f64> {
        let column = self.columns.iter().position(|known| known == column).unwrap_or_else(|| {
            self.columns.push(column.to_owned());
            self.columns.len() - 1
        });
        let row = self.rows.iter().position(|known| known.name == row).unwrap_or_else(|| {
            let printed = table.theirs.get(row).map_or(&[][..], Vec::as_slice);
            let theirs = printed.iter().map(Printed::figure).collect();
            self.rows.push(Row { name: row.to_owned(), ours: Vec::new(), theirs });
            self.rows.len() - 1
        });
        let ours = &mut self.rows[row].ours;
        if ours.len() <= column {
            ours.resize(column + 1, Vec::new());
        }
        &mut ours[column]
    }

    /// The texts of a row's cells: ours, behind theirs where there are some.
    fn cells(&self, row: &Row) -> Vec<String> {
        let decimals = self.decimals;
        let any = self.rows.iter().any(|row| !row.theirs.is_empty());
        let cell = |column: usize| {
            let ours = row.ours.get(column).and_then(|figures| spread(figures)).map_or_else(
                || "–".to_owned(),
                |(least, mean, most)| match most - least {
                    0.0 => format!("{mean:.decimals$}"),
                    range => format!("{mean:.decimals$} ±{:.decimals$}", range / 2.0),
                },
            );
            match row.theirs.get(column).copied().flatten() {
                Some(theirs) => format!("{theirs:.decimals$} / {ours}"),
                None if any => format!("– / {ours}"),
                None => ours,
            }
        };
        (0..self.columns.len()).map(cell).collect()
    }

    /// How far ours are from theirs, in a sentence.
    pub fn difference(&self) -> Option<String> {
        let mut differences = Vec::new();
        for row in &self.rows {
            for ((theirs, ours), column) in row.theirs.iter().zip(&row.ours).zip(&self.columns) {
                if let (Some(theirs), Some((_, mean, _))) = (theirs, spread(ours)) {
                    differences.push((mean - theirs, &row.name, column));
                }
            }
        }
        let (largest, row, column) = differences.iter().max_by(|one, other| one.0.abs().total_cmp(&other.0.abs()))?;
        let mean = differences.iter().map(|(difference, ..)| difference.abs()).sum::<f64>() / differences.len() as f64;
        let (decimals, most) = (self.decimals.max(1), largest.abs());
        let side = if *largest < 0.0 { "lower" } else { "higher" };
        Some(format!(
            "theirs / ours: {mean:.decimals$} apart on average, at most {most:.decimals$} (ours {side}: {row} at {column})"
        ))
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows for a person: a name, and a text for each column.
    pub fn rows(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        self.rows.iter().map(|row| (row.name.as_str(), self.cells(row)))
    }

    /// The rows of the CSV, for the experiment of that title.
    pub fn csv(&self, experiment: &str) -> Vec<Vec<String>> {
        let text = |figure: Option<f64>| figure.map_or_else(String::new, |figure| figure.to_string());
        let cell = |row: &Row, (column, name): (usize, &String)| {
            let theirs = row.theirs.get(column).copied().flatten();
            let ours = row.ours.get(column).and_then(|figures| spread(figures));
            let names = [experiment, &self.title, &row.name, name].map(str::to_owned);
            let figures = [theirs, ours.map(|ours| ours.1), ours.map(|ours| ours.0), ours.map(|ours| ours.2)];
            names.into_iter().chain(figures.map(text)).collect()
        };
        self.rows.iter().flat_map(|row| self.columns.iter().enumerate().map(move |of| cell(row, of))).collect()
    }

    /// The table for a page.
    pub fn markdown(&self) -> String {
        let Self { title, command, columns, .. } = self;
        let mut page = format!("\n### {title}\n\n    forebay {command}\n\n");
        page += &self.note().map_or_else(String::new, |note| format!("{note}.\n\n"));
        page += &format!("| | {} |\n", columns.join(" | "));
        page += &format!("| --- |{}\n", " ---: |".repeat(columns.len()));
        for (name, cells) in self.rows() {
            page += &format!("| {name} | {} |\n", cells.join(" | "));
        }
        page + &self.difference().map_or_else(String::new, |difference| format!("\n{difference}.\n"))
    }

    /// All figures.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let theirs = (0..self.columns.len()).map(|column| row.theirs.get(column).copied().flatten());
            json!({ "row": row.name, "theirs": theirs.collect::<Vec<_>>(), "ours": row.ours })
        });
        let rows: Vec<_> = rows.collect();
        let command = format!("forebay {}", self.command);
        json!({ "title": self.title, "command": command, "seeds": self.seeds, "columns": self.columns, "rows": rows })
    }
}

/// Why an answer does not fit into a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The answer has no such list; it has these keys.
    NoList(String, String),
    /// There is no such thing in an element of this list; it has these keys.
    Missing(String, String, String),
    /// Figures are printed for this row, and there are but these.
    NoRow(String, String),
    /// For this row this many figures are printed, and this many columns there are.
    TooMany(String, usize, usize),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoList(list, keys) => write!(f, "the answer has no list `{list}`; there are {keys}"),
            Self::Missing(what, list, keys) => write!(f, "no `{what}` in `{list}`; there are {keys}"),
            Self::NoRow(row, rows) => write!(f, "theirs.{row}: there is no such row; there are {rows}"),
            Self::TooMany(row, figures, columns) => write!(f, "theirs.{row}: {figures} figures for {columns} columns"),
        }
    }
}

impl std::error::Error for Mismatch {}

impl Printed {
    fn figure(&self) -> Option<f64> {
        match self {
            Self::Figure(figure) => Some(*figure),
            Self::Whole(figure) => Some(*figure as f64),
            Self::None(_) => None,
        }
    }
}

/// Least, mean and most; `None` of nothing.
fn spread(figures: &[f64]) -> Option<(f64, f64, f64)> {
    let [least, most] = [f64::min, f64::max].map(|of| figures.iter().copied().reduce(of));
    Some((least?, figures.iter().sum::<f64>() / figures.len() as f64, most?))
}

/// What stands at a path of keys.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| match value {
        Value::Array(values) => values.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

/// The keys that an answer has.
fn keys(value: &Value) -> String {
    value.as_object().map_or_else(|| "none".to_owned(), |object| object.keys().cloned().collect::<Vec<_>>().join(", "))
}

/// A row's or column's name.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The name that a row has with every seed: policies whose parameter the seed is are one row.
fn without_seed(table: &Wanted, name: String, seed: Option<u64>) -> String {
    let asked = table.arguments(None, Path::new(""));
    let words = || asked.iter().flat_map(|word| word.split(','));
    let Some(template) = words().find(|word| word.contains(SEED) && with_seed(word, seed) == name) else { return name };
    let plain = for_every_seed(template);
    // The same policy may be asked without a seed, too.
    if words().any(|word| word == plain) { template.replace(SEED, "*") } else { plain }
}
