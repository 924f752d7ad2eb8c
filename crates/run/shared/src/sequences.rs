//! How long the sequences of reads are: a disk answers requests that go on where the last one ended without a seek.

use crate::figures::Sequences;
use forebay_figures::{Tally, Words};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What lengths of sequences are counted in, for every size of a page.
const BLOCK: u64 = 4096;

/// Sequences by their length: up to 1, 2, 4, … 128 blocks, and longer ones.
const LENGTHS: usize = Sequences::COUNT;

/// Reads, as sequences. Writes between them end none: they are counted apart.
#[derive(Debug, Default)]
pub struct SequenceCounters(Mutex<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Where the last read ended.
    end: u64,
    /// The bytes of its sequence.
    length: u64,
    /// The sequences before.
    counts: [u64; LENGTHS],
}

impl Seen {
    fn add(&mut self, offset: u64, length: u64) {
        if offset != self.end {
            self.close();
        }
        (self.end, self.length) = (offset + length, self.length + length);
    }

    fn close(&mut self) {
        if self.length > 0 {
            let blocks = self.length.div_ceil(BLOCK);
            let place = blocks.next_power_of_two().trailing_zeros() as usize;
            self.counts[place.min(LENGTHS - 1)] += 1;
            self.length = 0;
        }
    }
}

impl SequenceCounters {
    /// Counts a read of these bytes.
    pub fn add(&self, offset: u64, length: u64) {
        self.lock().add(offset, length);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally for SequenceCounters {
    type Read = Sequences;

    fn read(&self) -> Sequences {
        let mut seen = *self.lock();
        seen.close();
        let mut counts = seen.counts.into_iter();
        Sequences::take(&mut || counts.next().expect("a count for each length"))
    }

    fn absorb(&self, more: &Sequences) {
        let mut seen = self.lock();
        let mut counts = seen.counts.iter_mut();
        more.put(&mut |more| *counts.next().expect("a count for each length") += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_go_on_where_the_last_one_ended_are_one_sequence() {
        let sequences = SequenceCounters::default();
        let read = |first: u64, blocks: u64| sequences.add(first * BLOCK, blocks * BLOCK);
        read(7, 1); // alone
        read(100, 8);
        read(108, 1); // the ninth block
        read(0, 128);
        read(500, 129);
        read(0, 2); // the last one is counted, too
        let counted = Sequences {
            sequences_up_to_1: 1,
            sequences_up_to_2: 1,
            sequences_up_to_16: 1,
            sequences_up_to_128: 1,
            sequences_longer: 1,
            ..Sequences::default()
        };
        assert_eq!(sequences.read(), counted);
        assert_eq!(sequences.read(), counted, "to look at them changes nothing");
        sequences.absorb(&counted);
        assert_eq!(sequences.read().sequences_up_to_16, 2);
    }
}
