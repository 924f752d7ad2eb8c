//! The pager for programs in C. `include/forebay_pager.h` says what each function does; here they only call the library's own.
//!
//! Failures are an errno and a sentence, kept for the thread that called (`failure.rs`). What the library logs goes to a descriptor (`log.rs`).

mod failure;
mod log;
mod statistics;

use failure::{Failure, invalid};
use forebay_pager::{Advice, Options, Pager, Pages, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{FileDevice, FileOptions};
use libc::{c_char, c_int};
use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// `struct forebay_pager_options`.
#[repr(C)]
pub struct PagerOptions {
    memory: u64,
    page_size: u32,
    threads: u32,
    policy: *const c_char,
    sampling: f64,
    in_place: c_int,
}

/// `FOREBAY_READ_ONLY`: the region cannot be written.
const READ_ONLY: c_int = 1;
/// `FOREBAY_BUFFERED`: the file is read and written through the kernel's page cache.
const BUFFERED: c_int = 2;

/// A string of the caller's.
///
/// # Safety
/// `string` is null, or ends with a zero and lives as long as the call.
unsafe fn text<'a>(string: *const c_char, what: &str) -> Result<&'a CStr, Failure> {
    if string.is_null() {
        return Err(invalid(format!("{what} is NULL")));
    }
    // SAFETY: as above.
    Ok(unsafe { CStr::from_ptr(string) })
}

/// What a pointer of the caller's points to.
///
/// # Safety
/// `pointer` is null, or one that this library has given out, and not been given back.
unsafe fn known<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or_else(|| invalid(format!("{what} is NULL")))
}

fn path(string: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(string.to_bytes()))
}

/// Makes a pager.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_pager_new(options: *const PagerOptions) -> *mut Arc<Pager> {
    log::begin();
    let new = || {
        // SAFETY: the caller's structure.
        let given = unsafe { known(options, "options") }?;
        let policy = if given.policy.is_null() {
            "clock-pro"
        } else {
            // SAFETY: the caller's string.
            unsafe { text(given.policy, "policy") }?.to_str().map_err(|_| invalid("policy is no text".to_owned()))?
        };
        let mut options = Options::new(given.memory, Spec::parse(policy).map_err(|error| invalid(error.to_string()))?);
        if given.page_size > 0 {
            options.page_size = given.page_size;
        }
        if given.threads > 0 {
            options.threads = given.threads as usize;
        }
        if given.sampling != 0.0 {
            options.sampling = if given.sampling < 0.0 { 0.0 } else { given.sampling };
        }
        options.in_place = given.in_place != 0;
        Ok(Box::into_raw(Box::new(Pager::new(&options)?)))
    };
    failure::keep(new()).unwrap_or(null_mut())
}

/// Gives a pager back. It lives on as long as regions of it are mapped.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_pager_free(pager: *mut Arc<Pager>) {
    if !pager.is_null() {
        // SAFETY: `forebay_pager_new` has made it, and the caller uses it no more.
        drop(unsafe { Box::from_raw(pager) });
    }
}

/// Maps a file or block device.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_map(
    pager: *const Arc<Pager>,
    file: *const c_char,
    flags: c_int,
) -> *mut Region {
    let map = || {
        // SAFETY: the caller's pager.
        let pager = unsafe { known(pager, "pager") }?;
        // SAFETY: the caller's string.
        let file = unsafe { text(file, "path") }?;
        if flags & !(READ_ONLY | BUFFERED) != 0 {
            return Err(invalid(format!("flags {flags} are unknown: take FOREBAY_READ_ONLY and FOREBAY_BUFFERED")));
        }
        let (read_only, direct) = (flags & READ_ONLY != 0, flags & BUFFERED == 0);
        let device = FileDevice::open(path(file), FileOptions { read_only, direct, ..FileOptions::default() })?;
        let config = VolumeConfig { read_only, ..VolumeConfig::new(file.to_string_lossy()) };
        Ok(Box::into_raw(Box::new(Region::map(pager, Arc::new(device), config)?)))
    };
    failure::keep(map()).unwrap_or(null_mut())
}

/// Maps swap space.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_map_swap(
    pager: *const Arc<Pager>,
    folder: *const c_char,
    length: u64,
) -> *mut Region {
    let map = || {
        // SAFETY: the caller's pager.
        let pager = unsafe { known(pager, "pager") }?;
        // SAFETY: the caller's string.
        let folder = unsafe { text(folder, "folder") }?;
        Ok(Box::into_raw(Box::new(Region::map_swap(pager, path(folder), length)?)))
    };
    failure::keep(map()).unwrap_or(null_mut())
}

/// The first byte of a region.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_address(region: *const Region) -> *mut c_void {
    // SAFETY: the caller's region.
    let region = unsafe { known(region, "region") };
    failure::keep(region).map_or(null_mut(), |region| region.as_ptr().cast())
}

/// The bytes of a region.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_length(region: *const Region) -> u64 {
    // SAFETY: the caller's region.
    let region = unsafe { known(region, "region") };
    failure::keep(region).map_or(0, |region| region.len() as u64)
}

/// Makes what was written durable.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_sync(region: *const Region) -> c_int {
    // SAFETY: the caller's region.
    let synced = || unsafe { known(region, "region") }?.sync().map_err(Failure::from);
    failure::done(synced())
}

/// Takes advice.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_advise(
    region: *const Region,
    offset: u64,
    length: u64,
    advice: c_int,
) -> c_int {
    let advise = || {
        // SAFETY: the caller's region.
        let region = unsafe { known(region, "region") }?;
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Sequential,
            2 => Advice::Random,
            3 => Advice::WillNeed,
            4 => Advice::DoNotNeed,
            5 => Advice::Zero,
            _ => {
                return Err(invalid(format!("advice {advice} is unknown: take one of FOREBAY_NORMAL to FOREBAY_ZERO")));
            }
        };
        Ok(region.advise(offset, length, advice)?)
    };
    failure::done(advise())
}

/// Holds pages for direct input.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_hold(region: *const Region, offset: u64, length: u64) -> *mut Pages {
    let hold = || {
        // SAFETY: the caller's region.
        let region = unsafe { known(region, "region") }?;
        Ok(Box::into_raw(Box::new(region.hold_pages(offset, length)?)))
    };
    failure::keep(hold()).unwrap_or(null_mut())
}

/// Lets go of pages that are held.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_held_release(held: *mut Pages) {
    if !held.is_null() {
        // SAFETY: `forebay_region_hold` has made it, and the caller uses it no more.
        drop(unsafe { Box::from_raw(held) });
    }
}

/// Unmaps a region when all that was written is durable. It is gone in any case.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_unmap(region: *mut Region) -> c_int {
    if region.is_null() {
        return failure::done(Err(invalid("region is NULL".to_owned())));
    }
    // SAFETY: a function above has made it, and the caller uses it no more.
    let region = unsafe { Box::from_raw(region) };
    failure::done(region.close().map_err(Failure::from))
}

/// Whether system calls that touch absent pages wait for them: 1, or 0 where they fail with EFAULT.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_pager_serves_system_calls(pager: *const Arc<Pager>) -> c_int {
    // SAFETY: the caller's pager.
    let pager = unsafe { known(pager, "pager") };
    failure::keep(pager).map_or(-1, |pager| pager.serves_system_calls().into())
}
