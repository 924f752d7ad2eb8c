//! Which faults go through a region in order. With such a fault pages behind it are mapped again that lost their mapping, as those that were read ahead are mapped: a fault
//! for each would cost more than all the rest.

use std::sync::atomic::{AtomicU64, Ordering};

/// The pages in a row are counted up to this.
const MOST: u64 = u16::MAX as u64;

/// The page behind the last fault's pages, and how many were mapped in a row up to there. Several threads in one region end each other's rows; then a fault maps
/// its own page alone.
#[derive(Debug, Default)]
pub(crate) struct Order(AtomicU64);

impl Order {
    /// How many pages in a row end before this one.
    pub(crate) fn before(&self, page: u64) -> u64 {
        let last = self.0.load(Ordering::Relaxed);
        if last >> 16 == page { last & MOST } else { 0 }
    }

    /// A fault has mapped `pages` pages from `page` on.
    pub(crate) fn note(&self, page: u64, pages: u64) {
        let row = (self.before(page) + pages).min(MOST);
        self.0.store((page + pages) << 16 | row, Ordering::Relaxed);
    }
}
