//! The pages that a request refers to.

use crate::reader::Reader;
use crate::request::{Request, Unit};
use std::ops::Range;

/// The page size for traces that know none.
pub const DEFAULT_PAGE_SIZE: u64 = 8192;

/// A page size that a trace has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    /// The bytes of a page.
    pub bytes: u64,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a page size comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user, the trace's own blocks, or the default.
    Given,
    /// Whoever recorded the trace.
    Recorded,
    /// The alignment and the lengths of the requests.
    Requests,
    /// Nobody: its pages are objects, each of a size of its own.
    Objects,
}

impl Origin {
    const ALL: [Self; 4] = [Self::Given, Self::Recorded, Self::Requests, Self::Objects];

    /// Its name for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Recorded => "recorded",
            Self::Requests => "requests",
            Self::Objects => "objects",
        }
    }

    /// The one of that name.
    pub fn by_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.word() == word)
    }
}

/// A request of more pages than this is a damaged one.
const MOST_PAGES_OF_A_REQUEST: u64 = 1 << 24;

/// How requests are cut into pages.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    page_size: u64,
    origin: Origin,
    /// A unit of the trace is this many bytes; `None` if each is a page of its own.
    unit_size: Option<u64>,
}

impl Paging {
    /// Pages of `page_size` bytes, by default the trace's own.
    ///
    /// # Errors
    /// A sentence that says why that is no page size.
    pub fn of(reader: &dyn Reader, page_size: Option<u64>) -> Result<Self, String> {
        let own = reader.page_size().filter(|_| page_size.is_none());
        let paging = Self::new(reader.unit(), page_size.or(own.map(|own| own.bytes)))?;
        let objects = page_size.is_none() && reader.holds_objects();
        let unknown = if objects { Origin::Objects } else { Origin::Given };
        Ok(Self { origin: own.map_or(unknown, |own| own.origin), ..paging })
    }

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
        Ok(Self { page_size: page_size.unwrap_or(default), origin: Origin::Given, unit_size })
    }

    /// The bytes of a page.
    pub fn page_size(&self) -> u64 {
        self.page_size
    }

    /// Where its size comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The blocks, counted in pages, that a request refers to; none if its length is 0.
    ///
    /// # Errors
    /// A sentence, if they are more than any request has, or lie beyond the last page that can be counted: the length or the offset is
    /// then a damaged figure.
    pub fn checked_pages(&self, request: &Request) -> Result<Range<u64>, String> {
        let Request { offset, length, .. } = *request;
        let Some(blocks) = self.pages(request) else {
            return Err(format!(
                "a request of length {length} at {offset} reaches page {} or beyond, which cannot be counted; \
                 the trace is damaged, or in another format",
                u64::MAX
            ));
        };
        if blocks.end - blocks.start <= MOST_PAGES_OF_A_REQUEST {
            return Ok(blocks);
        }
        Err(format!(
            "a request of length {length} at {offset} covers more than {MOST_PAGES_OF_A_REQUEST} pages; \
             the trace is damaged, or in another format"
        ))
    }

    /// The pages of a request; `None` if the last is page 2^64 - 1, which no range ends behind, or one further on.
    fn pages(&self, request: &Request) -> Option<Range<u64>> {
        let Request { offset, length, .. } = *request;
        if length == 0 {
            return Some(0..0);
        }
        let last = offset.checked_add(length - 1)?;
        let (first, last) = match self.unit_size {
            Some(size) if size != self.page_size => {
                // In 128 bits, since a block number times its size may exceed 64.
                let page = |unit: u64, byte: u64| {
                    (u128::from(unit) * u128::from(size) + u128::from(byte)) / u128::from(self.page_size)
                };
                (u64::try_from(page(offset, 0)).ok()?, u64::try_from(page(last, size - 1)).ok()?)
            }
            _ => (offset, last),
        };
        Some(first..last.checked_add(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_basis::Operation;

    fn pages(unit: Unit, page_size: Option<u64>, offset: u64, length: u64) -> Range<u64> {
        let request = Request { time: 0, owner: 0, object: 0, offset, length, operation: Operation::Read };
        Paging::new(unit, page_size).unwrap().pages(&request).unwrap()
    }

    #[test]
    fn a_request_refers_to_every_page_that_it_touches() {
        assert_eq!(pages(Unit::Bytes, None, 8191, 2), 0..2);
        assert_eq!(pages(Unit::Bytes, None, 8192, 8192), 1..2);
        assert_eq!(pages(Unit::Bytes, Some(512), 100, 1000), 0..3);
        assert_eq!(pages(Unit::Blocks(512), None, 7, 3), 7..10);
        assert_eq!(pages(Unit::Blocks(512), Some(4096), 7, 2), 0..2);
        assert_eq!(pages(Unit::Blocks(4096), Some(512), 1, 1), 8..16);
        assert_eq!(pages(Unit::Pages, Some(4096), 7, 1), 7..8);
        assert!(pages(Unit::Bytes, None, 5, 0).is_empty());
    }

    #[test]
    fn the_last_pages_that_can_be_counted_are_told_apart_and_what_lies_behind_is_an_error() {
        assert_eq!(pages(Unit::Bytes, None, u64::MAX, 1), u64::MAX / 8192..u64::MAX / 8192 + 1);
        assert_eq!(pages(Unit::Pages, None, u64::MAX - 2, 1), u64::MAX - 2..u64::MAX - 1);
        assert_eq!(pages(Unit::Pages, None, u64::MAX - 1, 1), u64::MAX - 1..u64::MAX);
        for (unit, page_size, offset, length) in [
            (Unit::Pages, None, u64::MAX, 1),
            (Unit::Pages, None, u64::MAX - 1, 2),
            (Unit::Pages, None, 5, u64::MAX),
            (Unit::Blocks(4096), Some(512), u64::MAX / 8 + 1, 1),
        ] {
            let request = Request { time: 0, owner: 0, object: 0, offset, length, operation: Operation::Read };
            let error = Paging::new(unit, page_size).unwrap().checked_pages(&request).unwrap_err();
            assert!(error.contains("cannot be counted"), "{error}");
        }
    }

    #[test]
    fn an_impossible_length_is_an_error_and_not_an_endless_request() {
        let request = Request { time: 0, owner: 0, object: 0, offset: 0, length: u64::MAX, operation: Operation::Read };
        let error = Paging::new(Unit::Bytes, None).unwrap().checked_pages(&request).unwrap_err();
        assert!(error.contains("damaged"), "{error}");
    }

    #[test]
    fn a_page_size_is_a_power_of_two() {
        for wrong in [0, 1, 256, 1000, 3 << 20, 1 << 31] {
            assert!(Paging::new(Unit::Bytes, Some(wrong)).unwrap_err().contains("power of two"));
        }
    }
}
