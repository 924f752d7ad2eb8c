//! Figures, as the header has them.

use crate::failure::{self, invalid};
use crate::known;
use forebay_pager::Pager;
use libc::c_int;
use std::sync::Arc;

/// `struct forebay_pager_statistics`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PagerStatistics {
    memory_bytes: u64,
    page_bytes: u64,
    frames: u64,
    resident_pages: u64,
    dirty_pages: u64,
    metadata_bytes: u64,
    major_faults: u64,
    minor_faults: u64,
    protection_faults: u64,
    failed_faults: u64,
    unmapped_pages: u64,
    fault_nanoseconds: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
    read_ahead_pages: u64,
    written_pages: u64,
    failed_writes: u64,
    in_place_faults: u64,
}

/// Fills a structure of the caller's, as far as it is known there.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn forebay_pager_get_statistics(
    pager: *const Arc<Pager>,
    into: *mut PagerStatistics,
    size: usize,
) -> c_int {
    let get = || {
        // SAFETY: the caller's pager.
        let pager = unsafe { known(pager, "pager") }?;
        if into.is_null() {
            return Err(invalid("statistics is NULL".to_owned()));
        }
        let (figures, known) = (of(pager), size.min(size_of::<PagerStatistics>()));
        // SAFETY: the caller's structure has so many bytes, and each pattern of bits is a number.
        unsafe { std::ptr::copy_nonoverlapping((&raw const figures).cast::<u8>(), into.cast(), known) };
        Ok(())
    };
    failure::done(get())
}

fn of(pager: &Pager) -> PagerStatistics {
    let (pool, faults) = (pager.statistics(), pager.faults());
    let sum = |figure: fn(&forebay_pool::VolumeStatistics) -> u64| pool.volumes.iter().map(figure).sum();
    PagerStatistics {
        memory_bytes: pool.capacity,
        page_bytes: pool.page_size.into(),
        frames: pool.capacity / u64::from(pool.page_size),
        resident_pages: pool.resident.into(),
        dirty_pages: pool.dirty,
        metadata_bytes: pool.metadata as u64,
        major_faults: faults.major,
        minor_faults: faults.minor,
        protection_faults: faults.protection,
        failed_faults: faults.failed,
        unmapped_pages: faults.unmapped,
        fault_nanoseconds: faults.fault_time.sum,
        hits: pool.hits,
        misses: pool.misses,
        evictions: pool.evictions,
        read_ahead_pages: sum(|volume| volume.pages_read_ahead),
        written_pages: sum(|volume| volume.pages_written_back),
        failed_writes: sum(|volume| volume.failed_writebacks),
        in_place_faults: faults.in_place,
    }
}
