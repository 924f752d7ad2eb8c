//! What a device is asked for.

/// A byte of a file or volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) object: u32,
    pub(super) byte: u64,
}

/// Bytes in a row, to be read or written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) start: Address,
    pub(super) bytes: u64,
    pub(super) write: bool,
    /// When it was made, in milliseconds.
    pub(super) at: f64,
}

impl Request {
    /// Behind its last byte.
    pub(super) fn end(&self) -> Address {
        Address { byte: self.start.byte.saturating_add(self.bytes), ..self.start }
    }
}
