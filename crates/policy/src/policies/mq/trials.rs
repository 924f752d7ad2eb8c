//! What the adaptive form goes by: eight lifeTimes and the density of hits are tried on a sample of the pages, and what had the most hits
//! is taken.
//!
//! Each trial is a small MQ of its own (`life.rs`, `dense.rs`): a page that its Qout has forgotten begins anew in it, as in the policy
//! that would run. Time is in *turns*, a 32nd of the references that the cache has frames. Of a sampled page the trials have its queue in
//! each of them; the turn of its last use is the policy's. Where a page goes one queue up is said by its uses as the policy counts them:
//! at each second use from Q1, at each fourth from Q2. For a page that a trial has not forgotten these are the uses at which Figure 5
//! moves it.
//!
//! Hits count less the older they are: after 64 times as many references as there are frames, 1/e.
//!
//! One page of each 2^bits neighbours is sampled, which one being drawn by the neighbours' number: so what is known of the sampled
//! pages is an array without gaps, and no regular pattern of page numbers is sampled always or never.

use super::dense::Dense;
use super::density::{Cell, Filled, Turns};
use super::life::{Had, Life};

/// Turns while as many references pass as there are frames.
const TURNS: u32 = 32;
/// For how many turns uses are remembered: 32 times the cache.
pub(super) const REMEMBERED: usize = 32 * TURNS as usize;
/// The turns after which hits count 1/e.
const HITS: f64 = 2048.0;
/// What is tried, in eighths of the cache.
const LIVES: [u64; 8] = [1, 4, 8, 16, 32, 64, 128, 256];
/// The trial of the density comes after those of lifeTimes.
const DENSITY: usize = LIVES.len();
const TRIALS: usize = DENSITY + 1;
/// The trial whose lifeTime is taken until others have more hits: 2 times the cache.
const FIRST: usize = 3;
/// A lifeTime takes over when it has so much more hits than the one that was best: what is nearly as good changes from turn to turn.
const AHEAD: f64 = 1.01;
/// The density takes over from lifeTimes, and they from it, when the lead is half a percent and as many hits as this part of the frames:
/// other pages are resident then, so it costs misses.
const AHEAD_BY_KIND: f64 = 1.005;
const OTHERS: f64 = 3.0 / 16.0;
/// The least number of frames of a trial, if the cache has as many.
const FRAMES: u32 = 2048;
/// With trials there are no more queues than this: the tables stay small, and a queue takes three bits.
pub(super) const MOST_QUEUES: usize = 8;

/// How many sampled pages are resident, and are in Qout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    pub(super) resident: i32,
    pub(super) ghosts: i32,
}

/// A sampled page's queue in each trial, and whether it is known at all.
#[derive(Clone, Copy, Debug, Default)]
struct Seen(u32);

impl Seen {
    const KNOWN: u32 = 1 << 31;

    fn in_all(k: usize) -> Self {
        let queues: u32 = (0..TRIALS).map(|trial| (k as u32) << (3 * trial)).sum();
        Self(Self::KNOWN | queues)
    }

    fn is_known(self) -> bool {
        self.0 & Self::KNOWN != 0
    }

    fn queue(self, trial: usize) -> usize {
        (self.0 >> (3 * trial)) as usize & 7
    }

    fn set_queue(&mut self, trial: usize, k: usize) {
        self.0 = self.0 & !(7 << (3 * trial)) | (k as u32) << (3 * trial);
    }
}

#[derive(Debug)]
pub(super) struct Trials {
    /// By the number of the neighbours.
    seen: Vec<Seen>,
    bits: u32,
    pages: u32,
    queues: usize,
    lives: Vec<Life>,
    dense: Option<Dense>,
    /// By trial: hits in this turn, and before.
    new_hits: [u32; TRIALS],
    hits: [f64; TRIALS],
    /// The best lifeTime, and whether the density is better.
    life: usize,
    by_density: bool,
    /// The ghosts of Qout for each frame.
    out: u32,
    frames: Frames,
    turn: u32,
    /// The references of a turn, and those until it is over.
    width: u32,
    left: u32,
}

impl Trials {
    pub(super) fn new(pages: u32, capacity: u32, queues: usize, out: u32, density: bool) -> Self {
        let width = (capacity / TURNS).max(1);
        let bits = (capacity / FRAMES).max(1).ilog2();
        let life = |eighths: u64| (eighths * u64::from(capacity) / 8 / u64::from(width)).max(1) as i32;
        let mut trials = Self {
            seen: Vec::new(),
            bits,
            pages: 0,
            queues,
            lives: LIVES.iter().map(|&eighths| Life::new(life(eighths), queues)).collect(),
            dense: density.then(|| Dense::new(queues)),
            new_hits: [0; TRIALS],
            hits: [0.0; TRIALS],
            life: FIRST,
            by_density: false,
            out,
            frames: Frames { resident: 0, ghosts: 0 },
            turn: 0,
            width,
            left: width,
        };
        trials.set_frames(capacity);
        trials.reserve(pages);
        trials
    }

    /// The trials of a cache of another capacity: nothing is known of any page, but what is taken stays so until others have more hits.
    /// Turns are counted on, as the pages' times are in them.
    pub(super) fn anew(&self, capacity: u32) -> Self {
        let mut anew = Self::new(self.pages, capacity, self.queues, self.out, self.dense.is_some());
        anew.begin_at(self.turn);
        (anew.life, anew.by_density) = (self.life, self.by_density);
        anew
    }

    pub(super) fn set_frames(&mut self, capacity: u32) {
        // Pages leave by whole turns, so that on the average half a turn's are missing.
        let frames = f64::from(capacity) / f64::from(1 << self.bits) * (1.0 + 0.5 / f64::from(TURNS));
        self.frames = Frames { resident: frames as i32, ghosts: (frames * f64::from(self.out)) as i32 };
    }

    /// Page numbers below `pages` may occur.
    pub(super) fn reserve(&mut self, pages: u32) {
        self.pages = self.pages.max(pages);
        let neighbours = self.pages.div_ceil(1 << self.bits) as usize;
        self.seen.reserve_exact(neighbours.saturating_sub(self.seen.len()));
        self.seen.resize(neighbours, Seen::default());
    }

    pub(super) fn begin_at(&mut self, turn: u32) {
        self.turn = turn;
        self.lives.iter_mut().for_each(|life| life.begin_at(turn));
    }

    /// The best lifeTime, in turns.
    pub(super) fn life_time(&self) -> u32 {
        self.lives[self.life].life.unsigned_abs()
    }

    /// In references.
    pub(super) fn life_time_in_references(&self) -> u64 {
        u64::from(self.life_time()) * u64::from(self.width)
    }

    /// Whether the density is taken, and no lifeTime.
    pub(super) fn by_density(&self) -> bool {
        self.by_density
    }

    /// The least dense cell of those of the policy's own pages.
    pub(super) fn least_dense(&self, turns: &[Turns], groups: &mut Filled) -> Option<Cell> {
        self.dense.as_ref()?.least(turns, self.turn, groups)
    }

    /// The number of turns so far, in its low bits.
    pub(super) fn now(&self) -> u32 {
        self.turn
    }

    /// The references of a turn.
    pub(super) fn width(&self) -> u32 {
        self.width
    }

    pub(super) fn has(&self, page: u32) -> bool {
        let neighbours = page >> self.bits;
        // Fibonacci hashing: the high bits of the product depend on all bits of the number.
        let drawn = u64::from(neighbours.wrapping_mul(0x9e37_79b9)) >> (32 - self.bits);
        u64::from(page) == (u64::from(neighbours) << self.bits) + drawn
    }

    /// A reference to a sampled page, whose last use was in this turn, if there was one.
    #[cold]
    pub(super) fn refer(&mut self, page: u32, last: u32, reference: u32) {
        let before = std::mem::take(&mut self.seen[(page >> self.bits) as usize]);
        let mut seen = Seen::in_all(0);
        if before.is_known() {
            self.dense.iter_mut().for_each(|dense| dense.used(before.queue(DENSITY), last, self.turn));
            for trial in 0..TRIALS {
                let k = before.queue(trial);
                let had = self.take_out(trial, k, last);
                self.new_hits[trial] += u32::from(had == Had::Resident);
                let up = usize::from(reference & ((1 << k) - 1) == 0 && k + 1 < self.queues);
                seen.set_queue(trial, if had == Had::Nothing { 0 } else { k + up });
            }
        }
        self.put_in(page, seen);
    }

    /// A page is known as of this use, in the same queue of all trials.
    pub(super) fn begin_with(&mut self, page: u32, k: usize) {
        self.put_in(page, Seen::in_all(k));
    }

    /// The policy knows nothing of a sampled page any more.
    pub(super) fn forget(&mut self, page: u32, last: u32) {
        let seen = std::mem::take(&mut self.seen[(page >> self.bits) as usize]);
        if seen.is_known() {
            (0..TRIALS).for_each(|trial| _ = self.take_out(trial, seen.queue(trial), last));
        }
    }

    fn take_out(&mut self, trial: usize, k: usize, last: u32) -> Had {
        let now = self.turn;
        match self.lives.get_mut(trial) {
            Some(life) => life.take_out(k, last),
            None => self.dense.as_mut().map_or(Had::Nothing, |dense| dense.take_out(k, last, now)),
        }
    }

    fn put_in(&mut self, page: u32, seen: Seen) {
        let now = self.turn;
        let has_room = |(trial, life): (usize, &Life)| life.has_room(seen.queue(trial), now);
        let in_lives = self.lives.iter().enumerate().all(has_room);
        if !in_lives || self.dense.as_ref().is_some_and(|dense| !dense.has_room(seen.queue(DENSITY), now)) {
            // The others will do.
            return;
        }
        self.seen[(page >> self.bits) as usize] = seen;
        for (trial, life) in self.lives.iter_mut().enumerate() {
            life.put_in(seen.queue(trial), now, self.frames);
        }
        self.dense.iter_mut().for_each(|dense| dense.put_in(seen.queue(DENSITY), now, self.frames));
    }

    /// A reference has passed. Whether a turn has, and another trial may be the best.
    #[inline]
    pub(super) fn passes(&mut self) -> bool {
        self.left -= 1;
        let over = self.left == 0;
        if over {
            self.next_turn();
        }
        over
    }

    fn next_turn(&mut self) {
        self.left = self.width;
        self.turn = self.turn.wrapping_add(1);
        self.lives.iter_mut().for_each(|life| life.next_turn(self.turn));
        self.dense.iter_mut().for_each(|dense| dense.next_turn(self.turn, self.width, TURNS));
        self.compare();
    }

    fn compare(&mut self) {
        for (hits, new_hits) in self.hits.iter_mut().zip(&mut self.new_hits) {
            *hits = *hits * (1.0 - 1.0 / HITS) + f64::from(std::mem::take(new_hits));
        }
        let was = self.life;
        for life in 0..DENSITY {
            if self.hits[life] > self.hits[self.life] * if self.life == was { AHEAD } else { 1.0 } {
                self.life = life;
            }
        }
        let (now, other) = if self.by_density { (DENSITY, self.life) } else { (self.life, DENSITY) };
        if self.hits[other] > self.hits[now] * AHEAD_BY_KIND + OTHERS * f64::from(self.frames.resident) {
            self.by_density = !self.by_density;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.seen.capacity() * size_of::<Seen>()
            + self.lives.iter().map(|life| life.bytes() + size_of::<Life>()).sum::<usize>()
            + self.dense.as_ref().map_or(0, Dense::bytes)
    }

    /// `known` are the sampled pages that the policy knows, and the turn of the last use of each.
    pub(super) fn check_invariants(&self, known: impl Iterator<Item = (u32, u32)>) {
        let known = known.map(|(page, last)| (self.seen[(page >> self.bits) as usize], last));
        let known: Vec<(Seen, u32)> = known.filter(|(seen, _)| seen.is_known()).collect();
        assert_eq!(known.len(), self.seen.iter().filter(|seen| seen.is_known()).count());
        let of =
            |trial| known.iter().map(move |(seen, last): &(Seen, u32)| (seen.queue(trial), *last)).collect::<Vec<_>>();
        self.lives.iter().enumerate().for_each(|(trial, life)| life.check(&of(trial)));
        self.dense.iter().for_each(|dense| dense.check(&of(DENSITY), self.turn));
    }

    #[cfg(test)]
    pub(super) fn always(&mut self, life: i32) {
        self.lives.iter_mut().for_each(|trial| *trial = Life::new(life, self.queues));
        self.dense = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const CAPACITY: u32 = 320;

    /// After these references, all pages being known for ever: the lifeTime as a multiple of the cache, and whether the density is better.
    fn chosen(references: impl Iterator<Item = u32>) -> (f64, bool) {
        let mut trials = Trials::new(100_000, CAPACITY, 8, 4, true);
        let mut last = HashMap::new();
        for page in references {
            let (turn, uses) = last.get(&page).copied().unwrap_or((0, 0));
            trials.refer(page, turn, uses + 1);
            last.insert(page, (trials.now(), uses + 1));
            trials.passes();
        }
        trials.check_invariants(last.iter().map(|(&page, &(turn, _))| (page, turn)));
        (trials.life_time_in_references() as f64 / f64::from(CAPACITY), trials.by_density())
    }

    #[test]
    fn pages_live_until_the_hill_if_there_are_frames_for_it() {
        // One reference in 20 is to one of 100 pages in turn, so at a distance of 2,000, within Qout; the others are not used again.
        let references = (0..60_000).map(|time| if time % 16 == 0 { time / 16 % 80 } else { 1_000 + time });
        let (life_time, by_density) = chosen(references);
        assert!(life_time >= 4.0 || by_density, "{life_time}");
    }

    #[test]
    fn what_was_used_often_goes_soon_where_use_moves_on() {
        // Eight uses of each page within 800 references, then never again: half of that fits into the cache behind the window.
        let chosen = chosen((0..60_000).map(|time| time / 800 * 100 + time % 100 + time / 8 % 100 * (time % 2)));
        assert!(chosen.0 <= 0.5, "{chosen:?}");
    }

    #[test]
    fn a_loop_a_little_larger_than_the_cache_is_for_the_density() {
        assert!(chosen((0..60_000).map(|time| time % 400)).1);
        assert!(!chosen((0..60_000).map(|time| time % 300)).1);
    }
}
