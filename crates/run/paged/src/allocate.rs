//! `malloc(3)` and its kin: large blocks lie in regions, others are the C library's. What that allocates on the pager's threads is this library's own.

use crate::heap::{self, Full, LARGE, Wanted, owns, service};
use crate::own;
use crate::real::{self, keeping_errno, set_errno};
use crate::threads::is_pagers;
use libc::{EINVAL, ENOMEM, c_int, c_void, size_t};
use std::ptr::null_mut;

/// A large block; `None`: it is to be the C library's.
fn large(size: size_t, alignment: size_t, zero: bool, grows: bool) -> Option<*mut c_void> {
    if size < LARGE {
        return None;
    }
    let service = service()?;
    let wanted = Wanted { alignment, zero, grows, reserved: true };
    Some(keeping_errno(|| heap::allocate(service, size, wanted)).unwrap_or_else(|Full| {
        set_errno(ENOMEM);
        null_mut()
    }))
}

/// A block for the C library on a pager's thread.
#[cold]
fn for_pager(size: size_t, alignment: size_t, zero: bool) -> *mut c_void {
    let block = own::allocate(size, alignment);
    if block.is_null() {
        set_errno(ENOMEM);
    } else if zero {
        // SAFETY: the block has as many bytes.
        unsafe { block.write_bytes(0, size) };
    }
    block.cast()
}

/// # Safety
/// As of `malloc(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn malloc(size: size_t) -> *mut c_void {
    if is_pagers() {
        return for_pager(size, 1, false);
    }
    large(size, 1, false, false).unwrap_or_else(|| real::malloc(size))
}

/// # Safety
/// As of `calloc(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    let bytes = count.checked_mul(size);
    if is_pagers() {
        return for_pager(bytes.unwrap_or(usize::MAX), 1, true);
    }
    let block = bytes.and_then(|bytes| large(bytes, 1, true, false));
    block.unwrap_or_else(|| real::calloc(count, size))
}

/// # Safety
/// As of `free(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn free(block: *mut c_void) {
    if owns(block) {
        return keeping_errno(|| {
            let start = block as usize;
            heap::free(start..start + size_of_block(block), true);
        });
    }
    if own::owns(block as usize) {
        // SAFETY: the caller's block.
        return keeping_errno(|| unsafe { own::free(block as usize) });
    }
    // SAFETY: the caller's block is neither of a region nor this library's, so it is the C library's.
    unsafe { real::free(block) }
}

/// Makes a block of the pager's another one, or any block one of the pager's.
///
/// # Safety
/// As of `realloc(3)`.
#[cold]
unsafe fn move_pagers(block: *mut c_void, size: size_t) -> *mut c_void {
    // SAFETY: the caller's block.
    let (old, new) = unsafe { (malloc_usable_size(block), malloc(size)) };
    if !new.is_null() {
        // SAFETY: both blocks have as many bytes, and the old one is the caller's.
        unsafe {
            new.cast::<u8>().copy_from_nonoverlapping(block.cast(), old.min(size));
            free(block);
        }
    }
    new
}

/// The bytes of a block in a region; a wrong address ends the program, as in the C library.
fn size_of_block(block: *mut c_void) -> size_t {
    heap::usable(block).unwrap_or_else(|| {
        let message = b"forebay run: free() of an address that is no block\n";
        // SAFETY: the bytes are the message's.
        unsafe {
            libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
            libc::abort()
        }
    })
}

/// # Safety
/// As of `realloc(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn realloc(block: *mut c_void, size: size_t) -> *mut c_void {
    if is_pagers() || own::owns(block as usize) {
        // SAFETY: the caller's block.
        return unsafe { move_pagers(block, size) };
    }
    let own = owns(block);
    if !own && (block.is_null() || size < LARGE || service().is_none()) {
        // SAFETY: the caller's block is not of a region, so it is the C library's.
        return if block.is_null() { unsafe { malloc(size) } } else { unsafe { real::realloc(block, size) } };
    }
    if own && size == 0 {
        // SAFETY: the caller's block.
        unsafe { free(block) };
        return null_mut();
    }
    // SAFETY: the caller's block.
    let old = if own { size_of_block(block) } else { unsafe { real::usable_size(block) } };
    if own && size >= LARGE && keeping_errno(|| heap::resize(block, size)) {
        return block;
    }
    let new = large(size, 1, false, true).unwrap_or_else(|| real::malloc(size));
    if !new.is_null() {
        // SAFETY: both blocks have as many bytes, and the old one is the caller's.
        unsafe {
            new.copy_from_nonoverlapping(block, old.min(size));
            free(block);
        }
    }
    new
}

/// # Safety
/// As of `reallocarray(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reallocarray(block: *mut c_void, count: size_t, size: size_t) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's block.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => {
            set_errno(ENOMEM);
            null_mut()
        }
    }
}

/// # Safety
/// As of `memalign(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memalign(alignment: size_t, size: size_t) -> *mut c_void {
    if is_pagers() {
        return for_pager(size, alignment.next_power_of_two(), false);
    }
    let block = if alignment.is_power_of_two() { large(size, alignment, false, false) } else { None };
    block.unwrap_or_else(|| real::memalign(alignment, size))
}

/// # Safety
/// As of `aligned_alloc(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn aligned_alloc(alignment: size_t, size: size_t) -> *mut c_void {
    // SAFETY: any size and alignment may be asked for.
    unsafe { memalign(alignment, size) }
}

/// # Safety
/// As of `posix_memalign(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_memalign(into: *mut *mut c_void, alignment: size_t, size: size_t) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return EINVAL;
    }
    // SAFETY: any size and alignment may be asked for.
    let block = keeping_errno(|| unsafe { memalign(alignment, size) });
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's place for the answer.
    unsafe { *into = block };
    0
}

/// # Safety
/// As of `valloc(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn valloc(size: size_t) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { memalign(heap::PART, size) }
}

/// # Safety
/// As of `pvalloc(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvalloc(size: size_t) -> *mut c_void {
    match size.checked_next_multiple_of(heap::PART) {
        // SAFETY: any size may be asked for.
        Some(size) => unsafe { valloc(size) },
        None => {
            set_errno(ENOMEM);
            null_mut()
        }
    }
}

/// # Safety
/// As of `malloc_usable_size(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    if block.is_null() {
        0
    } else if owns(block) {
        size_of_block(block)
    } else if own::owns(block as usize) {
        own::usable(block as usize)
    } else {
        // SAFETY: the caller's block is neither of a region nor this library's, so it is the C library's.
        unsafe { real::usable_size(block) }
    }
}
