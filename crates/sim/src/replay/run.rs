//! One run: a trace through a policy at a size.

use super::outcome::{Counts, RunOutcome};
use super::watch::{Watch, Watcher};
use super::{Cursor, Observer, Stretch, epochs, replay};
use crate::readahead::Successors;
use crate::size::room_for;
use forebay_policy::readahead::WithReadahead;
use forebay_policy::registry::{self, Visitor};
use forebay_policy::{AnyPolicy, Policy, Setup, Spec};
use std::sync::Arc;
use std::time::Instant;

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
    /// Replays the references that follow. `progress` gets each further number of references done; `false` stops the
    /// run, and is answered.
    fn replay(&mut self, stretch: &Stretch<'_>, progress: &dyn Fn(u64) -> bool) -> bool;

    /// What the run gave, by size. `compulsory_misses` are those in all and those after the warm-up.
    fn outcomes(self: Box<Self>, compulsory_misses: (u64, u64)) -> Vec<RunOutcome>;
}

struct Running<'a, P, O> {
    spec: &'a Spec,
    policy: P,
    observer: O,
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
        match self.watch.anything() {
            true => self.watched_by(|start| {
                let policy = WithReadahead::<P>::of(&start.setup, start.successors.is_some());
                (policy, Watcher::new(start.watch, start.references, start.successors, &start.setup))
            }),
            false => self.watched_by(|start| (P::new(&start.setup), ())),
        }
    }
}

impl<'a> Start<'a> {
    pub(crate) fn run(self) -> Box<dyn Run + 'a> {
        if self.watch.epochs && !self.spec.needs_future() {
            return epochs::start(self);
        }
        registry::visit(self.spec.info.name, self).expect("the policy is in the registry")
    }

    fn watched_by<P: Policy, O: Observer + 'a>(self, make: impl FnOnce(&Self) -> (P, O)) -> Box<dyn Run + 'a> {
        let begun = Instant::now();
        let (policy, observer) = make(&self);
        let Self { spec, setup, warmup, .. } = self;
        let (room, seconds) = (setup.pages, begun.elapsed().as_secs_f64());
        Box::new(Running { spec, policy, observer, room, warmup, references: 0, warm_hits: 0, hits: 0, seconds })
    }
}

impl<P: Policy, O: Observer> Run for Running<'_, P, O> {
    fn replay(&mut self, stretch: &Stretch<'_>, progress: &dyn Fn(u64) -> bool) -> bool {
        let start = Instant::now();
        let Self { policy, observer, .. } = self;
        if stretch.pages > self.room {
            // By an eighth, so that growing is rare and memory stays near what is used.
            self.room = room_for(stretch.pages);
            policy.reserve(self.room);
            observer.reserve(self.room);
        }
        let length = stretch.references.len();
        let warm = self.warmup.saturating_sub(stretch.start).min(length as u64) as usize;
        let counting = (stretch.start..stretch.start + length as u64).contains(&self.warmup);
        let done = policy.within(|policy| {
            let mut cursor = Cursor::default();
            let warm_hits = replay(policy, observer, stretch, 0..warm, &mut cursor, progress)?;
            if counting {
                observer.start_counting();
            }
            Some((warm_hits, replay(policy, observer, stretch, warm..length, &mut cursor, progress)?))
        });
        let Some((warm_hits, hits)) = done else { return false };
        self.warm_hits += warm_hits;
        self.hits += hits;
        self.references += length as u64;
        self.seconds += start.elapsed().as_secs_f64();
        true
    }

    fn outcomes(mut self: Box<Self>, compulsory_misses: (u64, u64)) -> Vec<RunOutcome> {
        let after = self.references.saturating_sub(self.warmup);
        if after == 0 {
            self.observer.start_counting();
        }
        let mut outcome = RunOutcome {
            policy: self.spec.label.clone(),
            off_line: self.spec.needs_future(),
            pages: self.policy.capacity(),
            total: Counts::new(self.references, self.warm_hits + self.hits, compulsory_misses.0),
            counted: Counts::new(after, self.hits, compulsory_misses.1),
            seconds: self.seconds,
            bytes: self.policy.bytes(),
            state: AnyPolicy::state(&self.policy),
            ..RunOutcome::default()
        };
        self.observer.tell(&mut outcome);
        vec![outcome]
    }
}
