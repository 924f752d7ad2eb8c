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
//! - The data is mapped twice running, so a record that goes over the end lies in one piece.

use super::event::RECORD;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// So many records are freed together: each time costs the programs a cache line.
const FREED_TOGETHER: usize = 256;

/// A ring's memory.
pub(super) struct Ring<'a> {
    /// The reader's position.
    pub(super) consumed: &'a AtomicU64,
    /// The programs' position.
    pub(super) produced: &'a AtomicU64,
    /// The data, twice.
    pub(super) data: &'a [AtomicU64],
}

impl Ring<'_> {
    /// Takes at most `most` records, in their order, without waiting for any. Returns how many `each` was given.
    pub(super) fn drain(&self, most: usize, each: &mut dyn FnMut(&[u8; RECORD])) -> usize {
        let words = self.data.len() as u64 / 2;
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
                for (to, from) in record.chunks_exact_mut(8).zip(&self.data[at + 1..]) {
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
