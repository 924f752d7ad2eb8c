//! Writing traces: one file a format.

use crate::error::Result;
use crate::names::Names;
use crate::request::Request;

/// A trace being written.
pub trait Writer: Send {
    /// Appends a request, its owner and object numbered in `names`.
    fn write(&mut self, request: &Request, names: &Names) -> Result<()>;

    /// Completes the file: only now is it whole.
    fn finish(self: Box<Self>) -> Result<()>;
}
