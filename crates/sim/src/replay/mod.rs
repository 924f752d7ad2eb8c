//! The replay of references through a policy.
//!
//! ```text
//! mod        the loop, and what an observer sees of it
//! watch      the observers of a run, and what they are asked
//! run        a trace through a policy at a size
//! one_pass   a stack algorithm at many sizes in one run
//! sweep      many runs over a trace, on all cores
//! stream     many runs over a trace that is not held
//! epochs     a run whose policy learns of uses at the end of epochs
//! ends       next to no cache, and a cache of everything
//! misses     the times of the misses, and the trace below a cache
//! ```

pub(crate) mod ends;
mod epochs;
pub(crate) mod misses;
pub(crate) mod one_pass;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod stream;
pub(crate) mod sweep;
pub(crate) mod watch;

use crate::input::places::Places;
use crate::input::requests::Requests;
use crate::input::trace::Trace;
use crate::walk::walk;
use forebay_basis::{Operation, Place};
use forebay_policy::{Caller, Policy, Reference};
use outcome::RunOutcome;
use std::ops::Range;

/// Consecutive references: a chunk of a trace, or all of it.
#[derive(Clone, Copy)]
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

impl<'a> Stretch<'a> {
    /// The whole trace.
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let Trace { references, requests, places, pages, .. } = trace;
        Self { start: 0, references, requests, places, pages: *pages }
    }
}

/// The request that the present reference comes from.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// The first request that starts behind the reference.
    next: usize,
}

impl Cursor {
    /// Goes on to the request of the reference at `index`; whether it begins there. Where requests are not kept each reference is one.
    #[inline(always)]
    pub(crate) fn advance(&mut self, requests: &Requests, index: usize) -> bool {
        let before = self.next;
        while requests.first.get(self.next).is_some_and(|&first| first as usize <= index) {
            self.next += 1;
        }
        self.next > before || requests.first.is_empty()
    }

    /// Whether no request has references on both sides of `index`, which is behind the last one that it went on to.
    fn is_between(self, stretch: &Stretch<'_>, index: usize) -> bool {
        let first = &stretch.requests.first;
        let begins = first.get(self.next).is_some_and(|&next| next as usize == index);
        begins || first.is_empty() || index == stretch.references.len()
    }

    /// The present request's owner and operation.
    #[inline(always)]
    pub(crate) fn request(self, requests: &Requests) -> (u32, Operation) {
        (requests.owner[self.next - 1], requests.operation[self.next - 1])
    }
}

/// A reference as an observer sees it.
pub(crate) struct At<'a> {
    pub(crate) stretch: &'a Stretch<'a>,
    /// Counted from the stretch's start.
    pub(crate) index: usize,
    pub(crate) page: u32,
    cursor: Cursor,
}

impl At<'_> {
    /// How many references came before.
    pub(crate) fn time(&self) -> u64 {
        self.stretch.start + self.index as u64
    }

    /// The owner and operation of its request, if requests are kept.
    pub(crate) fn request(&self) -> (u32, Operation) {
        if self.cursor.next == 0 { (0, Operation::Read) } else { self.cursor.request(self.stretch.requests) }
    }

    /// The last page of the request that is this many behind its own.
    pub(crate) fn end_of_later(&self, requests: usize) -> Option<u32> {
        let first = &self.stretch.requests.first;
        let end = match first.is_empty() {
            true => self.index + requests + 1,
            false => *first.get(self.cursor.next + requests)? as usize,
        };
        self.stretch.references.get(end - 1).copied()
    }
}

/// What watches a replay, or takes part in it. What it leaves out costs nothing.
pub(crate) trait Observer: Send {
    /// Whether it looks at requests.
    const REQUESTS: bool = false;

    /// Page numbers below `pages` may occur.
    fn reserve(&mut self, _pages: u32) {}

    /// The warm-up is over.
    fn start_counting(&mut self) {}

    /// A page of the stretch is going to be referenced soon.
    #[inline(always)]
    fn soon(&self, _stretch: &Stretch<'_>, _page: u32) {}

    /// A request begins with the reference.
    #[inline(always)]
    fn begin_request<P: Policy>(&mut self, _policy: &mut P, _at: &At<'_>) {}

    /// How the policy is to take an operation of the trace.
    #[inline(always)]
    fn operation(&self, operation: Operation) -> Operation {
        operation
    }

    /// A resident page is referenced: whether it was read ahead, and this is its first use.
    #[inline(always)]
    fn is_first_use(&mut self, _page: u32) -> bool {
        false
    }

    /// Whether a resident page is of the folio that its reader used last. For a policy that [joins](Policy::joins) pages that is no new use.
    #[inline(always)]
    fn goes_on(&self, _at: &At<'_>) -> bool {
        false
    }

    /// The policy has evicted a page.
    #[inline(always)]
    fn evicted(&mut self, _page: u32) {}

    /// The policy has forgotten a page.
    #[inline(always)]
    fn forgotten(&mut self, _page: u32) {}

    /// The reference is done.
    #[inline(always)]
    fn referenced<P: Policy>(&mut self, _policy: &P, _at: &At<'_>, _hit: bool) {}

    /// The last request so far is whole.
    fn end_request<P: Policy>(&mut self, _policy: &mut P, _stretch: &Stretch<'_>) {}

    /// The run is over: adds what was asked to the outcome.
    fn tell(self, _outcome: &mut RunOutcome)
    where
        Self: Sized,
    {
    }
}

/// Nothing watches.
impl Observer for () {}

/// A simulated cache has no data: every victim may go.
struct AnyVictim<'a, O>(&'a mut O);

impl<O: Observer> Caller for AnyVictim<'_, O> {
    #[inline(always)]
    fn evict(&mut self, page: u32) -> bool {
        self.0.evicted(page);
        true
    }

    #[inline(always)]
    fn forget(&mut self, page: u32) {
        self.0.forgotten(page);
    }
}

/// Replays some references and returns the hits; `None` if `progress` stopped it. Parts of a reference at which nobody looks cost nothing.
// By its name a profile, and `bench/instructions.py`, find the loop.
#[inline(never)]
pub(crate) fn replay<P: Policy, O: Observer>(
    policy: &mut P,
    observer: &mut O,
    stretch: &Stretch<'_>,
    range: Range<usize>,
    cursor: &mut Cursor,
    progress: &dyn Fn(u64) -> bool,
) -> Option<u64> {
    let uses = P::INFO.uses;
    let (mut hits, end) = (0, range.end);
    let done = walk(stretch.references, range, progress, |index, page, soon| {
        if let Some(soon) = soon {
            policy.prefetch(soon);
            observer.soon(stretch, soon);
        }
        let begins = (uses.request || O::REQUESTS) && cursor.advance(stretch.requests, index);
        let at = At { stretch, index, page, cursor: *cursor };
        if O::REQUESTS && begins {
            observer.begin_request(policy, &at);
        }
        let place = if uses.place { stretch.places.of(page) } else { Place::default() };
        let (owner, operation) = if uses.request { cursor.request(stretch.requests) } else { (0, Operation::Read) };
        let reference = Reference { page, owner, place, operation: observer.operation(operation) };
        let hit = policy.contains(page);
        if hit {
            hits += 1;
            let first = observer.is_first_use(page);
            if policy.joins() && observer.goes_on(&at) {
                // The policy learns nothing.
            } else if first {
                policy.first_use(&reference, &mut AnyVictim(observer));
            } else {
                policy.hit(&reference);
            }
        } else {
            policy.miss(&reference, &mut AnyVictim(observer)).expect("no victim is refused");
        }
        observer.referenced(policy, &at, hit);
    });
    if O::REQUESTS && cursor.is_between(stretch, end) {
        observer.end_request(policy, stretch);
    }
    done.then_some(hits)
}
