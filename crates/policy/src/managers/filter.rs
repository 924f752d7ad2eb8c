//! Filter: a program reads files one after the other, in the order of its command line, each from beginning to end. The
//! references to come are known, and RMIN (Belady's rule) is applied: the page just read is needed last, those ahead are
//! needed in their order.

use super::{About, Begin, Scope, Use};
use forebay_basis::Place;

pub(super) static ABOUT: About = About {
    name: "filter",
    gives_up: "the page just read, then those before it, the files being read one after the other",
    needs: r#"`order = ["a.c", "src/*.c"]`, patterns"#,
    scope: Scope::Owner,
    begin: Begin::Last,
    plain: None,
    off_line: false,
};

/// In an order: the file is not listed.
pub(super) const UNLISTED: u32 = u32::MAX;

/// The order in which a program reads files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// By object: its place in the order.
    order: Vec<u32>,
    listed: u32,
}

/// Blocks of a file that keep their own rank; what follows shares the last.
const MOST_BLOCKS: u64 = (1 << 32) - 1;

impl Filter {
    /// Files in the order in which they are read. Those not listed are read after all that are, in the order of their numbers.
    pub fn new(files: &[u32]) -> Self {
        let mut order = vec![UNLISTED; files.iter().max().map_or(0, |&most| most as usize + 1)];
        for (index, &file) in files.iter().enumerate().rev() {
            order[file as usize] = index as u32;
        }
        Self { order, listed: files.len() as u32 }
    }

    /// Files are listed as they come to be known; `after` is above their positions.
    pub(super) fn growing(after: u32) -> Self {
        Self { order: Vec::new(), listed: after }
    }

    pub(super) fn set(&mut self, object: u32, position: u32) {
        if object as usize >= self.order.len() {
            self.order.resize(object as usize + 1, UNLISTED);
        }
        self.order[object as usize] = position;
    }

    /// The page's position in the order.
    pub(super) fn position(&self, place: Place) -> u64 {
        let listed = self.order.get(place.object as usize).copied().filter(|&index| index != UNLISTED);
        let file = listed.unwrap_or(self.listed.saturating_add(place.object));
        u64::from(file) << 32 | place.block.min(MOST_BLOCKS)
    }
}

/// How soon a page goes that is used now.
pub(super) fn rank(files: &Filter, used: &mut Use) -> u64 {
    files.position(used.place)
}
