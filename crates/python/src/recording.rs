//! Programs that are recorded.

use crate::arguments::{bytes, usage};
use crate::{Error, TraceError};
use forebay_record::{Asked, What};
use pyo3::exceptions::{PyFileNotFoundError, PyPermissionError, PyUserWarning};
use pyo3::prelude::*;
use std::ffi::{CString, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The exit code by which shells say that there is no such program.
const NO_PROGRAM: u8 = 127;

/// Records a program, processes or a device to a file. The exit code of the program, the requests, and the page size that the file must be
/// read with if it does not show it.
#[pyfunction]
#[pyo3(signature = (out, *, program, memory, pid, blocks, mapped, duration, limit, page_size, force))]
#[expect(clippy::too_many_arguments, reason = "they are Python's, by name")]
pub(crate) fn record(
    py: Python<'_>,
    out: PathBuf,
    program: Vec<OsString>,
    memory: bool,
    pid: Vec<u32>,
    blocks: Option<PathBuf>,
    mapped: bool,
    duration: Option<f64>,
    limit: Option<u64>,
    page_size: Option<&Bound<'_, PyAny>>,
    force: bool,
) -> PyResult<(u8, u64, Option<u64>)> {
    let duration = duration.map(Duration::try_from_secs_f64).transpose();
    let duration = duration.map_err(|error| usage(format!("duration, in seconds: {error}")))?;
    let page_size = page_size.map(bytes).transpose()?;
    let what = match blocks {
        Some(device) => What::Blocks(device),
        None if memory => What::Memory,
        None if pid.is_empty() => What::Files,
        None => What::Processes(pid),
    };
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let messages = Arc::clone(&said);
    let say = Arc::new(move |message: &str| {
        messages.lock().unwrap_or_else(PoisonError::into_inner).push(message.to_owned());
    });
    let made = py.detach(|| {
        let (program, out) = (&program[..], &*out);
        let asked = Asked { what, program, answers: false, mapped, duration, limit, page_size, out, force, say };
        asked.record(&mut |_| {})
    });
    for message in said.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let message = CString::new(message.replace('\0', " ")).expect("no zero is left");
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 2)?;
    }
    // Ctrl-C ended the recording, and is for the program that called us, too.
    py.check_signals()?;
    made.map(|made| (made.code, made.requests, made.page_size)).map_err(|error| match error {
        forebay_record::Error::Usage(why) => usage(why),
        forebay_record::Error::Program(NO_PROGRAM, why) => PyFileNotFoundError::new_err(why),
        forebay_record::Error::Program(forebay_record::OWN_FAILURE, why) => Error::new_err(why),
        forebay_record::Error::Program(_, why) => PyPermissionError::new_err(why),
        forebay_record::Error::Trace(error) => TraceError::new_err(error.to_string()),
        error => Error::new_err(error.to_string()),
    })
}
