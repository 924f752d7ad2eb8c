//! What is asked of traces, in the studies' words.

use crate::answer::{Answer, Answers};
use crate::arguments::{
    bytes, count, device as device_named, number, parse, parse_some, some_count, specs, threads as threads_asked, usage,
};
use crate::guest::Fault;
use crate::trace::Source;
use crate::waiting::{Failure, Waiting, wait_for};
use forebay_sim::analysis::{self, Section};
use forebay_sim::curve::{Sampling, Spacing};
use forebay_sim::levels::Mode;
use forebay_sim::study::{self, curves::Part};
use forebay_sim::{By, Keep, Opening, Sample};
use forebay_trace::Reader;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A question asked of every trace.
trait Asked: Send + 'static {
    type Answer: Send + 'static;

    fn of(
        &self,
        source: &Source,
        open: &dyn Fn() -> forebay_trace::Result<Box<dyn Reader>>,
        waiting: &Waiting,
    ) -> Result<Self::Answer, study::Error>;

    fn set_page_size(&mut self, page_size: Option<u64>);
}

macro_rules! asked {
    ($($asked:ty => $answer:ty: |$self:ident, $source:ident, $open:ident, $waiting:ident| $of:expr;)*) => {
        $(impl Asked for $asked {
            type Answer = $answer;

            fn of(
                &$self,
                $source: &Source,
                $open: &dyn Fn() -> forebay_trace::Result<Box<dyn Reader>>,
                $waiting: &Waiting,
            ) -> Result<Self::Answer, study::Error> {
                $of
            }

            fn set_page_size(&mut self, page_size: Option<u64>) {
                self.page_size = page_size;
            }
        })*
    };
}

asked! {
    study::comparison::Asked => study::Comparison: |self, source, open, waiting| match source.held(self.page_size) {
        Some(held) if self.sample.is_none() && held.has(self.of_recorded(held.circumstances.as_ref(), waiting)?.0.keep()) => {
            self.of_held(held, waiting)
        }
        _ => self.of(source.name(), open()?.as_mut(), waiting),
    };
    study::curves::Asked => study::Curves: |self, source, open, waiting| self.of(source.name(), open, waiting);
    study::levels::Asked => study::Levels: |self, source, open, waiting| self.of(source.name(), open()?.as_mut(), waiting);
    study::analysis::Asked => study::Analysis: |self, source, open, waiting| self.of(source.name(), open()?.as_mut(), waiting);
}

/// Asks every trace; of none the question alone is checked. A page size that is asked goes before the trace's own.
fn ask<A: Asked>(
    py: Python<'_>,
    mut asked: A,
    sources: &[PyRef<'_, Source>],
    page_size: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
    fault: Arc<Fault>,
) -> PyResult<Vec<A::Answer>> {
    let page_size = page_size.map(bytes).transpose()?;
    Opening { page_size, ..Opening::default() }.check().map_err(usage)?;
    let sources: Vec<Source> = sources.iter().map(|source| Source::clone(source)).collect();
    wait_for(py, progress, fault, move |waiting| {
        let warn = waiting.warn();
        let one = |source: &Source| {
            asked.set_page_size(page_size.or(source.page_size()));
            let open = || Ok(source.open(&warn)?.1);
            Asked::of(&asked, source, &open, waiting).map_err(Failure::from)
        };
        sources.iter().map(one).collect()
    })
}

/// Policies × sizes.
#[pyfunction]
#[pyo3(signature = (
    sources, policies, sizes, *, warmup, device=None, think_us=0.0, readahead=None, by_distance=false, by=None, states=0, behind=None,
    sample=None, managers=None, kernel=None, at_most=None, reach=None, page_size=None, threads=0, progress=None,
))]
#[expect(clippy::too_many_arguments, reason = "what is asked has as many parts")]
pub(crate) fn compare(
    py: Python<'_>,
    sources: Vec<PyRef<'_, Source>>,
    policies: Vec<Bound<'_, PyAny>>,
    sizes: Vec<Bound<'_, PyAny>>,
    warmup: &Bound<'_, PyAny>,
    device: Option<&str>,
    think_us: f64,
    readahead: Option<&str>,
    by_distance: bool,
    by: Option<&str>,
    #[pyo3(from_py_with = count)] states: u32,
    behind: Option<&str>,
    sample: Option<&str>,
    managers: Option<PathBuf>,
    kernel: Option<bool>,
    at_most: Option<&Bound<'_, PyAny>>,
    reach: Option<f64>,
    page_size: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = threads_asked)] threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let by = match by {
        None => None,
        Some("owner") => Some(By::Owner),
        Some("file") => Some(By::File),
        Some(other) => return Err(usage(format!("by=`{other}`: take owner or file"))),
    };
    if let Some(reach) = reach.filter(|reach| !(f64::MIN_POSITIVE..=1.0).contains(reach)) {
        return Err(usage(format!("reach={reach}: take a share of the references above 0 and up to 1, as 0.9")));
    }
    let (specs, fault) = specs(&policies)?;
    let asked = study::comparison::Asked {
        managers: crate::arguments::managers(managers.as_deref(), &specs)?.map(Arc::new),
        specs,
        sizes: crate::arguments::sizes(&sizes)?,
        warmup: number(warmup)?,
        device: device_named(device)?,
        think_ms: think_us / 1e3,
        readahead: parse_some(readahead)?,
        epochs: false,
        by_distance,
        by,
        states,
        behind: parse_some(behind)?,
        sample: parse_some(sample)?,
        kernel,
        at_most: at_most
            .map(|most| crate::arguments::sizes(std::slice::from_ref(most)))
            .transpose()?
            .and_then(|mut of| of.pop()),
        reach,
        page_size: None,
        threads,
    };
    asked.check().map_err(Failure::from)?;
    Ok(Answer(Answers::Comparisons(ask(py, asked, &sources, page_size, progress, fault)?)))
}

/// Whether comparisons of these policies look at the places of pages, and whether at requests: what a trace held for them must have.
#[pyfunction]
#[pyo3(signature = (policies, *, device=None, readahead="none", behind=None))]
#[expect(clippy::needless_pass_by_value, reason = "Python's lists come as such")]
pub(crate) fn needs(
    policies: Vec<Bound<'_, PyAny>>,
    device: Option<&str>,
    readahead: &str,
    behind: Option<&str>,
) -> PyResult<(bool, bool)> {
    let asked = study::comparison::Asked {
        specs: specs(&policies)?.0,
        device: device_named(device)?,
        readahead: Some(parse(readahead)?),
        behind: parse_some(behind)?,
        ..Default::default()
    };
    let Keep { places, requests } = asked.keep();
    Ok((places, requests))
}

/// Miss ratios by size.
#[pyfunction]
#[pyo3(signature = (
    sources, policies, *, sizes=Vec::new(), points=40, more=40, spacing="log", sample=None, sample_pages=None, taken=None, errors=false,
    page_size=None, threads=0, progress=None,
))]
#[expect(clippy::too_many_arguments, reason = "what is asked has as many parts")]
pub(crate) fn curve(
    py: Python<'_>,
    sources: Vec<PyRef<'_, Source>>,
    policies: Vec<Bound<'_, PyAny>>,
    sizes: Vec<Bound<'_, PyAny>>,
    #[pyo3(from_py_with = count)] points: u32,
    #[pyo3(from_py_with = count)] more: u32,
    spacing: &str,
    sample: Option<&str>,
    #[pyo3(from_py_with = some_count)] sample_pages: Option<u32>,
    taken: Option<(f64, u64)>,
    errors: bool,
    page_size: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = threads_asked)] threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let spacing = match spacing {
        "log" => Spacing::Log,
        "even" => Spacing::Even,
        other => return Err(usage(format!("spacing=`{other}`: take log or even"))),
    };
    if points == 0 {
        return Err(usage("points=0: ask for one at least"));
    }
    let taken = taken.map(|(rate, whole)| Part::Taken(Sampling { rate, whole }));
    let part = match (parse_some::<Sample>(sample)?, sample_pages) {
        (Some(_), Some(_)) => return Err(usage("sample and sample_pages exclude each other: leave one out")),
        (_, Some(0)) => return Err(usage("sample_pages=0: take one at least")),
        (sample, pages) => sample.map(Part::Share).or(pages.map(Part::Pages)).or(taken),
    };
    let sizes = if sizes.is_empty() { Vec::new() } else { crate::arguments::sizes(&sizes)? };
    let (specs, fault) = specs(&policies)?;
    let asked = study::curves::Asked { specs, sizes, points, spacing, more, part, errors, page_size: None, threads };
    let names: Vec<String> = sources.iter().map(|source| source.name().to_owned()).collect();
    asked.check(&names).map_err(Failure::from)?;
    Ok(Answer(Answers::Curves(ask(py, asked, &sources, page_size, progress, fault)?)))
}

/// Hierarchies of caches.
#[pyfunction]
#[pyo3(signature = (sources, levels, *, mode="inclusive", write=vec!["back".to_owned()], device=None, analyze=false, page_size=None, threads=0, progress=None))]
#[expect(clippy::too_many_arguments, reason = "what is asked has as many parts")]
pub(crate) fn levels(
    py: Python<'_>,
    sources: Vec<PyRef<'_, Source>>,
    levels: Vec<String>,
    mode: &str,
    write: Vec<String>,
    device: Option<&str>,
    analyze: bool,
    page_size: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = threads_asked)] threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let mode = match mode {
        "inclusive" => Mode::Inclusive,
        "exclusive" => Mode::Exclusive,
        "hints" => Mode::Hints,
        other => return Err(usage(format!("mode=`{other}`: take inclusive, exclusive or hints"))),
    };
    if levels.is_empty() || write.is_empty() {
        return Err(usage("name a level at least (lru:64MiB), and a way to write (back)"));
    }
    let asked = study::levels::Asked {
        levels: levels.iter().map(|level| parse(level)).collect::<PyResult<_>>()?,
        mode,
        writes: write.iter().map(|write| parse(write)).collect::<PyResult<_>>()?,
        device: device_named(device)?,
        analyze,
        page_size: None,
        threads,
    };
    asked.check().map_err(Failure::from)?;
    Ok(Answer(Answers::Levels(ask(py, asked, &sources, page_size, progress, Arc::default())?)))
}

/// What traces are like.
#[pyfunction]
#[pyo3(signature = (sources, policies, sizes, *, only=None, grid=(512, 256), managers=None, page_size=None, threads=0, progress=None))]
#[expect(clippy::too_many_arguments, reason = "what is asked has as many parts")]
pub(crate) fn analyze(
    py: Python<'_>,
    sources: Vec<PyRef<'_, Source>>,
    policies: Vec<Bound<'_, PyAny>>,
    sizes: Vec<Bound<'_, PyAny>>,
    only: Option<Vec<String>>,
    grid: (u32, u32),
    managers: Option<PathBuf>,
    page_size: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = threads_asked)] threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let all = Section::ALL.map(Section::name);
    if let Some(unknown) = only.iter().flatten().find(|name| !all.contains(&name.as_str())) {
        return Err(usage(format!("there is no section `{unknown}`; there are {}", all.join(", "))));
    }
    if grid.0 == 0 || grid.1 == 0 {
        return Err(usage("a grid has a column and a row at least"));
    }
    let wanted = |section: &Section| only.as_ref().is_none_or(|only| only.iter().any(|name| name == section.name()));
    let (specs, fault) = specs(&policies)?;
    if let Some(written) = specs.iter().find(|spec| spec.host.is_some()) {
        return Err(usage(format!("{} is written in Python, which compare and curve take alone", written.label)));
    }
    let asked = study::analysis::Asked {
        managers: crate::arguments::managers(managers.as_deref(), &specs)?,
        asked: analysis::Asked {
            sections: Section::ALL.into_iter().filter(wanted).collect(),
            specs: specs.clone(),
            sizes: Vec::new(),
            grid,
            threads,
        },
        sizes: crate::arguments::sizes(&sizes)?,
        page_size: None,
    };
    Ok(Answer(Answers::Analyses(ask(py, asked, &sources, page_size, progress, fault)?, specs)))
}
