//! Sets of pages of swap space.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit a page.
pub(crate) struct Bits(pub(crate) Vec<AtomicU64>);

impl Bits {
    pub(crate) fn new(pages: u64) -> Self {
        Self((0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn has(&self, page: u64) -> bool {
        self.0[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    /// Sets a bit; whether it was not so.
    pub(crate) fn set(&self, page: u64, set: bool) -> bool {
        let (word, bit) = (&self.0[(page / 64) as usize], 1 << (page % 64));
        let before = if set { word.fetch_or(bit, Ordering::AcqRel) } else { word.fetch_and(!bit, Ordering::AcqRel) };
        (before & bit != 0) != set
    }
}

/// The words that have the bits of pages, and which bits of them.
pub(crate) fn words(pages: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = pages;
    (start / 64..end.div_ceil(64).max(start / 64)).map(move |word| {
        let (first, last) = (start.max(word * 64) - word * 64, end.min(word * 64 + 64) - word * 64);
        let bits = if last - first == 64 { u64::MAX } else { ((1 << (last - first)) - 1) << first };
        (word as usize, bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_of_a_range_has_its_bit_in_one_word() {
        for (pages, expected) in [
            (0..0, vec![]),
            (70..70, vec![]),
            (3..5, vec![(0, 0b11000)]),
            (0..64, vec![(0, u64::MAX)]),
            (63..130, vec![(0, 1 << 63), (1, u64::MAX), (2, 0b11)]),
        ] {
            let found: Vec<_> = words(pages.clone()).filter(|(_, bits)| *bits != 0).collect();
            assert_eq!(found, expected, "{pages:?}");
        }
    }
}
