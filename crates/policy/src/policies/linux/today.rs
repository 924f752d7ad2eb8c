//! Today's kernel, without multi-generational LRU: `mm/vmscan.c`, `mm/swap.c` and `mm/workingset.c` of Linux 6.18, for a control group whose limit is reached.
//!
//! - **A page that was evicted leaves a shadow entry**, with the age that the cache had then (`workingset_eviction`). The age grows by one for each page that is evicted or
//!   becomes active. When the page comes back, the difference is its *refault distance*. If that is no more than the pages of the active list, the page would have been
//!   hit with so much more room, and becomes active at once (`workingset_refault`).
//! - `access=file`: a page needs two uses to become active, the one that brought it included (`folio_mark_accessed`). A page that leaves the active list keeps its
//!   bit: one that was used while it was active needs only one use more.
//! - `access=process`: the fault sets the hardware's bit. At the tail of the inactive list a page whose bit is set goes back to the head once, and becomes active if
//!   the bit is set again by then (`folio_check_references`).
//! - **Active pages leave their list in order, used or not** (`shrink_active_list`), for each inactive page that is looked at as many as there are active pages for one
//!   inactive. They do so in a reclaim of 32 pages before which a refault has made a page active, or in which the inactive list is too short
//!   (`inactive_is_low`): shorter than the active one below 1 GiB, and in larger caches shorter than its part by the root of 10 for each GiB.
//!
//! Where this departs from the kernel:
//!
//! - Folios are of one page, unless the caller joins pages, and always with `access=process`. None waits in the batches of a processor.
//! - A reclaim evicts its 32 pages one by one, as room is needed.
//! - The limits are those of one kind of pages: files or a program's memory.
//! - Pages of programs' text get no chance more than others.
//! - There are as many shadow entries as can make a page active. The kernel keeps older ones, too, which say nothing.

use super::folios::Folios;
use super::{Flags, Kernel, Linux, Place};
use crate::parts::list::List;
use crate::policy::{AllRefused, Caller, Reference};
use forebay_basis::Operation;

/// `SWAP_CLUSTER_MAX`.
const RECLAIM: u32 = 32;
/// Pages of 4 KiB in a GiB.
const GIB: u64 = 1 << 18;

/// What is remembered of evicted pages, and how the next are found.
#[derive(Debug)]
pub(super) struct Workingset {
    /// Shadow entries, the newest at the front.
    pub(super) shadows: List,
    /// By page, the age when it was evicted. Ages are compared by differences: a shadow entry is forgotten as soon as its own is above the capacity.
    evicted_at: Vec<u32>,
    age: u32,
    /// Pages that became active as they came back, since the last reclaim began.
    refaults: u32,
    /// Pages that the reclaim has yet to evict, and whether active pages leave their list in it.
    left: u32,
    deactivates: bool,
    /// Active pages still to be looked at: a fraction, or negative where a folio had more than were due.
    due: f64,
    pub(super) folios: Folios,
}

impl Workingset {
    pub(super) fn new(pages: u32) -> Self {
        let evicted_at = vec![0; pages as usize];
        let folios = Folios::default();
        Self { shadows: List::new(), evicted_at, age: 0, refaults: 0, left: 0, deactivates: false, due: 0.0, folios }
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        if self.evicted_at.len() < pages as usize {
            self.evicted_at.resize(pages as usize, 0);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.evicted_at.capacity() * size_of::<u32>() + self.folios.bytes()
    }

    /// How many pages were evicted or became active since this one was evicted.
    fn distance(&self, page: u32) -> u32 {
        self.age.wrapping_sub(self.evicted_at[page as usize])
    }

    /// The active pages to look at for an inactive one.
    fn active_for_one(&mut self, active: u32, inactive: u32) -> u32 {
        if !self.deactivates {
            return 0;
        }
        let due = self.due + f64::from(active) / f64::from(inactive.max(1));
        self.due = if due < 0.0 { due } else { due.fract() };
        (due as u32).min(active)
    }

    /// A reclaim begins, unless one goes on (`prepare_scan_control`).
    fn begin(&mut self, active: u32, inactive: u32) {
        if self.left == 0 {
            self.left = RECLAIM;
            self.deactivates = std::mem::take(&mut self.refaults) > 0 || is_low(active, inactive);
        }
        self.left -= 1;
    }
}

/// `inactive_is_low`.
fn is_low(active: u32, inactive: u32) -> bool {
    let gib = (u64::from(active) + u64::from(inactive)) / GIB;
    let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
    u64::from(inactive) * ratio < u64::from(active)
}

impl Linux {
    /// The other pages of its folio.
    fn others(&self, page: u32) -> Vec<u32> {
        if let Kernel::Today(workingset) = &self.kernel { workingset.folios.others(page).collect() } else { Vec::new() }
    }

    pub(super) fn use_today(&mut self, page: u32) {
        let Flags { place, referenced, .. } = self.nodes[page];
        let activates = self.by_calls && place == Place::Inactive && referenced;
        for page in std::iter::once(page).chain(self.others(page)) {
            if activates { self.activate(page) } else { self.set_bit(page) }
        }
    }

    /// Pages become one folio: active, if one of them came back in time, and used, if one of them was.
    pub(super) fn join_today(&mut self, pages: &[u32]) {
        let is_active = pages.iter().any(|&page| self.nodes[page].place == Place::Active);
        let referenced = pages.iter().any(|&page| self.nodes[page].referenced);
        for &page in pages {
            let is_other = is_active && self.nodes[page].place != Place::Active;
            self.transfer(page, if is_active { Place::Active } else { Place::Inactive });
            self.nodes[page].referenced = referenced;
            if let (Kernel::Today(workingset), true) = (&mut self.kernel, is_other) {
                workingset.age = workingset.age.wrapping_add(1);
            }
        }
        if let Kernel::Today(workingset) = &mut self.kernel {
            workingset.folios.join(pages);
        }
    }

    /// `filemap_add_folio`, and the use for which the page is read.
    pub(super) fn admit_today(&mut self, reference: &Reference) {
        let page = reference.page;
        let is_shadow = self.nodes[page].place == Place::Shadow;
        let active = self.active.len();
        let recent = match &mut self.kernel {
            Kernel::Today(workingset) => is_shadow && workingset.distance(page) <= active,
            Kernel::Old(_) => false,
        };
        self.leave(page);
        self.enter(page, if recent { Place::Active } else { Place::Inactive });
        if let (Kernel::Today(workingset), true) = (&mut self.kernel, recent) {
            workingset.age = workingset.age.wrapping_add(1);
            workingset.refaults += 1;
        }
        if reference.operation != Operation::Readahead {
            self.set_bit(page);
        }
    }

    /// `shrink_inactive_list`, and `shrink_active_list` as it is due, until one page is evicted.
    pub(super) fn evict_today<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let (active, inactive) = (self.active.len(), self.inactive.len());
        if let Kernel::Today(workingset) = &mut self.kernel {
            workingset.begin(active, inactive);
        }
        // Each page of the inactive list goes to its head once, for its bit, and is made active or offered, twice at the most.
        let mut refused = 0;
        loop {
            let (active, inactive) = (self.active.len(), self.inactive.len());
            let due = if let Kernel::Today(workingset) = &mut self.kernel {
                workingset.active_for_one(active, inactive)
            } else {
                0
            };
            let due = due.max(u32::from(inactive == 0 && active > 0));
            if due > 0 {
                self.deactivate(due, caller);
                // Those that were refused are before these now.
                refused = 0;
            }
            if refused == self.inactive.len() {
                break;
            }
            let page = self.inactive.back().expect("there are more inactive pages than refused ones");
            self.steps += 1;
            if std::mem::take(&mut self.nodes[page].young) {
                caller.await_use(page);
                if self.nodes[page].referenced {
                    self.activate(page);
                    self.nodes[page].referenced = true;
                } else {
                    self.nodes[page].referenced = true;
                    self.inactive.move_to_front(&mut self.nodes, page);
                    refused = 0;
                }
            } else if caller.evict(page) {
                self.evicted(page, caller);
                return Ok(());
            } else {
                self.inactive.move_to_front(&mut self.nodes, page);
                refused += 1;
            }
        }
        let victim = self.evict_active(caller)?;
        self.evicted(victim, caller);
        Ok(())
    }

    /// A page was evicted: those of its folio leave with it, and are looked at as it was.
    fn evicted<C: Caller>(&mut self, page: u32, caller: &mut C) {
        let others = self.others(page);
        self.remember(page, caller);
        for other in others {
            if !caller.evict(other) {
                continue;
            }
            self.remember(other, caller);
            let (active, inactive) = (self.active.len(), self.inactive.len());
            if let Kernel::Today(workingset) = &mut self.kernel {
                workingset.left = workingset.left.saturating_sub(1);
                let due = workingset.active_for_one(active, inactive);
                self.deactivate(due, caller);
            }
        }
    }

    fn activate(&mut self, page: u32) {
        self.transfer(page, Place::Active);
        if let Kernel::Today(workingset) = &mut self.kernel {
            workingset.age = workingset.age.wrapping_add(1);
        }
    }

    /// `shrink_active_list` for `due` pages; they keep their referenced bits. A folio leaves whole, so more may go: the excess is owed.
    fn deactivate<C: Caller>(&mut self, due: u32, caller: &mut C) {
        let mut looked_at = 0;
        while looked_at < due
            && let Some(oldest) = self.active.back()
        {
            for page in std::iter::once(oldest).chain(self.others(oldest)) {
                let Flags { referenced, .. } = self.nodes[page];
                self.transfer(page, Place::Inactive);
                self.nodes[page].referenced = referenced;
                caller.await_use(page);
                looked_at += 1;
            }
        }
        self.steps += u64::from(looked_at);
        if let Kernel::Today(workingset) = &mut self.kernel {
            workingset.due -= f64::from(looked_at.saturating_sub(due));
        }
    }

    /// `workingset_eviction`.
    fn remember<C: Caller>(&mut self, page: u32, caller: &mut C) {
        self.transfer(page, Place::Shadow);
        if let Kernel::Today(workingset) = &mut self.kernel {
            workingset.folios.part(page);
            workingset.evicted_at[page as usize] = workingset.age;
            workingset.age = workingset.age.wrapping_add(1);
        }
        self.forget_shadows(caller);
    }

    /// Forgets shadow entries that can make no page active.
    pub(super) fn forget_shadows<C: Caller>(&mut self, caller: &mut C) {
        while let Kernel::Today(workingset) = &self.kernel
            && let Some(page) = workingset.shadows.back().filter(|&page| workingset.distance(page) > self.capacity)
        {
            self.leave(page);
            caller.forget(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Caller, Policy, Reference, Setup, Spec};
    use forebay_basis::Operation;

    #[derive(Default)]
    struct Evicted(Vec<u32>);

    impl Caller for Evicted {
        fn evict(&mut self, page: u32) -> bool {
            self.0.push(page);
            true
        }

        fn forget(&mut self, _: u32) {}
    }

    fn policy(capacity: u32) -> super::Linux {
        let spec = Spec::parse("linux:kernel=6").expect("there is such a policy");
        super::Linux::new(&Setup::new(capacity, 100, spec.settings))
    }

    #[test]
    fn a_folio_is_evicted_whole_and_used_as_one() {
        let mut policy = policy(8);
        let mut caller = Evicted::default();
        for page in 0..8 {
            let read_ahead = Reference { operation: Operation::Readahead, ..Reference::of(page) };
            policy.miss(&read_ahead, &mut caller).expect("nothing is refused");
        }
        policy.join(&[0, 1, 2, 3]);
        policy.join(&[4, 5, 6, 7]);
        policy.miss(&Reference::of(8), &mut caller).expect("nothing is refused");
        assert_eq!((std::mem::take(&mut caller.0), policy.len()), (vec![0, 1, 2, 3], 5));
        // Two uses of the other folio make all of it active.
        policy.first_use(&Reference::of(5), &mut caller);
        policy.hit(&Reference::of(7));
        for page in 9..20 {
            policy.miss(&Reference::of(page), &mut caller).expect("nothing is refused");
        }
        assert!((4..8).all(|page| policy.contains(page)), "{:?}", caller.0);
        policy.check_invariants();
        policy.remove(5, &mut caller);
        policy.check_invariants();
        assert_eq!([4, 5, 6, 7].map(|page| policy.contains(page)), [true, false, true, true]);
    }
}
