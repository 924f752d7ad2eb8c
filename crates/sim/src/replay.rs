//! One run: a trace through a policy at a size.

use crate::trace::Trace;
use crate::watch::{ByDistance, State, Watch, Watcher, state};
use forebay_policy::registry::{self, Visitor};
use forebay_policy::{Caller, Operation, Place, Policy, Reference, Setup, Spec};
use std::time::Instant;

/// References between two reports of progress.
const STRIDE: usize = 1 << 20;

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
    /// The time that the misses after the warm-up cost on a device, if that was asked for.
    pub device_milliseconds: Option<f64>,
    /// The references after the warm-up by temporal distance, if that was asked for.
    pub by_distance: Option<ByDistance>,
    /// The time of the replay alone.
    pub seconds: f64,
    /// The memory of the policy.
    pub bytes: usize,
    /// The policy's state at the end, each figure under its name.
    pub state: Vec<(&'static str, f64)>,
    /// The policy's state along the way, if that was asked for.
    pub states: Vec<State>,
}

/// A run to be made; visited with the policy's type.
pub(crate) struct Run<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) spec: &'a Spec,
    pub(crate) setup: Setup,
    /// References that are replayed but not counted.
    pub(crate) warmup: usize,
    /// What is asked besides hits and misses.
    pub(crate) watch: &'a Watch,
    /// Told of each further number of references done; `false` stops the run.
    pub(crate) progress: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Visitor for Run<'_> {
    type Output = Option<Outcome>;

    fn visit<P: Policy>(self) -> Option<Outcome> {
        let Self { trace, spec, setup, warmup, watch, progress } = self;
        let start = Instant::now();
        let mut policy = P::new(&setup);
        let mut cursor = Cursor::default();
        let mut watcher = Watcher::new(watch, trace, setup.capacity);
        let replay = if watch.anything() { replay::<P, true> } else { replay::<P, false> };
        let warm_hits = replay(&mut policy, &mut watcher, trace, 0..warmup, &mut cursor, progress)?;
        watcher.start_counting();
        let hits = replay(&mut policy, &mut watcher, trace, warmup..trace.len(), &mut cursor, progress)?;
        let seconds = start.elapsed().as_secs_f64();
        let counts = |from: usize, hits: u64| {
            let references = (trace.len() - from) as u64;
            Counts { references, hits, misses: references - hits, compulsory_misses: trace.compulsory_misses(from) }
        };
        Some(Outcome {
            policy: spec.label.clone(),
            off_line: spec.needs_future(),
            pages: setup.capacity,
            total: counts(0, warm_hits + hits),
            counted: counts(warmup, hits),
            device_milliseconds: watcher.disk.map(|disk| disk.milliseconds()),
            by_distance: watcher.by_distance,
            seconds,
            bytes: policy.bytes(),
            state: state(&policy),
            states: watcher.states,
        })
    }
}

/// The times of the references that miss.
pub(crate) fn misses(trace: &Trace, spec: &Spec, pages: u32) -> Vec<u32> {
    struct Misses<'a>(&'a Trace, Setup);
    impl Visitor for Misses<'_> {
        type Output = Vec<u32>;

        fn visit<P: Policy>(self) -> Vec<u32> {
            let Self(trace, setup) = self;
            let mut policy = P::new(&setup);
            let mut cursor = Cursor::default();
            let mut missed = Vec::new();
            for (time, &page) in trace.references.iter().enumerate() {
                let reference = cursor.parts::<P>(trace, time, page);
                if policy.contains(page) {
                    policy.hit(&reference);
                } else {
                    policy.miss(&reference, &mut NoFrames).expect("no victim is refused");
                    missed.push(time as u32);
                }
            }
            missed
        }
    }
    let setup = Setup { page_size: trace.page_size, ..spec.setup(pages, trace.pages) };
    registry::visit(spec.info.name, Misses(trace, setup)).expect("the policy is in the registry")
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
struct Cursor {
    /// The first request that starts behind the reference.
    next: usize,
}

/// Replays some references and returns the hits; `None` if stopped.
fn replay<P: Policy, const WATCHED: bool>(
    policy: &mut P,
    watcher: &mut Watcher,
    trace: &Trace,
    range: std::ops::Range<usize>,
    cursor: &mut Cursor,
    progress: &dyn Fn(u64) -> bool,
) -> Option<u64> {
    let mut hits = 0;
    let mut start = range.start;
    while start < range.end {
        let end = watcher.stop_before(start, range.end.min(start + STRIDE));
        for (offset, &page) in trace.references[start..end].iter().enumerate() {
            let reference = Reference { page, ..cursor.parts::<P>(trace, start + offset, page) };
            let hit = policy.contains(page);
            if hit {
                policy.hit(&reference);
                hits += 1;
            } else {
                policy.miss(&reference, &mut NoFrames).expect("no victim is refused");
            }
            if WATCHED {
                watcher.reference(start + offset, page, hit);
            }
        }
        if WATCHED {
            watcher.look(policy, end);
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
    fn parts<P: Policy>(&mut self, trace: &Trace, index: usize, page: u32) -> Reference {
        let place = if P::INFO.uses.place { trace.places.of(page) } else { Place::default() };
        let (owner, operation) = if P::INFO.uses.request {
            let requests = &trace.requests;
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
