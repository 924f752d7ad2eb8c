//! The pages of a trace in the order of their blocks.
//!
//! Memory: 8 bytes a page, made once and shared by all runs over a trace.

use crate::input::places::Places;
use forebay_basis::Place;
use forebay_policy::prefetch::prefetch;
use forebay_trace::Names;

/// No page: the trace refers to none behind.
pub(crate) const NONE: u32 = u32::MAX;

/// Which page follows which.
#[derive(Debug)]
pub(crate) struct Successors {
    /// All pages by object and block.
    order: Vec<u32>,
    /// By page, the next one of its object.
    next: Vec<u32>,
    /// By object, the first block behind it, where the trace says how long it is. Others, and those above, end with their last page.
    ends: Vec<u64>,
}

impl Successors {
    /// Of objects whose `names` may know their lengths, in pages of this many bytes.
    pub(crate) fn new(places: &Places, names: &Names, page_size: u64) -> Self {
        let mut order: Vec<u32> = (0..places.len() as u32).collect();
        // A file that is read from its start has its pages in order: the sort finds such runs.
        order.sort_by_key(|&page| places.of(page));
        let mut next = vec![NONE; order.len()];
        for pair in order.windows(2) {
            if places.of(pair[0]).object == places.of(pair[1]).object {
                next[pair[0] as usize] = pair[1];
            }
        }
        let end = |object| names.length(object).map_or(0, |bytes| bytes.div_ceil(page_size));
        let ends = (0..names.objects().len() as u32).map(end).collect();
        Self { order, next, ends }
    }

    /// The first block behind an object, as far as its length is known; 0 if it is not.
    pub(crate) fn end(&self, object: u32) -> u64 {
        self.ends.get(object as usize).copied().unwrap_or(0)
    }

    /// The block behind an object, whose last page may lie behind the length that is known.
    pub(crate) fn block_behind(&self, places: &Places, object: u32) -> u64 {
        let behind = self.order.partition_point(|&page| places.of(page).object <= object);
        let last = self.order[..behind].last().map(|&page| places.of(page)).filter(|last| last.object == object);
        last.map_or(0, |last| last.block.saturating_add(1)).max(self.end(object))
    }

    /// The page behind `page` in its object, or [`NONE`].
    pub(crate) fn next(&self, page: u32) -> u32 {
        self.next[page as usize]
    }

    /// [`next`](Self::next) of the page will be asked for soon.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        prefetch(&self.next, page as usize);
    }

    /// The page at a place of the same object as `page`, if the trace refers to it.
    pub(crate) fn find(&self, places: &Places, page: u32, place: Place) -> Option<u32> {
        // What is read in order has numbers in order.
        let apart = place.block.wrapping_sub(places.of(page).block);
        let guess = u64::from(page).wrapping_add(apart);
        if guess < self.next.len() as u64 && places.of(guess as u32) == place {
            return Some(guess as u32);
        }
        self.order.binary_search_by_key(&place, |&page| places.of(page)).ok().map(|index| self.order[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_an_object_follow_each_other_over_its_holes() {
        let mut places = Places::default();
        places.extend([(1, 5), (0, 9), (1, 2), (0, 10), (1, 6)].map(|(object, block)| Place { object, block }));
        let mut names = Names::new();
        let object = names.object("a");
        names.set_length(object, 4097);
        let successors = Successors::new(&places, &names, 1024);
        assert_eq!([0, object, 7].map(|object| successors.end(object)), [0, 5, 0]);
        assert_eq!([0, 1, 2, 3, 4].map(|page| successors.next(page)), [4, 3, 0, NONE, NONE]);
        assert_eq!([0, object, 7].map(|object| successors.block_behind(&places, object)), [11, 7, 0]);
        let find = |object, block| successors.find(&places, 2, Place { object, block });
        assert_eq!([find(1, 2), find(1, 5), find(1, 3), find(1, 7)], [Some(2), Some(0), None, None]);
    }
}
