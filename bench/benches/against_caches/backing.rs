//! The memory that all caches fetch pages from.

use forebay_pool::device::Device;
use std::io::{self, IoSlice, IoSliceMut};

/// The bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Pages in memory; each is filled with a byte that its key tells.
pub(crate) struct Backing(Box<[u8]>);

/// What a page of that key is filled with.
fn byte(key: u32) -> u8 {
    (key.wrapping_mul(0x9e37_79b1) >> 24) as u8
}

/// Which of its bytes is read. It differs by page, as all first bytes of aligned pages would share one set of the processor's cache.
#[inline]
pub(crate) fn place(key: u32) -> usize {
    key.wrapping_mul(0x85eb_ca6b) as usize % PAGE
}

/// What the bytes that are read of these pages add up to.
pub(crate) fn sum(keys: &[u32]) -> u64 {
    keys.iter().map(|&key| u64::from(byte(key))).sum()
}

impl Backing {
    pub(crate) fn new(pages: u32) -> Self {
        let mut bytes = vec![0; pages as usize * PAGE];
        for (key, page) in (0..pages).zip(bytes.chunks_exact_mut(PAGE)) {
            page.fill(byte(key));
        }
        Self(bytes.into())
    }

    pub(crate) fn page(&self, key: u32) -> &[u8] {
        &self.0[key as usize * PAGE..][..PAGE]
    }
}

/// The same bytes for the pool, which writes none.
impl Device for Backing {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let mut bytes = self.0.get(offset as usize..).ok_or(io::ErrorKind::InvalidInput)?;
        for buffer in buffers {
            let (copied, rest) = bytes.split_at_checked(buffer.len()).ok_or(io::ErrorKind::InvalidInput)?;
            buffer.copy_from_slice(copied);
            bytes = rest;
        }
        Ok(())
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
