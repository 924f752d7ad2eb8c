//! The requests that references came from.

use forebay_basis::Operation;

/// The requests of a trace, in columns.
#[derive(Debug, Default)]
pub struct Requests {
    /// The index of each request's first reference.
    pub first: Vec<u32>,
    /// Who made it.
    pub owner: Vec<u32>,
    /// How it used its pages.
    pub operation: Vec<Operation>,
}

impl Requests {
    pub(crate) fn push(&mut self, first: u32, owner: u32, operation: Operation) {
        self.first.push(first);
        self.owner.push(owner);
        self.operation.push(operation);
    }

    /// The bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        let Self { first, owner, operation } = self;
        size_of_val(first.as_slice()) + size_of_val(owner.as_slice()) + size_of_val(operation.as_slice())
    }

    pub(crate) fn clear(&mut self) {
        self.first.clear();
        self.owner.clear();
        self.operation.clear();
    }
}
