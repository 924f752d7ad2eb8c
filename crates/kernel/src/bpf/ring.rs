//! The reader of a ring buffer (`BPF_MAP_TYPE_RINGBUF`).
//!
//! ```text
//!            consumed                produced              both only grow; a position in the data is theirs modulo its size
//!               v                       v
//!   data  ..... | header record | header record | .....    header: the record's length, with two flags
//! ```
//!
//! - *Busy*: the program has not ended the record. The reader stops before it, as records are taken in their order.
//! - *Discarded*: the program gave the record up. The reader passes it.
//! - A record that goes over the end goes on at the beginning. The kernel would map the data twice running, so that it lies in one piece: once is half the memory.

use std::sync::atomic::{AtomicU64, Ordering, fence};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// So many records are freed together: each time costs the programs a cache line.
const FREED_TOGETHER: usize = 256;

/// A ring's memory.
pub(crate) struct Ring<'a> {
    /// The reader's position.
    pub(crate) consumed: &'a AtomicU64,
    /// The programs' position.
    pub(crate) produced: &'a AtomicU64,
    /// The data.
    pub(crate) data: &'a [AtomicU64],
}

impl Ring<'_> {
    /// Takes at most `most` records of `RECORD` bytes, in their order, without waiting for any. Returns how many `each` was given.
    pub(crate) fn drain<const RECORD: usize>(&self, most: usize, each: &mut dyn FnMut(&[u8; RECORD])) -> usize {
        let words = self.data.len() as u64;
        let mut position = self.consumed.load(Ordering::Relaxed);
        let mut produced = self.produced();
        let (mut taken, mut unfreed) = (0, 0);
        while taken < most {
            if position == produced {
                produced = self.produced();
                if position == produced {
                    break;
                }
            }
            let at = (position / 8 % words) as usize;
            let [a, b, c, d, ..] = self.data[at].load(Ordering::Relaxed).to_ne_bytes();
            // What the program wrote into the record is seen, once it is seen not to be busy.
            fence(Ordering::Acquire);
            let header = u32::from_ne_bytes([a, b, c, d]);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !DISCARDED) as usize;
            if header & DISCARDED == 0 && length == RECORD {
                let mut record = [0; RECORD];
                let from = self.data[at + 1..].iter().chain(self.data);
                for (to, from) in record.chunks_exact_mut(8).zip(from) {
                    to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
                }
                each(&record);
                taken += 1;
            }
            position += 8 + length.next_multiple_of(8) as u64;
            unfreed += 1;
            if unfreed == FREED_TOGETHER {
                self.consumed.store(position, Ordering::Release);
                unfreed = 0;
            }
        }
        self.consumed.store(position, Ordering::Release);
        taken
    }

    fn produced(&self) -> u64 {
        let produced = self.produced.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        produced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of a record, as events of the page cache have.
    const RECORD: usize = 72;

    /// Words of the data.
    const WORDS: usize = 32;

    /// What a program does with a record.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Fate {
        Written,
        Discarded,
        Busy,
    }

    /// A ring in plain memory, and the programs' side of it.
    struct Memory {
        consumed: AtomicU64,
        produced: AtomicU64,
        data: Vec<AtomicU64>,
    }

    impl Memory {
        fn starting_at(position: u64) -> Memory {
            let data = (0..WORDS).map(|_| AtomicU64::new(u64::MAX)).collect();
            Memory { consumed: AtomicU64::new(position), produced: AtomicU64::new(position), data }
        }

        fn ring(&self) -> Ring<'_> {
            Ring { consumed: &self.consumed, produced: &self.produced, data: &self.data }
        }

        fn set(&self, word: u64, value: u64) {
            self.data[word as usize % WORDS].store(value, Ordering::Relaxed);
        }

        fn head(&self, position: u64, bytes: usize, fate: Fate) {
            let flag = match fate {
                Fate::Written => 0,
                Fate::Discarded => DISCARDED,
                Fate::Busy => BUSY,
            };
            let mut header = [0; 8];
            header[..4].copy_from_slice(&(bytes as u32 | flag).to_ne_bytes());
            self.set(position / 8, u64::from_ne_bytes(header));
        }

        /// Writes a record that is full of one byte. Returns its place, or `None` if the ring is full.
        fn write(&self, byte: u8, fate: Fate) -> Option<u64> {
            let position = self.produced.load(Ordering::Relaxed);
            let next = position + 8 + RECORD as u64;
            if next - self.consumed.load(Ordering::Relaxed) > WORDS as u64 * 8 {
                return None;
            }
            self.head(position, RECORD, fate);
            (1..=RECORD as u64 / 8).for_each(|word| self.set(position / 8 + word, u64::from_ne_bytes([byte; 8])));
            self.produced.store(next, Ordering::Relaxed);
            Some(position)
        }

        fn drain(&self, most: usize) -> Vec<u8> {
            let mut taken = Vec::new();
            let count = self.ring().drain(most, &mut |record: &[u8; RECORD]| {
                assert!(record.iter().all(|byte| *byte == record[0]), "{record:?}");
                taken.push(record[0]);
            });
            assert_eq!(count, taken.len());
            taken
        }
    }

    #[test]
    fn a_busy_record_holds_up_those_behind_it() {
        let memory = Memory::starting_at(0);
        let busy = memory.write(1, Fate::Busy).unwrap();
        memory.write(2, Fate::Written).unwrap();
        assert!(memory.drain(10).is_empty());
        memory.head(busy, RECORD, Fate::Written);
        assert_eq!(memory.drain(10), [1, 2]);
    }

    #[test]
    fn records_of_another_length_are_passed() {
        let memory = Memory::starting_at(0);
        memory.head(0, 12, Fate::Written);
        memory.produced.store(24, Ordering::Relaxed);
        memory.write(5, Fate::Written).unwrap();
        assert_eq!(memory.drain(10), [5]);
    }

    proptest! {
        /// Whatever the programs do between two looks, each written record is taken once, in order, from wherever the ring begins.
        #[test]
        fn all_written_records_are_taken_once_in_their_order(
            start in 0u64..WORDS as u64,
            steps in prop::collection::vec((prop::collection::vec(0u8..3, 0..5), 0usize..6), 1..40),
        ) {
            let memory = Memory::starting_at(start * 8);
            let (mut waiting, mut taken, mut busy, mut next) = (Vec::new(), Vec::new(), Vec::new(), 0u8);
            for (fates, most) in steps {
                for fate in fates {
                    let fate = [Fate::Written, Fate::Discarded, Fate::Busy][fate as usize];
                    next = next.wrapping_add(1);
                    let Some(position) = memory.write(next, fate) else { continue };
                    if fate != Fate::Discarded {
                        waiting.push(next);
                    }
                    if fate == Fate::Busy {
                        busy.push(position);
                    }
                }
                let some = memory.drain(most);
                prop_assert!(some.len() <= most);
                taken.extend(some);
                busy.drain(..).for_each(|position| memory.head(position, RECORD, Fate::Written));
            }
            taken.extend(memory.drain(usize::MAX));
            prop_assert_eq!(taken, waiting);
            prop_assert_eq!(memory.consumed.load(Ordering::Relaxed), memory.produced.load(Ordering::Relaxed));
        }
    }
}
