//! The pages that a request refers to.

use crate::request::{Request, Unit};
use std::ops::Range;

/// The page size for traces that count bytes, where none is given.
pub const DEFAULT_PAGE_SIZE: u64 = 8192;

/// How requests are cut into pages.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    page_size: u64,
    /// A unit of the trace is this many bytes; `None` if each is a page of its own.
    unit_size: Option<u64>,
}

impl Paging {
    /// Pages of `page_size` bytes, by default 8 KiB for a trace of bytes and its own block for a trace of blocks.
    ///
    /// # Errors
    /// A sentence that says why that is no page size.
    pub fn new(unit: Unit, page_size: Option<u64>) -> Result<Self, String> {
        if let Some(size) = page_size
            && !(size.is_power_of_two() && (512..=1 << 30).contains(&size))
        {
            return Err(format!("{size} bytes is no page size: take a power of two from 512 bytes to 1 GiB"));
        }
        let (unit_size, default) = match unit {
            Unit::Bytes => (Some(1), DEFAULT_PAGE_SIZE),
            Unit::Blocks(size) => (Some(u64::from(size.max(1))), u64::from(size.max(1))),
            Unit::Pages => (None, DEFAULT_PAGE_SIZE),
        };
        Ok(Self { page_size: page_size.unwrap_or(default), unit_size })
    }

    /// The bytes of a page.
    pub fn page_size(&self) -> u64 {
        self.page_size
    }

    /// The blocks, counted in pages, that a request refers to; none if its length is 0.
    pub fn pages(&self, request: &Request) -> Range<u64> {
        let Request { offset, length, .. } = *request;
        if length == 0 {
            return 0..0;
        }
        let last = offset.saturating_add(length - 1);
        match self.unit_size {
            Some(size) if size != self.page_size => {
                // In 128 bits, since a block number times its size may exceed 64.
                let page = |unit: u64, byte: u64| {
                    (u128::from(unit) * u128::from(size) + u128::from(byte)) / u128::from(self.page_size)
                };
                let first = u64::try_from(page(offset, 0)).unwrap_or(u64::MAX - 1);
                let last = u64::try_from(page(last, size - 1)).unwrap_or(u64::MAX - 1);
                first..last + 1
            }
            _ => offset.min(u64::MAX - 1)..last.min(u64::MAX - 1) + 1,
        }
    }
}
