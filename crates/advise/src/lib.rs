//! A library that `forebay advise` preloads into a program: FUSE does not pass advice on files on to the file system, so this does, by the ioctl
//! `FOREBAY_HINT` of `include/forebay.h`, besides calling the function itself.
//!
//! - What the program sees stays what it was: the function's return value, and `errno`.
//! - Nothing is allocated, and no lock taken: advice may come from a signal handler. Files that are not on a FUSE file system cost one `fstatfs`,
//!   other FUSE file systems one ioctl that they refuse.
//! - `madvise` speaks of addresses. What file lies there `/proc/self/maps` says (`mapping.rs`); the advice is sent through a descriptor that
//!   the program has of it, or one opened for the purpose.
//!
//! What advice becomes:
//!
//! | of `madvise` | sent as | because |
//! | --- | --- | --- |
//! | `MADV_NORMAL`, `RANDOM`, `SEQUENTIAL` | the same | only if the program has the file open: such advice is of an open file |
//! | `MADV_WILLNEED` | the same | |
//! | `MADV_COLD`, `MADV_PAGEOUT` | `DONTNEED` | the bytes are not needed soon, by whomever |
//! | `MADV_DONTNEED` | nothing | the process drops its mapping: a way to free memory, which says nothing of the file |

mod hint;
mod mapping;
mod real;

use hint::{Advice, on_descriptor};
use libc::{c_int, c_void, off_t, off64_t, size_t, ssize_t};
use real::Function;

static FADVISE: Function = Function::new(c"posix_fadvise");
static FADVISE64: Function = Function::new(c"posix_fadvise64");
static MADVISE: Function = Function::new(c"madvise");
static POSIX_MADVISE: Function = Function::new(c"posix_madvise");
static READAHEAD: Function = Function::new(c"readahead");

/// Finds the functions as soon as the library is there: a program may call them where it must not allocate, which to find them might.
#[used]
#[unsafe(link_section = ".init_array")]
static FIND_ALL: extern "C" fn() = find_all;

extern "C" fn find_all() {
    for function in [&FADVISE, &FADVISE64, &MADVISE, &POSIX_MADVISE, &READAHEAD] {
        function.look();
    }
}

type Fadvise = unsafe extern "C" fn(c_int, off64_t, off64_t, c_int) -> c_int;
type Madvise = unsafe extern "C" fn(*mut c_void, size_t, c_int) -> c_int;
type Readahead = unsafe extern "C" fn(c_int, off64_t, size_t) -> ssize_t;

/// # Safety
/// As of `posix_fadvise(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fadvise(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int {
    // SAFETY: the function of that name has that type, and its arguments are the caller's.
    let done = unsafe { FADVISE.find::<Fadvise>().map_or(libc::ENOSYS, |real| real(fd, offset, length, advice)) };
    advise_file(done, fd, offset, length, advice)
}

/// # Safety
/// As of `posix_fadvise(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fadvise64(fd: c_int, offset: off64_t, length: off64_t, advice: c_int) -> c_int {
    // SAFETY: the function of that name has that type, and its arguments are the caller's.
    let done = unsafe { FADVISE64.find::<Fadvise>().map_or(libc::ENOSYS, |real| real(fd, offset, length, advice)) };
    advise_file(done, fd, offset, length, advice)
}

fn advise_file(done: c_int, fd: c_int, offset: off64_t, length: off64_t, advice: c_int) -> c_int {
    if done == 0
        && let (Ok(offset), Ok(length)) = (u64::try_from(offset), u64::try_from(length))
        && let Some(advice) = Advice::of_file(advice)
    {
        on_descriptor(fd, offset, length, advice);
    }
    done
}

/// # Safety
/// As of `readahead(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readahead(fd: c_int, offset: off64_t, count: size_t) -> ssize_t {
    // SAFETY: the function of that name has that type, and its arguments are the caller's.
    let done = unsafe { READAHEAD.find::<Readahead>().map_or_else(real::missing, |real| real(fd, offset, count)) };
    if done == 0
        && count > 0
        && let Ok(offset) = u64::try_from(offset)
    {
        on_descriptor(fd, offset, count as u64, Advice::WillNeed);
    }
    done
}

/// # Safety
/// As of `madvise(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    // SAFETY: the function of that name has that type, and its arguments are the caller's.
    let done = unsafe {
        MADVISE.find::<Madvise>().map_or_else(|| real::missing() as c_int, |real| real(address, length, advice))
    };
    if done == 0
        && let Some(advice) = Advice::of_memory(advice)
    {
        mapping::advise(address as usize, length, advice);
    }
    done
}

/// # Safety
/// As of `posix_madvise(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    // SAFETY: the function of that name has that type, and its arguments are the caller's.
    let done = unsafe { POSIX_MADVISE.find::<Madvise>().map_or(libc::ENOSYS, |real| real(address, length, advice)) };
    // Its DONTNEED is a no-op of the C library's.
    if done == 0
        && let Some(advice) = Advice::of_memory(advice)
    {
        mapping::advise(address as usize, length, advice);
    }
    done
}
