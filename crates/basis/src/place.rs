//! Where a page is.

/// Where a page is: a file or volume, and the page's block number in it, counted in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file or volume.
    pub object: u32,
    /// The block.
    pub block: u64,
}
