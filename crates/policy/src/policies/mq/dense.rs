//! The trial of the density of hits.
//!
//! Its pages are counted by queue and turn of the last use: a *cell*. A cell's pages are resident, in Qout or forgotten together: where too many are
//! resident, the least dense cell leaves; where too many are in Qout, the cell that left first is forgotten.

use super::density::{Cell, Densities, Filled, Turns};
use super::life::Had;
use super::trials::{Frames, REMEMBERED};
use std::collections::VecDeque;

/// The most cells that leave at one use.
const STEPS: u32 = 64;
/// Of more cells that have left, the oldest is forgotten although Qout would hold its pages.
const MOST_LEFT: usize = 4 * REMEMBERED;
/// Densities are computed anew after as many references as there are frames, and no more often than after this many.
const RENEWED: u64 = 1024;

#[derive(Debug)]
pub(super) struct Dense {
    densities: Densities,
    /// MD1. By queue, then turn of the last use: the sampled pages, of turns that are remembered.
    counts: Vec<u16>,
    /// MD2. By queue: the turns whose pages are resident, and those whose pages are resident or in Qout.
    resident: Vec<Turns>,
    known: Vec<Turns>,
    /// The cells that have left, the oldest first: the turn above three bits of the queue.
    left: VecDeque<u32>,
    /// MD3. The sums of `counts`.
    lens: (i32, i32),
    groups: Filled,
    /// Turns since the densities were computed.
    since: u32,
}

impl Dense {
    pub(super) fn new(queues: usize) -> Self {
        Self {
            densities: Densities::new(queues),
            counts: vec![0; queues * REMEMBERED],
            resident: vec![Turns::new(); queues],
            known: vec![Turns::new(); queues],
            left: VecDeque::with_capacity(MOST_LEFT),
            lens: (0, 0),
            groups: Filled::new(queues),
            since: 0,
        }
    }

    fn has(&self, k: usize, turn: u32, now: u32) -> Had {
        if now.wrapping_sub(turn) < REMEMBERED as u32 { self.cell_has(k, turn) } else { Had::Nothing }
    }

    fn cell_has(&self, k: usize, turn: u32) -> Had {
        if self.resident[k].has(turn) {
            Had::Resident
        } else if self.known[k].has(turn) {
            Had::Ghost
        } else {
            Had::Nothing
        }
    }

    fn count(&mut self, had: Had, pages: i32) {
        match had {
            Had::Resident => self.lens.0 += pages,
            Had::Ghost => self.lens.1 += pages,
            Had::Nothing => {}
        }
    }

    /// A page of that cell is used.
    pub(super) fn used(&mut self, k: usize, turn: u32, now: u32) {
        let age = now.wrapping_sub(turn);
        if age < REMEMBERED as u32 {
            self.densities.used(k, age);
        }
    }

    /// The least dense cell of others than the trial's.
    pub(super) fn least(&self, turns: &[Turns], now: u32, groups: &mut Filled) -> Option<Cell> {
        self.densities.least(turns, now, groups)
    }

    /// Counts a page no longer, and says what it was.
    pub(super) fn take_out(&mut self, k: usize, turn: u32, now: u32) -> Had {
        let had = self.has(k, turn, now);
        self.count(had, -1);
        if now.wrapping_sub(turn) < REMEMBERED as u32 {
            self.counts[cell(k, turn)] -= 1;
            if self.counts[cell(k, turn)] == 0 {
                self.resident[k].set(turn, false);
            }
        }
        had
    }

    pub(super) fn has_room(&self, k: usize, turn: u32) -> bool {
        self.counts[cell(k, turn)] < u16::MAX
    }

    /// A page is used now.
    pub(super) fn put_in(&mut self, k: usize, now: u32, frames: Frames) {
        self.counts[cell(k, now)] += 1;
        self.resident[k].set(now, true);
        self.known[k].set(now, true);
        self.lens.0 += 1;
        self.make_room(now, frames);
    }

    fn make_room(&mut self, now: u32, frames: Frames) {
        for _ in 0..STEPS {
            if self.lens.0 <= frames.resident {
                break;
            }
            let Some((k, turn)) = self.densities.least(&self.resident, now, &mut self.groups) else { break };
            let pages = i32::from(self.counts[cell(k, turn)]);
            self.resident[k].set(turn, false);
            self.lens.0 -= pages;
            self.lens.1 += pages;
            if self.left.len() == MOST_LEFT {
                self.forget_a_cell(now);
            }
            self.left.push_back(turn << 3 | k as u32);
        }
        for _ in 0..STEPS {
            if self.lens.1 <= frames.ghosts {
                break;
            }
            self.forget_a_cell(now);
        }
    }

    fn forget_a_cell(&mut self, now: u32) {
        let Some(left) = self.left.pop_front() else { return };
        let age = (now << 3).wrapping_sub(left & !7) >> 3;
        let (k, turn) = (left as usize & 7, now.wrapping_sub(age));
        if self.has(k, turn, now) == Had::Ghost {
            self.lens.1 -= i32::from(self.counts[cell(k, turn)]);
            self.known[k].set(turn, false);
        }
    }

    /// A turn of so many references begins.
    pub(super) fn next_turn(&mut self, now: u32, width: u32, turns: u32) {
        let oldest = now.wrapping_sub(REMEMBERED as u32);
        for k in 0..self.known.len() {
            let had = self.cell_has(k, oldest);
            let pages = std::mem::take(&mut self.counts[cell(k, oldest)]);
            self.count(had, -i32::from(pages));
            self.resident[k].set(oldest, false);
            self.known[k].set(oldest, false);
        }
        self.since += 1;
        if self.since >= turns && u64::from(self.since) * u64::from(width) >= RENEWED {
            let counts = &self.counts;
            self.densities.renew(self.since, |k, age| counts[cell(k, now.wrapping_sub(age))].into());
            self.since = 0;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.densities.bytes()
            + self.groups.bytes()
            + self.counts.capacity() * size_of::<u16>()
            + 2 * self.known.capacity() * size_of::<Turns>()
            + self.left.capacity() * size_of::<u32>()
    }

    pub(super) fn check(&self, pages: &[Cell], now: u32) {
        let mut counts = vec![0; self.counts.len()];
        let mut lens = (0, 0);
        for &(k, turn) in pages {
            counts[cell(k, turn)] += u16::from(now.wrapping_sub(turn) < REMEMBERED as u32);
            lens.0 += i32::from(self.has(k, turn, now) == Had::Resident);
            lens.1 += i32::from(self.has(k, turn, now) == Had::Ghost);
        }
        assert!(counts == self.counts); // MD1
        assert_eq!(lens, self.lens); // MD3
        for (resident, known) in self.resident.iter().zip(&self.known) {
            assert!((0..REMEMBERED as u32).all(|turn| !resident.has(turn) || known.has(turn))); // MD2
        }
    }
}

fn cell(k: usize, turn: u32) -> usize {
    k * REMEMBERED + turn as usize % REMEMBERED
}
