//! Readahead by regularity, as UBM detects it: its authors' future work ("prefetching techniques that exploit these
//! regularities", OSDI 2000, section 6).
//!
//! - Of a sequence, that was not known before, as many blocks as it has had by now, at most `max`: it has still to show how long it is.
//! - Of a loop up to `max`, no farther than its end. There the loop's first blocks, if they are due as soon as those would be.
//!
//! The next blocks are read once those in the first half are all that is left: as long as the block in the middle is resident, nothing is.

use super::Expected;
use forebay_basis::Place;
use forebay_policy::readahead::Read;
use forebay_policy::ubm::{Classifier, Course};

#[derive(Debug)]
pub(super) struct Regular {
    regularity: Classifier,
    max: u64,
}

impl Regular {
    pub(super) fn new(pages: u32, page_size: u64, max: u64) -> Self {
        Self { regularity: Classifier::new(pages, page_size), max }
    }

    pub(super) fn refer(&mut self, place: Place) {
        self.regularity.refer(place);
    }

    /// A read is over.
    pub(super) fn expect(&self, read: &Read) -> Expected {
        let up_to = |blocks: u64| read.end..read.end.saturating_add(blocks);
        match self.regularity.course() {
            None => Expected::default(),
            Some(Course::Sequence { blocks }) => {
                let blocks = blocks.min(self.max);
                Expected { blocks: up_to(blocks), unless: Some(read.end + blocks / 2), again: 0..0 }
            }
            Some(Course::Loop { end, start, due }) => {
                let left = (end + 1).saturating_sub(read.end).min(self.max);
                // The start of the loop follows its end, but no block comes twice.
                let again = self.max.saturating_sub(due.max(left)).min(read.start.saturating_sub(start));
                let middle = (left + again) / 2;
                let unless = if middle < left { read.end + middle } else { start + (middle - left) };
                Expected {
                    blocks: up_to(left),
                    unless: (left + again > 0).then_some(unless),
                    again: start..start + again,
                }
            }
        }
    }
}
