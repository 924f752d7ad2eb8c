//! A page of the pool: its key, its frame, and the state machine that decides who may touch the frame's bytes.
//!
//! ```text
//!            bind              loaded            write              begin_writeback
//!   absent ---------> loading ---------> clean ---------> dirty ------------------> writeback
//!    ^                  |                | ^               |                         |   |
//!    +-------- unbind --+------ unbind --+ +---------------|--- end_writeback(ok) ---+   |
//!                                                          +<------ end_writeback(failed)
//! ```
//!
//! A page in writeback that is written again is dirty and in writeback. A page that the policy evicted while it was dirty or in
//! writeback is *in the laundry*: it keeps its frame, and serves reads, until it is clean.
//!
//! Rules, cited by their letters where they are enforced:
//!
//! - PG1. Bytes are read under a shared pin: a slot of a handle (`slots.rs`), one counted in the state, or the pin of the thread that copies
//!   the page for a writeback (`COPYING`), or writes it from where it lies. That one is kept apart, because a page that is copied may still be evicted: it is dirty or in
//!   writeback all the while, and so goes to the laundry with its frame. Victims then do not depend on what is being copied.
//! - PG2. Bytes are written by the one who holds the page exclusively: the loader of a loading page, or who set `EXCLUSIVE` and then
//!   saw no shared pin.
//! - PG3. `DIRTY` is set by the exclusive holder before he lets go, and cleared by `begin_writeback`, which sets `WRITEBACK` and begins the
//!   copy: no page has two writebacks at a time.
//! - PG4. A page loses its frame only while it is held exclusively, clean and not in writeback: no dirty page leaves.
//! - PG5. Key, frame and the bits `LAUNDRY` and `FORGOTTEN` change under the replacer's lock alone; the key and the frame only while
//!   the page is absent.
//! - PG6. Who lets go of what others wait for (`EXCLUSIVE`, loading, `WRITEBACK`, `COPYING`) clears `WAITERS` in the same step and wakes them if it
//!   was set (`waiters.rs`).

use crate::core::slots::Slots;
use crate::core::table;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Backoff, Ordering, size};
use std::sync::OnceLock;

const LOADING: u32 = 1;
const VALID: u32 = 1 << 1;
const DIRTY: u32 = 1 << 2;
const WRITEBACK: u32 = 1 << 3;
const EXCLUSIVE: u32 = 1 << 4;
const AHEAD: u32 = 1 << 5;
const LAUNDRY: u32 = 1 << 6;
const FORGOTTEN: u32 = 1 << 7;
const WAITERS: u32 = 1 << 8;
const COPYING: u32 = 1 << 9;
/// Times that one who holds a page exclusively looks whether its readers are gone, before he lets them go first.
const LOOKS: usize = size(1000, 2);

/// A pin that is counted in the state: of a handle that has filled its slots.
const PIN: u32 = 1 << 10;
const PINS: u32 = !(PIN - 1);

/// A page's key, frame and state. 32 bytes for each page number, none of them on two cache lines: a hit waits for one.
#[derive(Default)]
#[repr(align(32))]
pub(crate) struct Page {
    state: AtomicU32,
    block: AtomicU64,
    object: AtomicU32,
    frame: AtomicU32,
    /// Those under the replacer's lock: one more than the number of its region (`regions.rs`), or 0 if the number stands for no page;
    region: AtomicU32,
    /// the number after it in the region's list;
    after: AtomicU32,
    /// whether the policy knows the page, or is being asked to, or it is in the laundry;
    known: AtomicBool,
    /// whether the number stands in the queue of forgotten ones.
    queued: AtomicBool,
    /// Referenced, and the policy has not been told; used for policies whose hits set a bit.
    used: AtomicBool,
}

/// A state as it was at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State(u32);

impl State {
    pub(crate) fn absent(self) -> bool {
        self.0 & (LOADING | VALID) == 0
    }

    pub(crate) fn loading(self) -> bool {
        self.0 & LOADING != 0
    }

    /// It is being read ahead.
    pub(crate) fn loading_ahead(self) -> bool {
        self.0 & (LOADING | AHEAD) == LOADING | AHEAD
    }

    /// Someone is loading, writing or evicting it.
    pub(crate) fn busy(self) -> bool {
        self.0 & (LOADING | EXCLUSIVE) != 0
    }

    pub(crate) fn dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub(crate) fn in_writeback(self) -> bool {
        self.0 & WRITEBACK != 0
    }

    /// It is being copied for a writeback that has begun: who ends that wakes those who wait for it.
    pub(crate) fn copied_in_writeback(self) -> bool {
        self.0 & (COPYING | WRITEBACK) == COPYING | WRITEBACK
    }

    /// It is being copied for a writeback.
    pub(crate) fn copying(self) -> bool {
        self.0 & COPYING != 0
    }

    pub(crate) fn valid(self) -> bool {
        self.0 & VALID != 0
    }

    /// Read ahead and not used yet.
    pub(crate) fn ahead(self) -> bool {
        self.0 & AHEAD != 0
    }

    pub(crate) fn in_laundry(self) -> bool {
        self.0 & LAUNDRY != 0
    }

    pub(crate) fn forgotten(self) -> bool {
        self.0 & FORGOTTEN != 0
    }
}

/// Whether others wait for what has just been let go: they are to be woken.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake(pub(crate) bool);

impl Page {
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Ordering::SeqCst))
    }

    #[inline]
    pub(crate) fn is(&self, object: u32, block: u64) -> bool {
        self.block.load(Ordering::Relaxed) == block && self.object.load(Ordering::Relaxed) == object
    }

    pub(crate) fn object(&self) -> u32 {
        self.object.load(Ordering::Relaxed)
    }

    pub(crate) fn block(&self) -> u64 {
        self.block.load(Ordering::Relaxed)
    }

    pub(crate) fn hash(&self) -> u64 {
        table::hash(self.object(), self.block())
    }

    #[inline]
    pub(crate) fn frame(&self) -> u32 {
        self.frame.load(Ordering::Relaxed)
    }

    /// Gives an absent page its key (PG5).
    pub(crate) fn name(&self, object: u32, block: u64) {
        debug_assert!(self.state().absent(), "a page changes its key while it is absent");
        self.object.store(object, Ordering::Relaxed);
        self.block.store(block, Ordering::Relaxed);
        self.used.store(false, Ordering::Relaxed);
    }

    /// Its region, if the number stands for a page.
    pub(crate) fn region(&self) -> Option<u32> {
        self.region.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Puts it in the list of a region, or takes it out.
    pub(crate) fn set_region(&self, region: Option<u32>) {
        self.region.store(region.map_or(0, |region| region + 1), Ordering::Relaxed);
    }

    /// The number after it in its region's list.
    pub(crate) fn after(&self) -> u32 {
        self.after.load(Ordering::Relaxed)
    }

    pub(crate) fn set_after(&self, number: u32) {
        self.after.store(number, Ordering::Relaxed);
    }

    /// Whether the policy knows it, or is being asked to, or it is in the laundry.
    pub(crate) fn known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Whether it was known before.
    pub(crate) fn set_known(&self, known: bool) -> bool {
        let before = self.known();
        self.known.store(known, Ordering::Relaxed);
        before
    }

    /// Whether its number stood in the queue of forgotten ones before.
    pub(crate) fn set_queued(&self, queued: bool) -> bool {
        let before = self.queued.load(Ordering::Relaxed);
        self.queued.store(queued, Ordering::Relaxed);
        before
    }

    /// Gives an absent page a frame; the caller loads it (PG2).
    pub(crate) fn bind(&self, frame: u32, ahead: bool) {
        self.frame.store(frame, Ordering::Relaxed);
        self.used.store(false, Ordering::Relaxed);
        let old = self.state.swap(LOADING | if ahead { AHEAD } else { 0 }, Ordering::SeqCst);
        debug_assert!(State(old).absent(), "a page is bound to a frame while it is absent");
    }

    /// The loader has filled the frame, and goes on holding it exclusively.
    pub(crate) fn loaded(&self) {
        let _ = self.change(|state| Some(state & !LOADING | VALID | EXCLUSIVE));
    }

    /// Takes the frame from a page that is held exclusively or loading (PG4), and is not dirty unless its contents are given up.
    pub(crate) fn unbind(&self) -> Wake {
        let old = self.state.swap(0, Ordering::SeqCst);
        debug_assert!(
            State(old).busy() && !State(old).in_writeback(),
            "a page leaves while it is held and not written"
        );
        debug_assert_eq!(old & (PINS | COPYING), 0, "a page that leaves is not pinned");
        Wake(old & WAITERS != 0)
    }

    /// Whether a pin whose slot has just been filled holds the page for reading (PG1).
    #[inline]
    pub(crate) fn shared(&self, object: u32, block: u64) -> Result<State, State> {
        let state = self.state();
        // The key after the state: it can change no more while the page is valid and pinned.
        if state.valid() && !state.busy() && self.is(object, block) { Ok(state) } else { Err(state) }
    }

    /// Counts a shared pin in the state.
    pub(crate) fn share(&self, object: u32, block: u64) -> Result<State, State> {
        let mut seen = self.state.load(Ordering::SeqCst);
        loop {
            if !State(seen).valid() || State(seen).busy() || !self.is(object, block) {
                return Err(State(seen));
            }
            assert!(seen & PINS != PINS, "a page has at most four million pins");
            match self.state.compare_exchange_weak(seen, seen + PIN, Ordering::SeqCst, Ordering::SeqCst) {
                // The key was read before the pin held it.
                Ok(_) if self.is(object, block) => return Ok(State(seen)),
                Ok(_) => {
                    self.unshare();
                    return Err(State(0));
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Counts a shared pin of a page that the caller holds, exclusively or by a slot, before he lets go.
    pub(crate) fn share_held(&self) {
        let old = self.state.fetch_add(PIN, Ordering::SeqCst);
        assert!(old & PINS != PINS, "a page has at most four million pins");
    }

    /// Gives back a counted pin.
    pub(crate) fn unshare(&self) {
        let old = self.state.fetch_sub(PIN, Ordering::SeqCst);
        debug_assert!(old >= PIN, "a counted pin is given back once");
    }

    /// Begins to hold the page exclusively if nobody else does: no new shared pin is given from now on. Those that were are to be
    /// waited for, or the page is to be let go of. The key may change between the look at it and the hold unless the caller has the
    /// replacer's lock: who has not asks [`Core::begin_exclusive`](crate::core::Core::begin_exclusive).
    pub(crate) fn begin_exclusive(&self, object: u32, block: u64) -> Result<(), State> {
        let mut seen = self.state.load(Ordering::SeqCst);
        loop {
            if !State(seen).valid() || State(seen).busy() || !self.is(object, block) {
                return Err(State(seen));
            }
            match self.state.compare_exchange_weak(seen, seen | EXCLUSIVE, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Whether shared pins are left on a page that is exclusively held.
    pub(crate) fn still_shared(&self, number: u32, slots: &Slots) -> bool {
        self.state.load(Ordering::SeqCst) & COPYING != 0 || self.in_use(number, slots)
    }

    /// The same without the pin of a thread that copies the page for a writeback.
    pub(crate) fn in_use(&self, number: u32, slots: &Slots) -> bool {
        // The slots first: a pin that goes from a slot to the state is in both for a moment.
        slots.hold(number) || self.state.load(Ordering::SeqCst) & PINS != 0
    }

    /// Waits a little for the readers of a page that is exclusively held (PG2), who hold pins for no longer than it takes to copy
    /// a page, or as their program likes. `false`: some are left. The page is to be let go of then: its readers may themselves
    /// wait for pages, and in the end for this one.
    pub(crate) fn soon_unshared(&self, number: u32, slots: &Slots) -> bool {
        let mut backoff = Backoff::new();
        for _ in 0..LOOKS {
            if !self.still_shared(number, slots) {
                return true;
            }
            backoff.wait();
        }
        false
    }

    /// Waits until the page has no shared pin, or the number belongs to another page. The caller does not hold the page.
    pub(crate) fn wait_unshared(&self, number: u32, object: u32, block: u64, slots: &Slots) {
        let mut backoff = Backoff::new();
        while self.still_shared(number, slots) && self.is(object, block) {
            backoff.wait();
        }
    }

    /// Sets `DIRTY`, by the exclusive holder; whether it was not set before (PG3).
    pub(crate) fn make_dirty(&self) -> bool {
        self.state.fetch_or(DIRTY, Ordering::SeqCst) & DIRTY == 0
    }

    /// Clears `DIRTY`, by the exclusive holder who has written the page to its device, or gives its contents up.
    pub(crate) fn make_clean(&self) {
        self.state.fetch_and(!DIRTY, Ordering::SeqCst);
    }

    /// Lets go of a page held exclusively.
    pub(crate) fn end_exclusive(&self) -> Wake {
        let old = self.state.fetch_and(!(EXCLUSIVE | WAITERS), Ordering::SeqCst);
        debug_assert!(old & EXCLUSIVE != 0, "an exclusive hold ends once");
        Wake(old & WAITERS != 0)
    }

    /// From dirty to writeback (PG3), and pins the page until [`end_copy`](Page::end_copy). An error is the state of a page that is busy or
    /// being copied, not dirty, or another by now.
    pub(crate) fn begin_writeback(&self, object: u32, block: u64) -> Result<(), State> {
        let may = |state: u32| {
            let bits = VALID | DIRTY | WRITEBACK | LOADING | EXCLUSIVE | COPYING;
            state & bits == VALID | DIRTY && self.is(object, block)
        };
        self.change(|state| may(state).then_some(state | COPYING)).ok_or_else(|| self.state())?;
        // The key was read before the pin held it. While it holds, `DIRTY` stays: nobody gets the page exclusively.
        if !self.is(object, block) {
            // Who waits for copies waits for those of writebacks, and this is none.
            self.state.fetch_and(!COPYING, Ordering::SeqCst);
            return Err(State::default());
        }
        let _ = self.change(|state| Some(state & !DIRTY | WRITEBACK));
        Ok(())
    }

    /// The page has been copied for its writeback.
    pub(crate) fn end_copy(&self) -> Wake {
        let old = self.state.fetch_and(!(COPYING | WAITERS), Ordering::SeqCst);
        debug_assert!(old & COPYING != 0, "a copy ends once");
        Wake(old & WAITERS != 0)
    }

    /// The writeback is over; what failed is dirty again. Whether it is now dirty that was not, and whom to wake.
    pub(crate) fn end_writeback(&self, written: bool) -> (bool, Wake) {
        let again = if written { 0 } else { DIRTY };
        let old = self.change(|state| Some(state & !(WRITEBACK | WAITERS) | again)).expect("the change is made");
        debug_assert!(old & WRITEBACK != 0, "a writeback ends once");
        (!written && old & DIRTY == 0, Wake(old & WAITERS != 0))
    }

    /// The first use of a page that was read ahead. `true` for one caller.
    pub(crate) fn first_use(&self) -> bool {
        self.state.fetch_and(!AHEAD, Ordering::SeqCst) & AHEAD != 0
    }

    /// The policy has evicted the page, which is dirty or in writeback (PG5).
    pub(crate) fn launder(&self) {
        self.state.fetch_or(LAUNDRY, Ordering::SeqCst);
    }

    /// The policy has admitted a page of the laundry again (PG5). `ahead`: nobody uses it yet.
    pub(crate) fn rescue(&self, ahead: bool) {
        let ahead = if ahead { AHEAD } else { 0 };
        let _ = self.change(|state| Some(state & !(LAUNDRY | FORGOTTEN) | ahead));
    }

    /// The policy has forgotten a page of the laundry (PG5).
    pub(crate) fn forget(&self) {
        self.state.fetch_or(FORGOTTEN, Ordering::SeqCst);
    }

    /// Says that somebody will wait while `waits` holds of the state; `false` if it does not hold (any more). Under the lock of the
    /// page's waiters (PG6).
    pub(crate) fn announce_waiter(&self, waits: impl Fn(State) -> bool) -> bool {
        self.change(|state| waits(State(state)).then_some(state | WAITERS)).is_some()
    }

    /// The bit for policies whose hits set a bit. `true` if it was not set.
    #[inline]
    pub(crate) fn mark_used(&self) -> bool {
        // Reading first keeps the line shared between cores.
        let fresh = !self.used.load(Ordering::Relaxed);
        if fresh {
            self.used.store(true, Ordering::Relaxed);
        }
        fresh
    }

    pub(crate) fn used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn clear_used(&self) {
        self.used.store(false, Ordering::Relaxed);
    }

    /// Changes the state as `to` says, and returns what it was; `None` as soon as `to` says that there is nothing to change.
    fn change(&self, to: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut seen = self.state.load(Ordering::SeqCst);
        loop {
            let new = to(seen)?;
            match self.state.compare_exchange_weak(seen, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(seen),
                Err(now) => seen = now,
            }
        }
    }
}

/// Pages in a chunk.
const CHUNK: u32 = size(1 << 12, 16) as u32;

/// All pages by number, in chunks that are made when their first number is given out and stay where they are.
pub(crate) struct Pages {
    chunks: Box<[OnceLock<Box<[Page]>>]>,
}

impl Pages {
    /// Room for numbers below `most`.
    pub(crate) fn new(most: u32) -> Self {
        Self { chunks: (0..most.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// Makes sure of the page's chunk.
    pub(crate) fn reserve(&self, number: u32) {
        self.chunks[(number / CHUNK) as usize].get_or_init(|| (0..CHUNK).map(|_| Page::default()).collect());
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Page {
        let chunk = self.chunks[(number / CHUNK) as usize].get().expect("a number that was given out has its chunk");
        &chunk[(number % CHUNK) as usize]
    }

    /// The bytes of the pages.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.get().is_some()).count() * CHUNK as usize * size_of::<Page>()
    }
}
