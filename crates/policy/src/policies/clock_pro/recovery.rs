//! How CLOCK-Pro leaves a working set behind: witnesses of the tests that the limit of the ghosts has ended.
//!
//! The test period of a cold page is the largest recency of the hot pages (section 4.1). The limit of the ghosts cuts it: a page that comes again
//! later than that cannot show that its reuse distance is smaller than the recency of the page at HAND_hot, and HAND_hot stands still.
//!
//! ```text
//!   list head   tests, with 7/8 m ghosts  | limit |  w . . . w . . . w . . .  <---  HAND_hot
//! ```
//!
//! So of `stride` ghosts in a row whose tests the limit ends, one is kept as a *witness* (`w`), until HAND_hot is at a page that entered later. There
//! are at most m/8: when there are more, every other one is dropped and `stride` doubles. A witness that is used again turns hot, as by a
//! successful test, if it finds room: there are fewer hot pages than their allocation, or one turns cold that was last used before the witness was.
//! `m_c` stays as it is, for no allocation would have kept that page.
//!
//! If witnesses are used in the order of the list, as in a loop, the pages between them come again, too: then as many pages turn cold as the
//! witness speaks for, and the new pages among the next misses, up to that number, are admitted hot.
//!
//! The bit of a hot page may have been set long ago. So after each m/2 tests that the limit has ended a *look* clears the bits of the hot pages.
//! Of a page whose bit it clears it keeps by which look it was used; HAND_hot spares the page as if the bit were set.
//!
//! Cost: a look takes m steps in m/2 faults or more. HAND_hot, for a witness, passes only pages that entered before the witness, and they enter
//! anew or turn cold: so it passes each page once at most for all witnesses that there are at a time. To drop every other witness takes as many
//! steps as witnesses have come since the last time.

use super::{ClockPro, State, Status};
use crate::parts::list::{List, Nodes};
use crate::policy::Caller;

/// Witnesses have this part of the ghosts' places: an eighth.
const WITNESSES: u32 = 8;
/// A witness turns at most this part of the hot pages cold: a sixteenth.
const GROUP: u32 = 16;
/// So many looks are told apart.
pub(super) const LOOKS: usize = 16;

/// The witnesses.
#[derive(Debug)]
pub(super) struct Witnesses {
    /// CR1. At most `most_witnesses`, in the order of when their pages entered.
    pub(super) list: List,
    /// How many ended tests each speaks for.
    stride: u32,
    /// How many tests the limit has ended since one left a witness.
    skipped: u32,
    /// CR2. The witness that is used next if they are used in their order.
    expected: Option<u32>,
}

impl Witnesses {
    pub(super) fn new() -> Self {
        Self { list: List::new(), stride: 1, skipped: 0, expected: None }
    }

    /// The limit has ended the test of a ghost that entered after all witnesses. Returns whether it becomes one.
    fn offer(&mut self, pages: &mut Nodes<Status>, page: u32) -> bool {
        if self.list.is_empty() {
            self.stride = 1;
        }
        self.skipped += 1;
        if self.skipped < self.stride {
            return false;
        }
        self.skipped = 0;
        pages[page] = Status::new(State::Witness);
        self.list.push_front(pages, page);
        true
    }

    pub(super) fn remove(&mut self, pages: &mut Nodes<Status>, page: u32) {
        if self.expected == Some(page) {
            self.expected = pages.towards_front(page);
        }
        self.list.remove(pages, page);
        pages[page] = Status::default();
    }

    /// A witness is used, and is none any more. Returns whether it was the next in order.
    fn use_again(&mut self, pages: &mut Nodes<Status>, page: u32) -> bool {
        let in_order = self.expected.or(self.list.back()) == Some(page);
        self.expected = Some(page);
        self.remove(pages, page);
        in_order
    }

    /// Drops every other witness, the oldest first.
    fn thin<C: Caller>(&mut self, pages: &mut Nodes<Status>, caller: &mut C) {
        let mut next = self.list.back();
        while let Some(page) = next {
            next = pages.towards_front(page).and_then(|kept| pages.towards_front(kept));
            self.remove(pages, page);
            caller.forget(page);
        }
        self.stride = self.stride.saturating_mul(2);
    }

    pub(super) fn check(&self, pages: &Nodes<Status>) {
        self.list.check(pages);
        assert!(self.list.back_to_front(pages).all(|page| pages[page].state == State::Witness)); // CR1
        assert!(self.expected.is_none_or(|page| pages[page].state == State::Witness)); // CR2
    }
}

impl ClockPro {
    pub(super) fn most_witnesses(&self) -> u32 {
        if self.recovery { self.capacity / WITNESSES } else { 0 }
    }

    /// HAND_test: ends the oldest tests while there are more ghosts than the witnesses leave places for.
    pub(super) fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        let most_witnesses = self.most_witnesses();
        while self.witnesses.list.len() > most_witnesses {
            self.witnesses.thin(&mut self.status, caller);
        }
        while self.ghosts + most_witnesses > self.capacity {
            let page = self.tests.back().expect("a ghost is in test");
            if self.end_test(page) {
                continue;
            }
            self.ended += 1;
            if most_witnesses == 0 || !self.witnesses.offer(&mut self.status, page) {
                caller.forget(page);
            } else if self.witnesses.list.len() > most_witnesses {
                self.witnesses.thin(&mut self.status, caller);
            }
        }
        if most_witnesses > 0 && self.ended > self.capacity / 2 {
            self.look(caller);
        }
    }

    /// A witness is used again. Returns whether the page is to be admitted hot; it is unknown until it is admitted.
    pub(super) fn witness_used<C: Caller>(&mut self, page: u32, caller: &mut C) -> bool {
        if u32::MAX - self.now <= self.hot.len() {
            // What follows compares `since` with what enters.
            self.enter_anew();
        }
        let since = self.entered[page as usize];
        let in_order = self.witnesses.use_again(&mut self.status, page);
        let wanted = if in_order { self.witnesses.stride.min(self.hot.len() / GROUP).max(1) } else { 1 };
        while let Some(tail) = self.hot.back() {
            if self.hot.len() + wanted <= self.hot_target() || self.entered[tail as usize] > since {
                break;
            }
            self.steps += 1;
            if self.used_after(tail, since) {
                self.spare(tail, caller);
            } else {
                self.turn_cold(tail);
            }
        }
        self.stop_at_hot(caller);
        let room = self.hot_target().saturating_sub(self.hot.len()).min(wanted);
        if in_order {
            self.group = room.saturating_sub(1);
        }
        room > 0
    }

    /// Whether a hot page may have been used after that time.
    fn used_after(&self, page: u32, since: u32) -> bool {
        let Status { referenced, seen, .. } = self.status[page];
        referenced || seen > 0 && self.looks[usize::from(seen) - 1] > since
    }

    /// Clears the bits of the hot pages, and keeps by which look each was used.
    fn look<C: Caller>(&mut self, caller: &mut C) {
        self.ended = 0;
        self.looks.rotate_right(1);
        self.looks[0] = self.now;
        let mut next = self.hot.back();
        while let Some(page) = next {
            self.steps += 1;
            next = self.status.towards_front(page);
            let status = &mut self.status[page];
            if std::mem::take(&mut status.referenced) {
                status.seen = 1;
                caller.await_use(page);
            } else if status.seen > 0 {
                status.seen = (status.seen + 1).min(LOOKS as u8);
            }
        }
    }
}
