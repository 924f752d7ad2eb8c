//! The contract.
/// How a page is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The page is read.
    #[default]
    Read,
    /// The page is written.
    Write,
    /// The page is fetched ahead of a use that is expected.
    Readahead,
}
