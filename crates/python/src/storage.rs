//! What pagers and pools have in common here: errors as `OSError`, their log, and what becomes of them in a child of fork.

use forebay_policy::Spec;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;
use std::io;
use std::mem::forget;
use std::path::{Path, PathBuf};
use std::sync::Once;
use tracing_subscriber::filter::LevelFilter;

/// Why storage did not do what it was asked.
pub(crate) struct Failure {
    number: i32,
    /// Whether it was asked what makes no sense.
    senseless: bool,
    sentence: String,
    /// The file that it is about, if it is known.
    file: Option<PathBuf>,
}

impl Failure {
    /// One with this number of the system's.
    pub(crate) fn new(number: i32, sentence: impl Into<String>) -> Self {
        Self { number, senseless: false, sentence: sentence.into(), file: None }
    }

    /// The same about a file, whose path its words need not begin with: Python shows it besides.
    pub(crate) fn of(self, path: &Path) -> Self {
        let rest = self.sentence.strip_prefix(&format!("{}: ", path.display())).filter(|_| !self.senseless);
        Self { sentence: rest.unwrap_or(&self.sentence).to_owned(), file: Some(path.to_owned()), ..self }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(forebay_pool::errno_of(&error), error.to_string())
    }
}

impl From<forebay_pool::Error> for Failure {
    fn from(error: forebay_pool::Error) -> Self {
        let senseless = matches!(error, forebay_pool::Error::Configuration(_));
        Self { number: error.errno(), senseless, sentence: error.to_string(), file: None }
    }
}

impl From<forebay_pager::Error> for Failure {
    fn from(error: forebay_pager::Error) -> Self {
        use forebay_pager::Error;
        let senseless = matches!(error, Error::Configuration(_) | Error::Pool(forebay_pool::Error::Configuration(_)));
        Self { number: error.errno(), senseless, sentence: error.to_string(), file: None }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let Failure { number, senseless, sentence, file } = failure;
        match file {
            _ if senseless => PyValueError::new_err(sentence),
            // Python makes the class of it that the number names.
            None => PyOSError::new_err((number, sentence)),
            Some(file) => PyOSError::new_err((number, sentence, file.into_os_string())),
        }
    }
}

/// Figures as a JSON object of these parts, in the order of their declaration.
pub(crate) fn json<const N: usize>(parts: [(&str, String); N]) -> String {
    let parts: Vec<String> = parts.iter().map(|(name, part)| format!("\"{name}\":{part}")).collect();
    format!("{{{}}}", parts.join(","))
}

/// Figures as JSON.
pub(crate) fn figures<T: Serialize>(figures: &T) -> String {
    serde_json::to_string(figures).expect("figures are numbers and names")
}

/// A policy that runs.
pub(crate) fn policy(name: &str) -> PyResult<Spec> {
    Spec::parse(name).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Begins to log to the standard error, once. It is not logged by Python's: who holds the interpreter's lock may wait for what is being logged.
pub(crate) fn begin_log() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let lines = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_ansi(false).with_target(false);
        // Whoever has begun one already gets ours.
        let _ = lines.with_writer(io::stderr).try_init();
    });
}

/// What has threads: it is used in the process that made it alone, and dropped without the interpreter's lock.
pub(crate) struct Own<T: Send> {
    inner: Option<T>,
    process: u32,
}

impl<T: Send> Own<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Some(inner), process: std::process::id() }
    }

    /// # Errors
    /// This is a child of the process that made it.
    pub(crate) fn get(&self) -> Result<&T, Failure> {
        let here = self.inner.as_ref().filter(|_| self.process == std::process::id());
        let sentence = "a child of fork cannot use what its parent has opened: open it here, too";
        here.ok_or_else(|| Failure::new(libc::ENOTSUP, sentence))
    }

    /// The same to take it out.
    pub(crate) fn take(&mut self) -> Option<T> {
        let inner = self.inner.take()?;
        if self.process == std::process::id() {
            return Some(inner);
        }
        // Its threads, and the locks that they held, are the parent's.
        forget(inner);
        None
    }
}

impl<T: Send> Drop for Own<T> {
    fn drop(&mut self) {
        if let Some(inner) = self.take() {
            without_lock(|| drop(inner));
        }
    }
}

/// Does something that may take long, at the end of an object's life.
pub(crate) fn without_lock<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    let mut act = Some(act);
    let mut once = || act.take().map(|act| act());
    let done = Python::try_attach(|py| py.detach(&mut once)).flatten();
    done.or_else(once).expect("it was done once")
}
