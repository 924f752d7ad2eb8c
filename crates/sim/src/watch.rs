//! What a run is asked besides its hits and misses.

use crate::readahead::Readahead;
use crate::replay::Stretch;
use crate::trace::Requests;
use forebay_model::{Model, SimulatedDevice};
use forebay_policy::{Operation, Place, Policy, Setup};

/// What to look at in a run; nothing by default, which costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Tell what the misses cost on this device.
    pub device: Option<Model>,
    /// What the program takes of its own for each reference, in milliseconds, while the device goes on.
    pub think_ms: f64,
    /// Read pages ahead, and tell what became of them.
    pub readahead: Readahead,
    /// Split hits and misses by temporal distance.
    pub distances: bool,
    /// Split hits and misses by owner.
    pub owners: bool,
    /// Take the policy's state so many times, at equal numbers of references apart; 0: only at the end.
    pub states: u32,
}

/// A policy's state after some references, each figure under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// How many references there were.
    pub references: u64,
    /// The figures.
    pub figures: Vec<(&'static str, f64)>,
}

impl Watch {
    pub(crate) fn anything(&self) -> bool {
        self.device.is_some() || !self.readahead.is_none() || self.distances || self.owners || self.states > 0
    }
}

/// Hits and misses by the temporal distance of their reference: the number of references since the page was used last. First uses
/// of a page are in neither. An LRU cache of C pages hits whenever the distance is below C (MQ's paper, section 5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByDistance {
    /// Hits at distances below the number of pages in the cache.
    pub near_hits: u64,
    /// Misses there.
    pub near_misses: u64,
    /// Hits at that distance and more.
    pub far_hits: u64,
    /// Misses there.
    pub far_misses: u64,
}

impl ByDistance {
    #[inline]
    pub(crate) fn count(&mut self, near: bool, hit: bool) {
        *match (near, hit) {
            (true, true) => &mut self.near_hits,
            (true, false) => &mut self.near_misses,
            (false, true) => &mut self.far_hits,
            (false, false) => &mut self.far_misses,
        } += 1;
    }
}

/// An owner's hits and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerCounts {
    /// Its references that hit.
    pub hits: u64,
    /// Its references that missed.
    pub misses: u64,
}

impl std::iter::Sum for OwnerCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, of| Self { hits: sum.hits + of.hits, misses: sum.misses + of.misses })
    }
}

/// Hits and misses by the number of their owner, and whose the present references are.
#[derive(Default)]
pub(crate) struct ByOwner {
    pub(crate) counts: Vec<OwnerCounts>,
    /// The first request of the stretch that starts behind the present reference.
    next_request: usize,
}

impl ByOwner {
    #[inline]
    fn count(&mut self, stretch: &Stretch<'_>, index: usize, hit: bool) {
        let Requests { first, owner, .. } = stretch.requests;
        while first.get(self.next_request).is_some_and(|&first| first as usize <= index) {
            self.next_request += 1;
        }
        let owner = self.next_request.checked_sub(1).map_or(0, |request| owner[request]) as usize;
        if owner >= self.counts.len() {
            self.counts.resize(owner + 1, OwnerCounts::default());
        }
        let OwnerCounts { hits, misses } = &mut self.counts[owner];
        *if hit { hits } else { misses } += 1;
    }
}

/// A policy's state.
pub(crate) fn state<P: Policy>(policy: &P) -> Vec<(&'static str, f64)> {
    let mut figures = Vec::new();
    policy.state(&mut |name, figure| figures.push((name, figure)));
    figures
}

/// "Not yet", in `Watcher::last`.
const NEVER: u64 = u64::MAX;

/// A run's answers so far.
pub(crate) struct Watcher {
    pub(crate) device: Option<SimulatedDevice>,
    /// The first request of the stretch that starts behind the present one.
    next_request: usize,
    /// How many references came before the present request, and before the device's time was set last.
    arrival: u64,
    thought: u64,
    think_ms: f64,
    /// Whether the present request has asked for anything, and whether it writes.
    asked: bool,
    write: bool,
    pub(crate) by_distance: Option<ByDistance>,
    pub(crate) by_owner: Option<ByOwner>,
    /// When each page was used last, if distances are asked for.
    last: Vec<u64>,
    capacity: u32,
    /// References between two states.
    interval: u64,
    references: u64,
    pub(crate) states: Vec<State>,
}

impl Watcher {
    /// `references` are all that there will be, where states are to be taken.
    pub(crate) fn new(watch: &Watch, references: u64, setup: &Setup) -> Self {
        let by_distance = watch.distances.then(ByDistance::default);
        let interval = match watch.states {
            0 => u64::MAX,
            states => references.div_ceil(u64::from(states)),
        };
        let mut watcher = Self {
            device: watch.device.as_ref().map(|model| SimulatedDevice::new(model, setup.page_size)),
            next_request: 0,
            arrival: 0,
            thought: 0,
            think_ms: watch.think_ms,
            asked: false,
            write: false,
            by_distance,
            by_owner: watch.owners.then(ByOwner::default),
            last: Vec::new(),
            capacity: setup.capacity,
            interval,
            references,
            states: Vec::new(),
        };
        watcher.reserve(setup.pages);
        watcher
    }

    /// Page numbers below `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        if self.by_distance.is_some() && pages as usize > self.last.len() {
            self.last.resize(pages as usize, NEVER);
        }
    }

    /// The warm-up is over: counts start at 0, but what the device and the distances know of the past stays.
    pub(crate) fn start_counting(&mut self) {
        if let Some(device) = &mut self.device {
            device.start_counting();
        }
        if let Some(by_distance) = &mut self.by_distance {
            *by_distance = ByDistance::default();
        }
        if let Some(by_owner) = &mut self.by_owner {
            by_owner.counts.fill(OwnerCounts::default());
        }
    }

    /// How many references may follow the first `start` before a state is to be taken, at most `most`.
    pub(crate) fn stop_within(&self, start: u64, most: usize) -> usize {
        match self.interval {
            u64::MAX => most,
            interval => (interval - start % interval).min(most as u64) as usize,
        }
    }

    /// After the first `references` references.
    pub(crate) fn look<P: Policy>(&mut self, policy: &P, references: u64) {
        if self.interval != u64::MAX && (references.is_multiple_of(self.interval) || references == self.references) {
            self.states.push(State { references, figures: state(policy) });
        }
    }

    /// Whether a request begins with the reference at `index`. Where requests are not kept each reference is one.
    pub(crate) fn at_request(&self, stretch: &Stretch<'_>, index: usize) -> bool {
        let first = &stretch.requests.first;
        first.is_empty() || first.get(self.next_request).is_some_and(|&first| first as usize == index)
    }

    /// Goes to the request that the reference at `index` is of. Those passed over have asked for nothing.
    #[inline]
    pub(crate) fn request(&mut self, stretch: &Stretch<'_>, index: usize) {
        let Requests { first, operation, .. } = stretch.requests;
        if first.is_empty() {
            self.arrival = stretch.start + index as u64;
            self.asked = false;
            return;
        }
        let passed = self.next_request;
        while first.get(self.next_request).is_some_and(|&first| first as usize <= index) {
            self.next_request += 1;
        }
        if self.next_request > passed {
            let request = self.next_request - 1;
            self.write = operation[request] == Operation::Write;
            self.arrival = stretch.start + u64::from(first[request]);
            self.asked = false;
        }
    }

    /// Where the request ends that the reference at `index` is of, which is the present one.
    pub(crate) fn end_of_request(&self, stretch: &Stretch<'_>, index: usize) -> usize {
        let first = &stretch.requests.first;
        let end = if first.is_empty() { index + 1 } else { stretch.references.len() };
        first.get(self.next_request).map_or(end, |&first| first as usize)
    }

    /// The last page of the request that is so many behind the present one.
    pub(crate) fn end_of_later(&self, stretch: &Stretch<'_>, index: usize, requests: usize) -> Option<u32> {
        let first = &stretch.requests.first;
        let end =
            if first.is_empty() { index + requests + 1 } else { *first.get(self.next_request + requests)? as usize };
        stretch.references.get(end - 1).copied()
    }

    /// Whose the present request is.
    pub(crate) fn owner(&self, stretch: &Stretch<'_>) -> u32 {
        self.next_request.checked_sub(1).and_then(|request| stretch.requests.owner.get(request)).copied().unwrap_or(0)
    }

    /// Whether the present request writes.
    pub(crate) fn writes(&self) -> bool {
        self.write
    }

    /// The present request is about to ask for something: those before it have been waited for, and the program has thought
    /// since. Says whether it is the first time.
    fn ask(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.asked, true);
        if first && let Some(device) = &mut self.device {
            device.think((self.arrival - self.thought) as f64 * self.think_ms);
            self.thought = self.arrival;
        }
        first
    }

    /// Tells the device of a miss.
    #[inline]
    pub(crate) fn miss(&mut self, place: Place) {
        let first = self.ask();
        if let Some(device) = &mut self.device {
            device.miss(place, first, self.write);
        }
    }

    /// Has pages read ahead; the answer is the number by which they are [`need`](Self::need)ed.
    pub(crate) fn read_ahead(&mut self, place: Place, pages: u64) -> u64 {
        self.ask();
        self.device.as_mut().map_or(0, |device| device.read_ahead(place, pages))
    }

    /// A page that was read ahead under that number is referenced; whether it is late.
    pub(crate) fn need(&mut self, number: u64) -> bool {
        if self.device.is_none() {
            return false;
        }
        self.ask();
        self.device.as_mut().is_some_and(|device| device.need(number))
    }

    /// The page is going to be referenced soon: where it is will be asked if it misses.
    pub(crate) fn prefetch(&self, stretch: &Stretch<'_>, page: u32) {
        if self.device.is_some() {
            stretch.places.prefetch(page);
        }
    }

    /// References follow whose requests are counted from 0.
    pub(crate) fn start_stretch(&mut self) {
        self.next_request = 0;
        if let Some(by_owner) = &mut self.by_owner {
            by_owner.next_request = 0;
        }
    }

    #[inline]
    pub(crate) fn reference(&mut self, stretch: &Stretch<'_>, index: usize, page: u32, hit: bool) {
        if let Some(by_owner) = &mut self.by_owner {
            by_owner.count(stretch, index, hit);
        }
        if let Some(counts) = &mut self.by_distance {
            let time = stretch.start + index as u64;
            let last = std::mem::replace(&mut self.last[page as usize], time);
            if last != NEVER {
                counts.count(time - last < u64::from(self.capacity), hit);
            }
        }
    }
}
