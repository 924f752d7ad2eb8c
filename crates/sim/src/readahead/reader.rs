//! Readahead at work in one run.

use super::holes::{Behind, Holes};
use super::marks::Marks;
use super::successors::NONE;
use super::{Readahead, ReadaheadCounts, Rule, Successors};
use crate::device_time::DeviceTime;
use crate::input::places::Places;
use crate::size::{MOST_PAGES, room_for};
use forebay_basis::{Operation, Place};
use forebay_policy::readahead::Read;
use forebay_policy::{Caller, Policy, Reference, Setup};
use std::ops::Range;
use std::sync::Arc;

/// The present request, by page.
#[derive(Clone, Copy, Debug)]
struct Request {
    first: u32,
    last: u32,
    owner: u32,
    operation: Operation,
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
    request: Option<Request>,
    /// It was the first to use something read ahead.
    used: bool,
    /// The pages that are being read, of the window and of the request: no victims, as in the kernel, and in real caches.
    reading: Marks,
    /// The last pages of the present request, as far as all of them missed: the window comes with them.
    loading: Vec<u32>,
    window: Vec<u32>,
    /// What the stream has read ahead before the window, and not used.
    ahead: Vec<u32>,
    /// Where the pages that the device has yet to be asked for begin, on it and in the window.
    run: Option<(Place, usize)>,
    /// The most read ahead at once: half of the cache, so that what is read ahead does not push itself out. So does the kernel,
    /// in `max_sane_readahead`.
    most: u64,
    counts: ReadaheadCounts,
    late: u64,
}

/// A way through the pages of an object in the order of their blocks, those of the trace and the holes between them.
struct Walk {
    /// The next page of the trace.
    next: u32,
    behind: Behind,
}

impl Walk {
    /// The number of the page at a block, if it has one. Blocks are asked for in their order.
    #[inline]
    fn at(&mut self, reader: &Reader, places: &Places, block: u64) -> Option<u32> {
        if self.next == NONE || places.of(self.next).block != block {
            return reader.holes.find(&mut self.behind, block);
        }
        let page = self.next;
        self.behind = Behind::page(page);
        self.next = reader.successors.next(page);
        Some(page)
    }
}

/// What is read ahead needs room, too, but not that of its own window, nor of what its stream has read ahead and not used.
impl Caller for Reader {
    fn evict(&mut self, page: u32) -> bool {
        let may = !self.reading.has(page);
        if may {
            self.evicted(page);
        }
        may
    }

    fn forget(&mut self, page: u32) {
        self.forgotten(page);
    }
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
            request: None,
            used: false,
            reading: Marks::new(setup.pages),
            loading: Vec::new(),
            window: Vec::new(),
            ahead: Vec::new(),
            run: None,
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

    /// A read is going to end with the page soon.
    #[inline]
    pub(crate) fn prefetch_end(&self, page: u32, places: &Places) {
        self.successors.prefetch(page);
        self.holes.prefetch(page);
        places.prefetch(page);
    }

    /// A resident page is referenced: whether it was read ahead, and this is its first use.
    #[inline]
    pub(crate) fn is_first_use(&mut self, page: u32, device: &mut DeviceTime) -> bool {
        let first = self.waiting.take(page);
        if first {
            self.used = true;
            self.counts.used += 1;
            self.late += u64::from(device.need(self.numbers[page as usize]));
        }
        first
    }

    /// A page of the present request has been referenced.
    pub(crate) fn refer(&mut self, page: u32, hit: bool, (owner, operation): (u32, Operation), places: &Places) {
        self.rule.refer(&[page], places);
        let request = self.request.get_or_insert(Request { first: page, last: page, owner, operation, missed: None });
        request.last = page;
        if hit {
            self.loading.clear();
        } else {
            request.missed.get_or_insert(page);
            self.loading.push(page);
        }
    }

    #[inline]
    pub(crate) fn evicted(&mut self, page: u32) {
        self.counts.wasted += u64::from(self.waiting.take(page));
    }

    #[inline]
    pub(crate) fn forgotten(&mut self, page: u32) {
        self.holes.forget(page);
    }

    /// The present request is over: reads ahead what is expected behind it.
    pub(crate) fn end_read<P: Policy>(&mut self, policy: &mut P, device: &mut DeviceTime, places: &Places) {
        let Some(Request { first, last, owner, operation, missed }) = self.request.take() else { return };
        let used = std::mem::take(&mut self.used);
        let (start, end) = (places.of(first), places.of(last));
        let read = Read {
            object: end.object,
            start: start.block.min(end.block),
            end: end.block.saturating_add(1),
            missed: missed.map(|page| places.of(page).block),
            in_order: operation == Operation::SequentialRead,
        };
        let follows = !matches!(operation, Operation::Write | Operation::RandomRead);
        let expected = self.rule.expect(&read, (used || missed.is_some()) && follows);
        let at = |block| Place { object: read.object, block };
        let again = &expected.again;
        let start = if again.is_empty() { None } else { self.successors.find(places, last, at(again.start)) };
        if let Some(block) = expected.unless {
            let from = if block >= read.end { Some(last) } else { start };
            if from.and_then(|page| self.number(places, page, at(block))).is_some_and(|page| policy.contains(page)) {
                return;
            }
        }
        self.loading.iter().for_each(|&page| self.reading.set(page));
        self.shelter(places, last, read.end, &expected.blocks);
        self.read_blocks(policy, device, places, owner, last, expected.blocks);
        self.ahead.drain(..).for_each(|page| _ = self.reading.take(page));
        self.loading.drain(..).for_each(|page| _ = self.reading.take(page));
        if let Some(page) = start {
            self.read_blocks(policy, device, places, owner, page, expected.again);
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

    /// A walk over the blocks of the object of `page`, from a block on.
    fn walk(&self, places: &Places, page: u32, block: u64) -> Walk {
        let (before, next) = self.around(places, page, block);
        Walk { next, behind: Behind::page(before) }
    }

    /// Keeps what a stream has read ahead behind block `from`, and not used, from being evicted for its next window.
    fn shelter(&mut self, places: &Places, last: u32, from: u64, window: &Range<u64>) {
        if window.is_empty() {
            return;
        }
        let mut walk = self.walk(places, last, from);
        for block in from..window.start {
            let known = walk.at(self, places, block);
            if let Some(page) = known.filter(|&page| self.waiting.has(page)) {
                self.reading.set(page);
                self.ahead.push(page);
            }
        }
    }

    /// Reads those of the blocks ahead that are not resident, no farther than the object goes. They begin with the block of `page`, or
    /// behind it.
    fn read_blocks<P: Policy>(
        &mut self,
        policy: &mut P,
        device: &mut DeviceTime,
        places: &Places,
        owner: u32,
        page: u32,
        blocks: Range<u64>,
    ) {
        if blocks.is_empty() {
            return;
        }
        let object = places.of(page).object;
        let end = blocks.end.min(blocks.start.saturating_add(self.most));
        let mut walk = self.walk(places, page, blocks.start);
        let object_end = self.successors.end(object);
        let lies_in_object = |walk: &Walk, block: u64| walk.next != NONE || block < object_end;
        let (mut block, mut refused) = (blocks.start, false);
        while block < end && lies_in_object(&walk, block) {
            let known = walk.at(self, places, block);
            if known.is_some_and(|page| policy.contains(page)) {
                self.ask_device(device);
                block += 1;
                continue;
            }
            let page = match known {
                Some(page) => page,
                None if u64::from(self.holes.end()) < MOST_PAGES => self.holes.add(walk.behind, block),
                None => break,
            };
            let place = Place { object, block };
            refused = !self.admit(policy, &Reference { page, owner, place, operation: Operation::Readahead });
            if refused {
                break;
            }
            // Holes before it may have made room; it has not.
            walk.behind = Behind::page(page);
            block += 1;
        }
        // Not all of the window found room, of what lies in the object.
        if refused || block < blocks.end && lies_in_object(&walk, block) {
            self.rule.shorten(object, blocks.end, block);
        }
        self.ask_device(device);
        let mut window = std::mem::take(&mut self.window);
        window.drain(..).for_each(|page| _ = self.reading.take(page));
        self.window = window;
    }

    /// Admits a page that is about to be read ahead. `false`: there is no frame for it.
    fn admit<P: Policy>(&mut self, policy: &mut P, reference: &Reference) -> bool {
        let &Reference { page, place, .. } = reference;
        if self.holes.end() > self.room {
            self.room = room_for(self.holes.end());
            policy.reserve(self.room);
            self.waiting.reserve(self.room);
            self.reading.reserve(self.room);
            self.numbers.resize(self.room as usize, 0);
        }
        self.holes.set_pending(page, true);
        let admitted = policy.miss(reference, self).is_ok();
        self.holes.set_pending(page, false);
        if admitted {
            self.waiting.set(page);
            self.reading.set(page);
            self.window.push(page);
            self.run.get_or_insert((place, self.window.len() - 1));
            self.counts.fetched += 1;
        }
        admitted
    }

    /// Has the device read the pages admitted last, whose blocks are in a row.
    fn ask_device(&mut self, device: &mut DeviceTime) {
        let Some((place, first)) = self.run.take() else { return };
        let run = &self.window[first..];
        let number = device.read_ahead(place, run.len() as u64);
        run.iter().for_each(|&page| self.numbers[page as usize] = number);
    }
}
