//! The partition of looping references (section 3.2): blocks leave in the order of falling periods, and the one used last first
//! among those of one period.
//!
//! Measured periods fluctuate, so periods within a quarter of an octave count as one.

use super::Status;
use crate::parts::list::{List, Nodes};

const BUCKETS: usize = 128;
/// After how many periods a loop's block has missed a round: one that takes half as long again is still awaited. From then on the period
/// counts as this much more than the block has waited: the longer it has been away, the later it is to be expected.
const MISSED: f32 = 1.5;
/// The counts of rounds kept and missed are halved at this sum.
const FADE: u32 = 256;
const OCTAVES: usize = BUCKETS / 4;

/// How often pages of loops returned while they were resident, and how often they missed a round.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    kept: u32,
    missed: u32,
}

impl Rounds {
    fn fade(&mut self) {
        if self.kept + self.missed >= FADE {
            *self = Self { kept: self.kept / 2, missed: self.missed / 2 };
        }
    }
}

fn octave(bucket: u32) -> usize {
    bucket as usize / 4
}

/// Resident pages by period.
#[derive(Debug)]
pub(super) struct Loops {
    /// UL1. `by_period[k]` has the pages with bucket k, the one used last at the front.
    by_period: Vec<List>,
    /// UL2. Bit k is set if and only if `by_period[k]` has pages.
    filled: u128,
    /// UL3. The pages of all buckets.
    len: u32,
    /// The bucket whose oldest page was looked at last.
    hand: u32,
    /// By the octave of their periods.
    rounds: [Rounds; OCTAVES],
}

/// Where the second, third and fourth quarter of an octave begin.
const QUARTERS: [f32; 3] = [1.189_207_1, std::f32::consts::SQRT_2, 1.681_792_8];

/// The bucket of a period: four times its binary logarithm, read from its bits. Those of 2^31.75 references and more share the last.
pub(super) fn bucket(period: f32) -> u8 {
    let bits = period.max(1.0).to_bits();
    let octave = (bits >> (f32::MANTISSA_DIGITS - 1)) - (f32::MAX_EXP as u32 - 1);
    let within = f32::from_bits(bits & ((1 << (f32::MANTISSA_DIGITS - 1)) - 1) | 1f32.to_bits());
    let quarter: u32 = QUARTERS.iter().map(|&quarter| u32::from(within >= quarter)).sum();
    (4 * octave + quarter).min(BUCKETS as u32 - 1) as u8
}

/// The middle of a bucket, from which no period of the bucket differs by a tenth.
pub(super) fn period(bucket: u32) -> f32 {
    2f32.powf((bucket as f32 + 0.5) / 4.0)
}

impl Loops {
    pub(super) fn new() -> Self {
        Self { by_period: vec![List::new(); BUCKETS], filled: 0, len: 0, hand: 0, rounds: [Rounds::default(); OCTAVES] }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The longest period of a resident page, as its bucket counts it.
    pub(super) fn longest(&self) -> Option<f32> {
        (self.filled != 0).then(|| period(127 - self.filled.leading_zeros()))
    }

    /// Which part of the pages of periods like the longest returns within a round.
    pub(super) fn returning(&self) -> f64 {
        let Rounds { kept, missed } = self.rounds[octave(127 - self.filled.leading_zeros().min(127))];
        f64::from(kept + 1) / f64::from(kept + missed + 1)
    }

    /// A resident page of a loop is referenced again.
    pub(super) fn has_returned(&mut self, bucket: u8) {
        let rounds = &mut self.rounds[octave(u32::from(bucket))];
        rounds.kept += 1;
        rounds.fade();
    }

    pub(super) fn push(&mut self, nodes: &mut Nodes<Status>, page: u32, bucket: u8) {
        nodes[page].bucket = bucket;
        self.by_period[bucket as usize].push_front(nodes, page);
        self.filled |= 1 << bucket;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, nodes: &mut Nodes<Status>, page: u32) {
        let bucket = nodes[page].bucket;
        let list = &mut self.by_period[bucket as usize];
        list.remove(nodes, page);
        if list.is_empty() {
            self.filled &= !(1 << bucket);
        }
        self.len -= 1;
    }

    /// The pages in the order in which they leave.
    pub(super) fn victims<'a>(&'a self, nodes: &'a Nodes<Status>) -> impl Iterator<Item = u32> + 'a {
        let mut left = self.filled;
        let buckets = std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bucket = 127 - left.leading_zeros();
                left &= !(1 << bucket);
                bucket
            })
        });
        buckets.flat_map(move |bucket| self.by_period[bucket as usize].front_to_back(nodes))
    }

    /// Looks at the oldest page of one bucket, of each in turn. A page that has waited for [`MISSED`] of its periods has lost its loop, or
    /// has a longer period than was measured. Without this the blocks of loops that have ended would keep their buffers for ever.
    pub(super) fn age(&mut self, nodes: &mut Nodes<Status>, now: u32) {
        if self.filled == 0 {
            return;
        }
        let above = self.filled.checked_shr(self.hand + 1).unwrap_or(0);
        self.hand = match above {
            0 => self.filled.trailing_zeros(),
            _ => self.hand + 1 + above.trailing_zeros(),
        };
        let page = self.by_period[self.hand as usize].back().expect("the bucket is filled");
        let waited = now.wrapping_sub(nodes[page].used) as f32;
        if u32::from(bucket(waited / MISSED)) > self.hand {
            self.remove(nodes, page);
            self.push(nodes, page, bucket(MISSED * waited));
            let rounds = &mut self.rounds[octave(self.hand)];
            rounds.missed += 1;
            rounds.fade();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_period.capacity() * size_of::<List>()
    }

    pub(super) fn check(&self, nodes: &Nodes<Status>) {
        let mut len = 0;
        for (bucket, list) in self.by_period.iter().enumerate() {
            list.check(nodes);
            assert!(list.front_to_back(nodes).all(|page| usize::from(nodes[page].bucket) == bucket)); // UL1
            assert_eq!(self.filled >> bucket & 1 == 1, !list.is_empty()); // UL2
            len += list.len();
        }
        assert_eq!(len, self.len); // UL3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_quarters_of_octaves() {
        for period in (1..40_000).map(|step| step as f32 * 1.37).chain([0.0, 0.3, 1e9, 3.9e9, 1e12, f32::INFINITY]) {
            assert_eq!(f32::from(bucket(period)), (4.0 * period.max(1.0).log2()).floor().min(127.0), "{period}");
        }
        for octave in 0..31 {
            assert_eq!(bucket(2f32.powi(octave)), 4 * octave as u8);
        }
    }

    #[test]
    fn the_longest_period_is_told_to_a_tenth() {
        for period in [10.0, 80.0, 1_000.0, 4_096.0, 4_870.0, 132_907.0] {
            let mut nodes = Nodes::new(1);
            let mut loops = Loops::new();
            loops.push(&mut nodes, 0, bucket(period));
            let told = loops.longest().unwrap();
            assert!((told / period - 1.0).abs() < 0.1, "{told} for {period}");
        }
    }
}
