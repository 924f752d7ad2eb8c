//! What a run is asked besides its hits and misses.

use crate::device::{Device, Model};
use crate::replay::Stretch;
use forebay_policy::{Operation, Policy, Setup};

/// What to look at in a run; nothing by default, which costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Tell what the misses cost on this device.
    pub device: Option<Model>,
    /// Split hits and misses by temporal distance.
    pub distances: bool,
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
        self.device.is_some() || self.distances || self.states > 0
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
    pub(crate) device: Option<Device>,
    /// The first request of the stretch that starts behind the last miss.
    next_request: usize,
    pub(crate) by_distance: Option<ByDistance>,
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
            device: watch.device.as_ref().map(|model| Device::new(model, setup.page_size)),
            next_request: 0,
            by_distance,
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

    /// Tells the device of a miss. Where requests are not kept each reference is one.
    fn miss(&mut self, stretch: &Stretch<'_>, index: usize, page: u32) {
        let Some(device) = &mut self.device else { return };
        let requests = stretch.requests;
        let before = self.next_request;
        while requests.first.get(self.next_request).is_some_and(|&first| first as usize <= index) {
            self.next_request += 1;
        }
        let first = self.next_request != before || requests.first.is_empty();
        let write = self.next_request > 0 && requests.operation[self.next_request - 1] == Operation::Write;
        device.miss(stretch.places.of(page), first, write);
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
    }

    pub(crate) fn reference(&mut self, stretch: &Stretch<'_>, index: usize, page: u32, hit: bool) {
        if !hit && self.device.is_some() {
            self.miss(stretch, index, page);
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
