//! Bytes in memory, gone with the process.

use super::pieces::{append, by_unit, cut, cut_mut, gather, scatter, total, within};
use super::{Device, Extent};
use foldhash::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Memory is taken by chunks of this size, when they are first written.
const CHUNK: u64 = 64 << 10;

/// How many locks the chunks are spread over: neighbours have different ones, so that threads seldom meet.
const SHARDS: usize = 64;

/// The most chunks that one question for extents looks at: 4 GiB.
const MOST_CHUNKS: u64 = 65_536;

type Chunks = HashMap<u64, Box<[u8]>>;

/// Sparse memory: what was never written is a hole and reads as zeroes.
pub struct MemoryDevice {
    len: AtomicU64,
    /// Chunk `n` is in shard `n % SHARDS`.
    shards: [RwLock<Chunks>; SHARDS],
}

impl MemoryDevice {
    /// This many bytes, all zero.
    pub fn new(len: u64) -> Self {
        Self { len: AtomicU64::new(len), shards: std::array::from_fn(|_| RwLock::default()) }
    }

    fn shard(&self, chunk: u64) -> &RwLock<Chunks> {
        &self.shards[chunk as usize % SHARDS]
    }

    fn shared(&self, chunk: u64) -> RwLockReadGuard<'_, Chunks> {
        self.shard(chunk).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self, chunk: u64) -> RwLockWriteGuard<'_, Chunks> {
        self.shard(chunk).write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn zeroes() -> Box<[u8]> {
    vec![0; CHUNK as usize].into_boxed_slice()
}

impl Device for MemoryDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let inside = (length % CHUNK) as usize;
        for shard in &self.shards {
            shard.write().unwrap_or_else(PoisonError::into_inner).retain(|&chunk, bytes| {
                if chunk == length / CHUNK {
                    bytes[inside..].fill(0);
                }
                chunk < length.div_ceil(CHUNK)
            });
        }
        self.len.store(length, Ordering::Release);
        Ok(())
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let parts = cut_mut(buffers, by_unit(offset, length, CHUNK).map(|(_, _, length)| length));
        for ((chunk, inside, _), mut part) in by_unit(offset, length, CHUNK).zip(parts) {
            match self.shared(chunk).get(&chunk) {
                Some(bytes) => scatter(&bytes[inside as usize..], &mut part),
                None => part.iter_mut().for_each(|buffer| buffer.fill(0)),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let parts = cut(buffers, by_unit(offset, length, CHUNK).map(|(_, _, length)| length));
        for ((chunk, inside, _), part) in by_unit(offset, length, CHUNK).zip(parts) {
            let mut chunks = self.alone(chunk);
            gather(&mut chunks.entry(chunk).or_insert_with(zeroes)[inside as usize..], &part);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.write_zeroes(offset, length, false)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        within(self, offset, length)?;
        for (chunk, inside, length) in by_unit(offset, length, CHUNK) {
            let mut chunks = self.alone(chunk);
            if length == CHUNK && !allocate {
                chunks.remove(&chunk);
            } else if allocate || chunks.contains_key(&chunk) {
                chunks.entry(chunk).or_insert_with(zeroes)[inside as usize..][..length as usize].fill(0);
            }
        }
        Ok(())
    }

    fn zeroes_fast(&self) -> bool {
        true
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        within(self, offset, length)?;
        let mut extents = Vec::new();
        for (chunk, _, length) in by_unit(offset, length, CHUNK).take(MOST_CHUNKS as usize) {
            let hole = !self.shared(chunk).contains_key(&chunk);
            append(&mut extents, Extent { length, hole, zero: hole });
        }
        Ok(extents)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("{} bytes of memory", self.len())
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_memory_from_its_first_write_until_it_is_trimmed() {
        let device = MemoryDevice::new(1 << 50);
        let hole = |length| Extent { length, hole: true, zero: true };
        let data = Extent { length: CHUNK, hole: false, zero: false };
        device.write(5 * CHUNK + 7, &[IoSlice::new(b"bytes")]).expect("it lies on the device");
        let extents = |length| device.extents(4 * CHUNK, length).expect("it lies on the device");
        assert_eq!(extents(4 * CHUNK), [hole(CHUNK), data, hole(2 * CHUNK)]);
        device.trim(5 * CHUNK, CHUNK).expect("it lies on the device");
        assert_eq!(extents(4 * CHUNK), [hole(4 * CHUNK)]);
        device.write_zeroes(5 * CHUNK, CHUNK, true).expect("it lies on the device");
        assert_eq!(extents(2 * CHUNK), [hole(CHUNK), data], "space that was asked for is there");
    }
}
