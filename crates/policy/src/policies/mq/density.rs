//! The density of hits: which of two pages is likelier to be used soon, by the queue of each and the time since its last use.
//!
//! ```text
//!   queue 0   age  0 1 2 … 15 | 16 … | 32 … |      for each: uses that came at that age, and pages that were of that age
//!   queue 1        …
//!
//!   uses of one in 20 of the pages come 60 turns after the last       density:  low, rises until 60, then nothing
//! ```
//!
//! A page that stays for a while takes a frame for that time, or until it is used. Its density is the most uses for the time in frames that some
//! while gives. (That is Gittins' index of its wait for the next use; Beckmann, Chen and Cidon, "LHD", NSDI 2018, evict by a density
//! without the choice of the while.) Evicting the least dense page first is LRU where uses come soon or never, and MRU where all pages
//! come back after the same long time: so it keeps a part of a loop that is larger than the cache, as no lifeTime does.
//!
//! Ages are in turns of the trials; from 32 turns on, neighbours share a group, 16 groups for each doubling.

use super::trials::REMEMBERED;

/// Groups of ages for each doubling, as a power of two.
const LOG: u32 = 4;
const PART: usize = 1 << LOG;
/// Groups of all ages that are remembered.
pub(super) const GROUPS: usize = (REMEMBERED.ilog2() - LOG + 1) as usize * PART;
/// What was seen counts less with each renewal; there is one while as many references pass as there are frames, or more seldom.
const KEEP: f64 = 1.0 - 1.0 / 32.0;
/// Where little was seen, uses are taken to be ever rarer with age, 4 / age in a turn, as if they had been seen in so many turns of pages.
const SUPPOSED: f64 = 2.0;

/// The group of an age.
pub(super) fn group_of(age: u32) -> usize {
    if age < PART as u32 {
        return age as usize;
    }
    let coarser = age.ilog2() - LOG;
    coarser as usize * PART + (age >> coarser) as usize
}

/// The least age of a group.
fn start_of(group: usize) -> u32 {
    let coarser = (group / PART).saturating_sub(1);
    ((group - coarser * PART) << coarser) as u32
}

/// Turns of the last use that some pages of a queue have, one bit for each that is remembered.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    words: [u64; REMEMBERED / 64],
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { words: [0; REMEMBERED / 64] }
    }

    pub(super) fn has(&self, turn: u32) -> bool {
        let at = turn as usize % REMEMBERED;
        self.words[at / 64] >> (at % 64) & 1 != 0
    }

    pub(super) fn set(&mut self, turn: u32, has: bool) {
        let at = turn as usize % REMEMBERED;
        let bit = 1 << (at % 64);
        if has {
            self.words[at / 64] |= bit;
        } else {
            self.words[at / 64] &= !bit;
        }
    }

    /// The first of so many turns, from one on, whose bit is set.
    fn first(&self, from: u32, turns: u32) -> Option<u32> {
        let mut passed = 0;
        while passed < turns {
            let at = from.wrapping_add(passed) as usize % REMEMBERED;
            let here = (64 - at as u32 % 64).min(turns - passed);
            let bits = self.words[at / 64] >> (at % 64) & (u64::MAX >> (64 - here));
            if bits != 0 {
                return Some(from.wrapping_add(passed + bits.trailing_zeros()));
            }
            passed += here;
        }
        None
    }
}

/// A queue and a turn of the last use.
pub(super) type Cell = (usize, u32);

/// Which groups of some cells have pages, as places in [`Densities::order`]: those of one turn, in which cells only become empty.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    places: Vec<u64>,
    turn: Option<u32>,
}

impl Filled {
    pub(super) fn new(queues: usize) -> Self {
        Self { places: vec![0; (queues * GROUPS).div_ceil(64)], turn: None }
    }

    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<u64>()
    }
}

/// What comes of a page while it stays for some time: by what chance it is used, how long it takes a frame, and by what chance it is still unused.
#[derive(Clone, Copy, Default)]
struct Stay {
    uses: f64,
    time: f64,
    unused: f64,
}

impl Stay {
    fn density(self) -> f64 {
        self.uses / self.time
    }

    fn and_then(self, later: Self) -> Self {
        Self {
            uses: self.uses + self.unused * later.uses,
            time: self.time + self.unused * later.time,
            unused: self.unused * later.unused,
        }
    }
}

#[derive(Debug)]
pub(super) struct Densities {
    queues: usize,
    /// By queue, then group: uses until the last renewal, and since.
    uses: Vec<f64>,
    new_uses: Vec<u32>,
    /// By queue, then group: pages that were of that age, times the turns.
    waits: Vec<f64>,
    densities: Vec<f64>,
    /// By queue, then group, as numbers of these: the least dense first. And the place of each in it.
    order: Vec<u16>,
    places: Vec<u16>,
}

impl Densities {
    pub(super) fn new(queues: usize) -> Self {
        let cells = queues * GROUPS;
        let mut densities = Self {
            queues,
            uses: vec![0.0; cells],
            new_uses: vec![0; cells],
            waits: vec![0.0; cells],
            densities: vec![0.0; cells],
            order: (0..cells as u16).collect(),
            places: vec![0; cells],
        };
        densities.rank();
        densities
    }

    /// A page of a queue is used at this age.
    pub(super) fn used(&mut self, k: usize, age: u32) {
        self.new_uses[k * GROUPS + group_of(age)] += 1;
    }

    /// So many turns have passed since the last renewal; `pages` says how many there are of a queue and an age.
    pub(super) fn renew(&mut self, turns: u32, pages: impl Fn(usize, u32) -> u32) {
        for (cell, (uses, waits)) in self.uses.iter_mut().zip(&mut self.waits).enumerate() {
            let (k, group) = (cell / GROUPS, cell % GROUPS);
            let there: u32 = (start_of(group)..start_of(group + 1)).map(|age| pages(k, age)).sum();
            *uses = *uses * KEEP + f64::from(std::mem::take(&mut self.new_uses[cell]));
            *waits = *waits * KEEP + f64::from(there) * f64::from(turns);
        }
        self.rank();
    }

    fn rank(&mut self) {
        for k in 0..self.queues {
            self.rank_queue(k);
        }
        // Of the same density the older first, as LRU does, and of the same age the lower queue.
        let densities = &self.densities;
        self.order.sort_unstable_by(|&one, &other| {
            let age = |cell: u16| cell as usize % GROUPS;
            let by_density = densities[one as usize].total_cmp(&densities[other as usize]);
            by_density.then(age(other).cmp(&age(one))).then(one.cmp(&other))
        });
        for (place, &cell) in self.order.iter().enumerate() {
            self.places[cell as usize] = place as u16;
        }
    }

    /// From the oldest age to the youngest. A page stays on beyond its group as long as the density of what comes then is higher.
    fn rank_queue(&mut self, k: usize) {
        let first = k * GROUPS;
        let mut later = [Stay::default(); GROUPS];
        let mut n = 0;
        for group in (0..GROUPS).rev() {
            let (from, to) = (f64::from(start_of(group)), f64::from(start_of(group + 1)));
            let supposed = SUPPOSED * 8.0 / (from + to);
            let rate = (self.uses[first + group] + supposed) / (self.waits[first + group] + SUPPOSED);
            let unused = 1.0 / (1.0 + rate.min(1.0) * (to - from));
            let mut stay = Stay { uses: 1.0 - unused, time: (to - from) * (1.0 + unused) / 2.0, unused };
            while n > 0 && later[n - 1].density() > stay.density() {
                n -= 1;
                stay = stay.and_then(later[n]);
            }
            later[n] = stay;
            n += 1;
            self.densities[first + group] = stay.density();
        }
    }

    /// The least dense cell that `turns` has, by queue; of one group the oldest. Pages of the current turn are left alone: so until it is over cells
    /// only become empty. Once a turn all groups are looked at; otherwise a few words.
    pub(super) fn least(&self, turns: &[Turns], now: u32, filled: &mut Filled) -> Option<Cell> {
        if filled.turn != Some(now) {
            filled.turn = Some(now);
            filled.places.fill(0);
            for (k, turns) in turns.iter().enumerate() {
                let mut age = REMEMBERED as u32;
                while let Some(turn) = turns.first(now.wrapping_sub(age - 1), age - 1) {
                    let group = group_of(now.wrapping_sub(turn));
                    let place = self.places[k * GROUPS + group] as usize;
                    filled.places[place / 64] |= 1 << (place % 64);
                    age = start_of(group);
                }
            }
        }
        for (word, places) in filled.places.iter_mut().enumerate() {
            while *places != 0 {
                let cell = self.order[word * 64 + places.trailing_zeros() as usize] as usize;
                let (k, group) = (cell / GROUPS, cell % GROUPS);
                let (from, to) = (start_of(group).max(1), start_of(group + 1));
                if let Some(turn) = turns[k].first(now.wrapping_sub(to - 1), to - from) {
                    return Some((k, turn));
                }
                *places &= *places - 1;
            }
        }
        None
    }

    pub(super) fn bytes(&self) -> usize {
        self.order.len() * (3 * size_of::<f64>() + size_of::<u32>() + 2 * size_of::<u16>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_age_is_in_the_group_that_has_it() {
        for age in 0..REMEMBERED as u32 {
            let group = group_of(age);
            assert!((start_of(group)..start_of(group + 1)).contains(&age), "{age} in {group}");
        }
        assert_eq!((group_of(REMEMBERED as u32 - 1), start_of(GROUPS)), (GROUPS - 1, REMEMBERED as u32));
    }

    #[test]
    fn the_density_is_the_most_uses_for_the_time_of_any_stay() {
        let mut densities = Densities::new(2);
        let mut state = 7u32;
        for _ in 0..3_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            densities.used(state as usize >> 31, (state >> 8) % 1_024 * (state >> 20) / 4_096);
        }
        densities.renew(32, |k, age| 400 / (age + 1) + k as u32);
        for cell in 0..2 * GROUPS {
            let group = cell % GROUPS;
            let mut stay = Stay { uses: 0.0, time: 0.0, unused: 1.0 };
            let mut most = 0.0f64;
            for later in group..GROUPS {
                let (from, to) = (f64::from(start_of(later)), f64::from(start_of(later + 1)));
                let at = cell - group + later;
                let rate = (densities.uses[at] + SUPPOSED * 8.0 / (from + to)) / (densities.waits[at] + SUPPOSED);
                let unused = 1.0 / (1.0 + rate.min(1.0) * (to - from));
                stay = stay.and_then(Stay { uses: 1.0 - unused, time: (to - from) * (1.0 + unused) / 2.0, unused });
                most = most.max(stay.density());
            }
            assert!((densities.densities[cell] / most - 1.0).abs() < 1e-9, "{cell}");
        }
        let in_order: Vec<f64> = densities.order.iter().map(|&cell| densities.densities[cell as usize]).collect();
        assert!(in_order.is_sorted());
    }

    #[test]
    fn the_least_dense_cell_is_found_again_when_others_become_empty() {
        let densities = Densities::new(2);
        let mut turns = vec![Turns::new(); 2];
        let now = 5_000;
        for age in [1, 5, 40, 41, 300, 1_023] {
            turns[age as usize % 2].set(now - age, true);
        }
        // Of the current turn.
        turns[0].set(now, true);
        let mut groups = Filled::new(2);
        let mut found = Vec::new();
        while let Some((k, turn)) = densities.least(&turns, now, &mut groups) {
            turns[k].set(turn, false);
            found.push(now - turn);
        }
        // 40 and 41 are of one group: the lower queue first.
        assert_eq!(found, [1_023, 300, 40, 41, 5, 1]);
    }
}
