//! Traces as Python names them.

use crate::answer::Table;
use crate::arguments::{bytes, patterns, usage};
use crate::capsule;
use crate::columns::{Collected, Columns};
use crate::first::First;
use crate::waiting::{Failure, Waiting, wait};
use forebay_sim::study::{Monitor, comparison, info};
use forebay_sim::{Keep, Opening, Size, Trace};
use forebay_trace::formats::csv;
use forebay_trace::metadata::{PAGE_SIZE_KEY, UNIT_KEY, parse_unit};
use forebay_trace::mix::{self, Mix, Span, Times};
use forebay_trace::reader::measured;
use forebay_trace::write::temporaries;
use forebay_trace::{ConvertOptions, Names, Options, Reader, Summary, Unit, Warn};
use pyo3::prelude::*;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Requests read between two reports of progress.
const STRIDE: usize = 1 << 16;

/// Where requests come from.
enum Kind {
    /// A file, standard input, a synthetic trace or the sample, by its name on the command line.
    Named(String),
    Columns(Arc<Columns>),
    Mixed(Vec<(Source, Span)>, Times),
}

/// A trace: where its requests come from, and which of them are taken. It is opened anew for each question.
#[pyclass(frozen, module = "forebay._forebay")]
#[derive(Clone)]
pub(crate) struct Source {
    name: String,
    kind: Arc<Kind>,
    opening: Opening,
    /// Further parts of the part, one after the other, and how many requests of each if not all.
    parts: Vec<(Opening, Option<u64>)>,
    /// All of it, numbered, if it is held: comparisons that need no more than is kept of it need not read it.
    held: Option<Arc<Trace>>,
}

impl Source {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn page_size(&self) -> Option<u64> {
        self.opening.page_size
    }

    /// All of it with pages of that size, if it is held so.
    pub(crate) fn held(&self, page_size: Option<u64>) -> Option<&Trace> {
        self.held.as_deref().filter(|held| page_size.is_none_or(|page_size| page_size == held.page_size))
    }

    /// Opens it, and says which format it is in.
    pub(crate) fn open(&self, warn: &Warn) -> forebay_trace::Result<(&'static str, Box<dyn Reader>)> {
        let (format, mut reader) = match &*self.kind {
            Kind::Named(name) => {
                let (format, reader) = self.opening.open(name, warn)?;
                (format.name, reader)
            }
            Kind::Columns(columns) => {
                let reader = measured(columns.reader(), columns.reader());
                ("columns", self.opening.part(&self.name, reader, warn))
            }
            Kind::Mixed(all, times) => {
                let mut sources: Vec<mix::Source> = Vec::new();
                for (source, span) in all {
                    let (name, reader) = (mix::name(&source.name, &sources), source.open(warn)?.1);
                    sources.push(mix::Source { name, reader, span: *span });
                }
                let mix = Box::new(Mix::new(sources, *times, self.opening.page_size)?);
                ("mix", self.opening.part(&self.name, mix, warn))
            }
        };
        for (part, first) in &self.parts {
            reader = part.part(&self.name, reader, warn);
            if let Some(requests) = *first {
                reader = Box::new(First::new(reader, requests));
            }
        }
        Ok((format, reader))
    }
}

#[pymethods]
impl Source {
    /// The trace at `path`, which may be all that the command line takes.
    #[staticmethod]
    #[pyo3(signature = (path, *, name=None, format=None, columns=None, page_size=None))]
    fn named(
        path: String,
        name: Option<String>,
        format: Option<String>,
        columns: Option<&str>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let columns = columns.map(csv::Columns::parse).transpose().map_err(usage)?.unwrap_or_default();
        let options = Options { format, columns };
        let opening = Opening { options, page_size: page_size.map(bytes).transpose()?, ..Opening::default() };
        opening.check().map_err(usage)?;
        let name = name.unwrap_or_else(|| path.clone());
        Ok(Self { name, kind: Arc::new(Kind::Named(path)), opening, parts: Vec::new(), held: None })
    }

    /// A synthetic trace.
    #[staticmethod]
    fn synthetic(spec: String) -> PyResult<Self> {
        // Made once, so that what is wrong with it is said at once.
        forebay_trace::synthetic::open(&spec).map_err(usage)?;
        Ok(Self {
            name: spec.clone(),
            kind: Arc::new(Kind::Named(spec)),
            opening: Opening::default(),
            parts: Vec::new(),
            held: None,
        })
    }

    /// A trace in the columns of a table that has `__arrow_c_stream__`.
    #[staticmethod]
    #[pyo3(signature = (name, table, *, unit=None, page_size=None))]
    fn columns(
        name: String,
        table: &Bound<'_, PyAny>,
        unit: Option<&str>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (schema, batches) = capsule::take(table)?;
        let said = |key: &str| schema.metadata().get(key).map(String::as_str);
        let unit = match unit.or(said(UNIT_KEY)) {
            None => Unit::Bytes,
            Some(text) => parse_unit(text)
                .ok_or_else(|| usage(format!("`{text}` is no unit: take bytes, pages or blocks:512")))?,
        };
        let recorded = said(PAGE_SIZE_KEY).and_then(|text| text.parse().ok());
        let columns = Columns::new(&batches, unit, recorded).map_err(|message| usage(format!("{name}: {message}")))?;
        let opening = Opening { page_size: page_size.map(bytes).transpose()?, ..Opening::default() };
        opening.check().map_err(usage)?;
        Ok(Self { name, kind: Arc::new(Kind::Columns(Arc::new(columns))), opening, parts: Vec::new(), held: None })
    }

    /// Several traces as one, in the order of their times.
    #[staticmethod]
    #[pyo3(signature = (sources, *, times, page_size=None, progress=None))]
    fn mixed(
        py: Python<'_>,
        sources: Vec<PyRef<'_, Self>>,
        times: &str,
        page_size: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let times = match times {
            "recorded" => Times::Recorded,
            "from-start" => Times::FromStart,
            "scaled" => Times::Scaled,
            other => return Err(usage(format!("times `{other}`: take recorded, from-start or scaled"))),
        };
        let page_size = page_size.map(bytes).transpose()?;
        let sources: Vec<Self> = sources.iter().map(|source| Self::clone(source)).collect();
        let name = sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(" + ");
        let opening = Opening { page_size, ..Opening::default() };
        opening.check().map_err(usage)?;
        let all = wait(py, progress, move |waiting| {
            let mut all = Vec::new();
            for source in sources {
                let reading = waiting.begin(format!("reading {}", source.name), None, true);
                let mut reader = source.open(&waiting.warn())?.1;
                let span = Span::of(&source.name, reader.as_mut(), page_size, &mut |done| reading.at(done))?;
                drop(reading);
                all.push((source, span));
            }
            let readers = all.iter().map(|(source, span)| {
                let reader = source.open(&waiting.warn())?.1;
                Ok(mix::Source { name: source.name.clone(), reader, span: *span })
            });
            let readers = readers.collect::<Result<Vec<_>, Failure>>()?;
            if times == Times::Recorded {
                for (before, after) in mix::gaps(&readers) {
                    waiting.warn_of(format!(
                        "{before} ends before {after} begins; times=\"from-start\" or \"scaled\" makes them run at once"
                    ));
                }
            }
            // What cannot be mixed is said now.
            Mix::new(readers, times, page_size)?;
            Ok(all)
        })?;
        Ok(Self { name, kind: Arc::new(Kind::Mixed(all, times)), opening, parts: Vec::new(), held: None })
    }

    /// The part of it with these owners, files and times (nanoseconds after the first request), and of that at most `first` requests.
    #[pyo3(signature = (*, owners=Vec::new(), files=Vec::new(), during=None, first=None))]
    fn part(
        &self,
        owners: Vec<String>,
        files: Vec<String>,
        during: Option<(u64, u64)>,
        first: Option<u64>,
    ) -> PyResult<Self> {
        let during = during.map(|(start, end)| Range { start, end });
        let part = Opening { owners: patterns(&owners)?, files: patterns(&files)?, during, ..Opening::default() };
        let mut parts = self.parts.clone();
        parts.push((part, first));
        Ok(Self { parts, held: None, ..self.clone() })
    }

    /// What it is called in tables.
    #[getter(name)]
    fn python_name(&self) -> &str {
        &self.name
    }

    /// What it holds, as JSON: as `forebay info` tells it.
    #[pyo3(signature = (progress=None))]
    fn info(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let source = self.clone();
        wait(py, progress, move |waiting| {
            let (format, mut reader) = source.open(&waiting.warn())?;
            let reading = waiting.begin(format!("reading {}", source.name), None, true);
            let progress = &mut |done| reading.at(done);
            let summary = Summary::of(&source.name, reader.as_mut(), source.page_size(), progress)?;
            Ok(info::json(&source.name, format, &summary).to_string())
        })
    }

    /// How many requests it has.
    #[pyo3(signature = (progress=None))]
    fn requests(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        if let (Kind::Columns(columns), true) = (&*self.kind, self.parts.is_empty()) {
            return Ok(columns.rows());
        }
        let source = self.clone();
        wait(py, progress, move |waiting| {
            let mut requests = 0;
            source.read(waiting, |batch, _| requests += batch.len())?;
            Ok(requests)
        })
    }

    /// The same, read and numbered now and held, so that comparisons that need no more than is kept of it need not read it.
    #[pyo3(signature = (*, places=false, requests=false, page_size=None, progress=None))]
    fn hold(
        &self,
        py: Python<'_>,
        places: bool,
        requests: bool,
        page_size: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let page_size = page_size.map(bytes).transpose()?.or(self.page_size());
        let source = self.clone();
        let opening = Opening { page_size, ..self.opening.clone() };
        opening.check().map_err(usage)?;
        wait(py, progress, move |waiting| {
            let mut reader = source.open(&waiting.warn())?.1;
            let keep = Keep { places, requests };
            let held = comparison::read(&source.name, reader.as_mut(), page_size, keep, waiting)?;
            Ok(Self { opening, held: Some(Arc::new(held)), ..source })
        })
    }

    /// The bytes of memory that a held trace takes; none if it is not held.
    #[getter]
    fn bytes(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.bytes())
    }

    /// Sizes in pages of a held trace.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists come as such")]
    fn in_pages(&self, sizes: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<u32>> {
        let held = self.held.as_ref().ok_or_else(|| usage(format!("{} is not held", self.name)))?;
        let pages = |size: Size| size.pages(held.page_size, held.pages).map_err(usage);
        crate::arguments::sizes(&sizes)?.into_iter().map(pages).collect()
    }

    /// Its requests as a table.
    #[pyo3(signature = (progress=None))]
    fn table(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Table> {
        let source = self.clone();
        wait(py, progress, move |waiting| {
            let mut collected = Collected::default();
            let (names, unit, page_size) = source.read(waiting, |batch, _| collected.add(batch))?;
            let (schema, batch) = collected.table(&names, unit, page_size);
            Ok(Table::new(schema, vec![batch]))
        })
    }

    /// Writes it to a file, whose name says the format; returns the number of requests.
    #[pyo3(signature = (path, *, force=false, progress=None))]
    fn write(&self, py: Python<'_>, path: PathBuf, force: bool, progress: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let (source, beside) = (self.clone(), temporaries(&path));
        let written = wait(py, progress, move |waiting| {
            let (_, mut reader) = source.open(&waiting.warn())?;
            let _beside = Beside(temporaries(&path));
            let options = ConvertOptions { page_size: source.page_size(), force, ..ConvertOptions::default() };
            let writing = waiting.begin(format!("writing {}", path.display()), None, true);
            Ok(forebay_trace::convert(reader.as_mut(), &path, &options, &mut |done| writing.at(done))?)
        });
        // Work that was stopped may still be writing: its file goes now, and at its end once more.
        written.inspect_err(|_| beside.iter().for_each(|path| drop(std::fs::remove_file(path))))
    }
}

/// What lies beside a file until it is whole; it goes if the writing is stopped.
struct Beside([PathBuf; 2]);

impl Drop for Beside {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|path| drop(std::fs::remove_file(path)));
        }
    }
}

impl Source {
    /// Reads all requests, a batch at a time. Returns the names in it, what it counts, and the size of its pages.
    fn read(
        &self,
        waiting: &Waiting,
        mut take: impl FnMut(&[forebay_trace::Request], &Names),
    ) -> Result<(Names, Unit, Option<u64>), Failure> {
        let (_, mut reader) = self.open(&waiting.warn())?;
        let reading = waiting.begin(format!("reading {}", self.name), None, true);
        let (mut names, mut batch, mut more, mut done) = (Names::new(), Vec::new(), true, 0);
        while more {
            batch.clear();
            more = reader.fill(&mut names, STRIDE, &mut batch)?;
            take(&batch, &names);
            done += batch.len() as u64;
            reading.set(done, reader.share());
        }
        let page_size = self.page_size().or(reader.page_size().map(|size| size.bytes));
        Ok((names, reader.unit(), page_size))
    }
}
