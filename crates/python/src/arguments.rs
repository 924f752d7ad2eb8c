//! What Python says, as the studies ask: texts in the command's notation, or numbers.

use crate::guest::{Fault, spec};
use forebay_policy::Spec;
use forebay_policy::managers::Rules;
use forebay_sim::Size;
use forebay_sim::size::parse_bytes;
use forebay_trace::Pattern;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

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

/// The text of a text, or of a whole number.
fn text_or_number(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.to_owned());
    }
    let index = value.call_method0("__index__");
    let number = index.map_err(|_| PyTypeError::new_err(format!("{value} is neither a text nor a whole number")))?;
    Ok(number.str()?.to_str()?.to_owned())
}

/// A number of bytes: a whole number, or `4KiB`.
pub(crate) fn bytes(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    parse_bytes(&text_or_number(value)?).map_err(usage)
}

/// Cache sizes: whole numbers of pages, or texts as on the command line.
pub(crate) fn sizes(values: &[Bound<'_, PyAny>]) -> PyResult<Vec<Size>> {
    let sizes: Vec<Size> = values.iter().map(|value| parse(&text_or_number(value)?)).collect::<PyResult<_>>()?;
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
    let mut specs: Vec<Spec> = policies.iter().map(|policy| spec(policy, &fault)).collect::<PyResult<_>>()?;
    let mut labels = HashSet::new();
    let mut twice = specs.iter().filter(|spec| spec.host.is_some()).filter(|spec| !labels.insert(spec.label.clone()));
    if let Some(spec) = twice.next() {
        return Err(usage(format!("there are two policies called {}: give one another __name__", spec.label)));
    }
    let mut labels = HashSet::new();
    specs.retain(|spec| labels.insert(spec.label.clone()));
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
