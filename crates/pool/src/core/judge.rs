//! The pool's word on a policy's victims.

use crate::core::page::{Pages, Wake};
use crate::core::slots::Slots;
use crate::core::waiters::Waiters;
use forebay_policy::Caller;
use std::ops::Range;

/// What happens to pages while the policy is asked, under the replacer's lock.
pub(crate) struct Judge<'a> {
    pub(crate) pages: &'a Pages,
    pub(crate) slots: &'a Slots,
    pub(crate) waiters: &'a Waiters,
    /// Dirty pages that may still go to the laundry.
    pub(crate) laundry_room: u32,
    /// The page that is being admitted or dropped: its number is kept even if its ghost is forgotten.
    pub(crate) admitted: Option<u32>,
    /// Blocks of an object: what of them was read ahead and not used stays.
    pub(crate) sheltered: &'a (u32, Range<u64>),
    /// The pages' numbers by those that the policy has for them; empty if they are the same.
    pub(crate) numbers: &'a [u32],
    /// Whether anybody asks which pages the policy waits to see used.
    pub(crate) awaits: bool,
    pub(crate) events: &'a mut Events,
}

/// What has happened to pages, in reused buffers.
#[derive(Default)]
pub(crate) struct Events {
    /// Pages that have left their frames.
    pub(crate) left: Vec<u32>,
    /// Pages that went to the laundry.
    pub(crate) laundered: Vec<u32>,
    /// Pages whose number may stand for another.
    pub(crate) forgotten: Vec<u32>,
    /// Pages that were refused because the policy did not know of their last use.
    pub(crate) in_use: Vec<u32>,
    /// Pages that the policy waits to see used again, and perhaps some that have left since.
    pub(crate) awaited: Vec<u32>,
    /// The ghost of the admitted page was forgotten.
    pub(crate) forgot_admitted: bool,
    /// Pages evicted, of those read ahead and never used, and victims refused because they were dirty.
    pub(crate) evicted: u64,
    pub(crate) wasted: u64,
    pub(crate) refused_dirty: u64,
}

impl Judge<'_> {
    /// Asks a policy that has numbers of its own for its pages.
    pub(crate) fn named<T>(&mut self, numbers: &[u32], ask: impl FnOnce(&mut Judge<'_>) -> T) -> T {
        let mut judge = Judge { numbers, events: self.events, ..*self };
        let answer = ask(&mut judge);
        self.laundry_room = judge.laundry_room;
        answer
    }

    fn number(&self, of_policy: u32) -> u32 {
        self.numbers.get(of_policy as usize).copied().unwrap_or(of_policy)
    }
}

impl Caller for Judge<'_> {
    fn evict(&mut self, page: u32) -> bool {
        let number = self.number(page);
        let page = self.pages.get(number);
        if page.begin_exclusive(page.object(), page.block()).is_err() {
            return false;
        }
        if page.used() || page.in_use(number, self.slots) {
            if page.used() {
                page.clear_used();
                self.events.in_use.push(number);
            }
            self.waiters.wake(number, page.end_exclusive());
            return false;
        }
        let state = page.state();
        let (object, blocks) = self.sheltered;
        if state.ahead() && page.object() == *object && blocks.contains(&page.block()) {
            self.waiters.wake(number, page.end_exclusive());
            return false;
        }
        if state.dirty() || state.in_writeback() {
            let room = self.laundry_room > 0;
            if room {
                self.laundry_room -= 1;
                page.launder();
                self.events.laundered.push(number);
            } else {
                self.events.refused_dirty += 1;
            }
            self.waiters.wake(number, page.end_exclusive());
            self.events.evicted += u64::from(room);
            return room;
        }
        self.events.wasted += u64::from(state.ahead());
        self.events.left.push(number);
        self.events.evicted += 1;
        let wake: Wake = page.unbind();
        self.waiters.wake(number, wake);
        true
    }

    fn forget(&mut self, page: u32) {
        let number = self.number(page);
        if self.admitted == Some(number) {
            self.events.forgot_admitted = true;
        } else if self.pages.get(number).state().in_laundry() {
            self.pages.get(number).forget();
        } else {
            self.events.forgotten.push(number);
        }
    }

    fn await_use(&mut self, page: u32) {
        if self.awaits {
            self.events.awaited.push(self.number(page));
        }
    }
}
