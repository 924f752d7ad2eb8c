//! Why a command did not do what was asked: the message and the exit code.

use std::io;

/// A command's failure.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong: exit code 2.
    Usage(String),
    /// A trace or the system failed: exit code 1.
    Failed(String),
    /// The user stopped it, and was told what was done: exit code 130.
    Stopped(String),
    /// Standard output says what went wrong: this exit code alone.
    Said(u8),
    /// Whoever reads standard output has gone (`forebay … | head`): no failure of ours.
    ReaderGone,
}

impl From<forebay_trace::Error> for Failure {
    fn from(error: forebay_trace::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Failed(format!("writing to standard output failed: {error}")),
        }
    }
}

impl From<csv::Error> for Failure {
    fn from(error: csv::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}
