//! Memory for the copies of pages that are being written: the pool's, taken for a writeback and given back.

use crate::core::frames::Frames;
use crate::error::Error;
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// Buffers that are kept while nobody writes: 32 MiB.
const KEPT: usize = 8;

#[derive(Default)]
pub(crate) struct Copies(Mutex<Vec<Frames>>);

impl Copies {
    /// A buffer of this many bytes, which are always as many.
    pub(crate) fn take(&self, bytes: usize) -> Result<Frames, Error> {
        if let Some(buffer) = lock(&self.0).pop() {
            return Ok(buffer);
        }
        Frames::new(1, bytes, false).map_err(|source| Error::Memory { bytes: bytes as u64, source: Arc::new(source) })
    }

    pub(crate) fn give(&self, buffer: Frames) {
        let mut kept = lock(&self.0);
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}
