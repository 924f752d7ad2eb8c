//! Where the blocks of files lie on disks, for policies that go by it.

use forebay_basis::Place;
use std::fmt;

/// What knows the layout of files. A policy may ask it for each miss, so it answers from memory at once.
pub trait Layout: Send + Sync + fmt::Debug {
    /// The disk and the block there of a block of a file. `None`: it has none, or it is not known yet.
    ///
    /// The number of a disk is never that of a file: a policy uses places in files where it gets no other.
    fn on_disk(&self, place: Place) -> Option<Place>;
}
