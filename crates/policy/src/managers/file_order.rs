//! File-specific order: a file is read in a known order of its parts (the paper's example: an object file's symbol table,
//! then its text and data). Of the candidate's file, the page needed last is the one just read, then those before it in that
//! order.

use super::{About, Begin, Scope, Use};
use std::ops::Range;

pub(super) static ABOUT: About = About {
    name: "file-order",
    gives_up: "the same, the file being read in a known order",
    needs: r#"`order = ["100..", "0..100"]`, ranges of blocks"#,
    scope: Scope::File,
    begin: Begin::Last,
    plain: None,
    off_line: false,
};

/// The order in which the parts of a file are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOrder {
    parts: Vec<Range<u64>>,
}

impl FileOrder {
    /// Parts of the file, as ranges of blocks, in the order in which they are read. Blocks in none of them are read after all
    /// of them, in their own order.
    pub fn new(parts: Vec<Range<u64>>) -> Self {
        Self { parts }
    }

    /// The block's position in the order.
    fn position(&self, block: u64) -> u64 {
        let mut before = 0u64;
        for part in &self.parts {
            if part.contains(&block) {
                return before.saturating_add(block - part.start);
            }
            before = before.saturating_add(part.end.saturating_sub(part.start));
        }
        before.saturating_add(block)
    }
}

/// How soon a page goes that is used now.
pub(super) fn rank(order: &FileOrder, used: &mut Use) -> u64 {
    order.position(used.place.block)
}
