//! Forming sequences (the paper's section 3.3): which blocks of the bank are close on the disk and are fetched together.

use super::block_table::Timestamps;
use super::cost::Prices;
use forebay_basis::Place;

/// A block of a full sequencing bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) slot: u32,
    pub(super) place: Place,
    pub(super) timestamps: Timestamps,
    /// The block's place in the stack, counted from the bottom; then that of the lowest block of its sequence.
    pub(super) depth: u32,
    /// The blocks of its sequence.
    pub(super) size: u16,
}

/// The rules that end a sequence, and what it costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Rule 1: the most that block numbers may differ.
    pub(super) distance: u64,
    /// Rules 2 and 3: the most that timestamps may differ.
    pub(super) gap: u32,
    /// Rule 4: the most blocks.
    pub(super) longest: u16,
    /// What sequences cost.
    pub(super) prices: Prices,
}

impl Rules {
    /// Forms the sequences of the bank: each member gets the size of its own, and they stand sequence after sequence, the
    /// lowest in the stack first and the blocks of each in rising order.
    pub(super) fn form(&self, bank: &mut [Member]) {
        bank.sort_unstable_by_key(|member| (member.place, member.depth));
        let mut rest = &mut *bank;
        while !rest.is_empty() {
            let joined = rest.windows(2).take_while(|pair| self.join(&pair[0], &pair[1])).count();
            let size = (joined + 1).min(usize::from(self.longest));
            let (sequence, others) = rest.split_at_mut(size);
            let depth = sequence.iter().map(|member| member.depth).min().expect("a sequence has a block");
            for member in sequence {
                (member.size, member.depth) = (size as u16, depth);
            }
            rest = others;
        }
        bank.sort_unstable_by_key(|member| (member.depth, member.place));
    }

    /// Whether block `b` may follow block `a` in a sequence.
    fn join(&self, a: &Member, b: &Member) -> bool {
        let close = a.place.object == b.place.object && b.place.block - a.place.block <= self.distance;
        let follows = |a: u32, b: u32| b > a && b - a <= self.gap;
        let (now_a, now_b) = (a.timestamps, b.timestamps);
        let fetched_together = now_a.newest > 0 && follows(now_a.newest, now_b.newest);
        let were_fetched_together = match (now_a.older, now_b.older) {
            (0, 0) => true,
            (0, _) | (_, 0) => false,
            (a, b) => follows(a, b),
        };
        close && fetched_together && were_fetched_together
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Rules = Rules { distance: 4, gap: 1, longest: 128, prices: Prices::SEEK };

    /// The sizes of the sequences that blocks, each with its newest and its older timestamp, form.
    fn sizes(rules: Rules, blocks: &[(u64, u32, u32)]) -> Vec<u16> {
        let mut bank: Vec<Member> = Vec::new();
        for (depth, &(block, newest, older)) in blocks.iter().enumerate() {
            let (slot, depth) = (depth as u32, depth as u32);
            let timestamps = Timestamps { newest, older };
            bank.push(Member { slot, place: Place { object: 0, block }, timestamps, depth, size: 0 });
        }
        rules.form(&mut bank);
        let mut sizes = Vec::new();
        while let Some(first) = bank.first() {
            sizes.push(first.size);
            bank.drain(..usize::from(first.size));
        }
        sizes
    }

    #[test]
    fn blocks_fetched_together_both_times_are_a_sequence() {
        assert_eq!(sizes(PAPER, &[(10, 5, 1), (11, 6, 2), (15, 7, 3), (16, 8, 4)]), [4]);
        assert_eq!(sizes(PAPER, &[(10, 5, 0), (11, 6, 0)]), [2]);
    }

    #[test]
    fn blocks_too_far_apart_are_not() {
        assert_eq!(sizes(PAPER, &[(10, 5, 0), (15, 6, 0)]), [1, 1]);
    }

    #[test]
    fn blocks_whose_fetches_were_interrupted_are_not() {
        assert_eq!(sizes(PAPER, &[(10, 5, 0), (11, 7, 0)]), [1, 1]);
        assert_eq!(sizes(PAPER, &[(11, 5, 0), (10, 6, 0)]), [1, 1]);
        assert_eq!(sizes(Rules { gap: 2, ..PAPER }, &[(10, 5, 0), (11, 7, 0)]), [2]);
    }

    #[test]
    fn blocks_fetched_apart_the_time_before_are_not() {
        assert_eq!(sizes(PAPER, &[(10, 5, 1), (11, 6, 0)]), [1, 1]);
        assert_eq!(sizes(PAPER, &[(10, 5, 0), (11, 6, 1)]), [1, 1]);
        assert_eq!(sizes(PAPER, &[(10, 5, 1), (11, 6, 3)]), [1, 1]);
    }

    #[test]
    fn a_sequence_is_no_longer_than_the_longest() {
        let blocks: Vec<_> = (0..300).map(|i| (u64::from(i), i + 1, 0)).collect();
        assert_eq!(sizes(PAPER, &blocks), [128, 128, 44]);
    }

    #[test]
    fn blocks_without_timestamps_stand_alone() {
        assert_eq!(sizes(PAPER, &[(10, 0, 0), (11, 1, 0)]), [1, 1]);
    }

    #[test]
    fn sequences_stand_in_the_order_of_the_stack() {
        assert_eq!(sizes(PAPER, &[(90, 1, 0), (10, 2, 0), (50, 4, 0), (11, 3, 0)]), [1, 2, 1]);
    }
}
