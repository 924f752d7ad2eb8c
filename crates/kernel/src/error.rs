//! What keeps a page cache from being steered.

use crate::watch::WatchError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What keeps a page cache from being steered.
#[derive(Clone, Debug)]
pub enum Error {
    /// A directory or control group that cannot be.
    Place {
        /// Which.
        place: PathBuf,
        /// Why.
        what: String,
    },
    /// The kernel does not let its page cache be watched.
    Watch(Arc<WatchError>),
    /// The process has not these capabilities, and may not open files of other users.
    Rights(Vec<&'static str>),
    /// The pool refuses.
    Pool(forebay_pool::Error),
    /// The system refuses.
    System {
        /// What was asked of it.
        asked: &'static str,
        /// Why.
        source: Arc<io::Error>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { place, what } => write!(f, "{}: {what}", place.display()),
            Self::Watch(error) => error.fmt(f),
            Self::Rights(missing) => write!(
                f,
                "steering opens files of all users by their inodes: it needs root, or capabilities for that. This process lacks {}",
                missing.join(" and ")
            ),
            Self::Pool(error) => error.fmt(f),
            Self::System { asked, source } => write!(f, "{asked}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Place { .. } | Self::Rights(_) => None,
            Self::Watch(error) => Some(&**error),
            Self::Pool(error) => Some(error),
            Self::System { source, .. } => Some(&**source),
        }
    }
}

impl From<WatchError> for Error {
    fn from(error: WatchError) -> Self {
        Self::Watch(Arc::new(error))
    }
}

impl From<forebay_pool::Error> for Error {
    fn from(error: forebay_pool::Error) -> Self {
        Self::Pool(error)
    }
}
