//! Who goes through a region in order. Such a program has pages that lost their mapping mapped again together, as it has those that were read ahead: a fault for each
//! would cost more than all the rest.

use std::sync::atomic::{AtomicU64, Ordering};

/// The pages in a row are counted up to this.
const MOST: u64 = u16::MAX as u64;

/// Where the pages of the last fault ended, and how many were mapped in a row up to there. Of several threads in one region each ends the others' rows: then a fault maps
/// its own page, as for whoever goes about at random.
#[derive(Debug, Default)]
pub(crate) struct Order(AtomicU64);

impl Order {
    /// How many pages in a row end before this one.
    pub(crate) fn before(&self, page: u64) -> u64 {
        let last = self.0.load(Ordering::Relaxed);
        if last >> 16 == page { last & MOST } else { 0 }
    }

    /// A fault has mapped so many pages from there on.
    pub(crate) fn note(&self, page: u64, pages: u64) {
        let row = (self.before(page) + pages).min(MOST);
        self.0.store((page + pages) << 16 | row, Ordering::Relaxed);
    }
}
