//! Filter: a program reads files one after the other, in the order of its command line, each from beginning to end. The
//! references to come are known, and RMIN (Belady's rule) is applied: the page just read is needed last, those ahead are
//! needed in their order.

use super::{About, Scope};
use crate::policy::Place;

pub(super) static ABOUT: About = About {
    name: "filter",
    gives_up: "the page just read, then those before it, the files being read one after the other",
    needs: r#"`order = ["a.c", "src/*.c"]`, patterns"#,
    scope: Scope::Owner,
    plain: None,
    off_line: false,
};

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
        let mut order = vec![u32::MAX; files.iter().max().map_or(0, |&most| most as usize + 1)];
        for (index, &file) in files.iter().enumerate().rev() {
            order[file as usize] = index as u32;
        }
        Self { order, listed: files.len() as u32 }
    }

    /// The page's position in the order.
    pub(super) fn rank(&self, place: Place) -> u64 {
        let listed = self.order.get(place.object as usize).copied().filter(|&index| index != u32::MAX);
        let file = listed.unwrap_or(self.listed.saturating_add(place.object));
        u64::from(file) << 32 | place.block.min(MOST_BLOCKS)
    }
}
