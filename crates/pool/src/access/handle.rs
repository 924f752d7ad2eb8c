//! A thread's way into the pool: pins, and hits without a lock.

use crate::access::hints::Advice;
use crate::access::pins::{ReadPin, WritePin};
use crate::config::WriteMode;
use crate::core::frames::Frames;
use crate::core::memory::Memory;
use crate::core::page::State;
use crate::core::slots::SLOTS;
use crate::core::table;
use crate::error::Error;
use crate::objects::owners::Owner;
use crate::objects::volume::Volume;
use crate::pool::Shared;
use crate::stats::VolumeCounters;
use forebay_basis::{Operation, Place};
use forebay_policy::Hit;
use forebay_policy::Reference;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

/// Hits that a policy is notified of at once, where their order matters.
const ORDERED_HITS: usize = 64;
/// A way into the pool for one thread at a time: it holds that thread's pins, and the hits that the policy has yet to be told of.
pub struct Handle<M: Memory = Frames> {
    pub(crate) shared: Arc<Shared<M>>,
    line: u32,
    /// Which slots of the line are filled; all of them, it seems, while it rests: so that a hit need not ask whether it does.
    filled: Cell<u16>,
    /// Searches for pins pass by its line.
    resting: Cell<bool>,
    pub(crate) hits: RefCell<Vec<Hit>>,
    /// How many hits fit before the policy is told.
    room: usize,
    /// Hits that set a page's bit and did not fit.
    overflowed: Cell<bool>,
    /// Hits on the volume used last that its counters do not know of.
    uncounted: Cell<u32>,
    counted: RefCell<Option<Arc<VolumeCounters>>>,
    owner: Cell<Option<u32>>,
    prompt: Cell<bool>,
    pub(crate) advice: Cell<Advice>,
    /// Counts hits, to measure the time of some.
    ticks: Cell<u32>,
    /// Pages that a read has found so far, with pins given back.
    pub(crate) found: RefCell<Vec<(u64, Pin)>>,
}

/// Why a page could not be pinned at once.
pub(crate) enum NotPinned {
    /// It is not resident.
    Absent,
    /// Somebody loads it or writes to it.
    Busy(u32),
}

/// A shared pin: in a slot, or, as `SLOTS`, counted in the page.
#[derive(Clone, Copy)]
pub(crate) struct Pin {
    pub(crate) number: u32,
    slot: u8,
    pub(crate) state: State,
}

impl<M: Memory> Handle<M> {
    pub(crate) fn new(shared: &Arc<Shared<M>>) -> Result<Self, Error> {
        let line = shared.core.slots.take_line().ok_or(Error::TooManyHandles)?;
        let frames = shared.config.frames() as usize;
        Ok(Self {
            shared: Arc::clone(shared),
            line,
            filled: Cell::new(0),
            resting: Cell::new(false),
            hits: RefCell::default(),
            room: if shared.hit_sets_bit { (frames / 8).max(4096) } else { ORDERED_HITS },
            overflowed: Cell::new(false),
            uncounted: Cell::new(0),
            counted: RefCell::default(),
            owner: Cell::new(None),
            prompt: Cell::new(false),
            advice: Cell::new(Advice::Normal),
            ticks: Cell::new(0),
            found: RefCell::default(),
        })
    }

    /// Sets the owner of all uses through this handle from now on, for policies that have managers and for figures. Without one the volume's
    /// number is used. Readahead and writeback that a use causes count for its owner, too.
    pub fn use_owner(&self, owner: Option<&Owner>) {
        self.owner.set(owner.map(Owner::number));
    }

    /// The same by a number of the caller's own choice, which [`Pool::owner`](crate::Pool::owner) may give to another.
    pub fn set_owner(&self, owner: u32) {
        self.owner.set(Some(owner));
    }

    /// From now on a page that has no frame before others are written is refused with [`Error::Busy`], as is a write while too many pages are dirty: for a
    /// thread that must not write, nor log that a write has failed.
    pub fn leave_writing_to_others(&self) {
        self.prompt.set(true);
    }

    pub(crate) fn is_prompt(&self) -> bool {
        self.prompt.get()
    }

    pub(crate) fn owner(&self, volume: &Volume) -> u32 {
        self.owner.get().unwrap_or(volume.id)
    }

    /// Pins a page for reading; it is loaded if it is not resident.
    ///
    /// While this handle holds the page for reading it must not ask to write to it, or to trim or zero it: it would wait for itself.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Device`], [`Error::AllPinned`].
    #[inline]
    pub fn read<'h>(&'h self, volume: &Arc<Volume>, block: u64) -> Result<ReadPin<'h, M>, Error> {
        let start = self.begin_measured();
        let Some(pin) = self.read_resident(volume, block) else { return self.read_absent(volume, block) };
        if let Some(start) = start {
            self.shared.hit_time.add_time(start.elapsed());
        }
        Ok(pin)
    }

    /// One of 64 hits is measured, from now on if this is one.
    #[inline]
    pub(crate) fn begin_measured(&self) -> Option<Instant> {
        self.ticks.set(self.ticks.get().wrapping_add(1));
        self.ticks.get().is_multiple_of(64).then(Instant::now)
    }

    /// Pins a page for reading if it is resident: never waits, and takes no lock that all share.
    #[inline]
    pub fn read_resident<'h>(&'h self, volume: &Arc<Volume>, block: u64) -> Option<ReadPin<'h, M>> {
        let pin = self.pin(volume.id, block).ok()?;
        if pin.state.in_laundry() {
            self.unpin(pin);
            return None;
        }
        if self.hit(volume, block, pin) {
            self.follow(volume, block..block + 1, None);
        }
        Some(ReadPin::new(self, pin))
    }

    /// Whether a page is resident; nobody learns that this was asked.
    pub fn is_resident(&self, volume: &Volume, block: u64) -> bool {
        self.has(volume.id, block)
    }

    /// The same by the number of the volume.
    pub fn has(&self, object: u32, block: u64) -> bool {
        let Ok(pin) = self.pin(object, block) else { return false };
        self.unpin(pin);
        !pin.state.in_laundry()
    }

    /// Whether a page is resident and dirty, and is not being written; nobody learns that this was asked.
    pub fn is_dirty(&self, volume: &Volume, block: u64) -> bool {
        let Ok(pin) = self.pin(volume.id, block) else { return false };
        self.unpin(pin);
        pin.state.dirty() && !pin.state.in_writeback()
    }

    /// Pins a page for reading if it was read ahead and has not been used since: this is its first use. Never waits.
    pub fn use_ahead<'h>(&'h self, volume: &Arc<Volume>, block: u64) -> Option<ReadPin<'h, M>> {
        let pin = self.pin(volume.id, block).ok()?;
        if !pin.state.ahead() || pin.state.in_laundry() {
            self.unpin(pin);
            return None;
        }
        if self.hit(volume, block, pin) {
            self.follow(volume, block..block + 1, None);
        }
        Some(ReadPin::new(self, pin))
    }

    /// The same as [`read`](Handle::read) for a page that was [not resident](Handle::read_resident) a moment ago.
    ///
    /// # Errors
    /// As for [`read`](Handle::read).
    pub fn read_absent<'h>(&'h self, volume: &Arc<Volume>, block: u64) -> Result<ReadPin<'h, M>, Error> {
        volume.check_block(block)?;
        let start = Instant::now();
        let mut told = false;
        loop {
            match self.pin(volume.id, block) {
                Ok(pin) if told || !pin.state.in_laundry() => {
                    if told || self.hit(volume, block, pin) {
                        self.follow(volume, block..block + 1, told.then_some(block));
                    }
                    return Ok(ReadPin::new(self, pin));
                }
                Ok(pin) => {
                    self.unpin(pin);
                    told |= self.load(volume, block..block + 1, Operation::Read, false, None)?;
                }
                Err(NotPinned::Busy(number)) => {
                    self.shared.wait_for(volume.id, block, number, State::busy);
                }
                Err(NotPinned::Absent) => {
                    let mut kept = None;
                    told |= self.load(volume, block..block + 1, Operation::Read, true, Some(&mut kept))?;
                    if let Some(pin) = kept {
                        self.shared.miss_time.add_time(start.elapsed());
                        return Ok(ReadPin::new(self, pin));
                    }
                }
            }
        }
    }

    /// Pins a page for writing: alone. It is loaded if it is not resident.
    ///
    /// While this handle holds the page it must not ask for it again, nor for a flush or durable write of its volume, nor for a trim or
    /// write of zeroes that concerns it.
    ///
    /// # Errors
    /// As for [`read`](Handle::read), and [`Error::ReadOnly`]; a device that fails to write back what is dirty fails writers, too, as
    /// soon as the dirty limit is reached.
    ///
    /// # Panics
    /// If this handle holds the page for reading.
    pub fn write<'h>(&'h self, volume: &'h Arc<Volume>, block: u64) -> Result<WritePin<'h, M>, Error> {
        volume.check_writable()?;
        volume.check_block(block)?;
        self.shared.throttle(volume)?;
        self.make_room(volume, block..block + 1)?;
        let number = self.hold(volume, block, volume.mode == WriteMode::Through)?;
        Ok(WritePin::new(self, volume, number, block))
    }

    /// The same for a page that a program has touched in memory, to write to a part of it: as its bytes are needed, those behind it are read ahead if
    /// the program goes forward. Where there is no room below it is not refused, as that would end the program with a
    /// signal: its writeback reports that.
    ///
    /// # Errors
    /// As for [`write`](Handle::write).
    ///
    /// # Panics
    /// If this handle holds the page for reading.
    pub fn write_touched<'h>(&'h self, volume: &'h Arc<Volume>, block: u64) -> Result<WritePin<'h, M>, Error> {
        volume.check_writable()?;
        volume.check_block(block)?;
        if self.prompt.get() {
            // Not a moment later: a throttled writer may have to write.
            if self.shared.is_at_dirty_limit() {
                return Err(Error::Busy);
            }
        } else {
            self.shared.throttle(volume)?;
        }
        let (number, first_use) = self.hold_in_stream(volume, block, volume.mode == WriteMode::Through, true)?;
        if first_use {
            self.follow(volume, block..block + 1, None);
        }
        Ok(WritePin::new(self, volume, number, block))
    }

    /// Holds a page for writing to a part of it if it was read ahead and has not been used since. Never waits, so there is none, too, where pages are
    /// written through, and while so many are dirty that one would have to be written first.
    pub fn write_ahead<'h>(&'h self, volume: &'h Arc<Volume>, block: u64) -> Option<WritePin<'h, M>> {
        if volume.mode == WriteMode::Through || self.shared.is_at_dirty_limit() || volume.check_writable().is_err() {
            return None;
        }
        let pin = self.pin(volume.id, block).ok()?;
        let ahead = pin.state.ahead();
        self.unpin(pin);
        let (number, first_use) = ahead.then(|| self.hold_known(volume, block, false, false, false)).flatten()?;
        if first_use {
            self.follow(volume, block..block + 1, None);
        }
        Some(WritePin::new(self, volume, number, block))
    }

    /// A shared pin of a page, if it can be had at once.
    #[inline]
    pub(crate) fn pin(&self, object: u32, block: u64) -> Result<Pin, NotPinned> {
        let core = &self.shared.core;
        let found = core.table.find(table::hash(object, block), |number| core.pages.get(number).is(object, block));
        let Some(number) = found else { return Err(NotPinned::Absent) };
        let slot = self.filled.get().trailing_ones() as usize;
        let pinned = if slot == SLOTS {
            self.pin_without_slot(number, object, block)
        } else {
            self.pin_in_slot(slot, number, object, block)
        };
        pinned.map_err(|state| if state.busy() { NotPinned::Busy(number) } else { NotPinned::Absent })
    }

    #[inline]
    fn pin_in_slot(&self, slot: usize, number: u32, object: u32, block: u64) -> Result<Pin, State> {
        let line = self.shared.core.slots.line(self.line);
        line.fill(slot, number);
        match self.shared.core.pages.get(number).shared(object, block) {
            Ok(state) => {
                self.filled.set(self.filled.get() | 1 << slot);
                Ok(Pin { number, slot: slot as u8, state })
            }
            Err(state) => {
                line.clear(slot);
                Err(state)
            }
        }
    }

    /// All slots are filled, or seem so.
    #[cold]
    fn pin_without_slot(&self, number: u32, object: u32, block: u64) -> Result<Pin, State> {
        if self.wake() {
            return self.pin_in_slot(0, number, object, block);
        }
        let state = self.shared.core.pages.get(number).share(object, block)?;
        Ok(Pin { number, slot: SLOTS as u8, state })
    }

    /// A shared pin of a page that this thread holds exclusively.
    pub(crate) fn pin_held(&self, number: u32) -> Pin {
        let page = self.shared.core.pages.get(number);
        self.wake();
        let slot = self.filled.get().trailing_ones() as usize;
        let slot = if slot == SLOTS {
            page.share_held();
            SLOTS
        } else {
            self.shared.core.slots.line(self.line).fill(slot, number);
            self.filled.set(self.filled.get() | 1 << slot);
            slot
        };
        let state = page.state();
        self.shared.core.waiters.wake(number, page.end_exclusive());
        Pin { number, slot: slot as u8, state }
    }

    #[inline]
    pub(crate) fn unpin(&self, pin: Pin) {
        if usize::from(pin.slot) == SLOTS {
            self.shared.core.pages.get(pin.number).unshare();
        } else {
            self.shared.core.slots.line(self.line).clear(pin.slot.into());
            self.filled.set(self.filled.get() & !(1 << pin.slot));
        }
    }

    /// Holds a page exclusively, loading it first if it is not resident. `settled`: it is not in writeback, either.
    pub(crate) fn hold(&self, volume: &Arc<Volume>, block: u64, settled: bool) -> Result<u32, Error> {
        Ok(self.hold_in_stream(volume, block, settled, false)?.0)
    }

    /// The same, and whether this is the first use of a page that was read ahead. `follow`: what is expected behind it is read ahead if it was absent.
    fn hold_in_stream(
        &self,
        volume: &Arc<Volume>,
        block: u64,
        settled: bool,
        follow: bool,
    ) -> Result<(u32, bool), Error> {
        let mut told = false;
        loop {
            if let Some(held) = self.hold_known(volume, block, settled, told, true) {
                return Ok(held);
            }
            told |= self.load(volume, block..block + 1, Operation::Write, follow, None)?;
        }
    }

    /// Holds a page exclusively if it is resident and settled, and nobody else has it: for one who holds other pages, and might wait
    /// for himself.
    pub(crate) fn hold_at_once(&self, volume: &Arc<Volume>, block: u64) -> Option<u32> {
        Some(self.hold_known(volume, block, true, false, false)?.0)
    }

    /// `told`: the policy knows of this reference already. `wait`: for others to let go of the page. The page, and whether this is its first use after
    /// it was read ahead.
    fn hold_known(
        &self,
        volume: &Arc<Volume>,
        block: u64,
        settled: bool,
        told: bool,
        wait: bool,
    ) -> Option<(u32, bool)> {
        let core = &self.shared.core;
        loop {
            let hash = table::hash(volume.id, block);
            let number = core.table.find(hash, |number| core.pages.get(number).is(volume.id, block))?;
            let page = core.pages.get(number);
            if let Err(state) = core.begin_exclusive(number, volume.id, block) {
                if !state.busy() || !wait {
                    return None;
                }
                self.shared.wait_for(volume.id, block, number, State::busy);
                continue;
            }
            assert!(
                !core.slots.line(self.line).holds(number),
                "a handle that holds a page for reading would wait for itself to write to it"
            );
            if !page.soon_unshared(number, &core.slots) {
                self.shared.let_go(number);
                if !wait {
                    return None;
                }
                core.waiters.wait(number, page, volume.id, block, State::copied_in_writeback);
                page.wait_unshared(number, volume.id, block, &core.slots);
                continue;
            }
            let state = page.state();
            if state.in_laundry() && !told || state.in_writeback() && settled && !wait {
                self.shared.let_go(number);
                return None;
            }
            if settled {
                core.waiters.wait(number, page, volume.id, block, State::in_writeback);
            }
            let first_use = !told && self.note(volume, block, number, page.state(), Operation::Write);
            return Some((number, first_use));
        }
    }

    /// Takes note of a read that hits. Whether it is the first use of a page read ahead: once the read is over it is to be
    /// [followed](Handle::follow).
    #[inline]
    #[must_use]
    pub(crate) fn hit(&self, volume: &Arc<Volume>, block: u64, pin: Pin) -> bool {
        self.note(volume, block, pin.number, pin.state, Operation::Read)
    }

    #[inline]
    fn note(&self, volume: &Arc<Volume>, block: u64, number: u32, state: State, operation: Operation) -> bool {
        let first_use = state.ahead() && self.first_use(volume, number);
        self.count_hit(volume);
        let page = self.shared.core.pages.get(number);
        // A first use is the page's admission, and sets no bit.
        if self.shared.hit_sets_bit && !first_use && !page.mark_used() {
            return false;
        }
        let place = Place { object: volume.id, block };
        let mut hits = self.hits.borrow_mut();
        if hits.len() == self.room {
            if self.shared.hit_sets_bit {
                // The page's mark says that it was used. A first use after which the page is used again counts as one use then.
                page.mark_used();
                self.overflowed.set(true);
                return first_use;
            }
            self.shared.replacer().deliver(&self.shared.core, &mut hits);
        }
        let reference = Reference { page: number, owner: self.owner(volume), place, operation };
        hits.push(Hit { reference, first_use });
        first_use
    }

    #[cold]
    fn first_use(&self, volume: &Volume, number: u32) -> bool {
        let first = self.shared.core.pages.get(number).first_use();
        volume.counters.readahead_used.add(first.into());
        first
    }

    #[inline(always)]
    fn count_hit(&self, volume: &Arc<Volume>) {
        let same = self.counted.borrow().as_ref().is_some_and(|counted| Arc::ptr_eq(counted, &volume.counters));
        if !same || self.uncounted.get() >= 64 {
            self.settle();
            if !same {
                *self.counted.borrow_mut() = Some(Arc::clone(&volume.counters));
            }
        }
        self.uncounted.set(self.uncounted.get() + 1);
    }

    /// Tells the volume of the hits that it does not know of.
    #[cold]
    pub fn settle(&self) {
        if let Some(counters) = self.counted.borrow().as_ref() {
            counters.hits.add(u64::from(self.uncounted.take()));
        }
    }

    /// Marks this handle as unused for a while, as before its thread waits for a client: searches for pins skip it. Its next use ends that.
    pub fn rest(&self) {
        let slots = &self.shared.core.slots;
        if self.filled.get() == 0 && !self.resting.get() && slots.many() {
            slots.rest(self.line);
            self.resting.set(true);
            self.filled.set(u16::MAX);
        }
    }

    /// Ends its rest. `false`: it did not rest.
    #[cold]
    fn wake(&self) -> bool {
        let rested = self.resting.replace(false);
        if rested {
            self.shared.core.slots.wake(self.line);
            self.filled.set(0);
        }
        rested
    }

    /// Tells the policy of the hits that it does not know of, so that it learns of them before what another handle does for the same user.
    pub fn hand_over(&self) {
        if !self.hits.borrow().is_empty() || self.overflowed.get() {
            self.deliver(&mut self.shared.replacer());
        }
    }

    /// Tells the policy of all that this handle has seen, under the replacer's lock.
    pub(crate) fn deliver(&self, replacer: &mut crate::core::replacer::Replacer) {
        replacer.deliver(&self.shared.core, &mut self.hits.borrow_mut());
        if self.overflowed.take() {
            replacer.deliver_all(&self.shared.core);
        }
    }
}

impl<M: Memory> Drop for Handle<M> {
    fn drop(&mut self) {
        self.settle();
        // A thread that panicked under the lock has broken what it guards: there is nobody to tell, and to panic here might be to do so
        // while a panic is under way, which ends the process.
        if let Some(mut replacer) = self.shared.replacer_unless_poisoned() {
            self.deliver(&mut replacer);
        }
        self.shared.core.slots.give_line(self.line);
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use crate::sync::lock;
    use crate::{Config, Pool};
    use forebay_policy::Spec;

    #[test]
    fn a_panic_under_the_lock_of_the_replacer_ends_its_thread_alone() {
        let pool = Pool::new(Config::new(1 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool");
        let handle = pool.handle().expect("a handle");
        let panics = move || {
            // Dropped after the guard, while the panic is under way.
            let handle = handle;
            let _guard = lock(&handle.shared.replacer);
            panic!("as the test wants");
        };
        assert!(std::thread::spawn(panics).join().is_err());
        assert!(pool.shared.replacer.is_poisoned());
    }
}
