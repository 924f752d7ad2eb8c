//! The adaptive `lifeTime`: how many hits each one would give, from the temporal distances that were seen.
//!
//! A block in queue k lives for about `t + k × lifeTime` after its last use: `lifeTime` in each queue down to queue 1, then t in
//! queue 0 until it is evicted. (When the blocks above fill the memory, t is negative: the lowest queues are empty.) So of
//! the references that put blocks into queue k, those are followed by a hit whose block is used again within that life: a part
//! of the temporal distance histogram of queue k. And by Little's law those blocks occupy, on the average, as many frames as
//! enter in a reference times the mean of the shorter of life and distance. The frames are given: for each `lifeTime` there is one
//! t with which all queues together occupy the memory, and with it goes an estimate of the hits. The `lifeTime` with the most
//! is taken, or the next longer one if it has nearly as many.
//!
//! This is section 3 put to work. Where the hill of the histogram can be reached, lives as long as its distances (`minDist` to
//! `maxDist`) are worth the frames that they cost; where it cannot, short ones are.

/// Buckets of a histogram for each doubling of the distance.
const STEPS: u32 = 4;
/// Enough for distances of 2^48 references.
const BUCKETS: usize = 48 * STEPS as usize;
/// Values of `lifeTime` that are tried for each doubling.
const CHOICES: u32 = 2;

/// The blocks that entered one queue: how many, and when they were used again.
#[derive(Clone, Debug)]
struct Entered {
    all: f64,
    /// Those used again, by the bucket of their temporal distance.
    used: Vec<f64>,
    /// Sums over the buckets before each: of `used`, and of the distances.
    sums: Vec<(f64, f64)>,
}

impl Entered {
    /// `seen(d)`: how many of the uses at distance d could have been seen yet, as a part of all.
    fn sum_up(&mut self, seen: impl Fn(f64) -> f64) {
        let mut sum = (0.0, 0.0);
        for bucket in 0..BUCKETS {
            self.sums[bucket] = sum;
            let used = self.used[bucket] / seen(middle(bucket));
            sum = (sum.0 + used, sum.1 + used * middle(bucket));
        }
        self.sums[BUCKETS] = sum;
    }

    /// The hits and the occupied frame-references if blocks are kept for `life` after they entered.
    fn kept_for(&self, life: f64) -> (f64, f64) {
        if life < 1.0 {
            return (0.0, 0.0);
        }
        let place = position(life);
        let (bucket, part) = (place as usize, place.fract());
        let ((used, spans), all_used) = (self.sums[bucket], self.sums[bucket + 1].0 - self.sums[bucket].0);
        let hits = used + part * all_used;
        (hits, spans + part * all_used * middle(bucket).min(life) + (self.all - hits) * life)
    }
}

/// Where a distance stands among the buckets: its logarithm, linear between the powers of 2.
fn position(distance: f64) -> f64 {
    // The exponent and mantissa of a number from 1 up, read as a fixed-point number, are that logarithm.
    let bits = distance.max(1.0).to_bits() - 1.0f64.to_bits();
    (bits as f64 * (f64::from(STEPS) / (1u64 << 52) as f64)).min((BUCKETS - 1) as f64)
}

/// A distance in the middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let steps = STEPS as usize;
    let octave = (1u64 << (bucket / steps)) as f64;
    octave * (1.0 + ((bucket % steps) as f64 + 0.5) / steps as f64)
}

/// Temporal distances by queue. What is older counts less.
#[derive(Debug)]
pub(super) struct Distances {
    queues: Vec<Entered>,
    references: f64,
}

/// What is left of the weight of a reference from one adjustment to the next.
const AGEING: f64 = 0.99;

/// The next longer life than the best is taken if it has so nearly as many hits: on a trace whose frequencies stay as they are
/// (Zipf), fixed lives go on gaining where the estimate has reached its peak.
const NEARLY: f64 = 0.9995;

impl Distances {
    pub(super) fn new(queues: usize) -> Self {
        let entered = Entered { all: 0.0, used: vec![0.0; BUCKETS], sums: vec![(0.0, 0.0); BUCKETS + 1] };
        Self { queues: vec![entered; queues], references: 0.0 }
    }

    /// `QueueNum(f)`.
    fn queue_of(&mut self, uses: u32) -> &mut Entered {
        let last = self.queues.len() - 1;
        &mut self.queues[(uses.ilog2() as usize).min(last)]
    }

    /// A block that was used so often, now once more, entered its queue.
    pub(super) fn entered(&mut self, uses: u32) {
        self.queue_of(uses).all += 1.0;
        self.references += 1.0;
    }

    /// A block that had been used so often was used again, at a temporal distance.
    pub(super) fn used_again(&mut self, uses: u32, distance: u32) {
        self.queue_of(uses).used[position(f64::from(distance)) as usize] += 1.0;
    }

    /// The `lifeTime` with the most hits in a memory of `capacity` pages; `None` before anything was seen. `now` is the number
    /// of references so far, `period` that between two calls.
    pub(super) fn best(&mut self, capacity: u32, now: u64, period: u64) -> Option<u64> {
        if self.references == 0.0 {
            return None;
        }
        // A block that came lately cannot have been used again at a long distance yet: what was seen of these uses stands for
        // the share of blocks that came early enough.
        let memory = period as f64 / (1.0 - AGEING);
        let weight = |span: f64| 1.0 - (-span / memory).exp();
        let seen = |distance: f64| (weight((now as f64 - distance).max(0.0)) / weight(now as f64)).max(0.125);
        self.queues.iter_mut().for_each(|queue| queue.sum_up(seen));
        let frames = f64::from(capacity) * self.references;
        let longest = (f64::from(capacity) * 1024.0).log2() * f64::from(CHOICES);
        let life_time = |choice: u32| (f64::from(choice) / f64::from(CHOICES)).exp2();
        let mut best = (f64::NEG_INFINITY, 0);
        for choice in 0..=longest as u32 {
            let hits = self.hits(life_time(choice), frames);
            if hits > best.0 {
                best = (hits, choice);
            }
        }
        let next = best.1 + 1;
        let choice = if self.hits(life_time(next), frames) > best.0 * NEARLY { next } else { best.1 };
        self.age();
        Some(life_time(choice) as u64)
    }

    fn age(&mut self) {
        self.references *= AGEING;
        for queue in &mut self.queues {
            queue.all *= AGEING;
            queue.used.iter_mut().for_each(|used| *used *= AGEING);
        }
    }

    /// The hits with that `lifeTime`, t being such that all frames are occupied.
    fn hits(&self, life_time: f64, frames: f64) -> f64 {
        let too_long = |t: f64| self.kept_for(life_time, t).1 > frames;
        let (mut short, mut long) = (-life_time * self.queues.len() as f64, 0.0);
        if !too_long(0.0) {
            (short, long) = (0.0, 1.0);
            while !too_long(long) && long < (BUCKETS as f64 / f64::from(STEPS)).exp2() {
                (short, long) = (long, long * 2.0);
            }
        }
        for _ in 0..12 {
            let t = (short + long) / 2.0;
            if too_long(t) { long = t } else { short = t }
        }
        self.kept_for(life_time, short).0
    }

    fn kept_for(&self, life_time: f64, t: f64) -> (f64, f64) {
        let each = self.queues.iter().enumerate();
        each.map(|(k, queue)| queue.kept_for(t + k as f64 * life_time))
            .fold((0.0, 0.0), |sum, queue| (sum.0 + queue.0, sum.1 + queue.1))
    }

    pub(super) fn bytes(&self) -> usize {
        let each = |queue: &Entered| {
            queue.used.capacity() * size_of::<f64>() + queue.sums.capacity() * size_of::<(f64, f64)>()
        };
        self.queues.iter().map(each).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that are used a second time for sure, then again at a temporal distance.
    fn best(capacity: u32, distance: u32) -> u64 {
        let mut distances = Distances::new(8);
        for _ in 0..10_000 {
            // One reference in ten is to such a block; the others' blocks are never used again.
            (0..9).for_each(|_| distances.entered(1));
            distances.entered(2);
            distances.used_again(2, distance);
        }
        distances.best(capacity, 1 << 40, 4096).expect("something was seen")
    }

    #[test]
    fn blocks_live_until_the_hill_if_there_are_frames_for_it() {
        // A tenth of a block enters queue 1 in a reference, so that 5,000 references of life there take 500 frames; the others,
        // 0.9 in a reference, leave queue 0 after 1,112 references at most.
        for distance in [2_000, 5_000] {
            let life_time = best(1_000, distance);
            assert!((distance - 1_112..2 * distance).contains(&(life_time as u32)), "{life_time} for {distance}");
        }
    }

    #[test]
    fn nothing_is_said_before_anything_was_seen() {
        assert_eq!(Distances::new(8).best(100, 10, 4096), None);
    }

    #[test]
    fn the_frames_in_use_and_the_hits_follow_from_the_distances() {
        let mut distances = Distances::new(2);
        for _ in 0..100 {
            distances.entered(1);
        }
        for _ in 0..50 {
            distances.used_again(1, 16);
        }
        distances.queues[0].sum_up(|_| 1.0);
        // Half of the blocks are used again within 20 references, the others stay for all 20.
        let (hits, frames) = distances.queues[0].kept_for(20.0);
        assert_eq!(hits, 50.0);
        let mean_of_bucket = middle(position(16.0) as usize);
        assert_eq!(frames, 50.0 * mean_of_bucket + 50.0 * 20.0);
        assert_eq!(distances.queues[0].kept_for(8.0), (0.0, 800.0));
    }
}
