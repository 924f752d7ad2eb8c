//! Answers as Python gets them: a table by the declarations of the figures, the advice, all that is known as JSON, a report.

use crate::capsule;
use crate::storage::Failure;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema, SchemaRef};
use forebay_policy::Spec;
use forebay_report::file::{self, FileError};
use forebay_report::{Document, Key, Made, Section, study};
use forebay_sim::Dimensions;
use forebay_sim::study::{Analysis, Answer as Forms, Column, Comparison, Curves, Levels};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Columns in Rust, which pyarrow, Polars and pandas take without a copy.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish, which the interface lets be passed over.
        let _ = requested_schema;
        capsule::give(py, Arc::clone(&self.schema), self.batches.clone())
    }
}

/// Answers to one question, one for each trace.
pub(crate) enum Answers {
    Comparisons(Vec<Comparison>),
    Curves(Vec<Curves>),
    Levels(Vec<Levels>),
    Analyses(Vec<Analysis>, Vec<Spec>),
}

/// The same for Python.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Answer(pub(crate) Answers);

/// What is done with answers of each kind by the same words: their forms, and what a report shows of one.
macro_rules! each {
    ($answers:expr, $all:ident, $section:ident => $do:expr) => {
        match $answers {
            Answers::Comparisons($all) => {
                let $section = |one: &Comparison| (study::comparison::keys(one), study::comparison::section(one));
                $do
            }
            Answers::Curves($all) => {
                let $section = |one: &Curves| (study::curves::keys(one), study::curves::section(one));
                $do
            }
            Answers::Levels($all) => {
                let $section = |one: &Levels| (study::levels::keys(one), study::levels::section(one));
                $do
            }
            Answers::Analyses($all, specs) => {
                let $section =
                    |one: &Analysis| (study::analysis::keys(one, specs), study::analysis::section(one, specs));
                $do
            }
        }
    };
}

impl Answer {
    /// The keys of the first trace, and a section for each.
    fn sections(&self) -> (Vec<Key>, Vec<Section>) {
        let (mut keys, sections): (Vec<Vec<Key>>, Vec<Section>) =
            each!(&self.0, all, section => all.iter().map(section).unzip());
        let first = if keys.is_empty() { Vec::new() } else { keys.swap_remove(0) };
        (first, sections)
    }

    fn document(&self, command: String, date: String) -> Document {
        let (keys, sections) = self.sections();
        let titles: Vec<&str> = sections.iter().map(|section| section.title.as_str()).collect();
        Document { title: titles.join(", "), made: Made { command, date }, keys, sections }
    }
}

#[pymethods]
impl Answer {
    /// Name, unit and meaning of each column.
    fn columns(&self) -> Vec<(String, &'static str, &'static str)> {
        columns(&self.0).into_iter().map(|Column { name, unit, meaning }| (name, unit, meaning)).collect()
    }

    /// The rows of the command's CSV as columns of Arrow.
    fn table(&self) -> PyResult<Table> {
        let rows: Vec<Vec<String>> = each!(&self.0, all, _section => all.iter().flat_map(Forms::rows).collect());
        let columns = columns(&self.0);
        let arrays = columns.iter().enumerate().map(|(index, column)| array(column, &rows, index));
        let arrays = arrays.collect::<Result<Vec<_>, _>>().map_err(crate::Error::new_err)?;
        let field = |(column, array): (&Column, &ArrayRef)| {
            let metadata = [("unit", column.unit), ("meaning", column.meaning)];
            let metadata = metadata.map(|(key, word)| (key.to_owned(), word.to_owned()));
            Field::new(&column.name, array.data_type().clone(), true).with_metadata(HashMap::from(metadata))
        };
        let fields: Vec<Field> = columns.iter().zip(&arrays).map(field).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("each row has all columns");
        Ok(Table::new(schema, vec![batch]))
    }

    /// The advice on each trace, as the command words it; empty where there is none.
    fn advice(&self) -> Vec<(String, String)> {
        self.sections().1.into_iter().map(|section| (section.title, section.advice)).collect()
    }

    /// The names of the traces, with how much there is of each.
    fn traces(&self) -> Vec<(String, String)> {
        let words = |trace: &Dimensions| (trace.name.clone(), trace.in_words(""));
        match &self.0 {
            Answers::Comparisons(all) => all.iter().map(|one| words(&one.trace)).collect(),
            Answers::Curves(all) => all.iter().map(|one| words(&one.trace)).collect(),
            Answers::Levels(all) => all.iter().map(|one| words(&one.trace)).collect(),
            Answers::Analyses(all, _) => all.iter().map(|one| words(&one.dimensions())).collect(),
        }
    }

    /// All that is known, as the JSON of the command: a list with an object for each trace.
    fn json(&self) -> String {
        each!(&self.0, all, _section => Value::from_iter(all.iter().map(Forms::json))).to_string()
    }

    /// The charts and tables of the report, as JSON.
    fn charts(&self) -> String {
        let document = self.document(String::new(), String::new());
        serde_json::to_string(&document).expect("the model is plain data")
    }

    /// The report: one page that needs no network.
    fn html(&self, command: String, date: String) -> String {
        self.document(command, date).html()
    }

    /// Writes it to a file, whole or not at all. An earlier report is replaced, and nothing else.
    fn write_report(&self, path: PathBuf, command: String, date: String) -> PyResult<()> {
        let written =
            file::check_replaced(&path).and_then(|()| file::write(&path, self.html(command, date).as_bytes()));
        let number = |error: &FileError| match error {
            FileError::Another(_) | FileError::Special(_) => libc::EEXIST,
            FileError::NotMade(_, error) | FileError::NotWritten(_, error) => forebay_pool::errno_of(error),
            FileError::NotDrawn(..) => libc::EIO,
        };
        Ok(written.map_err(|error| Failure::new(number(&error), error.to_string()).of(&path))?)
    }
}

fn columns(answers: &Answers) -> Vec<Column> {
    match answers {
        Answers::Comparisons(_) => Comparison::columns(),
        Answers::Curves(_) => Curves::columns(),
        Answers::Levels(_) => Levels::columns(),
        Answers::Analyses(..) => Analysis::columns(),
    }
}

/// A column of all rows, of the type that its unit says: words, whole numbers, or numbers.
fn array(column: &Column, rows: &[Vec<String>], index: usize) -> Result<ArrayRef, String> {
    let cells = rows.iter().map(|row| Some(row[index].as_str()).filter(|cell| !cell.is_empty()));
    let wrong = |cell: &str| format!("column `{}` has `{cell}`: please report this", column.name);
    let whole = |cell: Option<&str>| cell.map(|cell| cell.parse::<i64>().map_err(|_| wrong(cell))).transpose();
    let number = |cell: Option<&str>| cell.map(|cell| cell.parse::<f64>().map_err(|_| wrong(cell))).transpose();
    Ok(match column.unit {
        "text" => Arc::new(StringArray::from_iter(rows.iter().map(|row| Some(&row[index])))),
        "count" | "bytes" => Arc::new(cells.map(whole).collect::<Result<Int64Array, _>>()?),
        _ => Arc::new(cells.map(number).collect::<Result<Float64Array, _>>()?),
    })
}
