//! Readahead at work in one run.

use super::holes::{Behind, Holes};
use super::marks::Marks;
use super::successors::NONE;
use super::{Extent, Readahead, ReadaheadCounts, Rule, Successors};
use crate::places::Places;
use crate::replay::{Stretch, room_for};
use crate::size::MOST_PAGES;
use crate::watch::Watcher;
use crate::watched::Frames;
use forebay_policy::{Operation, Place, Policy, Reference, Setup};
use std::ops::Range;
use std::sync::Arc;

/// The present read, by page.
#[derive(Clone, Copy, Debug)]
struct Read {
    first: u32,
    last: u32,
    /// The first page that missed.
    missed: Option<u32>,
}

/// A run's readahead.
#[derive(Debug)]
pub(crate) struct Reader {
    rule: Rule,
    successors: Arc<Successors>,
    /// The pages that were read ahead, are resident, and have not been used.
    waiting: Marks,
    /// By page: the number under which the device was asked for it, if it is waiting.
    numbers: Vec<u64>,
    holes: Holes,
    /// The policy has room for page numbers below this.
    room: u32,
    read: Option<Read>,
    /// Pages that are about to be read ahead, kept lest that allocate.
    batch: Vec<(u32, Place)>,
    /// The most read ahead at once: half of the cache, so that what is read ahead does not push itself out. So does the kernel,
    /// in `max_sane_readahead`.
    most: u64,
    counts: ReadaheadCounts,
    late: u64,
}

impl Reader {
    pub(crate) fn new(readahead: &Readahead, successors: &Arc<Successors>, setup: &Setup) -> Self {
        Self {
            rule: readahead.rule(setup.capacity, setup.pages, setup.page_size),
            successors: Arc::clone(successors),
            waiting: Marks::new(setup.pages),
            numbers: vec![0; setup.pages as usize],
            holes: Holes::new(setup.pages),
            room: setup.pages,
            read: None,
            batch: Vec::new(),
            most: u64::from(setup.capacity / 2),
            counts: ReadaheadCounts::default(),
            late: 0,
        }
    }

    /// Counts start anew; pages that have not been used yet may still be.
    pub(crate) fn start_counting(&mut self) {
        let ReadaheadCounts { fetched, used, wasted, .. } = self.counts;
        self.counts = ReadaheadCounts { fetched: fetched - used - wasted, ..ReadaheadCounts::default() };
        self.late = 0;
    }

    /// What became of what was read ahead, at the end.
    pub(crate) fn counts(&self, with_device: bool) -> ReadaheadCounts {
        let ReadaheadCounts { fetched, used, .. } = self.counts;
        ReadaheadCounts { wasted: fetched - used, late: with_device.then_some(self.late), ..self.counts }
    }

    /// The page is going to be referenced soon.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        self.rule.prefetch(page);
    }

    /// A read is going to end with the page soon.
    #[inline]
    pub(crate) fn prefetch_end(&self, page: u32, places: &Places) {
        self.successors.prefetch(page);
        self.holes.prefetch(page);
        places.prefetch(page);
    }

    /// A resident page is referenced: whether it was read ahead, and this is its first use.
    #[inline]
    pub(crate) fn use_first(&mut self, page: u32, watcher: &mut Watcher) -> Option<()> {
        if !self.waiting.take(page) {
            return None;
        }
        self.counts.used += 1;
        self.late += u64::from(watcher.need(self.numbers[page as usize]));
        Some(())
    }

    /// Pages of the present read have been referenced, the first to miss among them if it is `missed`.
    pub(crate) fn refer(&mut self, pages: &[u32], missed: Option<u32>, places: &Places) {
        self.rule.refer(pages, places);
        let (&[first, ..], &[.., last]) = (pages, pages) else { return };
        let read = self.read.get_or_insert(Read { first, last, missed: None });
        read.last = last;
        read.missed = read.missed.or(missed);
    }

    #[inline]
    pub(crate) fn evicted(&mut self, page: u32) {
        self.counts.wasted += u64::from(self.waiting.take(page));
    }

    #[inline]
    pub(crate) fn forgotten(&mut self, page: u32) {
        self.holes.forget(page);
    }

    /// The present read is over: reads ahead what is expected behind it.
    pub(crate) fn end_read<P: Policy>(&mut self, policy: &mut P, watcher: &mut Watcher, trace: &Stretch<'_>) {
        let Some(Read { first, last, missed }) = self.read.take() else { return };
        let places = trace.places;
        let read = Extent::new(places.of(first), places.of(last), missed.map(|page| places.of(page).block));
        let expected = self.rule.expect(&read);
        let at = |block| Place { object: read.object, block };
        let again = &expected.again;
        let start = if again.is_empty() { None } else { self.successors.find(places, last, at(again.start)) };
        if let Some(block) = expected.unless {
            let from = if block >= read.end { Some(last) } else { start };
            if from.and_then(|page| self.number(places, page, at(block))).is_some_and(|page| policy.contains(page)) {
                return;
            }
        }
        self.read_blocks(policy, watcher, trace, last, expected.blocks);
        if let Some(page) = start {
            self.read_blocks(policy, watcher, trace, page, expected.again);
        }
    }

    /// The number of the page at a place behind `page` in its object, if it has one.
    fn number(&self, places: &Places, page: u32, place: Place) -> Option<u32> {
        let hole = || {
            let (before, _) = self.around(places, page, place.block);
            self.holes.find(&mut Behind::page(before), place.block)
        };
        self.successors.find(places, page, place).or_else(hole)
    }

    /// The pages of the trace around a block of the object of `page`: the last one before it, and the first one that is not.
    fn around(&self, places: &Places, page: u32, block: u64) -> (u32, u32) {
        let (mut before, mut next) = (page, page);
        while next != NONE && places.of(next).block < block {
            (before, next) = (next, self.successors.next(next));
        }
        (before, next)
    }

    /// Reads those of the blocks ahead that are not resident, no farther than the object goes. They begin with the block of `page`, or
    /// behind it.
    fn read_blocks<P: Policy>(
        &mut self,
        policy: &mut P,
        watcher: &mut Watcher,
        trace: &Stretch<'_>,
        page: u32,
        blocks: Range<u64>,
    ) {
        if blocks.is_empty() {
            return;
        }
        let places = trace.places;
        let object = places.of(page).object;
        let end = blocks.end.min(blocks.start.saturating_add(self.most));
        let (mut before, mut next) = self.around(places, page, blocks.start);
        let mut next_block = if next == NONE { 0 } else { places.of(next).block };
        let mut behind = Behind::page(before);
        for block in blocks.start..end {
            if next == NONE {
                break;
            }
            let known = if next_block == block {
                before = next;
                behind = Behind::page(before);
                next = self.successors.next(next);
                next_block = if next == NONE { 0 } else { places.of(next).block };
                Some(before)
            } else {
                self.holes.find(&mut behind, block)
            };
            if known.is_some_and(|page| policy.contains(page)) {
                self.read_batch(policy, watcher, trace);
                // The hole that it is behind may have made room.
                behind = Behind::page(before);
                continue;
            }
            let page = match known {
                Some(page) => page,
                None if u64::from(self.holes.end()) < MOST_PAGES => self.holes.add(behind, block),
                None => break,
            };
            self.holes.set_pending(page, true);
            policy.prefetch(page);
            self.batch.push((page, Place { object, block }));
        }
        self.read_batch(policy, watcher, trace);
    }

    /// Reads the pages of the batch, whose blocks are in a row.
    fn read_batch<P: Policy>(&mut self, policy: &mut P, watcher: &mut Watcher, trace: &Stretch<'_>) {
        let Some(&(_, place)) = self.batch.first() else { return };
        if self.holes.end() > self.room {
            self.room = room_for(self.holes.end());
            policy.reserve(self.room);
            self.waiting.reserve(self.room);
            self.numbers.resize(self.room as usize, 0);
        }
        let number = watcher.read_ahead(place, self.batch.len() as u64);
        let owner = watcher.owner(trace);
        let mut batch = std::mem::take(&mut self.batch);
        for (page, place) in batch.drain(..) {
            let reference = Reference { page, owner, place, operation: Operation::Readahead };
            policy.miss(&reference, &mut Frames(Some(self))).expect("no victim is refused");
            self.holes.set_pending(page, false);
            self.waiting.set(page);
            self.numbers[page as usize] = number;
            self.counts.fetched += 1;
        }
        self.batch = batch;
    }
}
