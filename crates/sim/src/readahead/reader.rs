//! Readahead at work in one run.

use super::folios::Folios;
use super::holes::{Behind, Holes};
use super::kernel::{Folio, PageCache};
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
    /// The last pages of the present request, as far as all of them missed: the window comes with them. All that missed, if the rule is the kernel's.
    loading: Vec<u32>,
    window: Vec<u32>,
    /// What the stream has read ahead before the window, and not used.
    ahead: Vec<u32>,
    /// Where the pages that the device has yet to be asked for begin, on it and in the window.
    run: Option<(Place, usize)>,
    /// The most read ahead at once: half of the cache, so that what is read ahead does not push itself out. So does the kernel,
    /// in `max_sane_readahead`.
    most: u64,
    /// What is cached, if the rule is the kernel's.
    folios: Option<Folios>,
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
        let rule = readahead.rule(setup.capacity, setup.pages, setup.page_size);
        Self {
            folios: matches!(rule, Rule::Kernel(_)).then(Folios::default),
            rule,
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

    /// Whether a resident page is of the folio that its reader was in before: the kernel takes that for one use.
    #[inline]
    pub(crate) fn goes_on(&self, page: u32, (owner, operation): (u32, Operation), places: &Places) -> bool {
        let Some(folios) = &self.folios else { return false };
        let place = places.of(page);
        let before = match (&self.request, &self.rule) {
            (Some(request), _) => Some(places.of(request.last).block),
            (None, Rule::Kernel(Some(kernel))) => kernel.last(owner, place.object),
            (None, _) => None,
        };
        let before = before.filter(|&block| block != place.block && operation != Operation::Write);
        before.is_some_and(|before| folios.of(place).is_some_and(|folio| folio.blocks.contains(&before)))
    }

    /// A page of the present request has been referenced.
    pub(crate) fn refer(&mut self, page: u32, hit: bool, (owner, operation): (u32, Operation), places: &Places) {
        self.rule.refer(&[page], places);
        let request = self.request.get_or_insert(Request { first: page, last: page, owner, operation, missed: None });
        request.last = page;
        if hit {
            if self.folios.is_none() {
                self.loading.clear();
            }
        } else {
            request.missed.get_or_insert(page);
            self.loading.push(page);
        }
    }

    #[inline]
    pub(crate) fn evicted(&mut self, page: u32) {
        self.counts.wasted += u64::from(self.waiting.take(page));
        if let Some(folios) = &mut self.folios {
            folios.remove(page);
        }
    }

    /// Whether the device is asked for what a request misses as it ends, not page by page.
    #[inline]
    pub(crate) fn asks_at_end(&self, operation: Operation) -> bool {
        self.folios.is_some() && operation != Operation::Write
    }

    #[inline]
    pub(crate) fn forgotten(&mut self, page: u32) {
        self.holes.forget(page);
    }

    /// The present request is over: reads ahead what is expected behind it.
    pub(crate) fn end_read<P: Policy>(&mut self, policy: &mut P, device: &mut DeviceTime, places: &Places) {
        let Some(Request { first, last, owner, operation, missed }) = self.request.take() else { return };
        let used = std::mem::take(&mut self.used);
        if self.folios.is_some() {
            return self.end_kernel_read(policy, device, places, (first, last), (owner, operation));
        }
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

    /// The same by the kernel's rule, which has the device read the request's own pages, too.
    fn end_kernel_read<P: Policy>(
        &mut self,
        policy: &mut P,
        device: &mut DeviceTime,
        places: &Places,
        (first, last): (u32, u32),
        (owner, operation): (u32, Operation),
    ) {
        let own = std::mem::take(&mut self.loading);
        own.iter().for_each(|&page| self.reading.set(page));
        let (object, start, end) = (places.of(first).object, places.of(first).block, places.of(last).block);
        let object_end = self.successors.block_behind(places, object);
        let missed = own.iter().map(|&page| (places.of(page).block, Some(page))).collect();
        let mut cache = Cache { reader: self, policy, device, places, owner, first, object_end, near: first, missed };
        if operation != Operation::Write
            && let Rule::Kernel(rule) = &mut cache.reader.rule
            && let Some(mut kernel) = rule.take()
        {
            kernel.read((owner, object), start..end.saturating_add(1), operation, &mut cache);
            cache.reader.rule = Rule::Kernel(Some(kernel));
        }
        // What is written comes in folios of one, and so does what the rule found no room for.
        let left: Vec<u64> = cache.missed.iter().filter(|(_, page)| page.is_some()).map(|&(block, _)| block).collect();
        for block in left {
            cache.read_own(&Folio { blocks: block..block + 1, marked: false }, block, operation != Operation::Write);
        }
        for page in own.iter().chain(&self.window) {
            self.reading.take(*page);
        }
        self.window.clear();
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

/// The cache as the kernel's rule sees it while it reads for a request.
struct Cache<'a, P> {
    reader: &'a mut Reader,
    policy: &'a mut P,
    device: &'a mut DeviceTime,
    places: &'a Places,
    owner: u32,
    /// The request's page with the lowest block, and the block behind its object.
    first: u32,
    object_end: u64,
    /// A page of the object, of the trace: the request's first, or the one before the folio that was read last.
    near: u32,
    /// The request's own pages that missed: block and, as long as it has not been asked for, page, rising.
    missed: Vec<(u64, Option<u32>)>,
}

impl<P: Policy> Cache<'_, P> {
    fn place(&self, block: u64) -> Place {
        Place { object: self.places.of(self.first).object, block }
    }

    /// A block that the request has missed comes as part of a folio; whether it is one. The policy has it already.
    fn read_own(&mut self, folio: &Folio, block: u64, asks: bool) -> bool {
        let Ok(index) = self.missed.binary_search_by_key(&block, |&(block, _)| block) else { return false };
        let Some(page) = self.missed[index].1.take() else { return false };
        let place = self.place(block);
        if asks {
            self.reader.ask_device(self.device);
            self.device.miss(place);
        }
        if self.policy.contains(page)
            && let Some(folios) = &mut self.reader.folios
        {
            folios.add(page, place, folio);
        }
        true
    }
}

impl<P: Policy> PageCache for Cache<'_, P> {
    fn folio(&self, block: u64) -> Option<Folio> {
        self.reader.folios.as_ref()?.of(self.place(block))
    }

    fn unmark(&mut self, block: u64) {
        let place = self.place(block);
        self.reader.folios.iter_mut().for_each(|folios| folios.unmark(place));
    }

    fn read(&mut self, folio: Folio) -> bool {
        if folio.blocks.start < self.places.of(self.first).block {
            return false;
        }
        let near = if self.places.of(self.near).block <= folio.blocks.start { self.near } else { self.first };
        let (before, next) = self.reader.around(self.places, near, folio.blocks.start);
        self.near = before;
        let mut walk = Walk { next, behind: Behind::page(before) };
        let mut together = Vec::new();
        for block in folio.blocks.clone() {
            let known = walk.at(self.reader, self.places, block);
            if self.read_own(&folio, block, true) {
                together.extend(known);
                continue;
            }
            let page = match known {
                Some(page) => page,
                None if u64::from(self.reader.holes.end()) < MOST_PAGES => self.reader.holes.add(walk.behind, block),
                None => return false,
            };
            let place = self.place(block);
            let reference = Reference { page, owner: self.owner, place, operation: Operation::Readahead };
            if !self.reader.admit(self.policy, &reference) {
                return false;
            }
            walk.behind = Behind::page(page);
            if let Some(folios) = &mut self.reader.folios {
                folios.add(page, place, &folio);
            }
            together.push(page);
        }
        together.retain(|&page| self.policy.contains(page));
        if together.len() > 1 {
            self.policy.join(&together);
        }
        true
    }

    fn submit(&mut self) {
        self.reader.ask_device(self.device);
        self.device.end_run();
    }

    fn end(&self) -> u64 {
        self.object_end
    }
}
