//! The pages of each object, by regions of blocks: what lies in a range is found by work in proportion to the pages of it, and not to its
//! length or to the pages of other objects.
//!
//! Each page number that has a name is in the list of its region, resident, ghost or forgotten. The page knows its region and
//! the next number in the list (`page.rs`), so that only a new name is looked up in a map.

use crate::core::page::Pages;
use std::collections::BTreeMap;
use std::ops::Range;

/// Blocks of a region. For a volume a thousand times as large as the cache, regions take 4 bytes a page.
pub(crate) const REGION: u64 = 1 << 14;

const NONE: u32 = u32::MAX;

/// Invariants:
///
/// - RG1. Each region with a page is in the list of its object, and the others are in `free`. `by_place` names the regions of objects that have
///   had several, so that a small file, whose pages lie in one, is found without it.
/// - RG2. A region's list holds the numbers of the pages that name it, `named` of them, of which `framed` have a frame.
#[derive(Default)]
pub(crate) struct Regions {
    by_place: BTreeMap<(u32, u64), u32>,
    /// The first region of each object.
    objects: Vec<u32>,
    regions: Vec<Region>,
    free: Vec<u32>,
    /// The number before each in its list.
    before: Vec<u32>,
    framed: u64,
}

#[derive(Clone, Copy)]
struct Region {
    place: (u32, u64),
    /// Its neighbours in the object's list.
    before: u32,
    after: u32,
    /// `by_place` names it.
    mapped: bool,
    first: u32,
    named: u32,
    framed: u32,
}

/// The blocks of a range that lie in one region, and how many of its pages have a name.
pub(crate) struct Part {
    pub(crate) blocks: Range<u64>,
    pub(crate) named: u32,
    region: u32,
}

impl Regions {
    /// A number stands for the page of its key from now on.
    pub(crate) fn name(&mut self, pages: &Pages, number: u32) {
        let page = pages.get(number);
        let index = self.region_of((page.object(), page.block() / REGION));
        let Self { regions, before, .. } = self;
        if before.len() <= number as usize {
            before.resize(number as usize + 1, NONE);
        }
        let region = &mut regions[index as usize];
        before[number as usize] = NONE;
        page.set_after(region.first);
        page.set_region(Some(index));
        if region.first != NONE {
            before[region.first as usize] = number;
        }
        region.first = number;
        region.named += 1;
    }

    /// The region of a place, made if there is none.
    fn region_of(&mut self, place: (u32, u64)) -> u32 {
        let object = place.0 as usize;
        if self.objects.len() <= object {
            self.objects.resize(object + 1, NONE);
        }
        let first = self.objects[object];
        if first != NONE && self.regions[first as usize].place == place {
            return first;
        }
        if let Some(&index) = self.by_place.get(&place) {
            return index;
        }
        let mapped = first != NONE;
        let region = Region { place, before: NONE, after: first, mapped, first: NONE, named: 0, framed: 0 };
        let index = match self.free.pop() {
            Some(index) => {
                self.regions[index as usize] = region;
                index
            }
            None => {
                self.regions.push(region);
                self.regions.len() as u32 - 1
            }
        };
        if mapped {
            self.by_place.insert(place, index);
            let other = &mut self.regions[first as usize];
            other.before = index;
            if !std::mem::replace(&mut other.mapped, true) {
                self.by_place.insert(other.place, first);
            }
        }
        self.objects[object] = index;
        index
    }

    /// A region has no page any more.
    fn give(&mut self, index: u32) {
        let Region { place, before, after, mapped, .. } = self.regions[index as usize];
        if mapped {
            self.by_place.remove(&place);
        }
        if after != NONE {
            self.regions[after as usize].before = before;
        }
        if before == NONE {
            self.objects[place.0 as usize] = after;
        } else {
            self.regions[before as usize].after = after;
        }
        self.free.push(index);
    }

    /// The regions of an object, in no order.
    fn of(&self, object: u32) -> impl Iterator<Item = u32> {
        let next = |index: u32| (index != NONE).then_some(index);
        let first = self.objects.get(object as usize).copied().unwrap_or(NONE);
        std::iter::successors(next(first), move |&index| next(self.regions[index as usize].after))
    }

    /// A number stands for its page no more, which has no frame.
    pub(crate) fn forget(&mut self, pages: &Pages, number: u32) {
        let page = pages.get(number);
        let region = page.region().expect("a number that is forgotten stands for a page");
        let (before, after) = (self.before[number as usize], page.after());
        page.set_region(None);
        if after != NONE {
            self.before[after as usize] = before;
        }
        let of = &mut self.regions[region as usize];
        if before == NONE {
            of.first = after;
        } else {
            pages.get(before).set_after(after);
        }
        of.named -= 1;
        debug_assert!(of.named >= of.framed, "a page with a frame has a name");
        if of.named == 0 {
            self.give(region);
        }
    }

    /// A page of the region has got a frame.
    pub(crate) fn add(&mut self, region: u32) {
        self.regions[region as usize].framed += 1;
        self.framed += 1;
    }

    /// A page of the region has lost its frame.
    pub(crate) fn remove(&mut self, region: u32) {
        self.regions[region as usize].framed -= 1;
        self.framed -= 1;
    }

    /// The next part of a range of blocks in whose region there are pages with frames.
    pub(crate) fn part(&self, object: u32, blocks: &Range<u64>) -> Option<Part> {
        let Range { start, end } = *blocks;
        let part = |region: u32| {
            let of = &self.regions[region as usize];
            let at = of.place.1;
            let blocks = (at * REGION).max(start)..((at + 1).saturating_mul(REGION)).min(end);
            (!blocks.is_empty() && of.framed > 0).then_some(Part { blocks, named: of.named, region })
        };
        let first = self.of(object).next()?;
        if !self.regions[first as usize].mapped {
            return part(first);
        }
        let regions = self.by_place.range((object, start / REGION)..(object, end.max(start).div_ceil(REGION)));
        regions.map(|(_, &region)| region).find_map(part)
    }

    /// The numbers of the region that the part lies in.
    pub(crate) fn numbers<'p>(&self, pages: &'p Pages, part: &Part) -> impl Iterator<Item = u32> + use<'p> {
        list(pages, self.regions[part.region as usize].first)
    }

    /// A number that stands for a page of the object, if there is one.
    pub(crate) fn any(&self, object: u32) -> Option<u32> {
        self.of(object).next().map(|region| self.regions[region as usize].first)
    }

    /// Whether pages of the object have frames.
    pub(crate) fn has_frames(&self, object: u32) -> bool {
        self.of(object).any(|region| self.regions[region as usize].framed > 0)
    }

    /// How many pages have frames.
    pub(crate) fn framed(&self) -> u64 {
        self.framed
    }

    /// Room for numbers below `most`.
    pub(crate) fn reserve(&mut self, most: u32) {
        self.before.reserve_exact((most as usize).saturating_sub(self.before.len()));
    }

    /// The bytes it takes: a B-tree's nodes are half full or more.
    pub(crate) fn bytes(&self) -> usize {
        self.by_place.len() * size_of::<((u32, u64), u32)>() * 2
            + self.regions.capacity() * size_of::<Region>()
            + self.objects.capacity() * size_of::<u32>()
            + self.free.capacity() * size_of::<u32>()
            + self.before.capacity() * size_of::<u32>()
    }

    /// Recounts the whole state.
    pub(crate) fn check_invariants(&self, pages: &Pages) {
        let has_frame = |number: &&u32| !pages.get(**number).state().absent();
        let all: Vec<u32> = (0..self.objects.len() as u32).flat_map(|object| self.of(object)).collect();
        assert_eq!(all.len() + self.free.len(), self.regions.len(), "RG1");
        let mapped = |&&index: &&u32| {
            let region = &self.regions[index as usize];
            assert_eq!(self.by_place.get(&region.place), region.mapped.then_some(&index), "RG1");
            assert!(region.mapped || self.of(region.place.0).count() == 1, "RG1");
            region.mapped
        };
        assert_eq!(all.iter().filter(mapped).count(), self.by_place.len(), "RG1");
        let (mut named, mut with_frames) = (0, 0);
        for &index in &all {
            let region = &self.regions[index as usize];
            let numbers: Vec<u32> = list(pages, region.first).collect();
            assert!(numbers.iter().all(|&number| pages.get(number).region() == Some(index)), "RG2");
            let frames = numbers.iter().filter(has_frame).count();
            assert_eq!((numbers.len(), frames), (region.named as usize, region.framed as usize), "RG2");
            named += numbers.len();
            with_frames += frames as u64;
        }
        let with_region = |number: &u32| pages.get(*number).region().is_some();
        assert_eq!(named, (0..self.before.len() as u32).filter(with_region).count(), "RG2");
        assert_eq!(with_frames, self.framed, "RG2");
    }
}

fn list(pages: &Pages, first: u32) -> impl Iterator<Item = u32> {
    let next = |number: u32| (number != NONE).then_some(number);
    std::iter::successors(next(first), move |&number| next(pages.get(number).after()))
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    /// Numbers from 0 on for pages of these places.
    fn named(places: impl IntoIterator<Item = (u32, u64)>) -> (Pages, Regions) {
        let (pages, mut regions) = (Pages::new(100), Regions::default());
        for (number, (object, block)) in (0..).zip(places) {
            pages.reserve(number);
            pages.get(number).name(object, block);
            regions.name(&pages, number);
        }
        (pages, regions)
    }

    #[test]
    fn parts_of_a_range_that_have_pages_are_found_region_by_region() {
        let blocks = [3, 5, REGION, 7 * REGION + 1].map(|block| (1, block));
        let (pages, mut regions) = named(blocks.into_iter().chain([(2, 2 * REGION)]));
        for number in 0..4 {
            pages.get(number).bind(number, false);
            regions.add(pages.get(number).region().expect("it has a name"));
        }
        let parts = |regions: &Regions, object, mut blocks: Range<u64>| {
            let mut parts = Vec::new();
            while let Some(part) = regions.part(object, &blocks) {
                blocks.start = part.blocks.end;
                parts.push(part.blocks);
            }
            parts
        };
        let far = 7 * REGION;
        assert_eq!(parts(&regions, 1, 0..u64::MAX), [0..REGION, REGION..2 * REGION, far..far + REGION]);
        assert_eq!(parts(&regions, 1, 4..far + 2), [4..REGION, REGION..2 * REGION, far..far + 2]);
        assert_eq!(parts(&regions, 1, 2 * REGION..far), []);
        assert_eq!(parts(&regions, 1, 4..4), []);
        assert_eq!(parts(&regions, 3, 0..u64::MAX), []);
        assert_eq!(parts(&regions, 2, 0..u64::MAX), [], "its page has no frame");
        let mut leave = |number: u32| {
            let _ = pages.get(number).unbind();
            regions.remove(pages.get(number).region().expect("it has a name"));
            parts(&regions, 1, 0..9).len()
        };
        assert_eq!((leave(0), leave(1)), (1, 0));
        assert_eq!(regions.framed(), 2);
        regions.check_invariants(&pages);
    }

    #[test]
    fn an_object_s_numbers_are_listed_until_they_are_forgotten() {
        let (pages, mut regions) = named((0..100).map(|number| (number % 3, number.into())));
        while let Some(number) = regions.any(1) {
            assert_eq!(number % 3, 1);
            regions.forget(&pages, number);
        }
        assert!((0..100).all(|number| pages.get(number).region().is_some() == (number % 3 != 1)));
        regions.check_invariants(&pages);
        // In the place of the region that has gone.
        pages.get(1).name(7, 0);
        regions.name(&pages, 1);
        assert_eq!((regions.any(7), regions.any(1), regions.regions.len()), (Some(1), None, 3));
    }
}
