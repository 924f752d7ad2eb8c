//! Which addresses are in use, and which are free: bookkeeping alone.
//!
//! 1. Free ranges are apart from each other and from live ones, and read as zeroes.
//! 2. `recent` are ranges that were freed a short while ago, whose bytes are what they were: most likely resident, so the next allocation of that
//!    size takes them first.
//! 3. `lost` are ranges over which the program has mapped something of its own. They stay so, whatever becomes of that.
//! 4. Each mapped file has a region of its own, of which nothing is free or recent. When nothing of it is live any more the region ends, and its addresses
//!    are vacant: for regions of other files.
//! 5. All begin and end at multiples of the system's page.

use crate::heap::PART;
use crate::spans::{Spans, gaps};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Regions begin at multiples of this, which is that of the longest page.
pub(crate) const BETWEEN: usize = 2 << 20;

/// The most bytes that are kept as recent, and the most ranges.
const RECENT: (usize, usize) = (8 << 20, 16);

/// A range that the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) end: usize,
    /// Parts of it may be protected.
    pub(crate) protected: bool,
    /// It was there before this process was forked: no region has it.
    pub(crate) inherited: bool,
    /// It is a file's.
    pub(crate) file: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    free: BTreeMap<usize, usize>,
    /// The same by length and start.
    by_length: BTreeSet<(usize, usize)>,
    live: BTreeMap<usize, Live>,
    recent: VecDeque<Range<usize>>,
    lost: Spans,
    regions: Vec<Range<usize>>,
    /// Those of files: where they begin and end.
    files: BTreeMap<usize, usize>,
    vacant: Spans,
    /// Where the next region begins.
    pub(crate) top: usize,
    /// Bytes of regions that are live, and the most that were.
    used: usize,
    pub(crate) most: usize,
}

/// A length in whole pages of the system; `None` if there are no such addresses.
pub(crate) fn whole(length: usize) -> Option<usize> {
    length.max(1).checked_next_multiple_of(PART).filter(|&length| length < 1 << 46)
}

impl Ranges {
    pub(crate) const fn new() -> Self {
        Self {
            free: BTreeMap::new(),
            by_length: BTreeSet::new(),
            live: BTreeMap::new(),
            recent: VecDeque::new(),
            lost: Spans::new(),
            regions: Vec::new(),
            files: BTreeMap::new(),
            vacant: Spans::new(),
            top: 0,
            used: 0,
            most: 0,
        }
    }

    fn begin(&mut self, range: Range<usize>) {
        self.begin_as(range.start, Live { end: range.end, protected: false, inherited: false, file: false });
    }

    fn begin_as(&mut self, start: usize, live: Live) {
        self.live.insert(start, live);
        self.used += live.end - start;
        self.most = self.most.max(self.used);
    }

    fn insert_free(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.free.insert(range.start, range.end);
            self.by_length.insert((range.len(), range.start));
        }
    }

    fn remove_free(&mut self, start: usize) -> Option<Range<usize>> {
        let end = self.free.remove(&start)?;
        self.by_length.remove(&(end - start, start));
        Some(start..end)
    }

    /// A range that reads as zeroes is free from now on, but for what was lost meanwhile.
    pub(crate) fn give(&mut self, range: &Range<usize>) {
        for mut piece in self.lost.without(range) {
            let before = self.free.range(..piece.start).next_back().filter(|(_, end)| **end == piece.start);
            if let Some((&start, _)) = before {
                self.remove_free(start);
                piece.start = start;
            }
            if let Some(next) = self.remove_free(piece.end) {
                piece.end = next.end;
            }
            self.insert_free(piece);
        }
    }

    /// Takes a range of zeroes: the shortest that fits or, where the block is likely to grow, the longest.
    pub(crate) fn take(&mut self, length: usize, alignment: usize, grows: bool) -> Option<usize> {
        let aligned = |&(free, start): &(usize, usize)| {
            let at = start.checked_next_multiple_of(alignment)?;
            (at.checked_add(length)? <= start + free).then_some((start, at))
        };
        let (start, at) = if grows {
            aligned(self.by_length.last()?)?
        } else {
            self.by_length.range((length, 0)..).find_map(aligned)?
        };
        let free = self.remove_free(start)?;
        self.insert_free(free.start..at);
        self.insert_free(at + length..free.end);
        self.begin(at..at + length);
        Some(at)
    }

    /// Takes a range that was freed a short while ago, and is at most a quarter longer.
    pub(crate) fn take_recent(&mut self, length: usize, alignment: usize) -> Option<Range<usize>> {
        let fits = |range: &Range<usize>| {
            range.len() >= length && range.len() <= length + length / 4 && range.start.is_multiple_of(alignment)
        };
        let found = self.recent.iter().rposition(fits)?;
        let range = self.recent.remove(found)?;
        self.begin(range.clone());
        Some(range)
    }

    /// A range that is not live any more becomes a recent one; what that is too much of are those that are to be made zeroes.
    pub(crate) fn keep(&mut self, range: Range<usize>) -> Vec<Range<usize>> {
        self.recent.push_back(range);
        let mut kept: usize = self.recent.iter().map(Range::len).sum();
        let mut leaving = Vec::new();
        while kept > RECENT.0 || self.recent.len() > RECENT.1 {
            let Some(range) = self.recent.pop_front() else { break };
            kept -= range.len();
            leaving.push(range);
        }
        leaving
    }

    /// The live range that has an address.
    pub(crate) fn at(&self, address: usize) -> Option<(usize, Live)> {
        let (&start, &live) = self.live.range(..=address).next_back()?;
        (address < live.end).then_some((start, live))
    }

    /// The live pieces of a range, in order.
    pub(crate) fn live_within(&self, range: &Range<usize>) -> Vec<(Range<usize>, Live)> {
        let below = self.live.range(..range.end).rev().take_while(|(_, live)| live.end > range.start);
        let mut pieces: Vec<(Range<usize>, Live)> =
            below.map(|(&start, &live)| (start.max(range.start)..live.end.min(range.end), live)).collect();
        pieces.reverse();
        pieces
    }

    /// The lost pieces of a range, in order.
    pub(crate) fn lost_within(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        self.lost.within(range)
    }

    /// All live ranges that regions have; those that touch are one.
    pub(crate) fn live(&self) -> Vec<Range<usize>> {
        let mut all: Vec<Range<usize>> = Vec::new();
        for (&start, live) in self.live.iter().filter(|(_, live)| !live.inherited) {
            match all.last_mut() {
                Some(last) if last.end == start => last.end = live.end,
                _ => all.push(start..live.end),
            }
        }
        all
    }

    /// A new region, all of it free.
    pub(crate) fn add_region(&mut self, region: Range<usize>) {
        self.give(&region);
        self.top = region.end.next_multiple_of(BETWEEN);
        self.regions.push(region);
    }

    /// How many files are mapped.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// Addresses for a region of a file, before `end`.
    pub(crate) fn place_file(&mut self, length: usize, end: usize) -> Option<Range<usize>> {
        let length = length.checked_next_multiple_of(BETWEEN)?;
        let start = self.vacant.take(length).or_else(|| {
            let start = self.top;
            self.top = start.checked_add(length).filter(|&top| top <= end)?;
            Some(start)
        })?;
        Some(start..start + length)
    }

    /// No region has these addresses, which were a file's.
    pub(crate) fn vacate(&mut self, place: &Range<usize>) {
        if place.end == self.top {
            self.top = place.start;
        } else {
            self.vacant.insert(place);
        }
    }

    /// A new region, of a file whose mapping has the first `length` bytes.
    pub(crate) fn add_file(&mut self, region: &Range<usize>, length: usize, protected: bool) {
        self.files.insert(region.start, region.end);
        let live = Live { end: region.start + length, protected, inherited: false, file: true };
        self.begin_as(region.start, live);
    }

    /// Takes the regions of files out of which a range has a part, and nothing is live: each in the parts that the program has not mapped over.
    pub(crate) fn take_ended(&mut self, range: &Range<usize>) -> Vec<(Range<usize>, Vec<Range<usize>>)> {
        let files = self.files.range(..range.end).rev().map(|(&start, &end)| start..end);
        let touched = files.take_while(|file| file.end > range.start);
        let ended: Vec<Range<usize>> = touched.filter(|file| self.live_within(file).is_empty()).collect();
        ended
            .into_iter()
            .map(|file| {
                self.files.remove(&file.start);
                let own = self.lost.without(&file);
                (file, own)
            })
            .collect()
    }

    /// Parts of what is live in a range may be protected from now on.
    pub(crate) fn protect(&mut self, range: &Range<usize>) {
        let first = self.at(range.start).map_or(range.start, |(start, _)| start);
        self.live.range_mut(first..range.end).for_each(|(_, live)| live.protected = true);
    }

    /// Makes a live range longer where the addresses behind it are free, which are zeroes.
    pub(crate) fn extend(&mut self, start: usize, length: usize) -> bool {
        let grows = |live: &Live| !live.inherited && !live.protected && !live.file;
        let Some(live) = self.live.get(&start).copied().filter(grows) else { return false };
        let end = start + length;
        let Some(&free) = self.free.get(&live.end).filter(|&&free| free >= end) else { return false };
        self.remove_free(live.end);
        self.insert_free(end..free);
        self.used += end - live.end;
        self.most = self.most.max(self.used);
        self.live.insert(start, Live { end, ..live });
        true
    }

    /// Nothing of a range is live any more: the pieces that were.
    pub(crate) fn cut(&mut self, range: &Range<usize>) -> Vec<(Range<usize>, Live)> {
        let pieces = self.live_within(range);
        for (piece, live) in &pieces {
            let (start, _) = self.at(piece.start).expect("it is live");
            self.live.remove(&start);
            if start < piece.start {
                self.live.insert(start, Live { end: piece.start, ..*live });
            }
            if piece.end < live.end {
                self.live.insert(piece.end, *live);
            }
            if !live.inherited {
                self.used -= piece.len();
            }
        }
        pieces
    }

    /// The program has mapped something else over a range: nothing of it is live, free or recent any more. The pieces whose bytes nobody needs; what is
    /// left of files may have [ended](Self::take_ended).
    pub(crate) fn lose(&mut self, range: &Range<usize>) -> Vec<Range<usize>> {
        let live = self.cut(range);
        let mut left: Vec<Range<usize>> =
            live.into_iter().filter(|(_, live)| !live.inherited).map(|(piece, _)| piece).collect();
        for recent in std::mem::take(&mut self.recent) {
            let lost = recent.start.max(range.start)..recent.end.min(range.end);
            if lost.is_empty() {
                self.recent.push_back(recent);
            } else {
                self.recent.extend(gaps(&recent, std::slice::from_ref(&lost)));
                left.push(lost);
            }
        }
        while let Some((&start, _)) = self.free.range(..range.end).next_back().filter(|(_, end)| **end > range.start) {
            let free = self.remove_free(start).expect("it is free");
            self.insert_free(free.start..range.start.max(free.start));
            self.insert_free(range.end.min(free.end)..free.end);
        }
        self.lost.insert(range);
        if range.end > self.top {
            self.top = range.end.next_multiple_of(BETWEEN);
        }
        left
    }

    /// This process is a child: what is live has been inherited, nothing is free, and there are no regions. What regions had, but for what was lost.
    pub(crate) fn inherit(&mut self) -> Vec<Range<usize>> {
        self.free.clear();
        self.by_length.clear();
        self.recent.clear();
        self.live.values_mut().for_each(|live| live.inherited = true);
        self.used = 0;
        self.most = 0;
        let files = std::mem::take(&mut self.files).into_iter().map(|(start, end)| start..end);
        std::mem::take(&mut self.regions)
            .into_iter()
            .chain(files)
            .flat_map(|region| self.lost.without(&region))
            .collect()
    }

    #[cfg(test)]
    fn check(&self) {
        assert_eq!(self.free.len(), self.by_length.len());
        let mut all: Vec<(usize, usize)> = self.free.iter().map(|(&start, &end)| (start, end)).collect();
        assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0), "free ranges that touch are one");
        all.extend(self.live.iter().map(|(&start, live)| (start, live.end)));
        all.extend(self.recent.iter().map(|range| (range.start, range.end)));
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no address is in two ranges: {all:x?}");
        assert!(all.iter().all(|(start, end)| start % PART == 0 && end % PART == 0 && start < end));
        assert!(
            all.iter().all(|&(start, end)| self.lost.within(&(start..end)).is_empty()),
            "what is lost is in no other range"
        );
        assert_eq!(self.used, self.live().iter().map(Range::len).sum::<usize>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = PART;

    fn ranges(pages: usize) -> Ranges {
        let mut ranges = Ranges::new();
        ranges.give(&(PAGE..PAGE + pages * PAGE));
        ranges
    }

    #[test]
    fn ranges_that_are_taken_and_given_back_join_again() {
        let mut ranges = ranges(100);
        let taken: Vec<usize> = (1..=10).filter_map(|pages| ranges.take(pages * PAGE, PAGE, false)).collect();
        assert_eq!(taken.len(), 10);
        ranges.check();
        for start in taken.iter().step_by(2).chain(taken.iter().skip(1).step_by(2)) {
            let (_, live) = ranges.at(start + 1).expect("it is live");
            let pieces = ranges.cut(&(*start..live.end));
            assert_eq!(pieces.len(), 1);
            ranges.give(&(*start..live.end));
            ranges.check();
        }
        assert_eq!(ranges.take(100 * PAGE, PAGE, false), Some(PAGE), "it is one range again");
        assert_eq!(ranges.take(PAGE, PAGE, false), None);
        assert_eq!(ranges.most, 100 * PAGE);
    }

    #[test]
    fn a_cut_leaves_what_is_before_and_behind_it() {
        let mut ranges = ranges(10);
        let start = ranges.take(10 * PAGE, PAGE, false).expect("it fits");
        let pieces = ranges.cut(&(start + 3 * PAGE..start + 5 * PAGE));
        assert_eq!(pieces.iter().map(|(range, _)| range.len()).sum::<usize>(), 2 * PAGE);
        ranges.check();
        assert_eq!(ranges.live(), [start..start + 3 * PAGE, start + 5 * PAGE..start + 10 * PAGE]);
        assert_eq!(ranges.at(start + 4 * PAGE), None);
        assert_eq!(ranges.cut(&(0..100 * PAGE)).len(), 2);
        assert!(ranges.live().is_empty());
    }

    #[test]
    fn a_range_grows_into_what_is_free_behind_it_alone() {
        let mut ranges = ranges(20);
        let first = ranges.take(2 * PAGE, PAGE, false).expect("it fits");
        let second = ranges.take(2 * PAGE, PAGE, true).expect("it fits");
        assert_eq!(second, first + 2 * PAGE);
        assert!(!ranges.extend(first, 3 * PAGE), "another is behind it");
        assert!(ranges.extend(second, 18 * PAGE));
        assert!(!ranges.extend(second, 19 * PAGE), "there are no more addresses");
        ranges.check();
    }

    #[test]
    fn alignment_holds_and_loses_no_address() {
        let mut ranges = ranges(64);
        let at = ranges.take(PAGE, 16 * PAGE, false).expect("it fits");
        assert!(at.is_multiple_of(16 * PAGE));
        ranges.check();
        ranges.cut(&(at..at + PAGE));
        ranges.give(&(at..at + PAGE));
        assert_eq!(ranges.take(64 * PAGE, PAGE, false), Some(PAGE));
    }

    #[test]
    fn what_was_freed_last_is_taken_again_and_what_is_too_much_leaves() {
        let mut ranges = ranges(8192);
        let free = |ranges: &mut Ranges, pages: usize| {
            let start = ranges.take(pages * PAGE, PAGE, false).expect("it fits");
            ranges.cut(&(start..start + pages * PAGE));
            (start, ranges.keep(start..start + pages * PAGE))
        };
        let (start, leaving) = free(&mut ranges, 100);
        assert!(leaving.is_empty());
        assert_eq!(ranges.take_recent(50 * PAGE, PAGE), None, "it is much longer");
        assert_eq!(ranges.take_recent(90 * PAGE, PAGE).map(|range| range.start), Some(start));
        ranges.check();
        let (_, leaving) = free(&mut ranges, 4096);
        assert_eq!(leaving.len(), 1, "it is more than all that is kept");
        ranges.check();
    }

    #[test]
    fn a_child_inherits_what_is_live_and_nothing_else() {
        let mut ranges = ranges(10);
        let start = ranges.take(PAGE, PAGE, false).expect("it fits");
        assert!(ranges.inherit().is_empty());
        assert_eq!(ranges.take(PAGE, PAGE, false), None);
        assert!(ranges.at(start).is_some_and(|(_, live)| live.inherited));
        assert!(!ranges.extend(start, 2 * PAGE));
    }

    #[test]
    fn a_file_has_addresses_of_its_own_which_are_anothers_when_all_of_it_has_gone() {
        let mut ranges = Ranges::new();
        ranges.top = BETWEEN;
        let end = 4 * BETWEEN;
        let map = |ranges: &mut Ranges, length: usize| {
            let place = ranges.place_file(length, end)?;
            ranges.add_file(&(place.start..place.start + length), length, false);
            Some(place)
        };
        let first = map(&mut ranges, 40 * PAGE).expect("there is room");
        assert_eq!(first, BETWEEN..2 * BETWEEN);
        assert_eq!(map(&mut ranges, BETWEEN + PAGE), Some(2 * BETWEEN..4 * BETWEEN));
        assert_eq!((map(&mut ranges, PAGE), ranges.files()), (None, 2), "there are no more addresses");
        ranges.check();
        assert!(!ranges.extend(first.start, 41 * PAGE), "a file has no more");
        let half = first.start..first.start + 20 * PAGE;
        assert_eq!(ranges.cut(&half).len(), 1);
        assert!(ranges.take_ended(&half).is_empty(), "the other half is live");
        ranges.cut(&first);
        let region = first.start..first.start + 40 * PAGE;
        assert_eq!(ranges.take_ended(&half), [(region.clone(), vec![region])]);
        ranges.vacate(&first);
        assert_eq!(map(&mut ranges, PAGE), Some(first.clone()));
        // The program maps over a part, and then over the rest.
        ranges.lose(&(first.start..first.start + PAGE));
        let ended = ranges.take_ended(&first);
        assert_eq!(ended, [(first.start..first.start + PAGE, vec![])]);
        let mut child = ranges.clone();
        let second = 2 * BETWEEN..3 * BETWEEN + PAGE;
        assert_eq!(child.inherit(), [second]);
        assert!(child.at(2 * BETWEEN).is_some_and(|(_, live)| live.inherited && live.file));
    }

    #[test]
    fn what_is_lost_is_in_no_other_range_and_is_never_given_again() {
        let mut ranges = ranges(20);
        let live = ranges.take(4 * PAGE, PAGE, false).expect("it fits");
        let recent = ranges.take(4 * PAGE, PAGE, false).expect("it fits");
        let leaving = ranges.take(4 * PAGE, PAGE, false).expect("it fits");
        ranges.cut(&(recent..leaving + 4 * PAGE));
        assert!(ranges.keep(recent..recent + 4 * PAGE).is_empty());
        let lost = live + PAGE..leaving + 5 * PAGE;
        let left = ranges.lose(&lost);
        assert_eq!(left, [live + PAGE..live + 4 * PAGE, recent..recent + 4 * PAGE]);
        ranges.check();
        ranges.give(&(leaving..leaving + 4 * PAGE));
        ranges.check();
        assert_eq!(ranges.lost_within(&(live..leaving + 8 * PAGE)), [lost]);
        assert_eq!(ranges.take_recent(4 * PAGE, PAGE), None);
        assert_eq!(ranges.take(8 * PAGE, PAGE, false), None, "7 pages are left");
        assert_eq!(ranges.take(7 * PAGE, PAGE, false), Some(leaving + 5 * PAGE));
    }
}
