//! What of the steered files is in the kernel's page cache, by page: is it there, is it wanted, and which pages are one folio.
//!
//! ```text
//!              there   wanted
//!   on its way    -       x     a use was seen, and the kernel has yet to add the page
//!   resident      x       x     the policy has it
//!   kept          x       -     the policy has let it go, and it has not left: it is dirty, mapped, or in a folio with wanted pages
//! ```
//!
//! Of a wanted page the policy *knows* once its next use would change nothing, as of a page whose reference bit is set: such uses need not be told.
//!
//! The kernel drops folios as a whole or not at all. A large folio therefore leaves when its last wanted page does. A page's bit in `tails` says that it
//! is in the same folio as the page before it.
//!
//! Every operation looks up one chunk for each 64 pages that it is about, and works on its words: it ends, and a hostile key costs no more
//! than another, as the hash is seeded at random. Folios are at most 2 MiB long, and no search for the ends of one goes farther. Memory: 49 bytes for each
//! chunk of which any page is there or wanted, in a table that is at least 7/16 full.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::ops::Range;

/// Pages of a chunk.
const CHUNK: u64 = 64;
/// Pages of the largest folio.
const LARGEST: u64 = 512;

/// 64 pages of a file, a bit each.
#[derive(Clone, Copy, Default)]
struct Chunk {
    there: u64,
    wanted: u64,
    /// The policy knows of its use: only of wanted pages.
    known: u64,
    tails: u64,
}

/// The chunks of a file: how many, and the highest index that one has had since it has any.
#[derive(Default)]
struct Chunks {
    count: u32,
    highest: u64,
}

/// The pages of all steered files that are in the kernel's cache, or wanted there.
#[derive(Default)]
pub(crate) struct Residents {
    chunks: HashMap<(u32, u64), Chunk, foldhash::fast::RandomState>,
    files: HashMap<u32, Chunks, foldhash::fast::RandomState>,
    there: u64,
    kept: u64,
}

impl Residents {
    /// Pages that are in the kernel's cache.
    pub(crate) fn there(&self) -> u64 {
        self.there
    }

    /// Pages that are there though the policy has let them go.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// The bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.allocation_size() + self.files.allocation_size()
    }

    /// Whether any page of a file is there or wanted.
    pub(crate) fn has(&self, object: u32) -> bool {
        self.files.contains_key(&object)
    }

    /// A folio of `count` pages is in the cache.
    pub(crate) fn add(&mut self, object: u32, first: u64, count: u64) {
        self.set(object, first..first + count, |chunk, mask| {
            chunk.there |= mask;
            chunk.tails |= mask;
        });
        self.begin_folio(object, first);
        self.begin_folio(object, first + count);
    }

    /// Pages are in the cache, of folios that are not known.
    pub(crate) fn find(&mut self, object: u32, pages: Range<u64>) {
        self.set(object, pages, |chunk, mask| chunk.there |= mask);
    }

    /// Pages have left the cache.
    pub(crate) fn remove(&mut self, object: u32, pages: Range<u64>) {
        // What is left of a folio behind them is another one.
        self.begin_folio(object, pages.end);
        self.set(object, pages, |chunk, mask| {
            chunk.there &= !mask;
            chunk.tails &= !mask;
        });
    }

    /// The policy has pages, or has let them go.
    pub(crate) fn want(&mut self, object: u32, pages: Range<u64>, wanted: bool) {
        self.set(object, pages, |chunk, mask| {
            chunk.wanted = if wanted { chunk.wanted | mask } else { chunk.wanted & !mask };
            chunk.known &= chunk.wanted;
        });
    }

    /// The policy waits for the next use of a page, or knows enough of it.
    pub(crate) fn await_use(&mut self, object: u32, page: u64, awaited: bool) {
        if let Some(chunk) = self.chunks.get_mut(&(object, page / CHUNK)) {
            chunk.known = if awaited { chunk.known & !bit(page) } else { chunk.known | bit(page) & chunk.wanted };
        }
    }

    /// Whether a use of any of these pages changes nothing for the policy.
    pub(crate) fn all_known(&self, object: u32, pages: Range<u64>) -> bool {
        masks(pages).all(|(index, mask)| self.chunk(object, index).known & mask == mask)
    }

    /// Of 64 pages, from 64 times an index on, a bit each: those that are there, and those that the policy has.
    pub(crate) fn words(&self, object: u32, index: u64) -> (u64, u64) {
        let Chunk { there, wanted, .. } = self.chunk(object, index);
        (there, wanted)
    }

    /// Whether a page is in the cache.
    pub(crate) fn is_there(&self, object: u32, page: u64) -> bool {
        self.chunk(object, page / CHUNK).there & bit(page) != 0
    }

    /// Whether the policy has a page.
    pub(crate) fn is_wanted(&self, object: u32, page: u64) -> bool {
        self.chunk(object, page / CHUNK).wanted & bit(page) != 0
    }

    /// How many of these pages are in the cache, and how many of those are kept.
    pub(crate) fn count(&self, object: u32, pages: Range<u64>) -> (u64, u64) {
        let (mut there, mut kept) = (0, 0);
        for (index, mask) in masks(pages) {
            let chunk = self.chunk(object, index);
            there += u64::from((chunk.there & mask).count_ones());
            kept += u64::from((chunk.there & !chunk.wanted & mask).count_ones());
        }
        (there, kept)
    }

    /// Whether the policy has all of these pages.
    pub(crate) fn all_wanted(&self, object: u32, pages: Range<u64>) -> bool {
        masks(pages).all(|(index, mask)| self.chunk(object, index).wanted & mask == mask)
    }

    /// The folio of a page that is in the cache, if no page of it is wanted.
    pub(crate) fn leaving(&self, object: u32, page: u64) -> Option<Range<u64>> {
        if !self.is_there(object, page) {
            return None;
        }
        let folio = self.first_of(object, page)..self.end_of(object, page);
        let wanted = masks(folio.clone()).any(|(index, mask)| self.chunk(object, index).wanted & mask != 0);
        (!wanted).then_some(folio)
    }

    /// The folios with any of these pages that no wanted page keeps, neighbours as one range.
    pub(crate) fn all_leaving(&self, object: u32, pages: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let folio = self.leaving(object, page);
            page = folio.as_ref().map_or(page + 1, |folio| folio.end);
            match (runs.last_mut(), folio) {
                (Some(run), Some(folio)) if run.end == folio.start => run.end = folio.end,
                (_, folio) => runs.extend(folio),
            }
        }
        runs
    }

    /// The pages of a file that are in the cache, in order.
    pub(crate) fn pages_of(&self, object: u32) -> Vec<u64> {
        let mut indexes = self.indexes_of(object);
        indexes.sort_unstable();
        let pages = |index: u64| index * CHUNK..(index + 1) * CHUNK;
        let is_there = |page: &u64| self.is_there(object, *page);
        indexes.into_iter().flat_map(pages).filter(is_there).collect()
    }

    /// The pages in the cache, by file, in order.
    #[cfg(test)]
    pub(crate) fn all_there(&self) -> HashMap<u32, Vec<u64>, foldhash::fast::RandomState> {
        let mut files: HashMap<u32, Vec<u64>, _> = HashMap::default();
        for (&(object, index), chunk) in &self.chunks {
            let pages = (index * CHUNK..(index + 1) * CHUNK).filter(|&page| chunk.there & bit(page) != 0);
            files.entry(object).or_default().extend(pages);
        }
        files.values_mut().for_each(|pages| pages.sort_unstable());
        files
    }

    /// The pages of a file that are in the cache, in order, neighbours as one range.
    pub(crate) fn there_of(&self, object: u32) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in self.pages_of(object) {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }

    /// Where a file has pages that are there or wanted: their numbers divided by 64, in no order. Looks at all indexes that they may have, or at all chunks if those are fewer.
    pub(crate) fn indexes_of(&self, object: u32) -> Vec<u64> {
        let Some(&Chunks { highest, .. }) = self.files.get(&object) else { return Vec::new() };
        if highest < self.chunks.len() as u64 {
            (0..=highest).filter(|&index| self.chunks.contains_key(&(object, index))).collect()
        } else {
            self.chunks.keys().filter(|(of, _)| *of == object).map(|&(_, index)| index).collect()
        }
    }

    /// Nothing of a file is known any more.
    pub(crate) fn forget(&mut self, object: u32) {
        for index in self.indexes_of(object) {
            let pages = index * CHUNK..(index + 1) * CHUNK;
            self.set(object, pages, |chunk, _| *chunk = Chunk::default());
        }
    }

    /// The first page of a page's folio.
    fn first_of(&self, object: u32, page: u64) -> u64 {
        let (mut index, mut upto) = (page / CHUNK, page % CHUNK);
        loop {
            let heads = !self.chunk(object, index).tails & (u64::MAX >> (CHUNK - 1 - upto));
            if heads != 0 {
                return index * CHUNK + u64::from(heads.ilog2());
            }
            if index == 0 || page - index * CHUNK >= LARGEST {
                return index * CHUNK;
            }
            (index, upto) = (index - 1, CHUNK - 1);
        }
    }

    /// The page behind a page's folio.
    fn end_of(&self, object: u32, page: u64) -> u64 {
        let next = page + 1;
        let (mut index, mut from) = (next / CHUNK, next % CHUNK);
        loop {
            let heads = !self.chunk(object, index).tails & (u64::MAX << from);
            if heads != 0 || index * CHUNK >= page + LARGEST {
                return index * CHUNK + u64::from(heads.trailing_zeros().min(63));
            }
            (index, from) = (index + 1, 0);
        }
    }

    /// What is at this page is in another folio than the page before it.
    fn begin_folio(&mut self, object: u32, page: u64) {
        if let Some(chunk) = self.chunks.get_mut(&(object, page / CHUNK)) {
            chunk.tails &= !bit(page);
        }
    }

    /// A chunk by its index, if anything is known of it.
    fn chunk(&self, object: u32, index: u64) -> Chunk {
        self.chunks.get(&(object, index)).copied().unwrap_or_default()
    }

    /// Changes pages, each chunk's at once.
    fn set(&mut self, object: u32, pages: Range<u64>, change: impl Fn(&mut Chunk, u64)) {
        for (index, mask) in masks(pages) {
            let mut entry = match self.chunks.entry((object, index)) {
                Entry::Occupied(entry) => entry,
                Entry::Vacant(entry) => {
                    let chunks = self.files.entry(object).or_default();
                    chunks.count += 1;
                    chunks.highest = chunks.highest.max(index);
                    entry.insert_entry(Chunk::default())
                }
            };
            let chunk = entry.get_mut();
            let before = chunk.counts();
            change(chunk, mask);
            let after = chunk.counts();
            self.there = self.there + after.0 - before.0;
            self.kept = self.kept + after.1 - before.1;
            if chunk.there | chunk.wanted == 0 {
                entry.remove();
                let chunks = self.files.get_mut(&object).expect("it has this chunk");
                chunks.count -= 1;
                if chunks.count == 0 {
                    self.files.remove(&object);
                }
            }
        }
    }
}

impl Chunk {
    /// Pages that are there, and those of them that are not wanted.
    fn counts(self) -> (u64, u64) {
        (self.there.count_ones().into(), (self.there & !self.wanted).count_ones().into())
    }
}

fn bit(page: u64) -> u64 {
    1 << (page % CHUNK)
}

/// The chunks that pages lie in, each with the bits of those pages.
fn masks(pages: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let chunks = if pages.is_empty() { 0..0 } else { pages.start / CHUNK..pages.end.div_ceil(CHUNK) };
    chunks.map(move |index| {
        let from = pages.start.saturating_sub(index * CHUNK);
        let to = (pages.end - index * CHUNK).min(CHUNK);
        (index, (u64::MAX << from) & (u64::MAX >> (CHUNK - to)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_folio_leaves_with_its_last_wanted_page() {
        let mut residents = Residents::default();
        residents.add(1, 8, 4);
        residents.want(1, 8..12, true);
        residents.want(1, 8..11, false);
        assert_eq!((residents.leaving(1, 9), residents.kept(), residents.there()), (None, 3, 4));
        residents.want(1, 11..12, false);
        assert_eq!(residents.leaving(1, 9), Some(8..12));
        residents.remove(1, 8..12);
        assert_eq!((residents.leaving(1, 9), residents.kept(), residents.there()), (None, 0, 0));
        residents.add(1, 8, 4);
        residents.want(1, 9..100, true);
        residents.add(2, 0, 1);
        residents.forget(1);
        assert_eq!((residents.there(), residents.has(1), residents.has(2)), (1, false, true));
        // One that has pages far apart, and more indexes than there are chunks.
        residents.add(2, 1 << 40, 1);
        residents.forget(2);
        assert!(residents.chunks.is_empty() && residents.files.is_empty(), "what nothing is known of takes no memory");
    }

    #[test]
    fn the_largest_folio_is_one() {
        let mut residents = Residents::default();
        residents.add(0, 512, 512);
        residents.add(0, 1024, 1);
        assert_eq!((residents.leaving(0, 800), residents.leaving(0, 1024)), (Some(512..1024), Some(1024..1025)));
    }

    /// What happens to pages: kind, object, first page, order or count.
    fn happenings() -> impl Strategy<Value = Vec<(u8, u32, u64, u32)>> {
        proptest::collection::vec((0u8..7, 0u32..3, 0u64..1100, 0u32..10), 1..200)
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_set(happenings in happenings()) {
            let mut residents = Residents::default();
            // Each page with the first one of its folio.
            let mut there: BTreeMap<(u32, u64), u64> = BTreeMap::new();
            let mut wanted: BTreeSet<(u32, u64)> = BTreeSet::new();
            let mut known: BTreeSet<(u32, u64)> = BTreeSet::new();
            for (kind, object, page, order) in happenings {
                let count = 1u64 << order;
                let first = page / count * count;
                let pages = first..first + count;
                match kind {
                    0 => {
                        // The kernel adds a folio where there is none.
                        let free = pages.clone().all(|page| !there.contains_key(&(object, page)));
                        if free {
                            residents.add(object, first, count);
                            there.extend(pages.map(|page| ((object, page), first)));
                        }
                    }
                    1 => {
                        if let Some(&first) = there.get(&(object, page)) {
                            let folio: Vec<u64> = (first..first + 512).take_while(|&page| there.get(&(object, page)) == Some(&first)).collect();
                            residents.remove(object, first..first + folio.len() as u64);
                            there.retain(|&(of, page), _| of != object || !folio.contains(&page));
                        }
                    }
                    2 => {
                        residents.want(object, page..page + u64::from(order), true);
                        wanted.extend((page..page + u64::from(order)).map(|page| (object, page)));
                    }
                    3 => {
                        residents.want(object, page..page + u64::from(order), false);
                        wanted.retain(|&(of, at)| of != object || !(page..page + u64::from(order)).contains(&at));
                        known.retain(|page| wanted.contains(page));
                    }
                    4 => {
                        residents.await_use(object, page, false);
                        known.extend(wanted.get(&(object, page)));
                    }
                    5 => {
                        residents.await_use(object, page, true);
                        known.remove(&(object, page));
                    }
                    _ => {
                        let expected = there.get(&(object, page)).and_then(|&first| {
                            let folio: Vec<u64> = (first..first + 512).take_while(|&page| there.get(&(object, page)) == Some(&first)).collect();
                            let free = folio.iter().all(|&page| !wanted.contains(&(object, page)));
                            free.then_some(first..first + folio.len() as u64)
                        });
                        prop_assert_eq!(residents.leaving(object, page), expected);
                    }
                }
                let kept = there.keys().filter(|page| !wanted.contains(page)).count() as u64;
                prop_assert_eq!((residents.there(), residents.kept()), (there.len() as u64, kept));
                let all = (first..first + count).all(|page| known.contains(&(object, page)));
                prop_assert_eq!(residents.all_known(object, first..first + count), all);
            }
            let mut by_file = residents.all_there();
            for object in 0..3 {
                let expected: Vec<u64> = there.keys().filter(|(of, _)| *of == object).map(|&(_, page)| page).collect();
                let known = there.keys().chain(&wanted).any(|(of, _)| *of == object);
                prop_assert_eq!(by_file.remove(&object).unwrap_or_default(), expected);
                prop_assert_eq!(residents.has(object), known);
            }
        }
    }
}
