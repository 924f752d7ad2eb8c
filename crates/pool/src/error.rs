//! What can go wrong in the pool.

use forebay_policy::Uncontrolled;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Why an operation of the pool failed.
#[derive(Clone, Debug)]
pub enum Error {
    /// The device failed.
    Device {
        /// The volume.
        volume: String,
        /// What it was asked to do: read, write, flush…
        operation: &'static str,
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// What it said.
        source: Arc<io::Error>,
    },
    /// All frames hold pages that are pinned, so that none can be freed.
    AllPinned,
    /// Pages must be written first, which this [handle leaves to others](crate::Handle::leave_writing_to_others).
    Busy,
    /// A later call that sets the capacity has taken the place of this one.
    Superseded,
    /// The range lies beyond the volume's end.
    OutOfRange {
        /// The volume.
        volume: String,
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// The volume's length.
        end: u64,
    },
    /// The volume has been detached.
    Detached {
        /// The volume.
        volume: String,
    },
    /// Pages of a volume that is to go are held, or are being written by a device that hangs.
    InUse {
        /// The volume.
        volume: String,
    },
    /// The policy refuses the command.
    Uncontrolled {
        /// The policy.
        policy: String,
        /// Why not.
        why: Uncontrolled,
    },
    /// The volume is not to be written.
    ReadOnly {
        /// The volume.
        volume: String,
    },
    /// As many handles are open as a pool can have.
    TooManyHandles,
    /// There is no memory for the pool.
    Memory {
        /// The bytes wanted.
        bytes: u64,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The system has no thread for the pool.
    Threads(Arc<io::Error>),
    /// The configuration makes no sense.
    Configuration(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { volume, operation, offset, length, source } => {
                write!(f, "volume {volume}: {operation} of {length} bytes at byte {offset} failed: {source}")
            }
            Self::AllPinned => {
                f.write_str("every page of the cache is pinned: no frame can be freed; pin fewer or make it larger")
            }
            Self::Busy => f.write_str("other pages must be written first: ask again by a handle that may write"),
            Self::Superseded => {
                f.write_str("another change of the cache's size came meanwhile, and took this one's place")
            }
            Self::OutOfRange { volume, offset, length, end } => {
                write!(f, "volume {volume}: {length} bytes at byte {offset} lie beyond its end at byte {end}")
            }
            Self::Detached { volume } => write!(f, "volume {volume} has been detached: attach it again to use it"),
            Self::InUse { volume } => {
                write!(f, "pages of volume {volume} are in use: let them go before the volume is detached")
            }
            Self::Uncontrolled { policy, why } => write!(f, "policy {policy}: {why}"),
            Self::ReadOnly { volume } => write!(f, "volume {volume} is read-only"),
            Self::TooManyHandles => {
                write!(f, "{} handles of the pool are open, and there can be no more", crate::HANDLES)
            }
            Self::Memory { bytes, source } => {
                write!(f, "no address space for a cache of up to {bytes} bytes: {source}; ask for less")
            }
            Self::Threads(source) => {
                write!(
                    f,
                    "the pool cannot start its threads: {source}; is the limit of processes (`ulimit -u`) too low?"
                )
            }
            Self::Configuration(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { source, .. } | Self::Memory { source, .. } | Self::Threads(source) => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// The volume that it is about, which its message names.
    pub fn volume(&self) -> Option<&str> {
        match self {
            Self::Device { volume, .. }
            | Self::OutOfRange { volume, .. }
            | Self::Detached { volume }
            | Self::InUse { volume }
            | Self::ReadOnly { volume } => Some(volume),
            Self::AllPinned
            | Self::Busy
            | Self::Superseded
            | Self::Uncontrolled { .. }
            | Self::TooManyHandles
            | Self::Memory { .. }
            | Self::Threads(_)
            | Self::Configuration(_) => None,
        }
    }

    /// The system's kind of error, for callers that pass errors on as such.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Device { source, .. } => source.kind(),
            Self::AllPinned | Self::TooManyHandles | Self::Memory { .. } => io::ErrorKind::OutOfMemory,
            Self::Threads(source) => source.kind(),
            Self::Superseded => io::ErrorKind::Interrupted,
            Self::Uncontrolled { .. } => io::ErrorKind::Unsupported,
            Self::Detached { .. } => io::ErrorKind::NotFound,
            Self::InUse { .. } | Self::Busy => io::ErrorKind::ResourceBusy,
            Self::OutOfRange { .. } | Self::Configuration(_) => io::ErrorKind::InvalidInput,
            Self::ReadOnly { .. } => io::ErrorKind::PermissionDenied,
        }
    }

    /// The system's number for it, for callers whose language has these.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Device { source, .. } | Self::Memory { source, .. } => errno_of(source),
            error => errno_of(&error.kind().into()),
        }
    }
}

/// The number of an error, also of one that no system call has given a number.
pub fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_else(|| match error.kind() {
        io::ErrorKind::AlreadyExists => libc::EEXIST,
        io::ErrorKind::FileTooLarge => libc::EFBIG,
        io::ErrorKind::Interrupted => libc::EINTR,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::IsADirectory => libc::EISDIR,
        io::ErrorKind::NotADirectory => libc::ENOTDIR,
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::QuotaExceeded => libc::EDQUOT,
        io::ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        io::ErrorKind::ResourceBusy => libc::EBUSY,
        io::ErrorKind::StaleNetworkFileHandle => libc::ESTALE,
        io::ErrorKind::StorageFull => libc::ENOSPC,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::Unsupported => libc::ENOTSUP,
        _ => libc::EIO,
    })
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}
