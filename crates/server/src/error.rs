//! Why a server does not serve.

use std::fmt;

/// What went wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The options make no sense.
    Usage(String),
    /// A file, a device, a socket or the system failed.
    Failed(String),
    /// Storage is open elsewhere. It may be closed in a moment.
    InUse(String),
}

impl Error {
    /// The same, of a volume that it may name already.
    pub(crate) fn of_volume(self, name: &str) -> Self {
        let volume = format!("volume {name}: ");
        let named = |what: String| if what.starts_with(&volume) { what } else { volume.clone() + &what };
        match self {
            Self::Usage(what) => Self::Usage(named(what)),
            Self::Failed(what) => Self::Failed(named(what)),
            Self::InUse(what) => Self::InUse(named(what)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Failed(what) | Self::InUse(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<forebay_pool::Error> for Error {
    fn from(error: forebay_pool::Error) -> Self {
        match error {
            forebay_pool::Error::Configuration(what) => Self::Usage(what),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<forebay_nbd::Error> for Error {
    fn from(error: forebay_nbd::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<forebay_fuse::Error> for Error {
    fn from(error: forebay_fuse::Error) -> Self {
        match error {
            forebay_fuse::Error::Usage(what) => Self::Usage(what),
            other => Self::Failed(other.to_string()),
        }
    }
}
