//! The C library's own functions, behind those of this library.

use libc::{ENOSYS, c_int, c_void, pid_t, size_t};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

// These names are of the C library alone, so that nobody stands before them.
unsafe extern "C" {
    fn __libc_malloc(size: size_t) -> *mut c_void;
    fn __libc_calloc(count: size_t, size: size_t) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: size_t) -> *mut c_void;
    fn __libc_memalign(alignment: size_t, size: size_t) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

pub(crate) fn malloc(size: size_t) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { __libc_malloc(size) }
}

pub(crate) fn calloc(count: size_t, size: size_t) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { __libc_calloc(count, size) }
}

pub(crate) fn memalign(alignment: size_t, size: size_t) -> *mut c_void {
    // SAFETY: any size and alignment may be asked for.
    unsafe { __libc_memalign(alignment, size) }
}

/// # Safety
/// The block is null or the C library's, and the caller does not use it any more.
pub(crate) unsafe fn realloc(block: *mut c_void, size: size_t) -> *mut c_void {
    // SAFETY: as above.
    unsafe { __libc_realloc(block, size) }
}

/// # Safety
/// The block is null or the C library's, and nobody uses it any more.
pub(crate) unsafe fn free(block: *mut c_void) {
    // SAFETY: as above.
    unsafe { __libc_free(block) }
}

/// A function of the libraries behind this one, by its name.
pub(crate) struct Next(&'static CStr, AtomicUsize);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self(name, AtomicUsize::new(0))
    }

    /// Its address; `None`: nobody has it.
    pub(crate) fn find(&self) -> Option<usize> {
        self.find_in(|| libc::RTLD_NEXT)
    }

    /// The same in one library.
    fn find_in(&self, library: impl FnOnce() -> *mut c_void) -> Option<usize> {
        let mut found = self.1.load(Ordering::Relaxed);
        let library = if found == 0 { library() } else { null_mut() };
        if !library.is_null() {
            // SAFETY: the name ends in 0.
            found = unsafe { libc::dlsym(library, self.0.as_ptr()) } as usize;
            self.1.store(found, Ordering::Relaxed);
        }
        (found != 0).then_some(found)
    }
}

/// What a function answers that nobody has.
pub(crate) fn missing() -> c_int {
    set_errno(ENOSYS);
    -1
}

/// # Safety
/// The block is the C library's.
pub(crate) unsafe fn usable_size(block: *mut c_void) -> size_t {
    // Not another allocator's, which the program may have been linked with.
    static FUNCTION: Next = Next::new(c"malloc_usable_size");
    let libc = || {
        // SAFETY: the name ends in 0, and the library is there.
        unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
    };
    let Some(found) = FUNCTION.find_in(libc) else { return 0 };
    // SAFETY: the function of that name has this type, and the block is one of its library's.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> size_t>(found)(block) }
}

/// # Safety
/// As of `fork(2)`.
pub(crate) unsafe fn fork() -> pid_t {
    static FUNCTION: Next = Next::new(c"fork");
    let Some(found) = FUNCTION.find() else { return missing() };
    // SAFETY: the function of that name has this type.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn() -> pid_t>(found)() }
}

/// What is called at a fork.
pub(crate) type Handler = Option<extern "C" fn()>;

/// # Safety
/// As of `pthread_atfork(3)`, for a library.
pub(crate) unsafe fn register_atfork(prepare: Handler, parent: Handler, child: Handler, library: *mut c_void) -> c_int {
    static FUNCTION: Next = Next::new(c"__register_atfork");
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;
    let Some(found) = FUNCTION.find() else { return ENOSYS };
    // SAFETY: the function of that name has this type.
    unsafe { std::mem::transmute::<usize, Register>(found)(prepare, parent, child, library) }
}

/// The system's own calls, by their numbers: the C library's functions of these names are this library's.
pub(crate) mod system {
    use super::{c_int, c_void, size_t};
    use libc::{SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, c_long, off_t, syscall};

    pub(crate) const FAILED: *mut c_void = libc::MAP_FAILED;

    /// # Safety
    /// As of `mmap(2)`.
    pub(crate) unsafe fn mmap(
        address: *mut c_void,
        length: size_t,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t,
    ) -> *mut c_void {
        // SAFETY: the caller's arguments, as wide as the kernel takes them.
        unsafe {
            syscall(SYS_mmap, address, length, c_long::from(protection), c_long::from(flags), c_long::from(fd), offset)
                as *mut c_void
        }
    }

    /// # Safety
    /// As of `munmap(2)`.
    pub(crate) unsafe fn munmap(address: *mut c_void, length: size_t) -> c_int {
        // SAFETY: the caller's arguments.
        unsafe { syscall(SYS_munmap, address, length) as c_int }
    }

    /// # Safety
    /// As of `mremap(2)`.
    pub(crate) unsafe fn mremap(
        address: *mut c_void,
        length: size_t,
        new_length: size_t,
        flags: c_int,
        new_address: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: the caller's arguments.
        unsafe { syscall(SYS_mremap, address, length, new_length, c_long::from(flags), new_address) as *mut c_void }
    }

    /// # Safety
    /// As of `mprotect(2)`.
    pub(crate) unsafe fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
        // SAFETY: the caller's arguments.
        unsafe { syscall(SYS_mprotect, address, length, c_long::from(protection)) as c_int }
    }

    /// # Safety
    /// As of `madvise(2)`.
    pub(crate) unsafe fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
        // SAFETY: the caller's arguments.
        unsafe { syscall(SYS_madvise, address, length, c_long::from(advice)) as c_int }
    }
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
