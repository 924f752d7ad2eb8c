//! What is known of each block: when it was referenced last, how, and with which period (the table of section 3.1).
//!
//! The paper has an entry for each run: file, start, end, period. Here each page has one, 12 bytes, so that a reference finds it at once.
//! A page number may come to stand for another block; then what it had is not that block's, which 29 bits of its place tell.

use super::detector::Class;
use crate::parts::prefetch::prefetch;
use crate::policy::Place;

/// A block that was referenced longer ago is not known any more: times have 32 bits.
const FAR: u32 = 1 << 31;
/// Entries looked at in this turn for being that old: all of 2^32 are, within 2^31 references.
const LOOKED_AT: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Which block: 29 bits. Whether a pass began with it: 1 bit. Its class, or `UNKNOWN`: 2 bits.
    block: u32,
    used: u32,
    period: f32,
}

const UNKNOWN: u32 = 3;
const CLASS: u32 = 3;
const HEAD: u32 = 4;
const BLOCK: u32 = !7;

/// What is known of a block that is referenced again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// References since the last one to the block.
    pub(super) gap: u32,
    pub(super) period: f32,
    pub(super) class: Class,
    /// Whether a pass began with this block.
    pub(super) head: bool,
}

impl Before {
    /// Whether the block was in a run long enough to be one.
    pub(super) fn detected(&self) -> bool {
        self.class != Class::Other || self.period.is_finite()
    }

    /// The exponential average of the periods, this one included.
    pub(super) fn averaged(&self) -> f32 {
        if self.period.is_finite() { (self.period + self.gap as f32) / 2.0 } else { self.gap as f32 }
    }
}

/// By page number.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    entries: Vec<Entry>,
    /// The entry that is looked at next.
    hand: usize,
}

fn mark(place: Place) -> u32 {
    let key = place.block.wrapping_add(u64::from(place.object) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key >> 32) as u32 & BLOCK
}

impl Blocks {
    pub(super) fn reserve(&mut self, pages: u32) {
        let more = (pages as usize).saturating_sub(self.entries.len());
        self.entries.reserve_exact(more);
        self.entries.resize(self.entries.len() + more, Entry { block: UNKNOWN, used: 0, period: f32::INFINITY });
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        prefetch(&self.entries, page as usize);
    }

    #[inline]
    pub(super) fn before(&self, page: u32, place: Place, now: u64) -> Option<Before> {
        let Entry { block, used, period } = self.entries[page as usize];
        let class = match block & CLASS {
            0 => Class::Sequential,
            1 => Class::Looping,
            2 => Class::Other,
            _ => return None,
        };
        let known = block & BLOCK == mark(place);
        known.then(|| Before { gap: (now as u32).wrapping_sub(used), period, class, head: block & HEAD != 0 })
    }

    #[inline]
    pub(super) fn put(&mut self, page: u32, place: Place, class: Class, period: f32, head: bool, now: u64) {
        let block = mark(place) | class as u32 | if head { HEAD } else { 0 };
        self.entries[page as usize] = Entry { block, used: now as u32, period };
    }

    /// The pass that a page is of has become long enough to be a run.
    pub(super) fn detect(&mut self, page: u32, class: Class, period: f32) {
        let entry = &mut self.entries[page as usize];
        if entry.block & CLASS != UNKNOWN {
            (entry.block, entry.period) = (entry.block & !CLASS | class as u32, period);
        }
    }

    /// Looks at the next entries, whether their times are about to come again.
    #[inline]
    pub(super) fn age(&mut self, now: u64) {
        for _ in 0..LOOKED_AT.min(self.entries.len()) {
            let entry = &mut self.entries[self.hand];
            if (now as u32).wrapping_sub(entry.used) > FAR {
                entry.block |= UNKNOWN;
            }
            self.hand = if self.hand + 1 == self.entries.len() { 0 } else { self.hand + 1 };
        }
    }
}
