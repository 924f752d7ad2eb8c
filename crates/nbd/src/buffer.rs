//! Memory for the data of one request.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Buffers above this are mappings of their own: exactly as long as they are asked for, touched only as data comes, and given back
/// to the system at once. An allocator keeps what is freed, and each of its arenas its own.
pub(crate) const SHORT: usize = 260 << 10;

/// Bytes that are zero at first.
#[derive(Debug)]
pub(crate) enum Buffer {
    Heap(Vec<u8>),
    Mapping(MmapMut),
}

impl Buffer {
    pub(crate) fn new(length: usize) -> Self {
        let mapping = if length > SHORT { MmapMut::map_anon(length).ok() } else { None };
        mapping.map_or_else(|| Self::Heap(vec![0; length]), Self::Mapping)
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
            Self::Mapping(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapping(bytes) => bytes,
        }
    }
}
