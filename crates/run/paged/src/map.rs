//! `mmap(2)` and its kin: large private memory and large private mappings of files lie in regions, all else is the system's.

use crate::files::Asked;
use crate::heap::{self, Full, LARGE, PART, Pieces, Wanted, owns, ranges, service};
use crate::real::system::{self, FAILED};
use crate::real::{keeping_errno, set_errno};
use crate::spans::gaps;
use libc::{
    EFAULT, EINVAL, ENOMEM, MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_REMOVE, MADV_WIPEONFORK, MAP_ANONYMOUS,
    MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_POPULATE, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE,
    POSIX_MADV_DONTNEED, PROT_READ, PROT_WRITE, c_int, c_void, off_t, size_t,
};
use std::ops::Range;
use std::ptr::null_mut;

/// What may be asked of mappings that lie in a region.
const TAKEN: c_int = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE;

/// The longest mapping that lies in a region. What is longer is a reservation rather than memory.
const LONGEST: usize = 64 << 30;

fn fail<T>(error: c_int, answer: T) -> T {
    set_errno(error);
    answer
}

/// `mmap` of programs. Its own name here: what this library calls `mmap` is the system's (build.rs), in its other modules and, as the compiler likes, in this one.
///
/// # Safety
/// As of `mmap(2)`.
unsafe fn map(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if flags & !TAKEN == 0 && flags & MAP_PRIVATE != 0 && (LARGE..=LONGEST).contains(&length) {
        let paged = if flags & MAP_ANONYMOUS != 0 {
            memory(length, protection, flags & MAP_NORESERVE == 0)
        } else {
            keeping_errno(|| file(length, protection, fd, offset))
        };
        if let Some(paged) = paged {
            return paged;
        }
    }
    // SAFETY: the caller's arguments.
    let map = || unsafe { system::mmap(address, length, protection, flags, fd, offset) };
    let fixed = flags & MAP_FIXED != 0 && flags & MAP_FIXED_NOREPLACE == 0;
    over(if fixed { range(address, length) } else { None }, map)
}

/// Maps memory in a region, or fails; `None`: it is to be the system's.
fn memory(length: usize, protection: c_int, reserved: bool) -> Option<*mut c_void> {
    let service = (protection == PROT_READ | PROT_WRITE).then(service).flatten()?;
    let wanted = Wanted { alignment: PART, zero: true, grows: false, reserved };
    let mapped = keeping_errno(|| heap::allocate(service, length, wanted));
    Some(mapped.unwrap_or_else(|Full| fail(ENOMEM, FAILED)))
}

/// Maps a file in a region; `None`: it is to be the system's.
fn file(length: usize, protection: c_int, fd: c_int, offset: off_t) -> Option<*mut c_void> {
    if protection != PROT_READ && protection != PROT_READ | PROT_WRITE {
        return None;
    }
    let asked = Asked::new(fd, offset, length)?;
    heap::map_file(service()?, asked, length, protection)
}

/// Functions of these names that do what another does.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident: $does:path;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of `mmap(2)`.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            address: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            // SAFETY: the caller's arguments.
            unsafe { $does(address, length, protection, flags, fd, offset) }
        }
    )*};
}

named! {
    /// What programs call.
    mmap: map;
    /// What those call that are built for large files.
    mmap64: map;
    /// What the linker has this library's own code call for `mmap` (build.rs).
    __wrap_mmap: system::mmap;
    /// The same of `mmap64`.
    __wrap_mmap64: system::mmap;
}

/// The range of an address and a length in the system's pages; `None`: these are no such.
fn range(address: *mut c_void, length: size_t) -> Option<Range<usize>> {
    let start = address as usize;
    let end = start.checked_add(length.checked_next_multiple_of(PART)?)?;
    (start.is_multiple_of(PART) && start < end).then_some(start..end)
}

/// Maps something at addresses that the program chooses, which may be ours.
fn over(range: Option<Range<usize>>, map: impl FnOnce() -> *mut c_void) -> *mut c_void {
    match range.and_then(|range| heap::in_area(&range)) {
        Some(range) => heap::replace(&range, map),
        None => map(),
    }
}

/// # Safety
/// As of `munmap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    let whole = range(address, length);
    let Some((whole, own)) = whole.and_then(|whole| heap::in_area(&whole).map(|own| (whole, own))) else {
        // SAFETY: the caller's arguments.
        return unsafe { system::munmap(address, length) };
    };
    for outside in gaps(&whole, std::slice::from_ref(&own)) {
        // SAFETY: a part of what the caller unmaps.
        if unsafe { system::munmap(outside.start as *mut c_void, outside.len()) } < 0 {
            return -1;
        }
    }
    if keeping_errno(|| heap::unmap(&own)) { 0 } else { fail(ENOMEM, -1) }
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
    // Of shared memory, as which the system knows regions, that would be a second mapping.
    if length == 0 && owns(address) {
        return fail(EINVAL, FAILED);
    }
    let (old, new) = (range(address, length), range(address, new_length));
    let live = old.as_ref().is_some_and(|old| owns(address) && !heap::pieces(old).live.is_empty());
    let (Some(old), Some(new), true) = (old, new, live) else {
        // SAFETY: the caller's arguments.
        let map = || unsafe { system::mremap(address, length, new_length, flags, new_address) };
        let target = if flags & MREMAP_FIXED != 0 { range(new_address, new_length) } else { None };
        return over(target, map);
    };
    // Neither to addresses that the program chooses, nor so that the old ones stay.
    if flags & !MREMAP_MAYMOVE != 0 {
        return fail(EINVAL, FAILED);
    }
    let found = ranges().at(old.start);
    let Some((start, live)) = found.filter(|(_, live)| live.end >= old.end) else { return fail(EFAULT, FAILED) };
    if new.end <= old.end {
        keeping_errno(|| new.end == old.end || heap::unmap(&(new.end..old.end)));
        return address;
    }
    if live.end == old.end && keeping_errno(|| heap::resize(start as *mut c_void, new.end - start)) {
        return address;
    }
    // What is protected could not be read here, nor would its copy be; and a copy of a file's would not have what follows in the file.
    if flags & MREMAP_MAYMOVE == 0 || live.protected || live.file {
        return fail(ENOMEM, FAILED);
    }
    // SAFETY: a new mapping touches no memory that is in use.
    let moved = unsafe { map(null_mut(), new.len(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
    if moved != FAILED {
        // SAFETY: both have as many bytes, and the old ones are the caller's.
        unsafe { moved.copy_from_nonoverlapping(address, old.len()) };
        keeping_errno(|| heap::unmap(&old));
    }
    moved
}

/// # Safety
/// As of `mprotect(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    if let Some(own) = range(address, length).and_then(|range| heap::in_area(&range)) {
        ranges().protect(&own);
    }
    // SAFETY: the caller's arguments.
    unsafe { system::mprotect(address, length, protection) }
}

/// # Safety
/// As of `madvise(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    let Pieces { live, lost } = match range(address, length) {
        Some(range) if owns(address) => heap::pieces(&range),
        _ => Pieces::default(),
    };
    let (Some(range), false) = (range(address, length), live.is_empty()) else {
        // SAFETY: the caller's arguments.
        return unsafe { system::madvise(address, length, advice) };
    };
    if matches!(advice, MADV_REMOVE | MADV_WIPEONFORK) {
        return fail(EINVAL, -1);
    }
    let mut done = 0;
    for piece in &lost {
        // SAFETY: a part of the caller's.
        done |= unsafe { system::madvise(piece.start as *mut c_void, piece.len(), advice) };
    }
    let mut used = lost;
    used.extend(live.iter().map(|(piece, _)| piece.clone()));
    used.sort_unstable_by_key(|piece| piece.start);
    // With MADV_FREE memory may keep its bytes; and what the program will use, the policy finds out.
    if matches!(advice, MADV_DONTNEED | MADV_DONTNEED_LOCKED) {
        let reset = live.into_iter().all(|(piece, live)| keeping_errno(|| heap::reset(piece, live)));
        done = if reset { done } else { fail(ENOMEM, -1) };
    }
    // As the system: all that there is has the advice.
    if gaps(&range, &used).is_empty() { done } else { fail(ENOMEM, -1) }
}

/// # Safety
/// As of `posix_madvise(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    if owns(address) || advice == POSIX_MADV_DONTNEED {
        return 0;
    }
    // SAFETY: the caller's arguments.
    let done = keeping_errno(|| unsafe { system::madvise(address, length, advice) });
    if done < 0 { EINVAL } else { 0 }
}
