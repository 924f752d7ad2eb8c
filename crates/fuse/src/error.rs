//! Why a mount fails, and what programs get of the pool's errors.

use crate::protocol::Errno;
use std::fmt;
use std::io;

/// Why a directory cannot be mounted, or could not be unmounted cleanly.
#[derive(Debug)]
pub enum Error {
    /// The source or the mount point cannot be used so.
    Usage(String),
    /// The system refused something.
    System {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// What was written to these files is not known to be durable, and why.
    NotDurable(Vec<String>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => f.write_str(what),
            Self::System { what, source } => write!(f, "{what}: {source}"),
            Self::NotDurable(files) => write!(f, "not all that was written is durable: {}", files.join("; ")),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::Usage(_) | Self::NotDurable(_) => None,
        }
    }
}

/// The system's number for an error of the pool.
pub(crate) fn errno(error: &forebay_pool::Error) -> Errno {
    match error {
        forebay_pool::Error::Device { source, .. } => source.raw_os_error().map_or(Errno::EIO, Errno::of),
        forebay_pool::Error::AllPinned | forebay_pool::Error::TooManyHandles | forebay_pool::Error::Memory { .. } => {
            Errno::ENOMEM
        }
        forebay_pool::Error::ReadOnly { .. } => Errno::EROFS,
        forebay_pool::Error::Detached { .. } => Errno::ESTALE,
        _ => Errno::EIO,
    }
}
