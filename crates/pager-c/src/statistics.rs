//! Figures, as the header has them.

use crate::failure::{self, invalid};
use crate::known;
use forebay_figures::figures;
use forebay_pager::{Faults, Pager};
use forebay_pool::{Statistics, VolumeStatistics};
use libc::c_int;
use std::sync::Arc;

/// What the statistics of a pager are read from.
struct Seen {
    faults: Faults,
    pool: Statistics,
}

impl Seen {
    /// Of the regions that are mapped now.
    fn sum(&self, figure: fn(&VolumeStatistics) -> u64) -> u64 {
        self.pool.volumes.iter().map(figure).sum()
    }
}

figures! {
    /// `struct forebay_pager_statistics`. A line of documentation is the header's comment.
    #[derive(Copy, Eq)]
    #[repr(C)]
    pub(crate) struct PagerStatistics in words read from Seen {
        /// of the frames that there are: the limit, less what managing them takes
        memory_bytes: u64 => |seen| seen.pool.capacity;
        /// of a page
        page_bytes: u64 => |seen| seen.pool.page_size.into();
        /// that there are
        frames: u64 => |seen| seen.pool.capacity / u64::from(seen.pool.page_size);
        /// that are in them
        resident_pages: u64 => |seen| seen.pool.resident.into();
        /// that are still to be written
        dirty_pages: u64 => |seen| seen.pool.dirty;
        /// of what is known of pages, resident or not
        metadata_bytes: u64 => |seen| seen.pool.metadata as u64;
        /// of pages that were not resident
        major_faults: u64 => |seen| seen.faults.major;
        /// of resident pages that were not mapped: read ahead, or unmapped to see whether they are used
        minor_faults: u64 => |seen| seen.faults.minor;
        /// first writes to clean pages
        protection_faults: u64 => |seen| seen.faults.protection;
        /// that ended with SIGBUS, or SIGSEGV where nothing can be written
        failed_faults: u64 => |seen| seen.faults.failed;
        /// to see whether they are used
        unmapped_pages: u64 => |seen| seen.faults.unmapped;
        /// from when a fault was seen until its page was mapped, of all faults
        fault_nanoseconds: u64 => |seen| seen.faults.fault_time.sum;
        /// that the policy has seen
        hits: u64 => |seen| seen.pool.hits;
        /// of pages that were not resident
        misses: u64 => |seen| seen.pool.misses;
        /// of pages by the policy
        evictions: u64 => |seen| seen.pool.evictions;
        /// and not asked for by a fault, in regions that are mapped now, as are the next two
        read_ahead_pages: u64 => |seen| seen.sum(|region| region.pages_read_ahead);
        /// to storage
        written_pages: u64 => |seen| seen.sum(|region| region.pages_written_back);
        /// of pages
        failed_writes: u64 => |seen| seen.sum(|region| region.failed_writebacks);
        /// that were handled on the thread that had them
        in_place_faults: u64 => |seen| seen.faults.in_place;
    }
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
    PagerStatistics::of(&Seen { faults: pager.faults(), pool: pager.statistics() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_figures::Words;

    #[test]
    fn the_header_has_every_figure_in_this_order() {
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/forebay_pager.h");
        let header = std::fs::read_to_string(header).expect("include/forebay_pager.h is there");
        let line = |(name, doc): &(&str, &str)| format!("    {:<27} /*{doc} */\n", format!("uint64_t {name};"));
        let fields: String = PagerStatistics::FIELDS.iter().map(line).collect();
        let made = format!("struct forebay_pager_statistics {{\n{fields}}};\n");
        assert!(header.contains(&made), "include/forebay_pager.h is not current: its statistics are\n{made}");
        assert_eq!(size_of::<PagerStatistics>(), 8 * PagerStatistics::COUNT);
    }
}
