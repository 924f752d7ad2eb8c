//! OPT, Belady's MIN: the page whose next use is farthest in the future is the victim. No policy has fewer misses.
//!
//! L. A. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5(2), 1966;
//! R. L. Mattson et al., IBM Systems Journal 9(2), 1970, for the proof.
//!
//! The next uses of the resident pages are a set of points in time, no two alike, whose latest is found in a few steps. A page
//! that is never used again goes before all others. A miss always admits its page, as a buffer cache must.
//! A refused victim keeps its place, and the one used next before it is offered.
//!
//! Reference figures: `golden/exact-hits.csv`, column OPT, equal to the hit; the OPT columns of CLOCK-Pro's Tables 1 and 2 and
//! of ARC's OLTP table. Deviations: none. Parameters: none.
//! Memory: 12 bytes a page (two links, the next use), and about 1 bit a reference.

use crate::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Future, Info, NEVER, Policy, Reference, Setup, Uses};
use crate::time_set::TimeSet;
use std::marker::PhantomData;
use std::sync::Arc;

/// Belady's optimal replacement.
pub type Opt = OffLine<Farthest>;

/// Which next use makes a page the victim.
pub trait Order: Send + 'static {
    /// What is known of the policy.
    const INFO: Info;
    /// Whether the victim is the page used latest, and not the one used soonest.
    const FARTHEST: bool;
}

/// The farthest next use.
#[derive(Debug)]
pub struct Farthest;

impl Order for Farthest {
    const INFO: Info = Info {
        name: "opt",
        title: "the optimum, Belady's MIN",
        paper: "L. A. Belady, A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 5(2), 1966",
        parameters: &[],
        uses: Uses::PAGE,
        off_line: true,
        ghosts: 0,
        bytes_per_page: 12,
    };
    const FARTHEST: bool = true;
}

/// A policy that knows the references to come and chooses its victims by their next use.
#[derive(Debug)]
pub struct OffLine<O> {
    future: Arc<Future>,
    /// References so far.
    now: u32,
    /// O1. A resident page is in `never` if it is not used again; otherwise its value, the next use, is in `next_uses`.
    nodes: Nodes<NextUse>,
    never: List,
    next_uses: TimeSet,
    len: u32,
    capacity: u32,
    order: PhantomData<O>,
}

/// When a page is used next; `NEVER` also for a page that is not resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextUse(u32);

impl Default for NextUse {
    fn default() -> Self {
        Self(NEVER)
    }
}

impl<O: Order> Policy for OffLine<O> {
    const INFO: Info = O::INFO;

    fn new(setup: &Setup) -> Self {
        let future = setup.future.clone().expect("an off-line policy is given the future");
        Self {
            now: 0,
            nodes: Nodes::new(setup.pages),
            never: List::new(),
            next_uses: TimeSet::new(future.len()),
            len: 0,
            capacity: setup.capacity,
            order: PhantomData,
            future,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes[page] != NextUse(NEVER) || self.nodes.is_linked(page)
    }

    fn hit(&mut self, reference: &Reference) {
        self.next_uses.remove(self.nodes[reference.page].0);
        self.use_now(reference.page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let room = if self.len == self.capacity { self.evict(caller) } else { Ok(()) };
        if room.is_err() {
            self.now += 1;
            return room;
        }
        self.len += 1;
        self.use_now(reference.page);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let by_time = |time| self.future.page(time);
        let never = self.never.back_to_front(&self.nodes);
        let victim = if O::FARTHEST {
            let latest = |end| self.next_uses.latest_before(end);
            let sooner = std::iter::successors(latest(self.future.len() as u32), |&time| latest(time)).map(by_time);
            offer(never.chain(sooner), caller)?
        } else {
            let earliest = |start| self.next_uses.earliest_from(start);
            let later = std::iter::successors(earliest(0), |&time| earliest(time + 1)).map(by_time);
            offer(later.chain(never), caller)?
        };
        self.drop_page(victim);
        caller.forget(victim);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.contains(page) {
            self.drop_page(page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("never again", f64::from(self.never.len()));
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes() + self.next_uses.bytes()
    }

    fn check_invariants(&self) {
        assert!(self.len <= self.capacity);
        self.never.check(&self.nodes);
        let mut resident = self.never.len();
        let mut time = self.next_uses.earliest_from(0);
        while let Some(next) = time {
            assert_eq!(self.nodes[self.future.page(next)], NextUse(next)); // O1
            resident += 1;
            time = self.next_uses.earliest_from(next + 1);
        }
        assert_eq!(resident, self.len); // O1
    }
}

impl<O: Order> OffLine<O> {
    fn use_now(&mut self, page: u32) {
        debug_assert_eq!(self.future.page(self.now), page, "the run departs from the future that was told");
        let next = self.future.next(self.now);
        self.now += 1;
        self.nodes[page] = NextUse(next);
        match next {
            NEVER => self.never.push_front(&mut self.nodes, page),
            next => self.next_uses.insert(next),
        }
    }

    fn drop_page(&mut self, page: u32) {
        match std::mem::take(&mut self.nodes[page]).0 {
            NEVER => self.never.remove(&mut self.nodes, page),
            next => self.next_uses.remove(next),
        }
        self.len -= 1;
    }
}
