//! CLOCK: LRU at the price of a bit. A hit sets the page's reference bit; the hand spares a page whose bit is set, once.
//!
//! F. J. Corbato, "A Paging Experiment with the Multics System", MIT Project MAC Report MAC-M-384, 1968.
//!
//! The pages stand in a circle; the hand clears set bits until it meets a clear one, whose page is the victim. The new page
//! takes the victim's place with its bit clear, and the hand stops behind it. The hand passes a refused victim too.
//!
//! Reference figures: `golden/exact-hits.csv`, column CLOCK, equal to the hit; CLOCK-Pro's Table 2, USENIX 2005.
//! Deviations: none. Parameters: none. Memory: 4 bytes a page (its frame), 5 a frame.

use crate::drawing::{Drawing, Drawn};
use crate::parts::frame_circle::{FRAMES, FrameCircle};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// CLOCK with one reference bit.
#[derive(Debug)]
pub struct Clock {
    /// The value of a resident page is its reference bit.
    frames: FrameCircle<bool>,
    /// Pages that the hand has looked at, and misses.
    steps: u64,
    faults: u64,
    capacity: u32,
}

impl Policy for Clock {
    const INFO: Info = Info {
        name: "clock",
        title: "CLOCK, one reference bit",
        paper: "F. J. Corbato, A Paging Experiment with the Multics System, MIT Project MAC Report MAC-M-384, 1968",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 9,
        hit_sets_bit: true,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self { frames: FrameCircle::new(setup.pages, setup.capacity), steps: 0, faults: 0, capacity: setup.capacity }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.frames.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.frames.contains(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.frames.prefetch(page);
    }

    fn hit(&mut self, reference: &Reference) {
        *self.frames.value(reference.page) = true;
    }

    fn awaits_use(&self, page: u32) -> bool {
        !self.frames.value_of(page)
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.frames.len() == self.capacity {
            self.evict(caller)?;
        }
        self.faults += 1;
        self.frames.enter(reference.page, false);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        // Twice around: bits are cleared in the first round, so in the second every page is offered.
        for _ in 0..2 * u64::from(self.frames.len()) {
            let (page, bit) = self.frames.at_hand().ok_or(AllRefused)?;
            self.steps += 1;
            if std::mem::take(bit) {
                caller.await_use(page);
            } else if caller.evict(page) {
                self.frames.leave(page);
                caller.forget(page);
                return Ok(());
            }
            self.frames.turn();
        }
        Err(AllRefused)
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.frames.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
        self.frames.set_capacity(capacity);
    }

    fn reserve(&mut self, pages: u32) {
        self.frames.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("hand steps a fault", self.steps as f64 / self.faults.max(1) as f64);
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |(page, bit)| Drawn::resident(page).bit("reference bit", bit);
        drawing.circle("frames", FRAMES, self.frames.in_frames().map(drawn)).hand("hand", self.frames.pages().next());
    }

    fn bytes(&self) -> usize {
        self.frames.bytes()
    }

    fn check_invariants(&self) {
        self.frames.check();
        assert!(self.len() <= self.capacity);
    }
}
