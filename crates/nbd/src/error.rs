//! What can go wrong.

use std::path::PathBuf;
use std::{fmt, io};

/// Why the server cannot do what its owner asked.
#[derive(Debug)]
pub enum Error {
    /// Two exports have one name.
    DuplicateName(String),
    /// An export's name is longer than the 4096 bytes of the protocol.
    LongName(String),
    /// An export's sizes of requests are not what the protocol allows.
    BlockSizes {
        /// The export.
        name: String,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// A certificate or key cannot be used.
    Tls {
        /// Its file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A listener cannot be used.
    Listen(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateName(name) => write!(f, "two exports are named {name:?}: names must differ"),
            Self::LongName(name) => {
                write!(f, "the name of an export has {} bytes: at most 4096 are allowed", name.len())
            }
            Self::BlockSizes { name, reason } => write!(f, "the sizes of requests of export {name:?}: {reason}"),
            Self::Tls { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Listen(error) => write!(f, "cannot listen: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Listen(error) = self { Some(error) } else { None }
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum Close {
    /// The client asked for it, or has nothing more to say.
    Finished,
    /// The server stops.
    Stopping,
    /// The handshake took too long, or another client has taken its place.
    Late,
    /// The client rests in the middle of a request.
    Stalled,
    /// The client is slow, and others wait for the memory of its request.
    Slow,
    /// The client has asked for nothing for a long time.
    Idle,
    /// What the client sent is not the protocol.
    Malformed(String),
    /// The client may not have what it asked for, and there is no reply to say so.
    Refused(String),
    /// The connection is lost.
    Lost(io::Error),
}

impl From<io::Error> for Close {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => write!(f, "the client has finished"),
            Self::Stopping => write!(f, "the server is stopping"),
            Self::Late => write!(f, "the handshake took too long"),
            Self::Stalled => write!(f, "the client does not go on with the request that it has begun"),
            Self::Slow => {
                write!(f, "the client sends less than 256 KiB a second, and others wait for the memory of its request")
            }
            Self::Idle => write!(f, "the client has asked for nothing for too long"),
            Self::Malformed(what) => write!(f, "the client does not keep to the protocol: {what}"),
            Self::Refused(what) => write!(f, "refused: {what}"),
            Self::Lost(error) => write!(f, "the connection is lost: {error}"),
        }
    }
}
