//! GCLOCK: CLOCK with a counter for each page in place of the bit. The hand counts it down, and the victim is the first page
//! that it meets at zero.
//!
//! A. J. Smith, "Sequentiality and Prefetching in Database Systems", ACM TODS 3(3), 1978; V. F. Nicola, A. Dan and D. M.
//! Dias, "Analysis of the Generalized Gclock Buffer Replacement Scheme for Database Transaction Processing", SIGMETRICS
//! 1992. PostgreSQL's buffer manager runs it with the defaults here: a page is admitted at 1, a hit adds 1 up to 5.
//!
//! With `initial=0:max=1` this is CLOCK, to the hit.
//!
//! Reference figures: those of CLOCK at `initial=0:max=1`. Deviations: none.
//! Parameters: `initial`, `max`. Memory: 4 bytes a page (its frame), 5 a frame.

use crate::drawing::{Drawing, Drawn};
use crate::parameters::{Kind, Parameter, Settings};
use crate::parts::frame_circle::{FRAMES, FrameCircle};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// Generalized CLOCK.
#[derive(Debug)]
pub struct Gclock {
    /// GC1. The value of a resident page is its counter, at most `max`.
    frames: FrameCircle<u8>,
    capacity: u32,
    initial: u8,
    max: u8,
}

impl Policy for Gclock {
    const INFO: Info = Info {
        name: "gclock",
        title: "generalized CLOCK, a counter for each page",
        paper: "V. F. Nicola, A. Dan and D. M. Dias, Analysis of the Generalized Clock Buffer Replacement Scheme, SIGMETRICS 1992",
        parameters: &[
            Parameter {
                name: "initial",
                help: "the counter of a page just admitted",
                kind: Kind::Integer { least: 0, most: 255 },
                default: "1",
            },
            Parameter {
                name: "max",
                help: "the most that hits raise the counter to",
                kind: Kind::Integer { least: 1, most: 255 },
                default: "5",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 9,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let max = setup.settings.integer("max") as u8;
        let initial = (setup.settings.integer("initial") as u8).min(max);
        Self { frames: FrameCircle::new(setup.pages, setup.capacity), capacity: setup.capacity, initial, max }
    }

    fn check_settings(settings: &Settings) -> Result<(), String> {
        let [initial, max] = ["initial", "max"].map(|name| settings.integer(name));
        if initial > max { Err(format!("initial={initial} is more than max={max}")) } else { Ok(()) }
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
        let counter = self.frames.value(reference.page);
        *counter = counter.saturating_add(1).min(self.max);
    }

    fn awaits_use(&self, page: u32) -> bool {
        self.frames.value_of(page) < self.max
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.frames.len() == self.capacity {
            self.evict(caller)?;
        }
        self.frames.enter(reference.page, self.initial);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        // Refusals since a counter was above zero, which none is after `max` rounds: a whole round of them is all pages.
        let mut refused = 0;
        while refused < self.frames.len() {
            let (page, counter) = self.frames.at_hand().ok_or(AllRefused)?;
            if *counter > 0 {
                *counter -= 1;
                refused = 0;
                caller.await_use(page);
            } else if caller.evict(page) {
                self.frames.leave(page);
                caller.forget(page);
                return Ok(());
            } else {
                refused += 1;
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

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |(page, counter): (u32, u8)| Drawn::resident(page).number("counter", counter);
        drawing.circle("frames", FRAMES, self.frames.in_frames().map(drawn)).hand("hand", self.frames.pages().next());
    }

    fn bytes(&self) -> usize {
        self.frames.bytes()
    }

    fn check_invariants(&self) {
        self.frames.check();
        assert!(self.frames.values().all(|&counter| counter <= self.max)); // GC1
        assert!(self.len() <= self.capacity);
    }
}
