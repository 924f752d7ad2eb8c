//! What Python says, as the studies ask: texts in the command's notation, or numbers.

use crate::guest::{Fault, spec};
use forebay_basis::parse_bytes;
use forebay_model::presets::Named;
use forebay_policy::Spec;
use forebay_policy::managers::Rules;
use forebay_sim::Size;
use forebay_trace::Pattern;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// More threads than this only wait for each other.
const MOST_THREADS: usize = 256;

/// That something makes no sense.
pub(crate) fn usage(message: impl Display) -> PyErr {
    PyValueError::new_err(message.to_string())
}

/// Reads a text as the command line does.
pub(crate) fn parse<T: FromStr>(text: &str) -> PyResult<T>
where
    T::Err: Display,
{
    text.parse().map_err(usage)
}

/// The same of what may be missing.
pub(crate) fn parse_some<T: FromStr>(text: Option<&str>) -> PyResult<Option<T>>
where
    T::Err: Display,
{
    text.map(parse).transpose()
}

/// The text of a text, or of a whole number; none of anything else.
fn as_text(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(text.to_str()?.to_owned()));
    }
    let Ok(number) = value.call_method0("__index__") else { return Ok(None) };
    Ok(Some(number.str()?.to_str()?.to_owned()))
}

fn text_or_number(value: &Bound<'_, PyAny>) -> PyResult<String> {
    as_text(value)?.ok_or_else(|| PyTypeError::new_err(format!("{value} is neither a text nor a whole number")))
}

fn size(value: &Bound<'_, PyAny>) -> PyResult<Size> {
    if let Some(text) = as_text(value)? {
        return parse(&text);
    }
    let share = value.extract::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let meant = share.map_or_else(String::new, |share| format!("; {share} of the footprint is \"{}%\"", 100.0 * share));
    let words = "take pages (1000), or a text: bytes (\"64MiB\") or percent of the footprint (\"10%\")";
    Err(PyTypeError::new_err(format!("sizes: {} is no size: {words}{meant}", value.repr()?)))
}

/// A whole number from 0 on.
pub(crate) fn count(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let number: i128 = value.extract()?;
    let most = u32::MAX;
    u32::try_from(number).map_err(|_| usage(format!("{number}: take a whole number from 0 to {most}")))
}

/// The same of what may be missing.
pub(crate) fn some_count(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    if value.is_none() { Ok(None) } else { count(value).map(Some) }
}

/// A number of threads.
pub(crate) fn threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let number: i128 = value.extract()?;
    let threads = usize::try_from(number).ok().filter(|&threads| threads <= MOST_THREADS);
    threads.ok_or_else(|| usage(format!("threads={number}: take 1 to {MOST_THREADS}, or 0, one for each core")))
}

/// A device by its name or file, if one is asked.
pub(crate) fn device(text: Option<&str>) -> PyResult<Option<Named>> {
    let read = |name: &str| name.parse().map_err(|error| usage(format!("device='{name}': {error}")));
    text.map(read).transpose()
}

/// A number of bytes: a whole number, or `4KiB`.
pub(crate) fn bytes(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    parse_bytes(&text_or_number(value)?).map_err(usage)
}

/// Cache sizes: whole numbers of pages, or texts as on the command line.
pub(crate) fn sizes(values: &[Bound<'_, PyAny>]) -> PyResult<Vec<Size>> {
    let sizes: Vec<Size> = values.iter().map(size).collect::<PyResult<_>>()?;
    if sizes.is_empty() { Err(usage("name a cache size at least: 1000 (pages), 64MiB or 10%")) } else { Ok(sizes) }
}

/// What is a text, or a whole number.
pub(crate) fn number<T: FromStr>(value: &Bound<'_, PyAny>) -> PyResult<T>
where
    T::Err: Display,
{
    parse(&text_or_number(value)?)
}

/// Policies, each once: names, or classes in Python, and where these tell what they raise.
pub(crate) fn specs(policies: &[Bound<'_, PyAny>]) -> PyResult<(Vec<Spec>, Arc<Fault>)> {
    let fault = Arc::default();
    let specs: Vec<Spec> = policies.iter().map(|policy| spec(policy, &fault)).collect::<PyResult<_>>()?;
    let mut labels = HashSet::new();
    let mut twice = specs.iter().filter(|spec| spec.host.is_some()).filter(|spec| !labels.insert(spec.label.clone()));
    if let Some(spec) = twice.next() {
        return Err(usage(format!("there are two policies called {}: give one another __name__", spec.label)));
    }
    let specs = Spec::each_once(specs);
    if specs.is_empty() {
        Err(usage("name a policy at least: forebay.policies() lists them"))
    } else {
        Ok((specs, fault))
    }
}

/// Patterns of names.
pub(crate) fn patterns(texts: &[String]) -> PyResult<Vec<Pattern>> {
    texts.iter().map(|text| Pattern::new(text).map_err(|error| usage(format!("`{text}`: {error}")))).collect()
}

/// The managers of that file, for policies that have managers.
pub(crate) fn managers(path: Option<&Path>, specs: &[Spec]) -> PyResult<Option<Rules>> {
    let Some(path) = path else { return Ok(None) };
    if !specs.iter().any(Rules::are_for) {
        return Err(usage("managers are for lru-sp, which is not among the policies asked"));
    }
    Rules::read(path).map(Some).map_err(|error| crate::Error::new_err(error.to_string()))
}
