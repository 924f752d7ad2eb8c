//! The policy of all pages, and of volumes that have a share of the cache: each share has an instance of its own.
//!
//! ```text
//! common   1 .. all frames    volumes without a share
//! share    min .. max         a volume with one, or several together: another such instance for each
//! ```
//!
//! A share below its min takes what it needs from the others; nobody takes from it then. Between min and max, and without a share, volumes
//! compete: a miss evicts a page in proportion to what each has above its min, so who misses more has more. At its max a share evicts its own
//! pages. Min is lent while it is not used, and comes back at the volume's misses. Frames change hands a few at a time, a
//! 1024th of them, so that policies are not given another capacity at every miss.
//!
//! An instance numbers its pages itself, so that its arrays are as long as its own pages need.

mod renewed;

use crate::core::judge::Judge;
use forebay_policy::{AllRefused, AnyPolicy, Control, Hit, Reference, Setup, Spec, Uncontrolled};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::ops::Range;

/// Frames change hands by the capacity divided by this.
const PARTS: u32 = 1024;
/// The most shares of a cache.
pub(crate) const MOST_SHARES: usize = 64;

/// No share.
const NONE: u32 = u32::MAX;

/// The policy of one volume, or of several. Invariants:
///
/// - SH1. The capacities of the common policy and of all shares are together at most the capacity, and each is at least one page.
/// - SH2. `numbers` and `Shares::own` are each other's inverse, but for own numbers in `free`.
/// - SH3. Each share has a number of its own. A share of one object alone is there as long as that object has it.
struct Share {
    number: u32,
    /// The object whose own it is; any object may have one that is nobody's own.
    object: Option<u32>,
    min: u32,
    max: u32,
    policy: Box<dyn AnyPolicy>,
    /// The pool's page number by own number.
    numbers: Vec<u32>,
    free: Vec<u32>,
    /// Own numbers below this may occur.
    reserved: u32,
}

/// What a volume, or several, have of a cache, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareState {
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) resident: u32,
}

pub(crate) struct Shares {
    common: Box<dyn AnyPolicy>,
    shares: Vec<Share>,
    /// By object: the number of its share, or [`NONE`]. It ends with the last object that has one.
    of_objects: Vec<u32>,
    /// The number of the next share.
    next: u32,
    /// By the pool's page number: the number of the share that has the page, and the page's number there. Empty while there is no share.
    own: Vec<Option<(u32, u32)>>,
    /// The pool's page numbers are below this.
    pages: u32,
    capacity: u32,
    spec: Spec,
    page_size: u64,
    random: Xoshiro256PlusPlus,
}

impl Shares {
    /// All pages under one policy.
    pub(crate) fn new(spec: &Spec, setup: &Setup) -> Self {
        Self {
            common: spec.build(setup),
            shares: Vec::new(),
            of_objects: Vec::new(),
            next: 0,
            own: Vec::new(),
            pages: setup.pages,
            capacity: setup.capacity,
            spec: spec.clone(),
            page_size: setup.page_size,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn len(&self) -> u32 {
        self.policies().map(AnyPolicy::resident).sum()
    }

    pub(crate) fn ghosts(&self) -> u32 {
        self.policies().map(AnyPolicy::ghosts).sum()
    }

    /// Whether a miss of some volume makes a page leave.
    pub(crate) fn full(&self) -> bool {
        self.policies().any(|policy| policy.resident() >= policy.capacity())
    }

    /// The state of the volumes' common policy.
    pub(crate) fn state(&self) -> Vec<(&'static str, f64)> {
        self.common.state()
    }

    pub(crate) fn bytes(&self) -> usize {
        let of_share = |share: &Share| {
            share.policy.bytes() + (share.numbers.capacity() + share.free.capacity()) * size_of::<u32>()
        };
        self.common.bytes()
            + self.shares.iter().map(of_share).sum::<usize>()
            + self.own.capacity() * size_of::<Option<(u32, u32)>>()
            + self.of_objects.capacity() * size_of::<u32>()
    }

    /// The pool's page numbers below `pages` may occur from now on.
    pub(crate) fn reserve(&mut self, pages: u32) {
        self.pages = self.pages.max(pages);
        self.common.reserve(pages);
    }

    /// A number stands for a page of that object from now on; no policy knows anything of it.
    pub(crate) fn named(&mut self, number: u32, object: u32) {
        if self.shares.is_empty() {
            return;
        }
        if let Some((share, own)) = self.own_number(number)
            && let Some(share) = self.shares.iter_mut().find(|other| other.number == share)
        {
            share.free.push(own);
        }
        if self.own.len() <= number as usize {
            self.own.resize(number as usize + 1, None);
        }
        let of_object = self.of_object(object);
        let share = self.shares.iter_mut().find(|share| Some(share.number) == of_object);
        self.own[number as usize] = share.map(|share| (share.number, share.give(number)));
    }

    /// Tells of hits.
    pub(crate) fn hits(&mut self, hits: &[Hit], judge: &mut Judge<'_>) {
        if self.shares.is_empty() {
            return self.common.hits(hits, judge);
        }
        for hit in hits {
            match self.own_number(hit.reference.page) {
                None => self.common.hits(std::slice::from_ref(hit), judge),
                Some((share, page)) => {
                    let hit = Hit { reference: Reference { page, ..hit.reference }, ..*hit };
                    let Share { policy, numbers, .. } = self.share(share);
                    judge.named(numbers, |judge| policy.hits(&[hit], judge));
                }
            }
        }
    }

    /// Whether a page is resident, and its policy waits to see it used.
    pub(crate) fn awaits_use(&self, number: u32) -> bool {
        let Some((share, page)) = self.own_number(number) else { return self.common.awaits_use(number) };
        let share = self.shares.iter().find(|other| other.number == share);
        share.is_some_and(|share| share.policy.awaits_use(page))
    }

    /// Tells of a miss, whose page becomes resident.
    pub(crate) fn miss(&mut self, reference: &Reference, judge: &mut Judge<'_>) -> Result<(), AllRefused> {
        if self.shares.is_empty() {
            return self.common.miss(reference, judge);
        }
        let own = self.own_number(reference.page);
        self.make_room(own.map(|(share, _)| share), judge);
        let Some((share, page)) = own else { return self.common.miss(reference, judge) };
        let Share { policy, numbers, .. } = self.share(share);
        judge.named(numbers, |judge| policy.miss(&Reference { page, ..*reference }, judge))
    }

    /// A cache above has evicted a page.
    pub(crate) fn evicted_above(&mut self, reference: &Reference, hits: u32) {
        let Some((share, page)) = self.own_number(reference.page) else {
            return self.common.evicted_above(reference, hits);
        };
        self.share(share).policy.evicted_above(&Reference { page, ..*reference }, hits);
    }

    /// A page is dropped.
    pub(crate) fn remove(&mut self, number: u32, judge: &mut Judge<'_>) {
        let Some((share, page)) = self.own_number(number) else { return self.common.remove(number, judge) };
        let Share { policy, numbers, .. } = self.share(share);
        judge.named(numbers, |judge| policy.remove(page, judge));
    }

    /// Blocks are given up.
    pub(crate) fn discard(&mut self, object: u32, blocks: Range<u64>) {
        if let Some(share) = self.of_object(object) {
            self.share(share).policy.discard(object, blocks.clone());
        }
        self.common.discard(object, blocks);
    }

    /// Tells the policies what concerns pages of theirs.
    pub(crate) fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled> {
        let mut answer = self.common.control(control)?;
        for share in &mut self.shares {
            let told = match control {
                Control::GiveUp { owner, pages } => {
                    let mine = |&number: &u32| {
                        let (of, page) = self.own.get(number as usize).copied().flatten()?;
                        (of == share.number).then_some(page)
                    };
                    Control::GiveUp { owner: *owner, pages: pages.iter().filter_map(mine).collect() }
                }
                _ => control.clone(),
            };
            answer += share.policy.control(&told)?;
        }
        Ok(answer)
    }

    /// How many shares there are.
    pub(crate) fn shares(&self) -> usize {
        self.shares.len()
    }

    /// The least capacity that the shares' mins allow.
    pub(crate) fn least(&self) -> u32 {
        self.shares.iter().map(|share| share.min.max(1)).sum::<u32>() + 1
    }

    /// Changes the capacity.
    pub(crate) fn resize(&mut self, capacity: u32, judge: &mut Judge<'_>) -> Result<(), AllRefused> {
        if self.shares.is_empty() {
            let resized = self.common.resize(capacity, judge);
            self.capacity = self.common.capacity();
            return resized;
        }
        self.take_slack(self.given().saturating_sub(capacity), judge);
        let too_many = u64::from(self.given().saturating_sub(capacity));
        let above = |of: Option<usize>, shares: &Self| u64::from(shares.above_min(of));
        let sum: u64 = self.holders().map(|of| above(of, self)).sum();
        for of in self.holders() {
            let part = (above(of, self) * too_many).div_ceil(sum.max(1)).min(above(of, self));
            self.take_from(of, part as u32, judge);
        }
        self.capacity = self.given().max(capacity);
        if self.capacity > capacity { Err(AllRefused) } else { Ok(()) }
    }

    /// A number for another share.
    pub(crate) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// An object has a share from now on. None of its pages is known to any policy.
    pub(crate) fn join(&mut self, object: u32, share: u32) {
        if self.of_objects.len() <= object as usize {
            self.of_objects.resize(object as usize + 1, NONE);
        }
        self.of_objects[object as usize] = share;
    }

    /// The number of the share that an object has.
    pub(crate) fn of_object(&self, object: u32) -> Option<u32> {
        self.of_objects.get(object as usize).copied().filter(|&share| share != NONE)
    }

    /// Whether that is the number of a share that is no object's own.
    pub(crate) fn is_of_several(&self, number: Option<u32>) -> bool {
        self.shares.iter().any(|share| Some(share.number) == number && share.object.is_none())
    }

    /// Makes the share of that number, of at least `min` and at most `max` frames, or changes it. `object`: the one whose own it is, if it is one's.
    pub(crate) fn set(&mut self, number: u32, object: Option<u32>, (min, max): (u32, u32), judge: &mut Judge<'_>) {
        let max = max.max(min).max(1);
        if let Some(at) = self.shares.iter().position(|share| share.number == number) {
            (self.shares[at].min, self.shares[at].max) = (min, max);
            let over = self.shares[at].policy.capacity().saturating_sub(max);
            self.take_from(Some(at), over, judge);
            return;
        }
        // Policies choose their first state by their capacity, so a share begins with its min if that can be had.
        let wanted = min.max(1);
        let missing = wanted.saturating_sub(self.capacity - self.given());
        self.take_slack(missing, judge);
        let missing = wanted.saturating_sub(self.capacity - self.given());
        self.take(missing, None, judge);
        let policy = self.spec.build(&Setup { page_size: self.page_size, ..self.spec.setup(wanted, 1) });
        let (numbers, free) = (Vec::new(), Vec::new());
        let mut share = Share { number, object, min, max, policy, numbers, free, reserved: 1 };
        let got = (self.capacity - self.given()).min(wanted).max(1);
        // An empty policy has nothing to refuse.
        let _ = share.policy.resize(got, judge);
        self.shares.push(share);
    }

    /// The object has no page any more, and is not used again: a share of its own is the others'. Returns the numbers of its ghosts.
    pub(crate) fn unset(&mut self, object: u32, judge: &mut Judge<'_>) -> Vec<u32> {
        if let Some(share) = self.of_objects.get_mut(object as usize) {
            *share = NONE;
        }
        let Some(at) = self.shares.iter().position(|share| share.object == Some(object)) else { return Vec::new() };
        let share = self.shares.swap_remove(at);
        assert_eq!(share.policy.resident(), 0, "an object that goes has no page");
        let of_share = |own: &Option<(u32, u32)>| own.is_some_and(|(of, _)| of == share.number);
        let mine = |number: &u32| self.own.get(*number as usize).is_some_and(of_share);
        let numbers: Vec<u32> = share.numbers.into_iter().filter(mine).collect();
        numbers.iter().for_each(|&number| self.own[number as usize] = None);
        if self.shares.is_empty() {
            (self.own, self.of_objects) = (Vec::new(), Vec::new());
            self.common.resize(self.capacity, judge).expect("it grows");
        }
        numbers
    }

    /// What the share of that number has.
    pub(crate) fn state_of(&self, number: u32) -> Option<ShareState> {
        let share = self.shares.iter().find(|share| share.number == number)?;
        Some(ShareState { min: share.min, max: share.max, resident: share.policy.resident() })
    }

    /// Recounts the whole state.
    pub(crate) fn check_invariants(&self) {
        self.policies().for_each(AnyPolicy::check_invariants);
        assert!(self.given() <= self.capacity, "SH1");
        assert!(self.policies().all(|policy| policy.capacity() > 0), "SH1");
        for share in &self.shares {
            let free = |own: u32| share.free.contains(&own);
            for (own, &number) in (0..).zip(&share.numbers) {
                assert!(free(own) || self.own_number(number) == Some((share.number, own)), "SH2");
            }
            let of_number = self.shares.iter().filter(|other| other.number == share.number).count();
            assert_eq!((of_number, share.number < self.next), (1, true), "SH3");
            let kept = share.object.is_none_or(|object| self.of_object(object) == Some(share.number));
            assert!(kept, "SH3");
        }
        let owned = self.own.iter().flatten().count();
        let given: usize = self.shares.iter().map(|share| share.numbers.len() - share.free.len()).sum();
        assert_eq!(owned, given, "SH2");
    }

    fn policies(&self) -> impl Iterator<Item = &dyn AnyPolicy> {
        let shares = self.shares.iter().map(|share| share.policy.as_ref());
        std::iter::once(self.common.as_ref()).chain(shares)
    }

    /// The common policy, and the shares by index.
    fn holders(&self) -> impl Iterator<Item = Option<usize>> + use<> {
        std::iter::once(None).chain((0..self.shares.len()).map(Some))
    }

    fn policy(&self, of: Option<usize>) -> &dyn AnyPolicy {
        of.map_or(self.common.as_ref(), |at| self.shares[at].policy.as_ref())
    }

    fn share(&mut self, number: u32) -> &mut Share {
        let share = self.shares.iter_mut().find(|share| share.number == number);
        share.expect("a share is there as long as its pages")
    }

    fn own_number(&self, number: u32) -> Option<(u32, u32)> {
        self.own.get(number as usize).copied().flatten()
    }

    /// The capacities together.
    fn given(&self) -> u32 {
        self.policies().map(AnyPolicy::capacity).sum()
    }

    /// How many pages may be taken from a policy.
    fn above_min(&self, of: Option<usize>) -> u32 {
        let min = of.map_or(0, |at| self.shares[at].min);
        self.policy(of).resident().saturating_sub(min.max(1))
    }

    /// Frames that a policy has and does not use.
    fn slack(&self, of: Option<usize>) -> u32 {
        let policy = self.policy(of);
        policy.capacity() - policy.resident().max(1)
    }

    /// Before a miss of that share, or of the common policy: gives it frames, if it is full and others are to give some.
    fn make_room(&mut self, share: Option<u32>, judge: &mut Judge<'_>) {
        let at = |number| self.shares.iter().position(|share| share.number == number).expect("it is there");
        let of = share.map(at);
        let (len, capacity) = (self.policy(of).resident(), self.policy(of).capacity());
        let (min, max) = of.map_or((0, u32::MAX), |at| (self.shares[at].min, self.shares[at].max));
        if capacity > max {
            // Its max was lowered, and pages were refused.
            self.take_from(of, capacity - max, judge);
        }
        if len < capacity || capacity >= max {
            return;
        }
        let mut step = (self.capacity / PARTS).max(1).min(max - capacity);
        if self.capacity == self.given() {
            self.take_slack(step, judge);
        }
        if self.capacity == self.given() {
            if capacity < min {
                step = step.min(min - capacity);
                self.take(step, Some(of), judge);
            } else if let Some(from) = self.drawn(step).filter(|&from| from != of) {
                self.take_from(from, step.min(self.above_min(from)), judge);
            }
        }
        let grown = capacity + step.min(self.capacity - self.given());
        if grown > capacity {
            match of {
                None => self.common.resize(grown, judge),
                Some(at) => {
                    let Share { policy, numbers, .. } = &mut self.shares[at];
                    judge.named(numbers, |judge| policy.resize(grown, judge))
                }
            }
            .expect("a policy that grows evicts nothing");
        }
    }

    /// Who is to give up `step` frames at this miss: now and then, each in proportion to what it has above its min.
    fn drawn(&mut self, step: u32) -> Option<Option<usize>> {
        if !self.random.next_u32().is_multiple_of(step) {
            return None;
        }
        let sum: u64 = self.holders().map(|of| u64::from(self.above_min(of))).sum();
        let mut drawn = self.random.next_u64().checked_rem(sum)?;
        self.holders().find(|&of| {
            let above = u64::from(self.above_min(of));
            let found = drawn < above;
            drawn = drawn.saturating_sub(above);
            found
        })
    }

    /// Takes frames that are not used.
    fn take_slack(&mut self, mut frames: u32, judge: &mut Judge<'_>) {
        for of in self.holders() {
            let slack = self.slack(of).min(frames);
            self.take_from(of, slack, judge);
            frames -= slack;
        }
    }

    /// Takes frames from those who have the most above their min, one after the other.
    fn take(&mut self, mut frames: u32, except: Option<Option<usize>>, judge: &mut Judge<'_>) {
        let mut others: Vec<Option<usize>> = self.holders().filter(|&of| Some(of) != except).collect();
        others.sort_by_key(|&of| std::cmp::Reverse(self.above_min(of)));
        for from in others {
            let before = self.given();
            self.take_from(from, frames.min(self.above_min(from)), judge);
            frames -= before - self.given();
        }
    }

    /// Takes frames from a policy, or as many as are not refused.
    fn take_from(&mut self, of: Option<usize>, frames: u32, judge: &mut Judge<'_>) {
        if frames == 0 {
            return;
        }
        // A policy that is refused keeps as much capacity as it has pages.
        let _refused = match of {
            None => self.common.resize(self.common.capacity() - frames, judge),
            Some(at) => {
                let Share { policy, numbers, .. } = &mut self.shares[at];
                judge.named(numbers, |judge| policy.resize(policy.capacity() - frames, judge))
            }
        };
    }
}

impl Share {
    /// An own number for one of the pool's.
    fn give(&mut self, number: u32) -> u32 {
        if let Some(own) = self.free.pop() {
            self.numbers[own as usize] = number;
            return own;
        }
        let own = self.numbers.len() as u32;
        self.numbers.push(number);
        if own >= self.reserved {
            self.reserved = own + 1 + self.reserved / 8;
            self.policy.reserve(self.reserved);
        }
        own
    }
}
