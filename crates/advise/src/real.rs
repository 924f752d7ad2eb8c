//! The functions themselves, behind those of this library.

use libc::{c_int, c_void, ssize_t};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next library that has it.
pub(crate) struct Function {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Function {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Looks for it.
    pub(crate) fn look(&self) -> *mut c_void {
        // SAFETY: the name is a string that ends in 0.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }

    /// # Safety
    /// `F` is the type of a pointer to the function.
    pub(crate) unsafe fn find<F>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // Another library's start came before this one's.
            found = self.look();
        }
        if found.is_null() {
            return None;
        }
        // SAFETY: it is a pointer to a function of type `F`, as the caller says.
        Some(unsafe { std::mem::transmute_copy(&found) })
    }
}

/// What a function answers that there is not: no C library lacks one of these.
pub(crate) fn missing() -> ssize_t {
    set_errno(libc::ENOSYS);
    -1
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: it points to this thread's number.
    unsafe { *libc::__errno_location() = error };
}

/// Does something, and leaves `errno` as it was.
pub(crate) fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: it points to this thread's number.
    let before = unsafe { *libc::__errno_location() };
    let done = work();
    set_errno(before);
    done
}
