//! Why there is no recording.

use std::path::PathBuf;
use std::{fmt, io};

/// The exit code for a failure that is not the program's, as `env` and `timeout` have it.
pub const OWN_FAILURE: u8 = 125;

/// Why there is no recording.
#[derive(Debug)]
pub enum Error {
    /// What was asked for is wrong.
    Usage(String),
    /// A program cannot be run: the exit code by which shells say so, and why.
    Program(u8, String),
    /// A file failed.
    File(PathBuf, io::Error),
    /// The trace cannot be written.
    Trace(forebay_trace::Error),
    /// Something else failed.
    Failed(String),
    /// The trace could not be written to its end, which was said when it happened.
    Lost,
}

impl Error {
    pub(crate) fn begin(error: io::Error) -> Self {
        Self::Failed(format!("the recording cannot begin: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Program(_, message) | Self::Failed(message) => f.write_str(message),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Trace(error) => error.fmt(f),
            Self::Lost => f.write_str("the recording is lost"),
        }
    }
}

impl std::error::Error for Error {}

impl From<forebay_trace::Error> for Error {
    fn from(error: forebay_trace::Error) -> Self {
        Self::Trace(error)
    }
}
