//! What one lock guards: the policy, the free frames, the page numbers, the laundry.

use crate::core::Core;
use crate::core::contained::Asked;
use crate::core::judge::Events;
use crate::core::numbers::Numbers;
use crate::core::regions::Regions;
use crate::core::search::LOOKED_AT;
use crate::core::shares::{ShareState, Shares};
use crate::core::table;
use crate::objects::followers::{Followers, Happened};
use crate::sync::Ordering;
use forebay_basis::{Operation, Place};
use forebay_policy::{Hit, Reference};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;

/// The object of numbers that stand for no page.
const NOBODY: u32 = u32::MAX;

/// Invariants:
///
/// - RP1. Resident pages and pages of the laundry have a frame each; together they are at most `frame_limit`, since the policy's
///   capacity and the laundry's limit are together.
/// - RP2. A number is in the table, and in its object's list in `regions`, from `number_of` on. A page that the policy has forgotten keeps
///   its number until that is given to another: at once, but for the first `Numbers::kept` of them, since UBM and DULO look further
///   back by page number than their ghosts go. The number of a page whose object goes stands for none at once, and in `forgotten`.
/// - RP3. `laundry` names each page of the laundry, and perhaps pages that were rescued from it; `Core::laundered` counts the former.
/// - RP4. `regions` lists the numbers of each object, and counts its pages with a frame.
pub(crate) struct Replacer {
    /// What may call a policy is asked by way of `contained.rs`.
    pub(crate) policy: Shares,
    pub(super) asked: Asked,
    pub(crate) events: Events,
    free_frames: Vec<u32>,
    /// Frames whose memory was given back.
    retired_frames: Vec<u32>,
    /// Frames from this one on have never been used.
    next_frame: u32,
    /// Frames that hold a page or are free.
    live_frames: u32,
    frame_limit: u32,
    /// Numbers that the policy has forgotten, the earliest first, and perhaps some that it knows again.
    forgotten: VecDeque<u32>,
    /// Numbers below this have been given out.
    pub(super) given: u32,
    numbers: Numbers,
    pub(crate) regions: Regions,
    pub(crate) laundry: VecDeque<u32>,
    pub(crate) laundry_limit: u32,
    /// Places whose pages have lost their frames since the lock was taken, if anybody is to be told.
    pub(crate) departed: Vec<Place>,
    announces: bool,
    /// Whether the memory is told which pages the policy waits to see used.
    pub(crate) awaits_uses: bool,
    /// Pages whose next use the policy waits to see, or does so no more, in order, if anybody is to be told.
    pub(crate) awaited: Vec<(Place, bool)>,
    pub(super) announces_awaited: bool,
    /// Blocks of an object: what of them was read ahead and not used stays, whatever is admitted.
    pub(crate) sheltered: (u32, Range<u64>),
    pub(crate) followers: Followers,
    pub(crate) evictions: u64,
    pub(crate) readahead_wasted: u64,
    pub(crate) refused_dirty: u64,
}

/// What became of a page that was to be admitted.
pub(crate) enum Admitted {
    /// It has a frame that the caller is to load.
    Loading(u32),
    /// It was in the laundry, and is resident again with its contents.
    Rescued,
}

/// No frame can be had now.
pub(crate) struct NoFrame;

impl Replacer {
    /// A replacer whose policy accepts as many page numbers as `numbers` says for this many frames.
    pub(crate) fn new(
        mut policy: Shares,
        frames: u32,
        laundry_limit: u32,
        numbers: Numbers,
        awaits_uses: bool,
    ) -> Self {
        let mut regions = Regions::default();
        regions.reserve(numbers.most(frames));
        Self {
            asked: Asked::new(&mut policy),
            policy,
            events: Events::default(),
            free_frames: Vec::new(),
            retired_frames: Vec::new(),
            next_frame: 0,
            live_frames: 0,
            frame_limit: frames,
            forgotten: VecDeque::with_capacity(numbers.most(frames) as usize),
            given: 0,
            numbers,
            regions,
            laundry: VecDeque::new(),
            laundry_limit,
            departed: Vec::new(),
            announces: false,
            awaits_uses,
            awaited: Vec::new(),
            announces_awaited: false,
            sheltered: (0, 0..0),
            followers: Followers::default(),
            evictions: 0,
            readahead_wasted: 0,
            refused_dirty: 0,
        }
    }

    /// Forgets the pages of an object, none of which has a frame, and so many at a time that nobody waits long for the lock. `true`:
    /// there are more.
    pub(crate) fn forget_some(&mut self, core: &Core, object: u32) -> bool {
        for _ in 0..LOOKED_AT {
            let Some(number) = self.regions.any(object) else { return false };
            if core.pages.get(number).set_known(false) {
                self.ask_about(core, number, |policy, judge| policy.remove(number, judge));
            }
            self.unname(core, number);
            // The first to be used again.
            if !core.pages.get(number).set_queued(true) {
                self.forgotten.push_front(number);
            }
        }
        self.knows(object)
    }

    /// The bytes of metadata that are its own, without the policy's.
    pub(crate) fn bytes(&self) -> usize {
        let free = self.free_frames.capacity() + self.retired_frames.capacity() + self.laundry.capacity();
        self.regions.bytes() + (free + self.forgotten.capacity()) * size_of::<u32>()
    }

    /// Takes note of pages that leave from now on.
    pub(crate) fn announce(&mut self) {
        self.announces = true;
    }

    /// Takes note of pages whose uses the policy waits to see, from now on.
    pub(crate) fn announce_awaited(&mut self) {
        self.announces_awaited = true;
    }

    pub(crate) fn frame_limit(&self) -> u32 {
        self.frame_limit
    }

    /// Whether a miss may have to send a page to the laundry that has no room for it.
    pub(crate) fn laundry_full(&mut self, core: &Core) -> bool {
        core.laundered() >= self.laundry_limit && self.laundry_limit > 0 && self.call(core, |policy, _| policy.full())
    }

    /// Tells the policy of hits.
    pub(crate) fn deliver(&mut self, core: &Core, hits: &mut Vec<Hit>) {
        hits.retain(|hit| {
            let Reference { page, place, .. } = hit.reference;
            core.pages.get(page).clear_used();
            // The number may stand for another page by now.
            core.pages.get(page).is(place.object, place.block)
        });
        if !self.followers.is_empty() {
            for Reference { place, owner, .. } in hits.iter().map(|hit| hit.reference) {
                self.followers.note(Happened::Hit, place, Some(owner));
            }
        }
        self.ask(core, |policy, judge| policy.hits(hits, judge));
        hits.iter().for_each(|hit| self.note_awaited(core, hit.reference.page));
        hits.clear();
    }

    /// Tells the policy of all pages that were used and of which it does not know.
    pub(crate) fn deliver_all(&mut self, core: &Core) {
        for number in 0..self.given {
            if core.pages.get(number).used() {
                self.tell_used(core, number);
            }
        }
    }

    fn tell_used(&mut self, core: &Core, number: u32) {
        let page = core.pages.get(number);
        page.clear_used();
        let place = Place { object: page.object(), block: page.block() };
        let reference = Reference { page: number, owner: page.object(), place, operation: Operation::Read };
        self.ask(core, |policy, judge| policy.hits(&[Hit { reference, first_use: false }], judge));
        self.note_awaited(core, number);
    }

    /// The number of the page at that place, if it has one.
    pub(crate) fn find(&self, core: &Core, place: Place) -> Option<u32> {
        let hash = table::hash(place.object, place.block);
        core.table.find(hash, |number| core.pages.get(number).is(place.object, place.block))
    }

    /// Tells the policy of a miss, and gives the page a frame. `found` is the page's number, if it has one.
    pub(crate) fn admit(
        &mut self,
        core: &Core,
        found: Option<u32>,
        place: Place,
        owner: u32,
        operation: Operation,
    ) -> Result<Admitted, NoFrame> {
        let number = found.unwrap_or_else(|| self.number_of(core, place));
        let was_known = core.pages.get(number).set_known(true);
        let reference = Reference { page: number, owner, place, operation };
        self.asked.begin(number);
        self.events.forgot_admitted = false;
        let mut refused = self.miss(core, &reference).is_err();
        if refused && !self.events.in_use.is_empty() {
            self.tell_in_use(core);
            refused = self.miss(core, &reference).is_err();
        }
        self.tell_in_use(core);
        let page = core.pages.get(number);
        if refused {
            self.asked.end();
            let forgotten = !was_known || self.events.forgot_admitted;
            if forgotten && page.state().in_laundry() {
                page.forget();
            } else if forgotten {
                self.release(core, number);
            }
            return Err(NoFrame);
        }
        if !self.followers.is_empty() {
            let ahead = operation == Operation::Readahead;
            self.followers.note(if ahead { Happened::ReadAhead } else { Happened::Admitted }, place, Some(owner));
        }
        if page.state().in_laundry() {
            page.rescue(operation == Operation::Readahead);
            core.laundered.fetch_sub(1, Ordering::Relaxed);
            self.asked.end();
            self.note_admitted(core, number);
            return Ok(Admitted::Rescued);
        }
        let frame = self.take_frame();
        core.memory.place(frame, place);
        self.regions.add(page.region().expect("a page that is admitted has a name"));
        page.bind(frame, operation == Operation::Readahead);
        self.asked.end();
        self.note_admitted(core, number);
        Ok(Admitted::Loading(number))
    }

    /// Tells the policy that a cache above has evicted what it knows of these pages.
    pub(crate) fn evicted_above(
        &mut self,
        core: &Core,
        object: u32,
        blocks: Range<u64>,
        owner: u32,
        operation: Operation,
        hits: u32,
    ) {
        for block in blocks {
            let place = Place { object, block };
            if let Some(page) = self.find(core, place).filter(|&number| core.pages.get(number).known()) {
                let reference = Reference { page, owner, place, operation };
                self.call(core, |policy, _| policy.evicted_above(&reference, hits));
            }
        }
    }

    fn tell_in_use(&mut self, core: &Core) {
        let in_use = std::mem::take(&mut self.events.in_use);
        for &number in &in_use {
            self.tell_used(core, number);
        }
        self.events.in_use = in_use;
        self.events.in_use.clear();
    }

    /// Drops a page that the caller holds exclusively or has been loading; it becomes unknown.
    pub(crate) fn drop_page(&mut self, core: &Core, number: u32) {
        let page = core.pages.get(number);
        if page.state().in_laundry() {
            core.laundered.fetch_sub(1, Ordering::Relaxed);
        } else if !self.followers.is_empty() {
            self.followers.note(Happened::Evicted, place_of(core, number), None);
        }
        // Before the policy is asked: it is not resident any more, whatever becomes of that.
        let wake = page.unbind();
        self.ask_about(core, number, |policy, judge| policy.remove(number, judge));
        self.left(core, number);
        self.release(core, number);
        core.waiters.wake(number, wake);
    }

    /// Blocks are given up; their pages have been dropped.
    pub(crate) fn discard(&mut self, core: &Core, object: u32, blocks: &Range<u64>) {
        self.call(core, |policy, _| policy.discard(object, blocks.clone()));
    }

    /// Lets go of a page of the laundry if it is clean and nobody holds it. `true`: its frame is free.
    pub(crate) fn finish_laundry(&mut self, core: &Core, number: u32) -> bool {
        let page = core.pages.get(number);
        let state = page.state();
        if !state.in_laundry()
            || state.dirty()
            || state.in_writeback()
            || page.begin_exclusive(page.object(), page.block()).is_err()
        {
            return false;
        }
        // Whether it was written meanwhile shows now that nobody else can.
        if page.still_shared(number, &core.slots) || page.state().dirty() || page.state().in_writeback() {
            core.waiters.wake(number, page.end_exclusive());
            return false;
        }
        let forgotten = page.state().forgotten();
        let wake = page.unbind();
        core.laundered.fetch_sub(1, Ordering::Relaxed);
        self.left(core, number);
        if forgotten {
            self.release(core, number);
        }
        core.waiters.wake(number, wake);
        true
    }

    /// Changes the number of frames; those of the laundry stay. `false`: some pages are held, and not all could go; what is over
    /// goes as soon as it is free.
    pub(crate) fn resize(&mut self, core: &Core, frames: u32) -> bool {
        let capacity = frames - self.laundry_limit;
        let most_numbers = self.numbers.most(frames);
        self.forgotten.reserve_exact((most_numbers as usize).saturating_sub(self.forgotten.len()));
        self.regions.reserve(most_numbers);
        self.call(core, |policy, _| policy.reserve(most_numbers));
        core.table.reserve(most_numbers, |number| core.pages.get(number).hash());
        let all = self.ask(core, |policy, judge| policy.resize(capacity, judge)).is_ok();
        self.tell_in_use(core);
        self.frame_limit = self.policy.capacity() + self.laundry_limit;
        while self.live_frames > self.frame_limit
            && let Some(frame) = self.free_frames.pop()
        {
            self.free_frame(core, frame);
        }
        all
    }

    /// Makes a share of `min` to `max` frames, or changes the one of that number. `object`: the one whose own it is, if it is one's.
    pub(crate) fn set_share(&mut self, core: &Core, number: u32, object: Option<u32>, frames: (u32, u32)) {
        self.ask(core, |policy, judge| policy.set(number, object, frames, judge));
        self.tell_in_use(core);
    }

    /// An object that has no page any more, and gets none, leaves its share.
    pub(crate) fn unset_share(&mut self, core: &Core, object: u32) {
        for number in self.ask(core, |policy, judge| policy.unset(object, judge)) {
            if core.pages.get(number).known() {
                self.release(core, number);
            }
        }
    }

    /// What a share has.
    pub(crate) fn share_of(&mut self, core: &Core, number: u32) -> Option<ShareState> {
        self.call(core, |policy, _| policy.state_of(number))
    }

    /// Recounts the whole state, while no handle is in use.
    pub(crate) fn check_invariants(&self, core: &Core) {
        self.policy.check_invariants();
        let mut holders = HashSet::new();
        let mut laundered = 0;
        for number in 0..self.given {
            let page = core.pages.get(number);
            let place = Place { object: page.object(), block: page.block() };
            let state = page.state();
            if page.region().is_some() {
                assert_eq!(self.find(core, place), Some(number), "RP2: each number is in the table");
            } else {
                assert!(state.absent() && !page.known(), "RP2: a number without a page");
            }
            assert!(!state.busy() && !state.in_writeback(), "nobody uses the pool");
            if !state.absent() {
                assert!(page.known(), "RP2: a page with a frame is known");
                assert!(holders.insert(page.frame()), "RP1: each page has a frame of its own");
                laundered += u32::from(state.in_laundry());
            }
        }
        assert_eq!(laundered, core.laundered(), "RP3");
        self.regions.check_invariants(&core.pages);
        assert_eq!(holders.len() as u64, self.regions.framed(), "RP4");
        assert_eq!(holders.len() as u32, self.policy.len() + laundered, "RP1");
        assert_eq!(holders.len() + self.free_frames.len(), self.live_frames as usize, "a frame is held, or free");
        assert!(self.free_frames.iter().all(|frame| !holders.contains(frame)), "a free frame is nobody's");
        assert!(self.live_frames <= self.frame_limit.max(self.policy.len() + laundered), "RP1");
    }

    /// Takes account of what happened to pages while the policy was asked.
    pub(super) fn account(&mut self, core: &Core) {
        self.note_all_awaited(core);
        if !self.followers.is_empty() {
            for &number in self.events.left.iter().chain(&self.events.laundered) {
                self.followers.note(Happened::Evicted, place_of(core, number), None);
            }
        }
        while let Some(number) = self.events.left.pop() {
            self.left(core, number);
        }
        core.laundered.fetch_add(self.events.laundered.len() as u32, Ordering::Relaxed);
        self.laundry.extend(self.events.laundered.drain(..));
        while let Some(number) = self.events.forgotten.pop() {
            self.release(core, number);
        }
        self.evictions += std::mem::take(&mut self.events.evicted);
        self.readahead_wasted += std::mem::take(&mut self.events.wasted);
        self.refused_dirty += std::mem::take(&mut self.events.refused_dirty);
    }

    /// A number for a place that has none.
    fn number_of(&mut self, core: &Core, place: Place) -> u32 {
        let kept = self.given < self.numbers.kept(self.frame_limit);
        let reused = if kept { None } else { self.reuse(core) };
        let number = reused.unwrap_or_else(|| self.new_number(core));
        let page = core.pages.get(number);
        page.name(place.object, place.block);
        self.regions.name(&core.pages, number);
        self.call(core, |policy, _| policy.named(number, place.object));
        core.table.insert(page.hash(), number, |number| core.pages.get(number).hash());
        number
    }

    fn new_number(&mut self, core: &Core) -> u32 {
        let number = self.given;
        assert!(number < self.numbers.most(self.frame_limit), "fewer pages are known than there are numbers");
        self.given += 1;
        core.pages.reserve(number);
        number
    }

    /// The number forgotten the longest ago, which now is in the table no more.
    fn reuse(&mut self, core: &Core) -> Option<u32> {
        loop {
            let number = self.forgotten.pop_front()?;
            let page = core.pages.get(number);
            page.set_queued(false);
            if !page.known() {
                self.unname(core, number);
                return Some(number);
            }
        }
    }

    /// The number stands for its page no more, if it did.
    fn unname(&mut self, core: &Core, number: u32) {
        let page = core.pages.get(number);
        if page.region().is_some() {
            core.table.remove(page.hash(), number, |number| core.pages.get(number).hash());
            self.regions.forget(&core.pages, number);
            page.name(NOBODY, 0);
        }
    }

    /// The policy knows nothing of the page any more.
    pub(super) fn release(&mut self, core: &Core, number: u32) {
        let page = core.pages.get(number);
        page.set_known(false);
        if !page.set_queued(true) {
            self.forgotten.push_back(number);
        }
    }

    fn take_frame(&mut self) -> u32 {
        self.free_frames.pop().unwrap_or_else(|| {
            assert!(self.live_frames < self.frame_limit, "resident pages and the laundry fit in the frames");
            self.live_frames += 1;
            self.retired_frames.pop().unwrap_or_else(|| {
                self.next_frame += 1;
                self.next_frame - 1
            })
        })
    }

    /// A page has just left its frame, which is free.
    fn left(&mut self, core: &Core, number: u32) {
        let page = core.pages.get(number);
        if self.announces {
            self.departed.push(place_of(core, number));
        }
        self.regions.remove(page.region().expect("a page with a frame has a name"));
        core.memory.release(page.frame());
        self.free_frame(core, page.frame());
    }

    fn free_frame(&mut self, core: &Core, frame: u32) {
        if self.live_frames > self.frame_limit {
            self.live_frames -= 1;
            core.memory.retire(frame);
            self.retired_frames.push(frame);
        } else {
            self.free_frames.push(frame);
        }
    }
}

pub(super) fn place_of(core: &Core, number: u32) -> Place {
    let page = core.pages.get(number);
    Place { object: page.object(), block: page.block() }
}
