//! The kernel 2.4.
//!
//! On the inactive list a page's referenced bit is always set where `access=file`, by the read that brought the page in or by `refill_inactive`: so the next
//! use makes the page active, with its bit clear.
//!
//! For each victim `refill_inactive` takes `active / (ratio * (inactive + 1))` pages from the tail of the active list
//! to the head of the inactive one, sparing pages whose bit is set: these return to the head with the bit clear. At the
//! default ratio of 2 the active list tends to two thirds of the memory, the kernel's aim; the less the inactive list
//! holds, the faster it is refilled.
//!
//! Where this departs from the kernel:
//!
//! - The kernel frees 32 pages at a time and rounds the pages to refill down. Here one page is freed, and the fractions
//!   add up.
//! - The first use of a mapped page, the fault itself, does not set its bit: otherwise every new page would get a
//!   second chance.
//! - 2.6 demotes a page with its bit clear, so that it takes two uses to become active again: not here.
//! - One zone, no process scanning, no dirty pages: the caller refuses these.

use super::{Kernel, Linux, Place};
use crate::policy::{AllRefused, Caller};

/// How the active list gives pages to the inactive one.
#[derive(Debug)]
pub(super) struct Refill {
    /// LO1. The part of a page that is still to be refilled, below 1.
    due: f64,
    ratio: f64,
}

impl Refill {
    pub(super) fn new(ratio: f64) -> Self {
        Self { due: 0.0, ratio }
    }

    pub(super) fn check(&self) {
        assert!((0.0..1.0).contains(&self.due)); // LO1
    }

    /// The pages to take for a victim.
    fn pages(&mut self, active: u32, inactive: u32) -> u32 {
        let due = self.due + f64::from(active) / (self.ratio * f64::from(inactive + 1));
        self.due = due.fract();
        (due as u32).min(active)
    }
}

impl Linux {
    pub(super) fn use_old(&mut self, page: u32) {
        if self.by_calls && self.nodes[page].place == Place::Inactive {
            self.transfer(page, Place::Active);
        } else {
            self.nodes[page].referenced = true;
        }
    }

    /// `shrink_caches` for one page: `refill_inactive` and `shrink_cache`.
    pub(super) fn evict_old<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let (active, inactive) = (self.active.len(), self.inactive.len());
        let due = if let Kernel::Old(refill) = &mut self.kernel { refill.pages(active, inactive) } else { 0 };
        for _ in 0..due {
            self.deactivate_unused(caller);
        }
        // Each page of the inactive list is made active, or offered once.
        let mut refused = 0;
        loop {
            if self.inactive.is_empty() && !self.active.is_empty() {
                self.deactivate_unused(caller);
            }
            if refused == self.inactive.len() {
                break;
            }
            let page = self.inactive.back().expect("there are more inactive pages than refused ones");
            self.steps += 1;
            if self.nodes[page].referenced {
                self.transfer(page, Place::Active);
                caller.await_use(page);
            } else if caller.evict(page) {
                self.leave(page);
                caller.forget(page);
                return Ok(());
            } else {
                self.inactive.move_to_front(&mut self.nodes, page);
                refused += 1;
            }
        }
        let victim = self.evict_active(caller)?;
        self.leave(victim);
        caller.forget(victim);
        Ok(())
    }

    /// `refill_inactive` for one page.
    fn deactivate_unused<C: Caller>(&mut self, caller: &mut C) {
        loop {
            let page = self.active.back().expect("the active list is not empty");
            self.steps += 1;
            if !self.nodes[page].referenced {
                return self.transfer(page, Place::Inactive);
            }
            caller.await_use(page);
            self.transfer(page, Place::Active);
        }
    }
}
