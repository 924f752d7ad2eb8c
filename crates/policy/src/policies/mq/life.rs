//! The trial of one lifeTime.
//!
//! ```text
//!   a page used f times, last at time u, k = QueueNum(f):  rank = u + k × lifeTime       the least rank is evicted first
//!
//!   rank   3   5   6 | 9   12 | 15   17   20   21
//!          forgotten | Qout   | resident              both limits rise: as many pages as there are frames, and as Qout holds
//! ```
//!
//! By Figure 5 a page goes one queue down for each lifeTime that passes without a use. So it comes to Q0 at u + k × lifeTime, and Q0
//! evicts in that order; pages that are still above come later, in that order too. A trial of a lifeTime therefore needs no queues, but the
//! number of its pages of each rank.

use super::trials::{Frames, REMEMBERED};

/// The most turns that a limit moves on at one use. What is left to do is done at the next ones.
const STEPS: u32 = 64;

#[derive(Debug)]
pub(super) struct Life {
    /// In turns.
    pub(super) life: i32,
    /// Ranks from here up are resident, and those below down to `known` are in Qout.
    resident_from: i32,
    known_from: i32,
    /// ML1. By rank, from `known_from` up: the sampled pages.
    counts: Vec<u16>,
    /// ML2. The sums of `counts`.
    resident: i32,
    ghosts: i32,
}

/// What a trial has of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Had {
    Resident,
    Ghost,
    Nothing,
}

impl Life {
    pub(super) fn new(life: i32, queues: usize) -> Self {
        // From the oldest rank that is remembered to that of a page which comes to the last queue now.
        let life = life.min(REMEMBERED as i32);
        let ranks = (REMEMBERED + (queues - 1) * life as usize).next_power_of_two();
        Self { life, resident_from: 0, known_from: 0, counts: vec![0; ranks], resident: 0, ghosts: 0 }
    }

    pub(super) fn begin_at(&mut self, turn: u32) {
        (self.resident_from, self.known_from) = (turn as i32, turn as i32);
    }

    fn rank(&self, k: usize, turn: u32) -> i32 {
        (turn as i32).wrapping_add(k as i32 * self.life)
    }

    fn cell(&self, rank: i32) -> usize {
        rank as u32 as usize & (self.counts.len() - 1)
    }

    fn has(&self, k: usize, turn: u32) -> Had {
        let rank = self.rank(k, turn);
        if is_from(rank, self.resident_from) {
            Had::Resident
        } else if is_from(rank, self.known_from) {
            Had::Ghost
        } else {
            Had::Nothing
        }
    }

    fn len_of(&mut self, had: Had) -> Option<&mut i32> {
        match had {
            Had::Resident => Some(&mut self.resident),
            Had::Ghost => Some(&mut self.ghosts),
            Had::Nothing => None,
        }
    }

    /// Counts a page no longer, and says what it was.
    pub(super) fn take_out(&mut self, k: usize, turn: u32) -> Had {
        let had = self.has(k, turn);
        if let Some(len) = self.len_of(had) {
            *len -= 1;
            let cell = self.cell(self.rank(k, turn));
            self.counts[cell] -= 1;
        }
        had
    }

    /// Whether one page more of this rank can be counted: in a large cache to which references to sampled pages alone come, there may be too many.
    pub(super) fn has_room(&self, k: usize, turn: u32) -> bool {
        self.counts[self.cell(self.rank(k, turn))] < u16::MAX
    }

    /// A page is used now.
    pub(super) fn put_in(&mut self, k: usize, now: u32, frames: Frames) {
        let had = self.has(k, now);
        if let Some(len) = self.len_of(had) {
            *len += 1;
            let cell = self.cell(self.rank(k, now));
            self.counts[cell] += 1;
        }
        self.make_room(frames);
    }

    fn make_room(&mut self, frames: Frames) {
        for _ in 0..STEPS {
            if self.resident <= frames.resident {
                break;
            }
            let count = i32::from(self.counts[self.cell(self.resident_from)]);
            self.resident -= count;
            self.ghosts += count;
            self.resident_from = self.resident_from.wrapping_add(1);
        }
        for _ in 0..STEPS {
            if self.ghosts <= frames.ghosts || self.known_from == self.resident_from {
                break;
            }
            self.forget_a_rank();
        }
    }

    fn forget_a_rank(&mut self) {
        let cell = self.cell(self.known_from);
        let count = i32::from(std::mem::take(&mut self.counts[cell]));
        if self.known_from == self.resident_from {
            self.resident -= count;
            self.resident_from = self.resident_from.wrapping_add(1);
        } else {
            self.ghosts -= count;
        }
        self.known_from = self.known_from.wrapping_add(1);
    }

    /// No rank is further back than is remembered.
    pub(super) fn next_turn(&mut self, turn: u32) {
        let first = turn.wrapping_sub(REMEMBERED as u32 - 1) as i32;
        while !is_from(self.known_from, first) {
            self.forget_a_rank();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u16>()
    }

    pub(super) fn check(&self, pages: &[(usize, u32)]) {
        let mut counts = vec![0; self.counts.len()];
        let (mut resident, mut ghosts) = (0, 0);
        for &(k, turn) in pages {
            let had = self.has(k, turn);
            counts[self.cell(self.rank(k, turn))] += u16::from(had != Had::Nothing);
            resident += i32::from(had == Had::Resident);
            ghosts += i32::from(had == Had::Ghost);
        }
        assert!(counts == self.counts); // ML1
        assert_eq!((resident, ghosts), (self.resident, self.ghosts)); // ML2
    }
}

/// Whether a rank is not below another. Both are turns, whose numbers come round.
fn is_from(rank: i32, other: i32) -> bool {
    rank.wrapping_sub(other) >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_moves_by_few_turns_at_a_use() {
        let mut life = Life::new(32, 8);
        let frames = Frames { resident: 40, ghosts: 160 };
        let mut last = [None; 500];
        for time in 0..60_000u32 {
            let (turn, page) = (time / 10, time * 7 % 500);
            if time % 10 == 0 {
                life.next_turn(turn);
            }
            let before = life.resident_from;
            if let Some((k, turn)) = last[page as usize] {
                life.take_out(k, turn);
            }
            let k = (time / 3_000 % 8) as usize;
            life.put_in(k, turn, frames);
            last[page as usize] = Some((k, turn));
            assert!(life.resident_from.wrapping_sub(before) <= STEPS as i32);
        }
        life.check(&last.into_iter().flatten().collect::<Vec<_>>());
        assert!(life.resident <= frames.resident && life.ghosts > 0);
    }
}
