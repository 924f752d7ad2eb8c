//! The request: one line or record of a trace, in whatever unit the trace counts.

use forebay_basis::Operation;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When, in nanoseconds; 0 throughout in a trace without times.
    pub time: u64,
    /// Who: a number given by [`Names::owner`](crate::Names::owner); 0 where the trace names nobody.
    pub owner: u32,
    /// What: a file or volume, a number given by [`Names::object`](crate::Names::object); 0 where the trace names none.
    pub object: u32,
    /// The first byte, block or page, counted in the trace's [`Unit`].
    pub offset: u64,
    /// How many bytes, blocks or pages. A request of length 0 refers to nothing.
    pub length: u64,
    /// Read, write or readahead; and of a read whether its program has said that it reads at random, or in order.
    pub operation: Operation,
}

/// What a trace's offsets and lengths count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: pages are cut from them at the page size.
    Bytes,
    /// Blocks of this many bytes: each is a page unless a page size is asked for.
    Blocks(u32),
    /// Pages: opaque numbers, each a page whatever the page size.
    Pages,
}
