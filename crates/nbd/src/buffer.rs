//! Memory for the data of one request.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use memmap2::MmapMut;

use crate::budget::Budget;

/// Buffers above this are mappings of their own: exactly as long as they are asked for, touched only as data comes, and given back
/// to the system or kept by the budget. An allocator keeps what is freed, uncounted, and each of its arenas its own.
pub(crate) const SHORT: usize = 260 << 10;

/// Bytes that have some value.
pub(crate) enum Buffer {
    Heap(Vec<u8>),
    Mapping(Mapping),
}

/// A long buffer, which the budget may keep afterwards.
pub(crate) struct Mapping {
    /// `None` only while it is dropped.
    bytes: Option<MmapMut>,
    home: Arc<Budget>,
}

impl Mapping {
    pub(crate) fn new(bytes: MmapMut, home: &Arc<Budget>) -> Self {
        Self { bytes: Some(bytes), home: Arc::clone(home) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes.take() {
            self.home.keep_long(bytes);
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapping(mapping) => mapping.bytes.as_deref().unwrap_or_default(),
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapping(mapping) => mapping.bytes.as_deref_mut().unwrap_or_default(),
        }
    }
}
