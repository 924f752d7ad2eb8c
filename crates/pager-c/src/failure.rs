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

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { number: forebay_pool::errno_of(&error), sentence: error.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { number: error.errno(), sentence: error.to_string() }
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
