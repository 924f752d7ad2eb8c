//! The adaptive `lifeTime`: nine of them are tried on a sample of the pages, and the one with the most hits is taken.
//!
//! ```text
//!   a page used f times, last at time u, k = QueueNum(f):  rank = u + k × lifeTime       the least rank is evicted first
//!
//!   rank   9   12 | 15   17   20   21          resident are the ranks from the threshold up, as many as there are frames
//!                 ^ threshold; it rises when a page comes in that was below it
//! ```
//!
//! By Figure 5 a page goes one queue down for each lifeTime that passes without a use. So it comes to Q0 at u + k × lifeTime, and Q0
//! evicts in that order; pages that are still above come later, in that order too. A trial of a lifeTime therefore needs no queues:
//! its threshold and the number of sampled pages from there up say which pages it has. For all trials together, the sampled pages are
//! counted by queue and by the time of their last use, in units of a 32nd of the cache (*turns*). A use of a sampled page is one
//! look at each threshold, and a hit where the page's rank is not below it.
//!
//! The trial with the most hits gives the lifeTime. Hits count less the older they are: after as many turns as are remembered, 1/e.
//!
//! One page of each 2^bits neighbours is sampled, which one being drawn by the neighbours' number: so what is known of the sampled
//! pages is an array without gaps, and no regular pattern of page numbers is sampled always or never.

/// Turns while as many references pass as there are frames.
const TURNS: u32 = 32;
/// For how many turns uses are remembered: 64 times the cache.
const REMEMBERED: usize = 64 * TURNS as usize;
/// What is tried, in eighths of the cache.
const LIVES: [u64; 9] = [1, 4, 8, 16, 32, 64, 128, 256, 512];
/// The trial whose lifeTime is taken until others have more hits: 2 times the cache.
const FIRST: usize = 3;
/// A trial takes over when it has so much more hits than the one that was best: what is nearly as good changes from turn to turn.
const AHEAD: f64 = 1.005;
/// The least number of frames of a trial, if the cache has as many.
const FRAMES: u32 = 2048;
/// Queues from this one on count as one: the table of counts stays small.
const MOST_QUEUES: usize = 8;
/// The most turns that a threshold moves on at one use. What is left to do is done at the next ones.
const STEPS: u32 = 64;

/// What is known of a sampled page.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// How often it was used, as far as that is known at all; 0: nothing is.
    uses: u32,
    /// The turn of its last use, in its low bits.
    last: u32,
}

#[derive(Debug)]
pub(super) struct Trials {
    /// By the number of the neighbours.
    seen: Vec<Seen>,
    bits: u32,
    pages: u32,
    queues: usize,
    /// MT1. By turn of the last use, then by queue: how many sampled pages there are. Of turns that are remembered.
    counts: Vec<u16>,
    /// By trial, in turns.
    lives: [i32; LIVES.len()],
    thresholds: [i32; LIVES.len()],
    /// MT2. By trial: the sampled pages with ranks from the threshold up.
    lens: [i32; LIVES.len()],
    /// By trial: hits in this turn, and before.
    new_hits: [i32; LIVES.len()],
    hits: [f64; LIVES.len()],
    best: usize,
    frames: i32,
    turn: u32,
    /// The references of a turn, and those until it is over.
    width: u32,
    left: u32,
    /// The sampled page whose age is looked at next.
    swept: usize,
}

impl Trials {
    pub(super) fn new(pages: u32, capacity: u32, queues: usize) -> Self {
        let queues = queues.min(MOST_QUEUES);
        let width = (capacity / TURNS).max(1);
        let bits = (capacity / FRAMES).max(1).ilog2();
        let life = |eighths: u64| (eighths * u64::from(capacity) / 8 / u64::from(width)).max(1) as i32;
        // The threshold moves by whole turns, so that on the average half a turn's pages are missing.
        let frames = f64::from(capacity) / f64::from(1 << bits) * (1.0 + 0.5 / f64::from(TURNS));
        let mut trials = Self {
            seen: Vec::new(),
            bits,
            pages: 0,
            queues,
            counts: vec![0; REMEMBERED * queues],
            lives: LIVES.map(life),
            thresholds: [0; LIVES.len()],
            lens: [0; LIVES.len()],
            new_hits: [0; LIVES.len()],
            hits: [0.0; LIVES.len()],
            best: FIRST,
            frames: frames as i32,
            turn: 0,
            width,
            left: width,
            swept: 0,
        };
        trials.reserve(pages);
        trials
    }

    /// Page numbers below `pages` may occur.
    pub(super) fn reserve(&mut self, pages: u32) {
        self.pages = self.pages.max(pages);
        let neighbours = self.pages.div_ceil(1 << self.bits) as usize;
        self.seen.reserve_exact(neighbours.saturating_sub(self.seen.len()));
        self.seen.resize(neighbours, Seen::default());
    }

    /// The trials for a cache of another capacity. Nothing is known of any page.
    pub(super) fn anew(&self, capacity: u32) -> Self {
        // Turns are counted on, as pages entered their queues at them.
        let mut anew = Self::new(self.pages, capacity, self.queues);
        anew.begin_at(self.turn);
        anew
    }

    pub(super) fn begin_at(&mut self, turn: u32) {
        self.turn = turn;
        self.thresholds = [turn as i32; LIVES.len()];
    }

    /// In turns.
    pub(super) fn life_time(&self) -> u32 {
        self.lives[self.best].unsigned_abs()
    }

    /// In references.
    pub(super) fn life_time_in_references(&self) -> u64 {
        u64::from(self.life_time()) * u64::from(self.width)
    }

    /// The number of turns so far, in its low bits.
    pub(super) fn now(&self) -> u32 {
        self.turn
    }

    pub(super) fn has(&self, page: u32) -> bool {
        let neighbours = page >> self.bits;
        // Fibonacci hashing: the high bits of the product depend on all bits of the number.
        let drawn = u64::from(neighbours.wrapping_mul(0x9e37_79b9)) >> (32 - self.bits);
        u64::from(page) == (u64::from(neighbours) << self.bits) + drawn
    }

    /// A reference to any page.
    #[inline]
    pub(super) fn refer(&mut self, page: u32) {
        if self.has(page) {
            self.refer_sampled(page);
        }
    }

    #[cold]
    fn refer_sampled(&mut self, page: u32) {
        let index = (page >> self.bits) as usize;
        let seen = self.seen[index];
        let known = self.is_known(seen);
        if known {
            let had = self.take_out(seen);
            self.new_hits.iter_mut().zip(had).for_each(|(hits, had)| *hits += had);
        }
        let seen = Seen { uses: if known { seen.uses.saturating_add(1) } else { 1 }, last: self.turn };
        if *self.count(seen) == u16::MAX {
            // In a large cache to which references to sampled pages alone come: the others will do.
            self.seen[index] = Seen::default();
            return;
        }
        self.seen[index] = seen;
        *self.count(seen) += 1;
        let has = self.trials_with(seen);
        for (trial, has) in has.into_iter().enumerate() {
            self.lens[trial] += has;
            let mut steps = 0;
            while self.lens[trial] > self.frames && steps < STEPS {
                self.raise(trial);
                steps += 1;
            }
        }
    }

    /// The policy knows nothing of a sampled page any more.
    pub(super) fn forget(&mut self, page: u32) {
        let seen = std::mem::take(&mut self.seen[(page >> self.bits) as usize]);
        if self.is_known(seen) {
            self.take_out(seen);
        }
    }

    /// A reference has passed. Whether a turn has, and another `lifeTime` may be the best.
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
        let oldest = self.turn.wrapping_sub(REMEMBERED as u32);
        for k in 0..self.queues {
            let cell = self.cell(oldest, k);
            let count = i32::from(std::mem::take(&mut self.counts[cell]));
            for (trial, len) in self.lens.iter_mut().enumerate() {
                let rank = rank(oldest, k, self.lives[trial]);
                *len -= count * i32::from(is_from(rank, self.thresholds[trial]));
            }
        }
        let first = oldest.wrapping_add(1) as i32;
        self.thresholds.iter_mut().filter(|threshold| is_from(first, **threshold)).for_each(|least| *least = first);
        self.compare();
        self.forget_the_oldest();
    }

    fn compare(&mut self) {
        let mut best = self.best;
        for trial in 0..LIVES.len() {
            self.hits[trial] = self.hits[trial] * (1.0 - 1.0 / REMEMBERED as f64) + f64::from(self.new_hits[trial]);
        }
        self.new_hits = [0; LIVES.len()];
        for trial in 0..LIVES.len() {
            let ahead = if best == self.best { AHEAD } else { 1.0 };
            if self.hits[trial] > self.hits[best] * ahead {
                best = trial;
            }
        }
        self.best = best;
    }

    /// One page a turn: so none is left until the turns' numbers come round.
    fn forget_the_oldest(&mut self) {
        self.swept = if self.swept + 1 < self.seen.len() { self.swept + 1 } else { 0 };
        if let Some(&seen) = self.seen.get(self.swept)
            && !self.is_known(seen)
        {
            self.seen[self.swept] = Seen::default();
        }
    }

    fn is_known(&self, seen: Seen) -> bool {
        seen.uses > 0 && self.turn.wrapping_sub(seen.last) < REMEMBERED as u32
    }

    /// Counts a page no longer, and says by trial whether it was there, as 0 or 1.
    fn take_out(&mut self, seen: Seen) -> [i32; LIVES.len()] {
        *self.count(seen) -= 1;
        let had = self.trials_with(seen);
        self.lens.iter_mut().zip(had).for_each(|(len, had)| *len -= had);
        had
    }

    fn trials_with(&self, seen: Seen) -> [i32; LIVES.len()] {
        let k = self.queue_num(seen.uses);
        std::array::from_fn(|trial| i32::from(is_from(rank(seen.last, k, self.lives[trial]), self.thresholds[trial])))
    }

    /// Takes the pages with the least rank out of a trial.
    fn raise(&mut self, trial: usize) {
        for k in 0..self.queues {
            let turn = (self.thresholds[trial] as u32).wrapping_sub(k as u32 * self.lives[trial].unsigned_abs());
            // A rank may be reached by pages of other queues alone.
            if self.turn.wrapping_sub(turn) < REMEMBERED as u32 {
                self.lens[trial] -= i32::from(self.counts[self.cell(turn, k)]);
            }
        }
        self.thresholds[trial] = self.thresholds[trial].wrapping_add(1);
    }

    fn count(&mut self, seen: Seen) -> &mut u16 {
        let cell = self.cell(seen.last, self.queue_num(seen.uses));
        &mut self.counts[cell]
    }

    fn cell(&self, turn: u32, k: usize) -> usize {
        turn as usize % REMEMBERED * self.queues + k
    }

    /// `QueueNum(f)`.
    fn queue_num(&self, uses: u32) -> usize {
        (uses.ilog2() as usize).min(self.queues - 1)
    }

    pub(super) fn bytes(&self) -> usize {
        self.seen.capacity() * size_of::<Seen>() + self.counts.capacity() * size_of::<u16>()
    }

    pub(super) fn check_invariants(&self) {
        let known: Vec<Seen> = self.seen.iter().copied().filter(|&seen| self.is_known(seen)).collect();
        assert_eq!(known.len() as u64, self.counts.iter().copied().map(u64::from).sum::<u64>()); // MT1
        assert!(known.iter().all(|seen| self.counts[self.cell(seen.last, self.queue_num(seen.uses))] > 0)); // MT1
        let mut lens = [0; LIVES.len()];
        for &seen in &known {
            lens.iter_mut().zip(self.trials_with(seen)).for_each(|(len, has)| *len += has);
        }
        assert_eq!(lens, self.lens); // MT2
    }

    #[cfg(test)]
    pub(super) fn always(&mut self, life: i32) {
        self.lives = [life; LIVES.len()];
    }
}

fn rank(turn: u32, k: usize, life: i32) -> i32 {
    (turn as i32).wrapping_add(k as i32 * life)
}

/// Whether a rank is not below a threshold. Both are turns, whose numbers come round.
fn is_from(rank: i32, threshold: i32) -> bool {
    rank.wrapping_sub(threshold) >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u32 = 320;

    /// The lifeTime, as a multiple of the cache, after these references.
    fn chosen(references: impl Iterator<Item = u32>) -> f64 {
        let mut trials = Trials::new(100_000, CAPACITY, 8);
        for page in references {
            trials.refer(page);
            trials.passes();
        }
        trials.check_invariants();
        trials.life_time_in_references() as f64 / f64::from(CAPACITY)
    }

    #[test]
    fn pages_live_until_the_hill_if_there_are_frames_for_it() {
        // One reference in 20 is to one of 100 pages in turn, so at a distance of 2,000, 6 times the cache; the others are not used again.
        let chosen = chosen((0..60_000).map(|time| if time % 20 == 0 { time / 20 % 100 } else { 1_000 + time }));
        assert!(chosen >= 4.0, "{chosen}");
    }

    #[test]
    fn what_was_used_often_goes_soon_where_use_moves_on() {
        // Eight uses of each page within 800 references, then never again: half of that fits into the cache behind the window.
        let chosen = chosen((0..60_000).map(|time| time / 800 * 100 + time % 100 + time / 8 % 100 * (time % 2)));
        assert!(chosen <= 0.5, "{chosen}");
    }

    #[test]
    fn a_change_of_lifetime_is_no_long_step() {
        // At each reference no more is looked at than a few cells for each trial and queue.
        let mut trials = Trials::new(100_000, CAPACITY, 8);
        for time in 0..50_000 {
            let before = trials.thresholds;
            trials.refer(time * 7 % 5_000);
            let moved = before.iter().zip(trials.thresholds).map(|(&before, after)| after.wrapping_sub(before));
            assert!(moved.max() <= Some(STEPS as i32));
            trials.passes();
        }
    }
}
