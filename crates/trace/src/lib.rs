//! References, read from and written to files.
//!
//! A trace file is a sequence of [`Request`]s: who (owner) touched what (object, offset, length), how and when.
//! Each format is one file in [`formats`] with one line in its registry; [`open`] recognises the format by content
//! and name, and undoes gzip, zstd or xz. Readers stream: nothing is kept but the line or record at hand.

mod checksum;
mod circumstances;
pub mod cut;
pub mod during;
pub mod error;
pub mod formats;
pub mod input;
pub mod mix;
pub mod names;
pub mod only;
pub mod pages;
pub mod reader;
pub mod request;
mod shape;
pub mod summary;
pub mod synthetic;
pub mod write;

pub use circumstances::{AtEnd, Circumstances, readahead_of};
pub use cut::{UpToCut, Warn};
pub use during::During;
pub use error::{Error, Position, Result};
pub use formats::{FORMATS, Format};
/// What the metadata of our own tables says.
pub mod metadata {
    pub use crate::formats::parquet::{PAGE_SIZE_KEY, UNIT_KEY, parse_unit, unit_text};
}
pub use glob::Pattern;
pub use input::{Head, Input};
pub use mix::Mix;
pub use names::Names;
pub use only::Only;
pub use pages::{DEFAULT_PAGE_SIZE, Origin, PageSize, Paging};
pub use reader::{Options, Reader, open};
pub use request::{Request, Unit};
pub use summary::Summary;
pub use write::{ConvertOptions, OUTPUTS, convert};
