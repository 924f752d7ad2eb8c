//! A run in epochs, as `forebay steer --memory` has them: of a page that is there the policy learns at the end of an epoch that it was used, once, and misses in their
//! order.
//!
//! - [`has_come_enough`] says when an epoch is over, by the pages that have missed in it.
//! - The uses of a page that came in the same epoch are not told: its reference bit was set by the fault.
//! - When an epoch ends, the policy learns which pages were used: file by file, and in each file from the first block to the last.

use super::outcome::{Counts, RunOutcome};
use super::run::{Run, Start};
use super::{Cursor, Stretch};
use crate::walk::walk;
use forebay_basis::{Operation, Place, has_come_enough};
use forebay_policy::{AnyPolicy, Caller, Hit, Reference, Spec};
use std::time::Instant;

/// What is known of a page in this epoch.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    /// It was used, and is to be told.
    Used,
    /// It came.
    Fresh,
}

struct InEpochs<'a> {
    spec: &'a Spec,
    policy: Box<dyn AnyPolicy>,
    seen: Vec<Seen>,
    /// Pages that were used, and those that came.
    used: Vec<Reference>,
    fresh: Vec<u32>,
    room: u32,
    warmup: u64,
    references: u64,
    warm_hits: u64,
    hits: u64,
    seconds: f64,
}

/// Starts a run under a policy that does not know the future.
pub(super) fn start<'a>(start: Start<'a>) -> Box<dyn Run + 'a> {
    let Start { spec, setup, warmup, .. } = start;
    let seen = vec![Seen::Nothing; setup.pages as usize];
    let policy = spec.build_alone(&setup);
    let (used, fresh, room) = (Vec::new(), Vec::new(), setup.pages);
    Box::new(InEpochs {
        spec,
        policy,
        seen,
        used,
        fresh,
        room,
        warmup,
        references: 0,
        warm_hits: 0,
        hits: 0,
        seconds: 0.0,
    })
}

/// Every victim may go.
struct AnyVictim;

impl Caller for AnyVictim {
    fn evict(&mut self, _: u32) -> bool {
        true
    }

    fn forget(&mut self, _: u32) {}
}

impl InEpochs<'_> {
    /// A page is referenced: whether it is there.
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        let seen = self.seen[page as usize];
        if self.policy.contains(page) {
            if seen == Seen::Nothing {
                self.seen[page as usize] = Seen::Used;
                self.used.push(reference);
            }
            return true;
        }
        let (capacity, there) = (self.policy.capacity(), self.policy.resident());
        if has_come_enough(capacity.into(), there.into(), self.fresh.len() as u64) {
            self.end();
        }
        self.policy.miss(&reference, &mut AnyVictim).expect("no victim is refused");
        self.seen[page as usize] = Seen::Fresh;
        self.fresh.push(page);
        false
    }

    /// An epoch ends.
    fn end(&mut self) {
        let mut used = std::mem::take(&mut self.used);
        used.sort_unstable_by_key(|reference| (reference.place.object, reference.place.block, reference.page));
        for reference in used.drain(..) {
            let seen = std::mem::take(&mut self.seen[reference.page as usize]);
            if seen == Seen::Used && self.policy.contains(reference.page) {
                self.policy.hits(&[Hit { reference, first_use: false }], &mut AnyVictim);
            }
        }
        self.used = used;
        self.fresh.drain(..).for_each(|page| self.seen[page as usize] = Seen::Nothing);
    }
}

impl Run for InEpochs<'_> {
    fn replay(&mut self, stretch: &Stretch<'_>, progress: &dyn Fn(u64) -> bool) -> bool {
        let begun = Instant::now();
        if stretch.pages > self.room {
            self.room = crate::size::room_for(stretch.pages);
            self.policy.reserve(self.room);
            self.seen.resize(self.room as usize, Seen::Nothing);
        }
        let wants_requests = self.spec.info.uses.request;
        let mut cursor = Cursor::default();
        let all = 0..stretch.references.len();
        let done = walk(stretch.references, all, progress, |index, page, _| {
            if wants_requests {
                cursor.advance(stretch.requests, index);
            }
            let place = if stretch.places.is_empty() { Place::default() } else { stretch.places.of(page) };
            let (owner, operation) =
                if wants_requests { cursor.request(stretch.requests) } else { (0, Operation::Read) };
            let hit = self.refer(Reference { page, owner, place, operation });
            let is_warm = stretch.start + (index as u64) < self.warmup;
            *(if is_warm { &mut self.warm_hits } else { &mut self.hits }) += u64::from(hit);
        });
        self.references += stretch.references.len() as u64;
        self.seconds += begun.elapsed().as_secs_f64();
        done
    }

    fn outcomes(self: Box<Self>, compulsory_misses: (u64, u64)) -> Vec<RunOutcome> {
        let after = self.references.saturating_sub(self.warmup);
        vec![RunOutcome {
            policy: self.spec.label.clone(),
            off_line: false,
            pages: self.policy.capacity(),
            total: Counts::new(self.references, self.warm_hits + self.hits, compulsory_misses.0),
            counted: Counts::new(after, self.hits, compulsory_misses.1),
            seconds: self.seconds,
            bytes: self.policy.bytes(),
            state: self.policy.state(),
            ..RunOutcome::default()
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_policy::Spec;

    fn misses(policy: &str, capacity: u32, references: &[u32]) -> u32 {
        let spec = Spec::parse(policy).expect("a policy");
        let pages = references.iter().max().map_or(0, |page| page + 1);
        let mut run = InEpochs {
            policy: spec.build_alone(&spec.setup(capacity, pages)),
            spec: &spec,
            seen: vec![Seen::Nothing; pages as usize],
            used: Vec::new(),
            fresh: Vec::new(),
            room: pages,
            warmup: 0,
            references: 0,
            warm_hits: 0,
            hits: 0,
            seconds: 0.0,
        };
        references.iter().map(|&page| u32::from(!run.refer(Reference::of(page)))).sum()
    }

    #[test]
    fn a_loop_misses_as_without_epochs() {
        let references: Vec<u32> = (0..5).flat_map(|_| 0..1000).collect();
        assert_eq!(misses("lru", 800, &references), 5000);
        let mru = misses("mru", 800, &references);
        assert!((1800..2000).contains(&mru), "{mru} misses");
        let all = misses("lru", 1000, &references);
        assert_eq!(all, 1000);
    }

    #[test]
    fn a_page_that_is_used_each_epoch_stays_and_one_used_only_in_its_first_does_not() {
        // Page 0 is used all the time, page 1 three times at the beginning.
        let references: Vec<u32> =
            [0, 1, 1, 1].into_iter().chain((2..2000).flat_map(|page| [page, 0])).chain([0, 1]).collect();
        assert_eq!(misses("lru", 320, &references), 2000 + 1, "page 1 alone comes again");
        assert_eq!(misses("clock", 320, &references), 2000 + 1);
    }
}
