//! What swap space is asked for, and how long its sequences are: a disk answers requests that go on where the last one ended without a seek.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What lengths of sequences are counted in, whatever the size of a page.
const BLOCK: u64 = 4096;

/// Sequences by their length: up to 1, 2, 4, … 128 blocks, and longer ones.
pub(crate) const LENGTHS: usize = 9;

/// The requests of a process, counted.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    reads: AtomicU64,
    writes: AtomicU64,
    sequences: Mutex<Sequences>,
}

/// Reads, as sequences. Writes between them end none: they are counted apart.
#[derive(Clone, Copy, Debug, Default)]
struct Sequences {
    /// Where the last read ended.
    end: u64,
    /// The bytes of its sequence.
    length: u64,
    /// The sequences before.
    counts: [u64; LENGTHS],
}

impl Sequences {
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

impl Requests {
    pub(crate) fn read(&self, offset: u64, length: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.sequences.lock().unwrap_or_else(PoisonError::into_inner).add(offset, length);
    }

    pub(crate) fn write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests there were: reads, and writes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed))
    }

    /// How many sequences there were of each length.
    pub(crate) fn sequences(&self) -> [u64; LENGTHS] {
        let mut sequences = *self.sequences.lock().unwrap_or_else(PoisonError::into_inner);
        sequences.close();
        sequences.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_go_on_where_the_last_one_ended_are_one_sequence() {
        let requests = Requests::default();
        let read = |first: u64, blocks: u64| requests.read(first * BLOCK, blocks * BLOCK);
        read(7, 1); // alone
        read(100, 8);
        requests.write(); // ends no sequence
        read(108, 1); // the ninth block
        read(0, 128);
        read(500, 129);
        read(0, 2); // the last one is counted, too
        assert_eq!(requests.counts(), (6, 1));
        assert_eq!(requests.sequences(), [1, 1, 0, 0, 1, 0, 0, 1, 1]);
        assert_eq!(requests.sequences(), [1, 1, 0, 0, 1, 0, 0, 1, 1], "to look at them changes nothing");
    }
}
