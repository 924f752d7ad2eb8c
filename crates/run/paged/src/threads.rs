//! Which threads are the pager's: those that this library's code starts, and those that they start. Their memory is [this library's own](crate::own), the
//! C library's on these threads, too: it allocates where a thread is started.
//!
//! The mark is asked for by each `malloc` of the program. So it lies where the thread's pointer leads without a call (the initial-exec model of
//! thread-local storage). What Rust makes of `thread_local!` in a library is a call, which may allocate in turn.

use crate::real::Next;
use libc::{EAGAIN, c_int, c_void, pthread_attr_t, pthread_t};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
std::arch::global_asm!(
    ".pushsection .tbss.forebay_paged_thread, \"awT\", %nobits",
    ".hidden forebay_paged_thread",
    ".globl forebay_paged_thread",
    ".type forebay_paged_thread, %object",
    ".size forebay_paged_thread, 1",
    "forebay_paged_thread:",
    ".zero 1",
    ".popsection",
);

/// Where this thread's mark is.
#[cfg(target_arch = "x86_64")]
#[inline]
fn mark() -> *mut u8 {
    let place: *mut u8;
    // SAFETY: it reads the thread's pointer, and how far from it the mark is.
    unsafe {
        std::arch::asm!(
            "mov {place}, qword ptr fs:[0]",
            "add {place}, qword ptr [rip + forebay_paged_thread@GOTTPOFF]",
            place = out(reg) place,
            options(pure, readonly, nostack),
        );
    }
    place
}

/// The same.
#[cfg(target_arch = "aarch64")]
#[inline]
fn mark() -> *mut u8 {
    let place: *mut u8;
    // SAFETY: it reads the thread's pointer, and how far from it the mark is.
    unsafe {
        std::arch::asm!(
            "adrp {far}, :gottprel:forebay_paged_thread",
            "ldr {far}, [{far}, :gottprel_lo12:forebay_paged_thread]",
            "mrs {place}, tpidr_el0",
            "add {place}, {place}, {far}",
            far = out(reg) _,
            place = out(reg) place,
            options(pure, readonly, nostack),
        );
    }
    place
}

/// Elsewhere no thread has one of its own: what the C library allocates on the pager's threads is the program's there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn mark() -> *mut u8 {
    Box::leak(Box::new(0))
}

/// Whether this thread is the pager's.
#[inline]
pub(crate) fn is_pagers() -> bool {
    // SAFETY: the mark is this thread's own byte, and lives as long as the thread.
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && unsafe { mark().read_volatile() != 0 }
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// What a new thread is to do.
struct Begin(Start, *mut c_void);

extern "C" fn begin(given: *mut c_void) -> *mut c_void {
    // SAFETY: this thread's own byte.
    unsafe { mark().write_volatile(1) };
    // SAFETY: it was made below for this thread.
    let Begin(start, argument) = *unsafe { Box::from_raw(given.cast()) };
    start(argument)
}

/// What the linker has this library's own code call for `pthread_create` (build.rs).
///
/// # Safety
/// As of `pthread_create(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __wrap_pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    static FUNCTION: Next = Next::new(c"pthread_create");
    type Create = unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;
    let Some(found) = FUNCTION.find() else { return EAGAIN };
    let given = Box::into_raw(Box::new(Begin(start, argument)));
    // SAFETY: the function of that name has this type; the caller's arguments.
    let failed = unsafe { std::mem::transmute::<usize, Create>(found)(thread, attributes, begin, given.cast()) };
    if failed != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(given) });
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn a_thread_that_this_library_starts_is_the_pagers_and_no_other() {
        extern "C" fn ask(_: *mut c_void) -> *mut c_void {
            usize::from(is_pagers()) as *mut c_void
        }
        let (mut thread, mut answer) = (0, null_mut());
        // SAFETY: the thread is joined, and has nothing.
        unsafe {
            assert_eq!(__wrap_pthread_create(&raw mut thread, std::ptr::null(), ask, null_mut()), 0);
            assert_eq!(libc::pthread_join(thread, &raw mut answer), 0);
        }
        assert_eq!(answer as usize, 1);
        assert!(!is_pagers() && !std::thread::spawn(is_pagers).join().expect("it answers"));
    }
}
