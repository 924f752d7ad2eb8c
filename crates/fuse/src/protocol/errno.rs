//! The system's error numbers, as answers carry them.

use std::io;

/// An error number of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(i32);

macro_rules! numbers {
    ($($name:ident)*) => {
        impl Errno {
            $(pub(crate) const $name: Self = Self(libc::$name);)*
        }
    };
}

numbers! {
    EACCES EBADF EEXIST EFBIG EINTR EINVAL EIO EISDIR ENOMEM ENOSYS ENOTCONN ENOTTY ENXIO EOPNOTSUPP EPERM ERANGE EROFS ESRCH
    ESTALE ETIMEDOUT
}

impl Errno {
    /// A number that the system has given.
    pub(crate) fn of(code: i32) -> Self {
        Self(code)
    }

    pub(crate) fn code(self) -> i32 {
        self.0
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Self {
        Self(error.raw_os_error())
    }
}

impl From<Errno> for io::Error {
    fn from(error: Errno) -> Self {
        Self::from_raw_os_error(error.0)
    }
}
