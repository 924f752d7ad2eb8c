//! What a run is asked besides its hits and misses, and what watches it for that.

use super::outcome::{ByDistance, PartCounts, RunOutcome, State};
use super::{At, Observer, Stretch};
use crate::device_time::DeviceTime;
use crate::readahead::{Readahead, Reader, Successors};
use crate::recency::Recency;
use forebay_basis::{DeviceCost, Operation};
use forebay_model::Model;
use forebay_policy::{AnyPolicy, Policy, Setup};
use std::sync::Arc;

/// How many requests ahead readahead fetches what it needs where they end.
const SOON: usize = 8;

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
    /// Split hits and misses by who asks, or for what.
    pub by: Option<By>,
    /// Take the number of each reference that misses, of a trace that is held.
    pub misses: bool,
    /// Policies learn of uses at the end of epochs, as of memory that is steered. What else is watched says nothing then.
    pub epochs: bool,
    /// Take the policy's state this many times, at equal numbers of references apart; 0: only at the end.
    pub states: u32,
}

/// What hits and misses are split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The owner of the request.
    Owner,
    /// The file or volume of the page.
    File,
}

impl By {
    /// What one of them is.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::File => "file",
        }
    }
}

impl Watch {
    pub(crate) fn anything(&self) -> bool {
        self.device.is_some()
            || !self.readahead.is_none()
            || self.distances
            || self.by.is_some()
            || self.misses
            || self.states > 0
            || self.epochs
    }

    /// What a policy learns of the device, if there is one.
    pub(crate) fn cost_of_reads(&self, page_size: u64) -> Option<DeviceCost> {
        self.device.as_ref().map(|model| model.reads(page_size))
    }
}

/// Hits and misses by temporal distance.
struct Distances {
    counts: ByDistance,
    recency: Recency,
    capacity: u64,
}

impl Observer for Distances {
    fn reserve(&mut self, pages: u32) {
        self.recency.reserve(pages);
    }

    fn start_counting(&mut self) {
        self.counts = ByDistance::default();
    }

    #[inline]
    fn referenced<P: Policy>(&mut self, _: &P, at: &At<'_>, hit: bool) {
        if let Some(distance) = self.recency.refer(at.page) {
            self.counts.count(distance < self.capacity, hit);
        }
    }

    fn tell(self, outcome: &mut RunOutcome) {
        outcome.by_distance = Some(self.counts);
    }
}

/// Hits and misses by the number of their owner or file.
struct Parts {
    by: By,
    counts: Vec<PartCounts>,
}

impl Observer for Parts {
    fn start_counting(&mut self) {
        self.counts.fill(PartCounts::default());
    }

    #[inline]
    fn referenced<P: Policy>(&mut self, _: &P, at: &At<'_>, hit: bool) {
        let part = match self.by {
            By::Owner => at.request().0,
            By::File => at.stretch.places.of(at.page).object,
        } as usize;
        if part >= self.counts.len() {
            self.counts.resize(part + 1, PartCounts::default());
        }
        let PartCounts { hits, misses } = &mut self.counts[part];
        *if hit { hits } else { misses } += 1;
    }

    fn tell(self, outcome: &mut RunOutcome) {
        outcome.parts = self.counts;
    }
}

/// When references missed, rising.
struct Missed(Vec<u32>);

impl Observer for Missed {
    #[inline]
    fn referenced<P: Policy>(&mut self, _: &P, at: &At<'_>, hit: bool) {
        if !hit {
            self.0.push(at.time() as u32);
        }
    }

    fn tell(self, outcome: &mut RunOutcome) {
        outcome.missed = self.0;
    }
}

/// The policy's state, after each interval and at the end.
struct States {
    /// References between two states.
    interval: u64,
    /// How many references there will be.
    references: u64,
    taken: Vec<State>,
}

impl Observer for States {
    #[inline]
    fn referenced<P: Policy>(&mut self, policy: &P, at: &At<'_>, _: bool) {
        let references = at.time() + 1;
        if references.is_multiple_of(self.interval) || references == self.references {
            self.taken.push(State { references, figures: AnyPolicy::state(policy) });
        }
    }

    fn tell(self, outcome: &mut RunOutcome) {
        outcome.states = self.taken;
    }
}

/// All that a run may be asked.
pub(crate) struct Watcher {
    device: DeviceTime,
    reader: Option<Reader>,
    distances: Option<Distances>,
    parts: Option<Parts>,
    missed: Option<Missed>,
    states: Option<States>,
}

impl Watcher {
    /// `references` are all that there will be, where states are to be taken.
    pub(crate) fn new(watch: &Watch, references: u64, successors: Option<&Arc<Successors>>, setup: &Setup) -> Self {
        let distances = || {
            let (counts, recency) = (ByDistance::default(), Recency::new(setup.pages));
            Distances { counts, recency, capacity: setup.capacity.into() }
        };
        let interval = || references.div_ceil(watch.states.into());
        Self {
            device: DeviceTime::new(watch.device.as_ref(), watch.think_ms, setup.page_size),
            reader: successors.map(|successors| Reader::new(&watch.readahead, successors, setup)),
            distances: watch.distances.then(distances),
            parts: watch.by.map(|by| Parts { by, counts: Vec::new() }),
            missed: watch.misses.then(|| Missed(Vec::new())),
            states: (watch.states > 0).then(|| States { interval: interval(), references, taken: Vec::new() }),
        }
    }
}

impl Observer for Watcher {
    const REQUESTS: bool = true;

    fn reserve(&mut self, pages: u32) {
        self.distances.iter_mut().for_each(|distances| distances.reserve(pages));
    }

    fn start_counting(&mut self) {
        self.device.start_counting();
        self.reader.iter_mut().for_each(Reader::start_counting);
        self.distances.iter_mut().for_each(Observer::start_counting);
        self.parts.iter_mut().for_each(Observer::start_counting);
    }

    #[inline]
    fn soon(&self, stretch: &Stretch<'_>, page: u32) {
        self.device.prefetch(stretch.places, page);
    }

    #[inline]
    fn begin_request<P: Policy>(&mut self, policy: &mut P, at: &At<'_>) {
        if let Some(reader) = &mut self.reader {
            reader.end_read(policy, &mut self.device, at.stretch.places);
            if let Some(page) = at.end_of_later(SOON) {
                reader.prefetch_end(page, at.stretch.places);
            }
        }
        self.device.begin_request(at.time(), at.request().1 == Operation::Write);
        if self.device.is_some() {
            policy.begin_request();
        }
    }

    /// Under a rule pages are read ahead as it says. What the trace's own cache has read ahead is a reference like others then.
    #[inline]
    fn operation(&self, operation: Operation) -> Operation {
        if self.reader.is_some() && operation == Operation::Readahead { Operation::Read } else { operation }
    }

    #[inline]
    fn is_first_use(&mut self, page: u32) -> bool {
        self.reader.as_mut().is_some_and(|reader| reader.is_first_use(page, &mut self.device))
    }

    #[inline]
    fn goes_on(&self, at: &At<'_>) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.goes_on(at.page, at.request(), at.stretch.places))
    }

    #[inline]
    fn evicted(&mut self, page: u32) {
        if let Some(reader) = &mut self.reader {
            reader.evicted(page);
        }
    }

    #[inline]
    fn forgotten(&mut self, page: u32) {
        if let Some(reader) = &mut self.reader {
            reader.forgotten(page);
        }
    }

    #[inline]
    fn referenced<P: Policy>(&mut self, policy: &P, at: &At<'_>, hit: bool) {
        let places = at.stretch.places;
        let later = self.reader.as_ref().is_some_and(|reader| reader.asks_at_end(at.request().1));
        if !hit && self.device.is_some() && !later {
            self.device.miss(places.of(at.page));
        }
        if let Some(reader) = &mut self.reader {
            reader.refer(at.page, hit, at.request(), places);
        }
        if let Some(distances) = &mut self.distances {
            distances.referenced(policy, at, hit);
        }
        if let Some(parts) = &mut self.parts {
            parts.referenced(policy, at, hit);
        }
        if let Some(missed) = &mut self.missed {
            missed.referenced(policy, at, hit);
        }
        if let Some(states) = &mut self.states {
            states.referenced(policy, at, hit);
        }
    }

    /// By other rules nothing is read ahead behind the last request.
    fn end_request<P: Policy>(&mut self, policy: &mut P, stretch: &Stretch<'_>) {
        if let Some(reader) = self.reader.as_mut().filter(|reader| reader.asks_at_end(Operation::Read)) {
            reader.end_read(policy, &mut self.device, stretch.places);
        }
    }

    fn tell(self, outcome: &mut RunOutcome) {
        let Self { device, reader, distances, parts, missed, states } = self;
        outcome.readahead = reader.map(|reader| reader.counts(device.is_some()));
        outcome.device = device.cost(outcome.counted.references);
        distances.into_iter().for_each(|distances| distances.tell(outcome));
        parts.into_iter().for_each(|parts| parts.tell(outcome));
        missed.into_iter().for_each(|missed| missed.tell(outcome));
        states.into_iter().for_each(|states| states.tell(outcome));
    }
}
