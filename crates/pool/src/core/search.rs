//! The pages of an object that have frames, found a few thousand at a time, so that no thread waits long for the replacer's lock.

use crate::core::Core;
use crate::core::replacer::Replacer;
use forebay_basis::Place;
use std::ops::Range;

/// Places or numbers looked at in one step of a search.
pub(crate) const LOOKED_AT: u32 = 4096;

/// What is left of a search for the pages of a range of blocks.
pub(crate) struct Search {
    object: u32,
    blocks: Range<u64>,
}

impl Search {
    /// A search for the pages that have a frame.
    pub(crate) fn new(object: u32, blocks: &Range<u64>) -> Self {
        Self { object, blocks: blocks.clone() }
    }
}

impl Replacer {
    /// The next pages with a frame that a search finds: so much at a time that nobody waits long for the lock. `None`: it has ended.
    pub(crate) fn next_pages(&self, core: &Core, search: &mut Search) -> Option<Vec<u32>> {
        let Search { object, blocks } = search;
        let has_frame = |number: &u32| !core.pages.get(*number).state().absent();
        let part = self.regions.part(*object, blocks)?;
        let places = part.blocks.end - part.blocks.start;
        if part.named <= LOOKED_AT && u64::from(part.named) < places {
            blocks.start = part.blocks.end;
            let within = |number: &u32| part.blocks.contains(&core.pages.get(*number).block());
            return Some(self.regions.numbers(&core.pages, &part).filter(within).filter(has_frame).collect());
        }
        let some = part.blocks.start..part.blocks.end.min(part.blocks.start + u64::from(LOOKED_AT));
        blocks.start = some.end;
        let find = |block| self.find(core, Place { object: *object, block });
        Some(some.filter_map(find).filter(has_frame).collect())
    }

    /// Whether numbers stand for pages of the object.
    pub(crate) fn knows(&self, object: u32) -> bool {
        self.regions.any(object).is_some()
    }

    /// Whether pages of the object have frames.
    pub(crate) fn has_frames(&self, object: u32) -> bool {
        self.regions.has_frames(object)
    }
}
