//! What a device is asked for.

/// A byte of a file or volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) object: u32,
    pub(crate) byte: u64,
}

/// Bytes in a row, to be read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) start: Address,
    pub(crate) bytes: u64,
    pub(crate) write: bool,
    /// When it was made, in milliseconds.
    pub(crate) at: f64,
}

impl Request {
    /// Behind its last byte.
    pub(crate) fn end(&self) -> Address {
        Address { byte: self.start.byte.saturating_add(self.bytes), ..self.start }
    }
}
