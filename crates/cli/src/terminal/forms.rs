//! The forms in which a command answers.

use crate::failure::Failure;
use clap::ValueEnum;
use forebay_sim::study::Answer;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, StdoutLock, Write};

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For a person
    #[default]
    Table,
    /// For a spreadsheet or a script
    Csv,
    /// For a program
    Json,
}

/// The form of an answer that also makes pages of documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageForm {
    /// For a person
    #[default]
    Table,
    /// For a spreadsheet or a script
    Csv,
    /// For a program
    Json,
    /// For a page
    Markdown,
}

/// Answers over several traces: tables and CSV as they come, JSON as one list at the end.
pub(crate) struct Answers<W> {
    form: Form,
    out: W,
    json: Vec<Value>,
}

impl<W: Write> Answers<W> {
    /// None yet, of one kind.
    pub(crate) fn new<A: Answer>(form: Form, mut out: W) -> Result<Self, Failure> {
        if form == Form::Csv {
            csv(&mut out, [A::header()])?;
        }
        Ok(Self { form, out, json: Vec::new() })
    }

    /// Adds one, which `print` prints for a person.
    pub(crate) fn add<A: Answer>(
        &mut self,
        answer: &A,
        print: impl FnOnce(&A, &mut W) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Table => print(answer, &mut self.out)?,
            Form::Csv => csv(&mut self.out, answer.rows())?,
            Form::Json => self.json.push(answer.json()),
        }
        Ok(())
    }

    /// There are no more.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.form == Form::Json {
            json(&mut self.out, &self.json)?;
        }
        Ok(self.out.flush()?)
    }
}

/// Standard output. Where it is not all that was asked for, a reader who has gone is no reason to stop: the rest is written for nobody.
pub(crate) struct Output {
    to: StdoutLock<'static>,
    goes_on: bool,
    gone: bool,
}

impl Output {
    /// `goes_on`: files are to be written, too.
    pub(crate) fn new(goes_on: bool) -> Self {
        Self { to: io::stdout().lock(), goes_on, gone: false }
    }

    fn or_go_on<T>(&mut self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        match done {
            Err(error) if self.goes_on && error.kind() == io::ErrorKind::BrokenPipe => {
                self.gone = true;
                Ok(otherwise)
            }
            done => done,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.gone {
            return Ok(bytes.len());
        }
        let written = self.to.write(bytes);
        self.or_go_on(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.or_go_on(flushed, ())
    }
}

/// Rows, the first of which may be a head.
pub(crate) fn csv<R, C>(out: &mut impl Write, rows: impl IntoIterator<Item = R>) -> Result<(), Failure>
where
    R: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(out);
    rows.into_iter().try_for_each(|row| writer.write_record(row))?;
    Ok(writer.flush()?)
}

/// A value on lines of its own.
pub(crate) fn json(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// Things with the same values under the same names, each with all: rows under the names, or objects.
pub(crate) fn records<const N: usize>(
    out: &mut impl Write,
    form: Form,
    records: Vec<[(&'static str, Value); N]>,
) -> Result<(), Failure> {
    if form == Form::Json {
        let named = |(name, value): (&str, Value)| (name.to_owned(), value);
        let objects = records.into_iter().map(|record| Value::Object(record.into_iter().map(named).collect()));
        return json(out, &objects.collect::<Vec<_>>());
    }
    let text = |(_, value): (&str, Value)| match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let names = records.first().map(|record| record.each_ref().map(|(name, _)| (*name).to_owned()));
    csv(out, names.into_iter().chain(records.into_iter().map(|record| record.map(text))))
}
