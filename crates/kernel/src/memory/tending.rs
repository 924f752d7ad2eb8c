//! Which processes are steered, how much memory they have, and whether faults were lost.

use super::duel::{Chooser, Duel};
use super::lists;
use super::look::Where;
use super::paging::{Events, FEW, MANY, State};
use crate::later::Later;
use crate::scopes::{members, within};
use crate::steered::PAGE;
use forebay_basis::show_bytes;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Processes have freed much if a part in this many of the size, and more than the kernel's count of pages is wrong by. More processes are not asked each time.
const FREED: u64 = 64;
const FEWEST_FREED: u64 = 256;
const MOST_ASKED: usize = 32;
/// How often the kernel is to know how long its lists are at most.
const REFRESH: Duration = Duration::from_millis(20);
/// The warning that programs themselves leave no room comes when this many looks in a row have found so.
const LONG: u32 = 10;

impl State {
    /// Whether steered processes have freed so much that no page needs to leave. The kernel sends no event of that, so it is asked how much they have.
    pub(super) fn has_freed(&mut self) -> bool {
        let (size, expected) = (self.budget.pages(), self.steered.residents().there() + self.counts.others);
        if expected + self.steered.beside() + size / FREED < size || self.spaces.len() > MOST_ASKED {
            return false;
        }
        self.spaces.read_resident() + (size / FREED).max(FEWEST_FREED) < expected
    }

    /// A process is steered from now on, with all that it has.
    pub(super) fn hold(&mut self, process: u32) -> Option<u32> {
        let held = self.spaces.hold(&self.steered, process);
        let object = held.inspect_err(|error| tracing::trace!("process {process}: {error}")).ok()?;
        self.look_at(object, Where::All);
        self.spaces.find(process)
    }

    /// Has the one choose whose turn it is, if there are turns: where a limit keeps the size while the kernel chooses.
    pub(super) fn take_turns(&mut self, now: Instant) {
        if !(self.turns && (self.limit.is_some() || self.follows())) {
            self.duel = None;
            return self.let_choose(Chooser::Policy);
        }
        // Each process is asked what it has done. Where there was no fault since then, none has waited.
        let faults = self.counts.faults;
        if self.duel.as_ref().is_some_and(|duel| !duel.may_end(now) || self.worked_at == faults) {
            return;
        }
        self.worked_at = faults;
        let work = self.spaces.read_work();
        let duel = self.duel.get_or_insert_with(|| Duel::new(work, now));
        let chooser = duel.go_on(work, self.budget.asked(), now);
        self.let_choose(chooser);
    }

    /// From now on the policy has pages leave, or the kernel alone does.
    pub(super) fn let_choose(&mut self, chooser: Chooser) {
        if chooser == self.chooser {
            return;
        }
        tracing::debug!("from now on {chooser} chooses");
        match chooser {
            Chooser::Kernel => {
                self.later = Later::default();
                // What the kernel takes is no reason for a smaller size now.
                self.budget.ask(self.budget.asked());
            }
            // What the policy would have let go is its own again before it chooses.
            Chooser::Policy => self.look(Where::All),
        }
        self.chooser = chooser;
        self.set_limit();
    }

    /// Brings the limit of a group of its own in line with the size, and with who chooses.
    pub(super) fn set_limit(&self) {
        if let Some(set) = &self.limit {
            set(self.budget.asked(), self.chooser);
        }
    }

    /// A process is not steered any more.
    pub(super) fn forget(&mut self, object: u32) {
        self.spaces.remove(self.steered.pool(), object);
        self.steered.forget(object);
        self.fresh.retain(|(of, _), _| *of != object);
    }

    /// Has the kernel know how long its lists are, if programs have asked for pages.
    pub(super) fn refresh(&mut self, events: &Events, now: Instant) {
        if self.faulted && now.saturating_duration_since(self.refreshed) >= REFRESH {
            (self.faulted, self.refreshed) = (false, now);
            lists::refresh(&events.groups);
        }
    }

    /// Looks which processes there are, and whether faults were lost.
    pub(super) fn tend(&mut self, events: &mut Events, now: Instant) {
        if self.chooser == Chooser::Kernel {
            self.counts.kernel_chose += now.saturating_duration_since(self.tended);
        }
        self.tended = now;
        if !self.observe {
            self.refresh(events, now);
        }
        let mut there = HashSet::new();
        for group in events.groups.iter().flat_map(|group| within(group)) {
            there.extend(members(&group));
            if let Ok(found) = fs::metadata(&group)
                && let Err(error) = events.faults.follow(found.ino())
            {
                tracing::debug!("{}: its faults are not seen: {error}", group.display());
            }
        }
        for object in self.spaces.objects() {
            if self.spaces.get(object).is_some_and(|space| !there.contains(&space.process.number)) {
                self.forget(object);
            }
        }
        for process in there {
            if self.spaces.find(process).is_none() {
                self.hold(process);
            }
        }
        // Both are counted at once: a moment later other pages may be there.
        let resident = self.spaces.read_resident();
        self.counts.others = resident.saturating_sub(self.steered.residents().there());
        // What is more than before may be memory that was moved to where nobody looks.
        let more = self.counts.others.saturating_sub(self.others) > (self.budget.pages() / MANY).max(FEW);
        if more && self.epoch.may_end(now) {
            self.look(Where::All);
            self.others = resident.saturating_sub(self.steered.residents().there());
            self.counts.others = self.others;
        }
        self.others = self.others.min(self.counts.others);
        // The pages of a process that ends are counted as such for a moment.
        self.small_for = if self.counts.others >= self.budget.pages() { self.small_for + 1 } else { 0 };
        if self.small_for == LONG && !self.observe && !std::mem::replace(&mut self.said_small, true) {
            let [others, size] = [self.counts.others, self.budget.pages()].map(|pages| show_bytes(pages * PAGE));
            tracing::warn!("programs and libraries themselves take {others} of {size}, and do not leave: give more");
        }
        self.own = own_pages();
        self.take_turns(now);
        let lost = events.faults.lost();
        if std::mem::replace(&mut self.lost, lost) < lost {
            tracing::debug!("faults were lost: all memory is looked at");
            self.look(Where::All);
        }
        self.counts.lost = lost + self.gone;
        self.counts.memory = events.faults.memory() + self.machine.memory() + self.bytes();
    }

    fn bytes(&self) -> u64 {
        (self.steered.residents().bytes() + self.fresh.capacity() * size_of::<((u32, u64), u64)>()) as u64
    }
}

/// Pages of memory that this process has, and no other.
fn own_pages() -> u64 {
    let counts = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut counts = counts.split(' ').skip(1).map(|count| count.parse().unwrap_or(0));
    let (resident, shared): (u64, u64) = (counts.next().unwrap_or(0), counts.next().unwrap_or(0));
    resident.saturating_sub(shared)
}
