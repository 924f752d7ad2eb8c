//! What goes wrong.

use std::{fmt, io};

/// Why there is no region, or what became of its pages.
#[derive(Debug)]
pub enum Error {
    /// A setting makes no sense.
    Configuration(String),
    /// The kernel gives no memory, no addresses or no faults.
    Memory {
        /// What for.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// This process is a child of the one that has the pager.
    Forked,
    /// The pool, or storage, fails.
    Pool(forebay_pool::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(why) => f.write_str(why),
            Self::Memory { what, source } => write!(f, "{what}: {source}"),
            Self::Forked => f.write_str("a child of fork does not have its parent's regions: make a pager here, too"),
            Self::Pool(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Configuration(_) | Self::Forked => None,
            Self::Memory { source, .. } => Some(source),
            Self::Pool(error) => error.source(),
        }
    }
}

impl From<forebay_pool::Error> for Error {
    fn from(error: forebay_pool::Error) -> Self {
        Self::Pool(error)
    }
}

impl Error {
    /// The system's number for it, for callers whose language has these.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Configuration(_) => libc::EINVAL,
            Self::Forked => libc::ENOTSUP,
            Self::Memory { source, .. } => forebay_pool::errno_of(source),
            Self::Pool(error) => error.errno(),
        }
    }
}
