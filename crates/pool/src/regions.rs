//! Where there are pages with frames, by regions of blocks: what lies in a range is found by work in proportion to the regions of it
//! that have some, and not to its length.

use std::collections::BTreeMap;
use std::ops::Range;

/// Blocks of a region. For a volume a thousand times as large as the cache, regions take 3 bytes a page.
pub(crate) const REGION: u64 = 1 << 14;

/// How many pages with frames each region of an object has; those that have none are left out.
#[derive(Default)]
pub(crate) struct Regions(BTreeMap<(u32, u64), u32>);

impl Regions {
    pub(crate) fn add(&mut self, object: u32, block: u64) {
        *self.0.entry((object, block / REGION)).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, object: u32, block: u64) {
        let key = (object, block / REGION);
        let pages = self.0.get_mut(&key).expect("what is removed was added");
        *pages -= 1;
        if *pages == 0 {
            self.0.remove(&key);
        }
    }

    /// The parts of a range of blocks that have pages, each in one region.
    pub(crate) fn parts(&self, object: u32, blocks: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let Range { start, end } = *blocks;
        let regions = start / REGION..end.max(start).div_ceil(REGION);
        let regions = self.0.range((object, regions.start)..(object, regions.end));
        let parts =
            regions.map(move |(&(_, region), _)| (region * REGION).max(start)..((region + 1) * REGION).min(end));
        parts.filter(|part| !part.is_empty())
    }

    /// How many pages there are.
    pub(crate) fn pages(&self) -> u64 {
        self.0.values().map(|&pages| u64::from(pages)).sum()
    }

    /// The bytes it takes: a B-tree's nodes are half full or more.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * size_of::<((u32, u64), u32)>() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_range_that_have_pages_are_found_region_by_region() {
        let mut regions = Regions::default();
        for block in [3, 5, REGION, 7 * REGION + 1] {
            regions.add(1, block);
        }
        regions.add(2, 2 * REGION);
        let parts = |object, blocks: Range<u64>| regions.parts(object, &blocks).collect::<Vec<_>>();
        let far = 7 * REGION;
        assert_eq!(parts(1, 0..u64::MAX), [0..REGION, REGION..2 * REGION, far..far + REGION]);
        assert_eq!(parts(1, 4..far + 2), [4..REGION, REGION..2 * REGION, far..far + 2]);
        assert_eq!(parts(1, 2 * REGION..far), []);
        assert_eq!(parts(1, 4..4), []);
        assert_eq!(parts(3, 0..u64::MAX), []);
        regions.remove(1, 3);
        assert_eq!(regions.parts(1, &(0..9)).count(), 1, "one page is left");
        regions.remove(1, 5);
        assert_eq!(regions.parts(1, &(0..9)).count(), 0);
        assert_eq!(regions.pages(), 3);
    }
}
