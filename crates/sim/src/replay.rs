//! One run: a trace through a policy at a size.

use crate::places::Places;
use crate::readahead::{ReadaheadCounts, Reader, Successors};
use crate::size::MOST_PAGES;
use crate::trace::{Requests, Trace};
use crate::watch::{ByDistance, OwnerCounts, State, Watch, Watcher, state};
use crate::watched;
use forebay_model::Cost;
use forebay_policy::registry::{self, Visitor};
use forebay_policy::{Caller, Future, Operation, Place, Policy, Reference, Setup, Spec};
use std::sync::Arc;
use std::time::Instant;

/// References between two reports of progress.
pub(crate) const STRIDE: usize = 1 << 20;

/// How many references ahead a policy is told of: about as many as pass while memory answers.
pub(crate) const AHEAD: usize = 24;

/// What became of some references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub references: u64,
    /// Those that found their page resident.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
    /// The misses that no cache could have avoided: first uses of a page.
    pub compulsory_misses: u64,
}

impl Counts {
    pub(crate) fn new(references: u64, hits: u64, compulsory_misses: u64) -> Self {
        Self { references, hits, misses: references - hits, compulsory_misses }
    }

    /// Hits by references.
    pub fn hit_ratio(&self) -> f64 {
        if self.references == 0 { 0.0 } else { self.hits as f64 / self.references as f64 }
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The policy as the user named it.
    pub policy: String,
    /// Whether it knew the future.
    pub off_line: bool,
    /// The cache's size.
    pub pages: u32,
    /// All references.
    pub total: Counts,
    /// The references after the warm-up.
    pub counted: Counts,
    /// What the misses after the warm-up cost on a device, if that was asked for.
    pub device: Option<Cost>,
    /// What became of the pages read ahead after the warm-up, if any were to be.
    pub readahead: Option<ReadaheadCounts>,
    /// The references after the warm-up by temporal distance, if that was asked for.
    pub by_distance: Option<ByDistance>,
    /// The references after the warm-up by the number of their owner, if that was asked for.
    pub by_owner: Vec<OwnerCounts>,
    /// The time of the replay alone.
    pub seconds: f64,
    /// The memory of the policy.
    pub bytes: usize,
    /// The policy's state at the end, each figure under its name.
    pub state: Vec<(&'static str, f64)>,
    /// The policy's state along the way, if that was asked for.
    pub states: Vec<State>,
}

/// Consecutive references: a chunk of a trace, or all of it.
pub(crate) struct Stretch<'a> {
    /// How many references came before.
    pub(crate) start: u64,
    pub(crate) references: &'a [u32],
    /// The requests that these references came from, counted from the stretch's start; or none.
    pub(crate) requests: &'a Requests,
    /// The places of all pages; or none.
    pub(crate) places: &'a Places,
    /// Page numbers are below this.
    pub(crate) pages: u32,
}

/// A run to be started; visited with the policy's type.
pub(crate) struct Start<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) setup: Setup,
    /// References that are replayed but not counted.
    pub(crate) warmup: u64,
    /// What is asked besides hits and misses.
    pub(crate) watch: &'a Watch,
    /// How many references there will be, where states are to be taken along the way.
    pub(crate) references: u64,
    /// Which page follows which, if there is readahead.
    pub(crate) successors: Option<&'a Arc<Successors>>,
}

/// A run under way, whatever its policy: a call through a pointer for each stretch.
pub(crate) trait Run: Send {
    /// Replays the references that follow. `progress` is told of each further number of references done; `false` stops the
    /// run, and is answered.
    fn replay(&mut self, stretch: &Stretch<'_>, progress: &dyn Fn(u64) -> bool) -> bool;

    /// What the run gave, by size. `compulsory_misses` are those in all and those after the warm-up.
    fn outcomes(self: Box<Self>, compulsory_misses: (u64, u64)) -> Vec<Outcome>;
}

struct Running<'a, P> {
    spec: &'a Spec,
    policy: P,
    watcher: Watcher,
    watched: bool,
    reader: Option<Reader>,
    /// The policy is made for page numbers below this.
    room: u32,
    warmup: u64,
    references: u64,
    warm_hits: u64,
    hits: u64,
    seconds: f64,
}

impl<'a> Visitor for Start<'a> {
    type Output = Box<dyn Run + 'a>;

    fn visit<P: Policy>(self) -> Box<dyn Run + 'a> {
        let Self { spec, setup, warmup, watch, references, successors } = self;
        let start = Instant::now();
        let policy = P::new(&setup);
        let watcher = Watcher::new(watch, references, &setup);
        let mut running = Running {
            spec,
            policy,
            watcher,
            watched: watch.anything(),
            reader: successors.map(|successors| Reader::new(&watch.readahead, successors, &setup)),
            room: setup.pages,
            warmup,
            references: 0,
            warm_hits: 0,
            hits: 0,
            seconds: 0.0,
        };
        running.seconds = start.elapsed().as_secs_f64();
        Box::new(running)
    }
}

impl<P: Policy> Run for Running<'_, P> {
    fn replay(&mut self, stretch: &Stretch<'_>, progress: &dyn Fn(u64) -> bool) -> bool {
        let start = Instant::now();
        if stretch.pages > self.room {
            // By an eighth, so that growing is rare and memory stays near what is used.
            self.room = room_for(stretch.pages);
            self.policy.reserve(self.room);
            self.watcher.reserve(self.room);
        }
        self.watcher.start_stretch();
        let length = stretch.references.len();
        let warm = self.warmup.saturating_sub(stretch.start).min(length as u64) as usize;
        let mut cursor = Cursor::default();
        let Some(hits) = self.replay_part(stretch, 0..warm, &mut cursor, progress) else { return false };
        self.warm_hits += hits;
        if (stretch.start..stretch.start + length as u64).contains(&self.warmup) {
            self.start_counting();
        }
        let Some(hits) = self.replay_part(stretch, warm..length, &mut cursor, progress) else { return false };
        self.hits += hits;
        self.references += length as u64;
        self.seconds += start.elapsed().as_secs_f64();
        true
    }

    fn outcomes(mut self: Box<Self>, compulsory_misses: (u64, u64)) -> Vec<Outcome> {
        let after = self.references.saturating_sub(self.warmup);
        if after == 0 {
            self.start_counting();
        }
        vec![Outcome {
            policy: self.spec.label.clone(),
            off_line: self.spec.needs_future(),
            pages: self.policy.capacity(),
            total: Counts::new(self.references, self.warm_hits + self.hits, compulsory_misses.0),
            counted: Counts::new(after, self.hits, compulsory_misses.1),
            device: self.watcher.device.as_mut().map(|device| device.cost(after)),
            readahead: self.reader.map(|reader| reader.counts(self.watcher.device.is_some())),
            by_distance: self.watcher.by_distance,
            by_owner: self.watcher.by_owner.map_or_else(Vec::new, |by_owner| by_owner.counts),
            seconds: self.seconds,
            bytes: self.policy.bytes(),
            state: state(&self.policy),
            states: self.watcher.states,
        }]
    }
}

impl<P: Policy> Running<'_, P> {
    /// The warm-up is over.
    fn start_counting(&mut self) {
        self.watcher.start_counting();
        if let Some(reader) = &mut self.reader {
            reader.start_counting();
        }
    }

    /// Replays some references and returns the hits; `None` if stopped.
    fn replay_part(
        &mut self,
        stretch: &Stretch<'_>,
        range: std::ops::Range<usize>,
        cursor: &mut Cursor,
        progress: &dyn Fn(u64) -> bool,
    ) -> Option<u64> {
        let Self { policy, watcher, reader, .. } = self;
        if self.watched {
            watched::replay(policy, watcher, reader.as_mut(), stretch, range, cursor, progress)
        } else {
            replay(policy, stretch, range, cursor, progress)
        }
    }
}

/// The page numbers to make room for when there are `pages`, and more to come.
pub(crate) fn room_for(pages: u32) -> u32 {
    pages.saturating_add(pages / 8).min(MOST_PAGES as u32)
}

/// The times of the references that miss. `future` is for a policy that needs it; `progress` is told of each further number of
/// references done.
pub(crate) fn misses(
    trace: &Trace,
    spec: &Spec,
    pages: u32,
    future: Option<Arc<Future>>,
    progress: &dyn Fn(u64),
) -> Vec<u32> {
    struct Misses<'a>(&'a Trace, Setup, &'a dyn Fn(u64));
    impl Visitor for Misses<'_> {
        type Output = Vec<u32>;

        fn visit<P: Policy>(self) -> Vec<u32> {
            let Self(trace, setup, progress) = self;
            let mut policy = P::new(&setup);
            let mut cursor = Cursor::default();
            let mut missed = Vec::new();
            let stretch = trace.stretch();
            for (chunk, references) in trace.references.chunks(STRIDE).enumerate() {
                for (offset, &page) in references.iter().enumerate() {
                    let time = chunk * STRIDE + offset;
                    let reference = cursor.parts::<P>(&stretch, time, page);
                    if let Some(&soon) = references.get(offset + AHEAD) {
                        policy.prefetch(soon);
                    }
                    if policy.contains(page) {
                        policy.hit(&reference);
                    } else {
                        policy.miss(&reference, &mut NoFrames).expect("no victim is refused");
                        missed.push(time as u32);
                    }
                }
                progress(references.len() as u64);
            }
            missed
        }
    }
    let setup = Setup { page_size: trace.page_size, future, ..spec.setup(pages, trace.pages) };
    registry::visit(spec.info.name, Misses(trace, setup, progress)).expect("the policy is in the registry")
}

/// A simulated cache has no data: every victim may go.
struct NoFrames;

impl Caller for NoFrames {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

/// The request that the next reference comes from.
#[derive(Default)]
pub(crate) struct Cursor {
    /// The first request that starts behind the reference.
    next: usize,
}

/// Replays some references of which nothing but hits is asked, and returns these; `None` if stopped.
// By its name a profile, and `bench/instructions.py`, find the loop.
#[inline(never)]
fn replay<P: Policy>(
    policy: &mut P,
    trace: &Stretch<'_>,
    range: std::ops::Range<usize>,
    cursor: &mut Cursor,
    progress: &dyn Fn(u64) -> bool,
) -> Option<u64> {
    let mut hits = 0;
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + STRIDE);
        for (offset, &page) in trace.references[start..end].iter().enumerate() {
            let reference = cursor.parts::<P>(trace, start + offset, page);
            if let Some(&soon) = trace.references.get(start + offset + AHEAD) {
                policy.prefetch(soon);
            }
            if policy.contains(page) {
                policy.hit(&reference);
                hits += 1;
            } else {
                policy.miss(&reference, &mut NoFrames).expect("no victim is refused");
            }
        }
        if !progress((end - start) as u64) {
            return None;
        }
        start = end;
    }
    Some(hits)
}

impl Cursor {
    /// The parts of a reference that the policy looks at; the others cost nothing.
    #[inline(always)]
    pub(crate) fn parts<P: Policy>(&mut self, trace: &Stretch<'_>, index: usize, page: u32) -> Reference {
        let place = if P::INFO.uses.place { trace.places.of(page) } else { Place::default() };
        let (owner, operation) = if P::INFO.uses.request {
            let requests = trace.requests;
            while requests.first.get(self.next).is_some_and(|&first| first as usize <= index) {
                self.next += 1;
            }
            (requests.owner[self.next - 1], requests.operation[self.next - 1])
        } else {
            (0, Operation::Read)
        };
        Reference { page, owner, place, operation }
    }
}
