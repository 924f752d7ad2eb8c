//! A table of figures, printed ones beside ours.

use super::plan::{Printed, SEED, Table, with_seed};
use crate::failure::Failure;
use comfy_table::{Cell, CellAlignment, presets};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

pub(super) const CSV_HEADER: &str = "experiment,table,row,column,theirs,ours,least,most";

/// A table: rows by columns.
pub(super) struct Grid {
    title: String,
    /// The command that gives its figures.
    command: String,
    decimals: usize,
    columns: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    /// By column; the figures with each seed.
    ours: Vec<Vec<f64>>,
    theirs: Vec<Option<f64>>,
}

impl Grid {
    pub(super) fn new(table: &Table, command: String) -> Self {
        let title = table.title.clone().unwrap_or_else(|| table.trace.clone());
        Self { title, command, decimals: table.decimals, columns: Vec::new(), rows: Vec::new() }
    }

    /// Adds the figures of an answer, which is that with this seed.
    pub(super) fn add(&mut self, table: &Table, seed: Option<u64>, answer: &Value) -> Result<(), String> {
        // Commands that take several traces answer with a list; an experiment names one.
        let answer = answer.as_array().and_then(|answers| answers.first()).unwrap_or(answer);
        let list = at(answer, &table.list).and_then(Value::as_array);
        let list =
            list.ok_or_else(|| format!("the answer has no list `{}`; there are {}", table.list, keys(answer)))?;
        for element in list {
            let name = |paths: &[&str]| {
                let found = paths.iter().find_map(|path| at(element, path)).map(plain);
                found.ok_or_else(|| {
                    format!("no `{}` in `{}`; there are {}", paths.join("` or `"), table.list, keys(element))
                })
            };
            let row = without_seed(table, name(&[&table.rows])?, seed);
            for (column, value) in table.values() {
                let column = column.map_or_else(|| name(&table.columns()), |column| Ok(column.to_owned()))?;
                let figure = at(element, value);
                let figure =
                    figure.ok_or_else(|| format!("no `{value}` in `{}`; there are {}", table.list, keys(element)))?;
                if let Some(figure) = figure.as_f64() {
                    self.cell(table, &row, &column).push(figure * table.scale);
                }
            }
        }
        for row in table.theirs.keys() {
            if self.rows.iter().all(|known| known.name != *row) {
                let known: Vec<_> = self.rows.iter().map(|row| row.name.as_str()).collect();
                return Err(format!("theirs.{row}: there is no such row; there are {}", known.join(", ")));
            }
        }
        match self.rows.iter().find(|row| row.theirs.len() > self.columns.len()) {
            Some(row) => {
                Err(format!("theirs.{}: {} figures for {} columns", row.name, row.theirs.len(), self.columns.len()))
            }
            None => Ok(()),
        }
    }

    /// Our figures of a row and column, which are made where they are new.
    fn cell(&mut self, table: &Table, row: &str, column: &str) -> &mut Vec<f64> {
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
    fn difference(&self) -> Option<String> {
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
        let decimals = self.decimals.max(1);
        Some(format!(
            "theirs / ours: {mean:.decimals$} apart on average, at most {largest:+.decimals$} ({row} at {column})"
        ))
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        let row = |name: &str, cells: Vec<String>| {
            std::iter::once(Cell::new(name)).chain(cells.into_iter().map(right)).collect::<Vec<_>>()
        };
        table.add_row(row("", self.columns.clone()));
        table.add_row(vec![Cell::new("─".repeat(8)); self.columns.len() + 1]);
        for of in &self.rows {
            table.add_row(row(&of.name, self.cells(of)));
        }
        writeln!(out, "\n{}\n{}", self.title, table.trim_fmt())?;
        if let Some(difference) = self.difference() {
            writeln!(out, "{difference}")?;
        }
        writeln!(out, "forebay {}", self.command)?;
        Ok(())
    }

    pub(super) fn print_markdown(&self, out: &mut impl Write) -> Result<(), Failure> {
        writeln!(out, "\n### {}\n\n    forebay {}\n", self.title, self.command)?;
        writeln!(out, "| | {} |", self.columns.join(" | "))?;
        writeln!(out, "| --- |{}", " ---: |".repeat(self.columns.len()))?;
        for row in &self.rows {
            writeln!(out, "| {} | {} |", row.name, self.cells(row).join(" | "))?;
        }
        if let Some(difference) = self.difference() {
            writeln!(out, "\n{difference}.")?;
        }
        Ok(())
    }

    pub(super) fn print_csv(&self, experiment: &str, out: &mut impl Write) -> Result<(), Failure> {
        let mut lines = csv::Writer::from_writer(out);
        for row in &self.rows {
            for (column, name) in self.columns.iter().enumerate() {
                let theirs =
                    row.theirs.get(column).copied().flatten().map_or_else(String::new, |figure| figure.to_string());
                let ours = row.ours.get(column).and_then(|figures| spread(figures));
                let figure =
                    |of: fn((f64, f64, f64)) -> f64| ours.map_or_else(String::new, |ours| of(ours).to_string());
                let [mean, least, most] = [figure(|ours| ours.1), figure(|ours| ours.0), figure(|ours| ours.2)];
                lines.write_record([experiment, &self.title, &row.name, name, &theirs, &mean, &least, &most])?;
            }
        }
        Ok(lines.flush()?)
    }

    pub(super) fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let theirs = (0..self.columns.len()).map(|column| row.theirs.get(column).copied().flatten());
            json!({ "row": row.name, "theirs": theirs.collect::<Vec<_>>(), "ours": row.ours })
        });
        let rows: Vec<_> = rows.collect();
        json!({ "title": self.title, "command": format!("forebay {}", self.command), "columns": self.columns, "rows": rows })
    }
}

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
fn without_seed(table: &Table, name: String, seed: Option<u64>) -> String {
    let asked = table.arguments(None, Path::new(""));
    let template =
        asked.iter().flat_map(|word| word.split(',')).find(|word| word.contains(SEED) && with_seed(word, seed) == name);
    template.map_or(name, str::to_owned)
}
