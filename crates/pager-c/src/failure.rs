//! Why a call failed: an errno, and a sentence for the thread that called.

use forebay_pager::Error;
use libc::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::CString;
use std::io;

pub(crate) struct Failure {
    number: c_int,
    sentence: String,
}

pub(crate) fn invalid(sentence: String) -> Failure {
    Failure { number: libc::EINVAL, sentence }
}

/// The number of a kind of failure that no system call has given a number.
fn number_of(kind: io::ErrorKind) -> c_int {
    match kind {
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::ResourceBusy => libc::EBUSY,
        io::ErrorKind::StorageFull => libc::ENOSPC,
        io::ErrorKind::Unsupported => libc::ENOTSUP,
        _ => libc::EIO,
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { number: error.raw_os_error().unwrap_or_else(|| number_of(error.kind())), sentence: error.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let sentence = error.to_string();
        let number = match error {
            Error::Configuration(_) => libc::EINVAL,
            Error::Forked => libc::ENOTSUP,
            Error::Memory { source, .. } => Self::from(source).number,
            Error::Pool(forebay_pool::Error::Device { source, .. }) => {
                source.raw_os_error().unwrap_or_else(|| number_of(source.kind()))
            }
            Error::Pool(error) => number_of(error.kind()),
        };
        Self { number, sentence }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The last failure of a call of this thread, in a sentence; empty if there was none. It stands until the next call of this thread.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn forebay_pager_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Takes note of a failure, in errno, too.
pub(crate) fn keep<T>(result: Result<T, Failure>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Failure { number, sentence }) => {
            let sentence = CString::new(sentence.replace('\0', " ")).expect("no zero is left");
            LAST.with_borrow_mut(|last| *last = sentence);
            // SAFETY: this thread's own number.
            unsafe { *libc::__errno_location() = number };
            None
        }
    }
}

/// 0, or -1.
pub(crate) fn done(result: Result<(), Failure>) -> c_int {
    keep(result).map_or(-1, |()| 0)
}
