//! OPT, Belady's MIN: the page whose next use is farthest in the future is the victim. No policy has fewer misses.
//!
//! L. A. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5(2), 1966;
//! R. L. Mattson et al., IBM Systems Journal 9(2), 1970, for the proof.
//!
//! The next uses of the resident pages are a set of points in time, no two alike, whose latest is found in a few steps. A page
//! that is never used again goes before all others: to each such page belongs a point of its own after the end of the run.
//! A miss always admits its page, as a buffer cache must. A refused victim keeps its place, and the one used next before it is
//! offered.
//!
//! Reference figures: `golden/exact-hits.csv`, column OPT, equal to the hit; the OPT columns of CLOCK-Pro's Tables 1 and 2 and
//! of ARC's OLTP table. Deviations: none. Parameters: none.
//! Memory: 8 bytes a page (the next use; which page it is that is never used again), and about 1 bit a reference.

use crate::drawing::{Drawing, Drawn, WORTH};
use crate::parts::prefetch::prefetch;
use crate::parts::time_set::TimeSet;
use crate::policy::{AllRefused, Caller, Future, Info, NEVER, Policy, Reference, Setup, Uses};
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
        bytes_per_page: 9,
        ..Info::PLAIN
    };
    const FARTHEST: bool = true;
}

/// How many references ahead the set of next uses is asked to fetch what will be inserted.
const AHEAD: u32 = 16;

/// A policy that knows the references to come and chooses its victims by their next use.
#[derive(Debug)]
pub struct OffLine<O> {
    future: Arc<Future>,
    /// References so far.
    now: u32,
    /// OP1. A page that was referenced has its next use here, or a point of its own from the end of the run on if it is not used
    /// again; any other page has `NEVER`. It is resident if and only if that point is in `resident`.
    next_uses: Vec<u32>,
    resident: TimeSet,
    /// OP2. No point in `resident` is later.
    latest: u32,
    /// The pages that are not used again, by their last use.
    finished: Vec<u32>,
    len: u32,
    capacity: u32,
    order: PhantomData<O>,
}

impl<O: Order> Policy for OffLine<O> {
    const INFO: Info = O::INFO;

    fn new(setup: &Setup) -> Self {
        let future = setup.future.clone().expect("an off-line policy is given the future");
        Self {
            now: 0,
            next_uses: vec![NEVER; setup.pages as usize],
            resident: TimeSet::new(future.len() + future.pages() as usize),
            latest: 0,
            finished: Vec::with_capacity(future.pages() as usize),
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

    #[inline]
    fn contains(&self, page: u32) -> bool {
        self.resident.contains(self.next_uses[page as usize])
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        prefetch(&self.next_uses, page as usize);
    }

    #[inline]
    fn hit(&mut self, reference: &Reference) {
        self.resident.remove(self.next_uses[reference.page as usize]);
        self.use_now(reference.page);
    }

    #[inline]
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

    #[inline]
    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let offered = |time: &u32| caller.evict(self.page(*time));
        let time = if O::FARTHEST {
            let latest = self.resident.latest_before(self.latest + 1);
            let time = std::iter::successors(latest, |&time| self.resident.latest_before(time)).find(offered);
            self.latest = latest.unwrap_or(0);
            time
        } else {
            let soonest = self.resident.earliest_from(self.now);
            std::iter::successors(soonest, |&time| self.resident.earliest_from(time + 1)).find(offered)
        };
        let time = time.ok_or(AllRefused)?;
        self.resident.remove(time);
        self.len -= 1;
        caller.forget(self.page(time));
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.contains(page) {
            self.resident.remove(self.next_uses[page as usize]);
            self.len -= 1;
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        if pages as usize > self.next_uses.len() {
            self.next_uses.resize(pages as usize, NEVER);
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("never again", f64::from(self.resident.count_from(self.future.len() as u32)));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let mut resident: Vec<(u32, u32)> = (0..)
            .zip(&self.next_uses)
            .filter(|&(page, _)| self.contains(page))
            .map(|(page, &next)| (next, page))
            .collect();
        resident.sort_unstable_by_key(|&(next, _)| if O::FARTHEST { next } else { u32::MAX - next });
        let end = self.future.len() as u32;
        let drawn = |(next, page)| match next < end {
            true => Drawn::resident(page).number("next use", next + 1),
            false => Drawn::resident(page).state("not used again"),
        };
        drawing.row("queue by next use", WORTH, resident.into_iter().map(drawn));
    }

    fn bytes(&self) -> usize {
        (self.next_uses.capacity() + self.finished.capacity()) * size_of::<u32>() + self.resident.bytes()
    }

    fn check_invariants(&self) {
        assert!(self.len <= self.capacity);
        assert_eq!(self.resident.count_from(0), self.len);
        let mut next = self.resident.earliest_from(0);
        while let Some(time) = next {
            assert_eq!(self.next_uses[self.page(time) as usize], time); // OP1
            assert!(time <= self.latest); // OP2
            next = self.resident.earliest_from(time + 1);
        }
    }
}

impl<O: Order> OffLine<O> {
    /// The page whose next use that is.
    #[inline]
    fn page(&self, time: u32) -> u32 {
        let end = self.future.len() as u32;
        if time < end { self.future.page(time) } else { self.finished[(time - end) as usize] }
    }

    #[inline]
    fn use_now(&mut self, page: u32) {
        debug_assert_eq!(self.future.page(self.now), page, "the run departs from the future that was told");
        let next = match self.future.next(self.now) {
            NEVER => {
                self.finished.push(page);
                (self.future.len() + self.finished.len() - 1) as u32
            }
            next => next,
        };
        self.now += 1;
        self.next_uses[page as usize] = next;
        self.resident.insert(next);
        self.latest = self.latest.max(next);
        if self.now + AHEAD < self.future.len() as u32 {
            self.resident.prefetch(self.future.next(self.now + AHEAD));
        }
    }
}
