//! Why a command did not do what was asked: the message and the exit code.

use crate::terminal::forms::Form;
use crate::terminal::interrupt;
use forebay_policy::managers::RulesError;
use forebay_report::file::FileError;
use forebay_sim::study::error::{Error, Question, Stop};
use forebay_sim::study::experiment::PlanError;
use std::path::PathBuf;
use std::{fmt, io};

/// A command's failure.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// There is no answer.
    Study(Error),
    /// A file of the command's own failed.
    File(PathBuf, io::Error),
    /// Standard output failed.
    Output(io::Error),
    /// Something else failed: an experiment's file, a file of charts, the system, a server.
    Failed(Box<dyn std::error::Error>),
    /// The user stopped an experiment.
    ExperimentStopped,
    /// A program cannot be run: the exit code by which shells say so, and why.
    Program(u8, String),
    /// Standard output says what went wrong: this exit code alone.
    Said(u8),
    /// Whoever reads standard output has gone (`forebay … | head`): no failure of ours.
    ReaderGone,
}

impl Failure {
    /// As `forebay --help` says.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::Usage(_) | Self::Study(Error::Question(_)) => 2,
            Self::Study(Error::Managers(RulesError::Wrong { .. })) => 2,
            Self::Study(Error::Trace(error)) if error.is_mistyped() => 2,
            Self::Study(Error::Stopped(_)) | Self::ExperimentStopped => interrupt::EXIT_CODE,
            Self::Said(code) | Self::Program(code, _) => *code,
            Self::Study(_) | Self::File(..) | Self::Output(_) | Self::Failed(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Program(_, message) => f.write_str(message),
            Self::Failed(error) => error.fmt(f),
            Self::Study(error) => error.fmt(f),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Output(error) => write!(f, "writing to standard output failed: {error}"),
            Self::ExperimentStopped => f.write_str("the experiment is stopped; shown are the tables that are whole"),
            Self::Said(code) => write!(f, "exit code {code}"),
            Self::ReaderGone => f.write_str("nobody reads standard output"),
        }
    }
}

impl std::error::Error for Failure {}

/// The answer, or none where the user stopped it: what was answered before is kept then.
pub(crate) fn unless_stopped<T>(answer: Result<T, Error>, stopped: &mut Option<Stop>) -> Result<Option<T>, Failure> {
    match answer {
        Err(Error::Stopped(stop)) => {
            *stopped = Some(stop);
            Ok(None)
        }
        answer => Ok(Some(answer?)),
    }
}

/// How a command ends whose last answer has advice and was stopped: advice says so, and only tables show it to a person.
pub(crate) fn stopped_with_advice(stop: Stop, form: Form) -> Failure {
    if form == Form::Table { Failure::Said(interrupt::EXIT_CODE) } else { stop.into() }
}

macro_rules! from {
    ($($error:ty => $failure:expr),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                $failure(error)
            }
        })*
    };
}

from! {
    Error => Self::Study,
    Question => |question| Self::Study(Error::Question(question)),
    Stop => |stop| Self::Study(Error::Stopped(stop)),
    RulesError => |error| Self::Study(Error::Managers(error)),
    forebay_trace::Error => |error: forebay_trace::Error| {
        if error.is_of_closed_pipe() { Self::ReaderGone } else { Self::Study(Error::Trace(error)) }
    },
    PlanError => |error: PlanError| {
        if error.is_unreadable() { Self::Failed(Box::new(error)) } else { Self::Usage(error.to_string()) }
    },
    FileError => |error: FileError| match error {
        FileError::Another(_) | FileError::Special(_) => Self::Usage(error.to_string()),
        error => Self::Failed(Box::new(error)),
    },
    String => |message: String| Self::Failed(message.into()),
    csv::Error => |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(error) => Self::from(error),
        kind => Self::from(format!("{kind:?}")),
    },
    serde_json::Error => |error| Self::from(io::Error::from(error)),
}

impl From<forebay_record::Error> for Failure {
    fn from(error: forebay_record::Error) -> Self {
        match error {
            forebay_record::Error::Usage(message) => Self::Usage(message),
            forebay_record::Error::Program(code, message) => Self::Program(code, message),
            forebay_record::Error::File(path, error) => Self::File(path, error),
            forebay_record::Error::Trace(error) => Self::from(error),
            forebay_record::Error::Failed(message) => Self::from(message),
            forebay_record::Error::Lost => Self::Said(forebay_record::OWN_FAILURE),
        }
    }
}

impl From<crate::top::Error> for Failure {
    fn from(error: crate::top::Error) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Output(error),
        }
    }
}

impl From<forebay_server::Error> for Failure {
    fn from(error: forebay_server::Error) -> Self {
        let message = error.to_string();
        if error.is_usage() { Self::Usage(message) } else { Self::from(message) }
    }
}
