//! `mmap(2)` and its kin: large private memory without a file lies in regions, all else is the system's.

use crate::heap::{self, Full, LARGE, PART, owns, ranges, service};
use crate::real::system::{self, FAILED};
use crate::real::{keeping_errno, set_errno};
use libc::{
    EFAULT, EINVAL, ENOMEM, MADV_DONTNEED, MADV_REMOVE, MADV_WIPEONFORK, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE,
    MAP_NORESERVE, MAP_POPULATE, MAP_PRIVATE, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE, c_int, c_void, off_t, size_t,
};
use std::ops::Range;

/// What may be asked of memory that lies in a region.
const TAKEN: c_int = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE;

/// The longest mapping that lies in a region. What is longer is a reservation rather than memory.
const LONGEST: usize = 64 << 30;

fn fail<T>(error: c_int, answer: T) -> T {
    set_errno(error);
    answer
}

/// # Safety
/// As of `mmap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let taken = flags & !TAKEN == 0 && flags & (MAP_PRIVATE | MAP_ANONYMOUS) == MAP_PRIVATE | MAP_ANONYMOUS;
    let taken = taken && protection == PROT_READ | PROT_WRITE && (LARGE..=LONGEST).contains(&length);
    match taken.then(service).flatten() {
        Some(service) => {
            let mapped = keeping_errno(|| heap::allocate(service, length, PART, true, false));
            mapped.unwrap_or_else(|Full| fail(ENOMEM, FAILED))
        }
        None => {
            if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED
                && owns(address)
                && let Some(range) = range(address, length)
            {
                heap::lose(&range);
            }
            // SAFETY: the caller's arguments.
            unsafe { system::mmap(address, length, protection, flags, fd, offset) }
        }
    }
}

/// # Safety
/// As of `mmap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { mmap(address, length, protection, flags, fd, offset) }
}

/// What the linker has this library's own code call for `mmap` (build.rs).
///
/// # Safety
/// As of `mmap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __wrap_mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { system::mmap(address, length, protection, flags, fd, offset) }
}

/// The same of `mmap64`.
///
/// # Safety
/// As of `mmap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __wrap_mmap64(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { system::mmap(address, length, protection, flags, fd, offset) }
}

/// The range of an address and a length in the system's pages; `None`: these are no such.
fn range(address: *mut c_void, length: size_t) -> Option<Range<usize>> {
    let start = address as usize;
    let end = start.checked_add(length.checked_next_multiple_of(PART)?)?;
    (start.is_multiple_of(PART) && start < end).then_some(start..end)
}

/// The pages of the pager that lie within a range. Behind what was asked for, the last page of a mapping is nobody's.
fn whole_pages(range: &Range<usize>) -> Range<usize> {
    let ranges = ranges();
    let page = ranges.page();
    let up = range.end.next_multiple_of(page);
    let last = ranges.at(range.end - 1).is_some_and(|(_, live)| live.end == up);
    range.start.next_multiple_of(page)..if last { up } else { range.end / page * page }
}

/// # Safety
/// As of `munmap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    if !owns(address) {
        // SAFETY: the caller's arguments.
        return unsafe { system::munmap(address, length) };
    }
    let Some(range) = range(address, length) else { return fail(EINVAL, -1) };
    keeping_errno(|| {
        if !heap::is_live(address) {
            heap::lose(&range);
            return heap::reserve_again(&range);
        }
        let pages = whole_pages(&range);
        if !pages.is_empty() {
            heap::free(pages, false);
        }
    });
    0
}

/// # Safety
/// As of `mremap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mremap(
    address: *mut c_void,
    length: size_t,
    new_length: size_t,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    if !owns(address) || !heap::is_live(address) {
        // SAFETY: the caller's arguments.
        return unsafe { system::mremap(address, length, new_length, flags, new_address) };
    }
    let (old, new) = (range(address, length), range(address, new_length));
    // Neither to addresses that the program chooses, nor so that the old ones stay.
    let (Some(old), Some(new), 0) = (old, new, flags & !MREMAP_MAYMOVE) else { return fail(EINVAL, FAILED) };
    let Some((_, live)) = ranges().at(old.start) else { return fail(EFAULT, FAILED) };
    let own_end = live.end >= old.end && live.end - old.end < ranges().page();
    if new.end <= old.end {
        if new.end < old.end {
            keeping_errno(|| heap::zero(new.end..old.end));
            // SAFETY: the caller gives these bytes back.
            unsafe { munmap(new.end as *mut c_void, old.end - new.end) };
        }
        return address;
    }
    let is_start = ranges().at(old.start).is_some_and(|(start, _)| start == old.start);
    if is_start && own_end && keeping_errno(|| heap::resize(address, new_length)) {
        return address;
    }
    if flags & MREMAP_MAYMOVE == 0 {
        return fail(ENOMEM, FAILED);
    }
    let Some(service) = service() else { return fail(ENOMEM, FAILED) };
    let Ok(moved) = heap::allocate(service, new_length, PART, true, true) else { return fail(ENOMEM, FAILED) };
    // SAFETY: both have as many bytes, and the old ones are the caller's.
    unsafe {
        moved.copy_from_nonoverlapping(address, old.len());
        munmap(address, length);
    }
    moved
}

/// # Safety
/// As of `mprotect(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    if owns(address)
        && let Some(range) = range(address, length)
    {
        ranges().protect(&range);
    }
    // SAFETY: the caller's arguments.
    unsafe { system::mprotect(address, length, protection) }
}

/// # Safety
/// As of `madvise(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    if !owns(address) || !heap::is_live(address) {
        // SAFETY: the caller's arguments.
        return unsafe { system::madvise(address, length, advice) };
    }
    if length == 0 {
        return 0;
    }
    let Some(range) = range(address, length) else { return fail(EINVAL, -1) };
    match advice {
        MADV_DONTNEED if keeping_errno(|| heap::zero(range)) => 0,
        MADV_DONTNEED => fail(ENOMEM, -1),
        MADV_REMOVE | MADV_WIPEONFORK => fail(EINVAL, -1),
        // With MADV_FREE memory may keep its bytes; and what the program will use, the policy finds out.
        _ => 0,
    }
}

/// # Safety
/// As of `posix_madvise(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    if owns(address) || advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    // SAFETY: the caller's arguments.
    let done = keeping_errno(|| unsafe { system::madvise(address, length, advice) });
    if done < 0 { EINVAL } else { 0 }
}
