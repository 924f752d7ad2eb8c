//! Work without the interpreter's lock. A thread of its own does it; the one that asked waits, shows progress, passes warnings on and looks
//! for Ctrl-C.
//!
//! Who stops the work, by Ctrl-C or by an error in showing progress, need not wait for it: at its next report of progress the work unwinds
//! with [`Stopped`], from wherever it is, since nobody waits for a part of the answer.

use crate::guest::Fault;
use crate::{Error, TraceError};
use forebay_sim::study;
use forebay_sim::study::{Monitor, Progress};
use forebay_trace::Warn;
use pyo3::exceptions::{PyRuntimeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(40);
/// How long work that was stopped may take to end before it is left to end by itself.
const GRACE: Duration = Duration::from_millis(150);

/// Why there is no answer.
pub(crate) enum Failure {
    /// What was asked makes no sense.
    Usage(String),
    /// A trace cannot be read or written.
    Trace(forebay_trace::Error),
    /// Something else.
    Study(study::Error),
}

impl From<forebay_trace::Error> for Failure {
    fn from(error: forebay_trace::Error) -> Self {
        Self::Trace(error)
    }
}

impl From<study::Error> for Failure {
    fn from(error: study::Error) -> Self {
        match error {
            study::Error::Trace(error) => Self::Trace(error),
            study::Error::Question(question) => Self::Usage(question.to_string()),
            error => Self::Study(error),
        }
    }
}

impl From<study::error::Question> for Failure {
    fn from(question: study::error::Question) -> Self {
        Self::Usage(question.to_string())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(message) => PyValueError::new_err(message),
            Failure::Trace(error) => TraceError::new_err(error.to_string()),
            Failure::Study(error) => Error::new_err(error.to_string()),
        }
    }
}

/// What work unwinds with when nobody waits for it any more.
pub(crate) struct Stopped;

/// What the work and the thread that waits for it share. No lock is held across a call into Python.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    doing: Mutex<Doing>,
    done: AtomicU64,
    warnings: Mutex<Vec<String>>,
}

/// What is being done.
#[derive(Clone, Default)]
struct Doing {
    number: u64,
    what: String,
    /// The references of all of it, if that is known.
    all: Option<u64>,
}

/// What the work reports to.
#[derive(Clone)]
pub(crate) struct Waiting(Arc<Shared>, Arc<Fault>);

impl Waiting {
    /// Who is warned.
    pub(crate) fn warn(&self) -> Warn {
        let shared = Arc::clone(&self.0);
        Arc::new(move |message: &str| lock(&shared.warnings).push(message.to_owned()))
    }

    /// Warns of something that is odd.
    pub(crate) fn warn_of(&self, message: String) {
        lock(&self.0.warnings).push(message);
    }

    /// Goes on unless the work is stopped.
    fn go_on(&self) {
        if self.0.stop.load(Ordering::Relaxed) || self.1.any() {
            resume_unwind(Box::new(Stopped));
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitor for Waiting {
    fn begin(&self, what: String, references: Option<u64>, _stoppable: bool) -> Box<dyn Progress + '_> {
        self.go_on();
        let mut doing = lock(&self.0.doing);
        *doing = Doing { number: doing.number + 1, what, all: references };
        self.0.done.store(0, Ordering::Relaxed);
        Box::new(Under(self))
    }

    fn warn(&self, message: &str) {
        self.warn_of(message.to_owned());
    }
}

/// Work under way.
struct Under<'a>(&'a Waiting);

impl Progress for Under<'_> {
    fn add(&self, more: u64) -> bool {
        self.0.0.done.fetch_add(more, Ordering::Relaxed);
        self.0.go_on();
        true
    }

    fn set(&self, done: u64, share: Option<f64>) -> bool {
        self.0.0.done.store(done, Ordering::Relaxed);
        if let Some(share) = share.filter(|&share| share > 0.0) {
            lock(&self.0.0.doing).all = Some((done as f64 / share) as u64);
        }
        self.0.go_on();
        true
    }
}

/// Does `work` and waits for it. `progress` is called with the number of the thing that is being done, its name, the references done, and
/// all that it has or none.
///
/// # Errors
/// Why there is no answer; what Ctrl-C, or `progress`, raises.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Waiting) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    wait_for(py, progress, Arc::default(), work)
}

/// The same of work in which policies written in Python take part: what they raise ends it.
///
/// # Errors
/// The same, and what they raise.
pub(crate) fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    fault: Arc<Fault>,
    work: impl FnOnce(&Waiting) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let waiting = Waiting(Arc::default(), Arc::clone(&fault));
    let (done, answer) = sync_channel(1);
    // No other thread receives, but a reference may not be taken along without the interpreter's lock unless it could.
    let answer = Mutex::new(answer);
    let within = |time| lock(&answer).recv_timeout(time);
    let worker = waiting.clone();
    std::thread::spawn(move || {
        let answer = catch_unwind(AssertUnwindSafe(|| work(&worker)));
        // Nobody is left where the work was stopped.
        let _ = done.send(answer);
    });
    let answer = loop {
        match py.detach(|| within(LOOK)) {
            Ok(answer) => break answer,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the work ended without an answer: please report this"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = look(py, &waiting.0, progress) {
                    waiting.0.stop.store(true, Ordering::Relaxed);
                    // What it left, an answer or how it unwound, is of no use to anybody.
                    drop(py.detach(|| within(GRACE)));
                    return Err(raised);
                }
            }
        }
    };
    pass_warnings_on(py, &waiting.0)?;
    if let Some(raised) = fault.take() {
        return Err(raised);
    }
    match answer {
        Ok(answer) => answer.map_err(PyErr::from),
        Err(panic) => Err(raised(panic)),
    }
}

/// What the work unwound with.
pub(crate) fn raised(panic: Box<dyn std::any::Any + Send>) -> PyErr {
    let words = panic.downcast_ref::<&str>().map(|&words| words.to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    PyRuntimeError::new_err(format!("this is a fault of Forebay, please report it: {words}"))
}

/// Looks for Ctrl-C, shows progress and passes warnings on.
fn look(py: Python<'_>, shared: &Shared, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    if let Some(progress) = progress {
        let Doing { number, what, all } = lock(&shared.doing).clone();
        if number > 0 {
            progress.call1((number, what, shared.done.load(Ordering::Relaxed), all))?;
        }
    }
    pass_warnings_on(py, shared)
}

fn pass_warnings_on(py: Python<'_>, shared: &Shared) -> PyResult<()> {
    let warnings = std::mem::take(&mut *lock(&shared.warnings));
    for message in warnings {
        let message = CString::new(message.replace('\0', " ")).expect("no zero is left");
        // At the line that called the package: two calls lie between.
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 3)?;
    }
    Ok(())
}
