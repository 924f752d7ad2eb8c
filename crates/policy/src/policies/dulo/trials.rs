//! How large the correlation buffer is to be: small DULOs with three sizes of it are tried on a sample of the blocks, and the one whose misses cost the
//! fewest seeks is taken.
//!
//! ```text
//! references --> sampled extents --> trial 0: a section of  2 %, nearly LRU    seeks 512
//!            |                   --> trial 1:              45 %                seeks 478
//!            |                   --> trial 2:              95 %                seeks 431  <-- the cache's section approaches 95 %
//!            '-----------------------------------------------------------------> the cache
//! ```
//!
//! No fixed size is right everywhere. A large section wins where random blocks are used again. It loses where a loop just fits into LRU: if the blocks of a sequence that left
//! early are used again in another order, each costs a seek.
//!
//! - **Extents of 8 neighbours on the disk are sampled, not blocks**, so that sequences survive, across small files, too. One extent in eight is. In caches of less than
//!   2,048 frames it is one in four, which takes 90 KB more at the most. In caches of 65,536 frames and more it is as many as make 4,096 to 8,191 frames of each trial.
//!   What is not sampled costs a multiplication, and where the disk's numbers are known the look-up of its own.
//! - A seek is a miss whose block does not follow the one that the trial fetched before. With `cost=device` what misses cost counts instead (`cost`). Timestamps are those of
//!   the cache's fetches.
//! - Seeks count less the older they are: half after six times as many sampled references as a trial has frames.
//! - The section begins with 45 % of the cache. Another size is taken when it has saved more seeks than chance explains: 0.3 times the root of the seeks of the present one.
//!
//! Why three: five (with 25 and 75 %) took two thirds more memory and time, and gave the same within 0.3 points of the mean. The constants were chosen on the four traces of
//! disks in `papers/dulo/README.md`, which says how little they matter, and where.
//!
//! The trials know blocks by their places. Page numbers would not do: another page gets a number once its page has left the cache.
//!
//! Every operation ends and stays fast for hostile places: the table of blocks is hashed with a seed, and each reference looks up one block and evicts one at most in each trial.
//! Memory is reserved beforehand. The table alone may double once: when trials hold different blocks, and removals have used up its free entries.

use super::block_table::Timestamps;
use super::sequence::Rules;
use super::stack::{Disk, Stack};
use forebay_basis::Place;
use std::collections::HashMap;

/// The eviction sections that are tried, with the bank, as shares of the cache. The first is nearly LRU: with less there would be nothing to win or to lose.
const SHARES: [f64; 3] = [0.02, 0.45, 0.95];
/// The least of a section, in pages.
const LEAST_PAGES: u32 = 16;
/// The trial that is taken first.
const FIRST: usize = 1;
/// Blocks of an extent, as a power of two.
const EXTENT_BITS: u32 = 3;
/// The frames of a trial are from this up to twice as many, in caches that are large enough.
const FRAMES: u32 = 4096;
/// Caches of `SMALL` frames and more sample one extent of 2^LEAST_BITS, or fewer, so that the trials' memory stays small.
const LEAST_BITS: u32 = 3;
/// Caches of fewer frames sample twice as much: their trials are small anyway.
const SMALL: u32 = 2048;
/// How often trials are compared, and their seeks decay, during as many sampled references as a trial has frames.
const TURNS: u32 = 256;
/// The half-life of a seek, in sampled references for each frame of a trial.
const HALF: f64 = 6.0;
/// How much better another trial must be: this many times the root of the present one's seeks.
const CHANCE: f64 = 0.3;

/// The pages of the correlation buffer beside a section with this share of the cache.
fn buffer(capacity: u32, share: f64) -> u32 {
    let least = LEAST_PAGES.min(capacity / 2).max(1);
    capacity - ((f64::from(capacity) * share) as u32).max(least)
}

#[derive(Debug)]
struct Trial {
    stack: Stack,
    /// Where the disk's arm stands: at the block behind the one that was fetched last.
    behind: Option<Place>,
    /// The user's request of that fetch.
    request: u64,
    /// Its seeks, decayed; with `cost=device` what its fetches cost.
    seeks: f64,
}

/// Numbers for the blocks that any trial holds.
#[derive(Debug)]
struct Blocks {
    /// DY1. The blocks that are held, and their numbers; `holders` says of each number by how many trials. The others are in `unused`.
    numbers: HashMap<Place, u32>,
    holders: Vec<u8>,
    unused: Vec<u32>,
}

impl Blocks {
    fn new() -> Self {
        Self { numbers: HashMap::new(), holders: Vec::new(), unused: Vec::new() }
    }

    /// Makes room for `blocks` blocks that are held at once.
    fn reserve(&mut self, blocks: u32) {
        let from = self.holders.len() as u32;
        if blocks > from {
            self.holders.resize(blocks as usize, 0);
            self.unused.reserve_exact(blocks as usize - self.unused.len());
            self.unused.extend((from..blocks).rev());
            self.numbers.reserve(blocks as usize - self.numbers.len());
        }
    }

    fn number(&mut self, place: Place) -> u32 {
        *self
            .numbers
            .entry(place)
            .or_insert_with(|| self.unused.pop().expect("there is one for each frame and one more"))
    }

    fn release(&mut self, number: u32, place: Place) {
        let holders = &mut self.holders[number as usize];
        *holders -= 1;
        if *holders == 0 {
            self.numbers.remove(&place);
            self.unused.push(number);
        }
    }

    fn bytes(&self) -> usize {
        // A table of a power of two, an eighth of it empty, with a byte for each entry.
        let table = (self.numbers.capacity() * 8 / 7).next_power_of_two() * (size_of::<(Place, u32)>() + 1);
        table + self.holders.capacity() + self.unused.capacity() * size_of::<u32>()
    }
}

#[derive(Debug)]
pub(super) struct Trials {
    trials: [Trial; SHARES.len()],
    blocks: Blocks,
    /// The trial whose section the cache's approaches.
    best: usize,
    /// One extent of 2^`bits` is sampled; each trial has `frames` frames.
    bits: u32,
    frames: u32,
    /// Sampled references until sizes are compared.
    left: u32,
    /// The users' requests so far, where the device does not join them.
    request: u64,
    rules: Rules,
    /// The bank's share of the cache, and of each trial.
    bank: f64,
}

impl Trials {
    /// Trials for a cache of this capacity, whose bank has a share of it.
    pub(super) fn new(capacity: u32, rules: Rules, bank: f64) -> Self {
        let bits = bits(capacity);
        let frames = (capacity >> bits).max(1);
        let trial = |_| Trial { stack: Stack::new(0, 0, rules, None), behind: None, request: 0, seeks: 0.0 };
        let trials = std::array::from_fn(trial);
        let mut trials =
            Self { trials, blocks: Blocks::new(), best: FIRST, bits, frames, left: 1, request: 0, rules, bank };
        trials.divide();
        trials
    }

    /// Gives each trial its frames, and the sizes of its buffer and bank.
    fn divide(&mut self) {
        let blocks = SHARES.len() as u32 * self.frames + 1;
        self.blocks.reserve(blocks);
        let bank = ((f64::from(self.frames) * self.bank).round() as u32).min(self.frames / 2).max(1);
        for (trial, share) in self.trials.iter_mut().zip(SHARES) {
            trial.stack.set_capacity(self.frames);
            trial.stack.reserve(blocks);
            trial.stack.divide(buffer(self.frames, share), bank);
        }
        self.left = self.frames.div_ceil(TURNS);
    }

    /// The pages of the correlation buffer that the cache is to have.
    pub(super) fn buffer(&self, capacity: u32) -> u32 {
        buffer(capacity, SHARES[self.best])
    }

    /// Sets the cache's capacity, and the bank's share of it. The chosen section stays. Where another part of the extents is to be sampled the trials begin anew.
    pub(super) fn set_capacity(&mut self, capacity: u32, bank: f64, disk: &Disk) {
        self.bank = bank;
        let frames = (capacity >> bits(capacity)).max(1);
        if bits(capacity) != self.bits {
            *self = Self { best: self.best, ..Self::new(capacity, self.rules, self.bank) };
        } else if frames != self.frames {
            for trial in &mut self.trials {
                while trial.stack.len() > frames {
                    trial.make_room(&mut self.blocks, disk);
                }
            }
            self.frames = frames;
            self.divide();
            for trial in &mut self.trials {
                trial.stack.settle(disk);
            }
        }
    }

    /// The clock is set back.
    pub(super) fn set_clock_back(&mut self) {
        self.trials.iter_mut().for_each(|trial| trial.stack.set_clock_back());
    }

    /// No block that is fetched from now on belongs to a request before.
    pub(super) fn begin_request(&mut self) {
        self.request += 1;
    }

    /// A block is referenced that the cache holds or has just fetched, at a time that it knows.
    pub(super) fn reference(&mut self, place: Place, timestamps: impl FnOnce() -> Timestamps, disk: &Disk) {
        let at = disk.lies(place);
        if !is_sampled(at, self.bits) {
            return;
        }
        let (number, timestamps) = (self.blocks.number(place), timestamps());
        for trial in &mut self.trials {
            if trial.stack.contains(number) {
                trial.stack.hit(number);
                continue;
            }
            let begins = trial.behind != Some(at) || trial.request != self.request;
            trial.request = self.request;
            trial.seeks += self.rules.prices.fetch(begins);
            trial.behind = Some(Place { block: at.block.wrapping_add(1), ..at });
            self.blocks.holders[number as usize] += 1;
            if trial.stack.is_full() {
                trial.make_room(&mut self.blocks, disk);
            }
            trial.stack.admit(number, place, timestamps, disk);
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.frames.div_ceil(TURNS);
            self.choose();
        }
    }

    fn choose(&mut self) {
        let present = self.trials[self.best].seeks;
        let least = |a: &usize, b: &usize| self.trials[*a].seeks.total_cmp(&self.trials[*b].seeks);
        let best = (0..SHARES.len()).min_by(least).expect("there are trials");
        if present - self.trials[best].seeks > CHANCE * present.sqrt() {
            self.best = best;
        }
        let kept = 0.5f64.powf(1.0 / (HALF * f64::from(TURNS)));
        self.trials.iter_mut().for_each(|trial| trial.seeks *= kept);
    }

    /// Shows the chosen section, and by how many percent its seeks are fewer than those of the smallest section.
    pub(super) fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let [lru, best] = [0, self.best].map(|trial| self.trials[trial].seeks);
        show("section tried best, percent", 100.0 * SHARES[self.best]);
        show("its seeks below LRU's, percent", if lru > 0.0 { 100.0 * (1.0 - best / lru) } else { 0.0 });
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.bytes() + self.trials.iter().map(|trial| trial.stack.bytes()).sum::<usize>()
    }

    #[cfg(test)]
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    #[cfg(test)]
    pub(super) fn costs(&self) -> [f64; SHARES.len()] {
        std::array::from_fn(|trial| self.trials[trial].seeks)
    }

    pub(super) fn check(&self) {
        let mut holders = vec![0; self.blocks.holders.len()];
        for trial in &self.trials {
            trial.stack.check();
            self.blocks
                .numbers
                .values()
                .filter(|&&number| trial.stack.contains(number))
                .for_each(|&number| holders[number as usize] += 1);
        }
        assert_eq!(holders, self.blocks.holders); // DY1
        assert!(self.blocks.numbers.values().all(|&number| holders[number as usize] > 0)); // DY1
        assert_eq!(self.blocks.numbers.len() + self.blocks.unused.len(), holders.len()); // DY1
    }
}

impl Trial {
    /// Evicts a block.
    fn make_room(&mut self, blocks: &mut Blocks, disk: &Disk) {
        let (number, place) = self.stack.evict(disk, |_| true).expect("nothing is refused");
        blocks.release(number, place);
    }
}

/// One extent of 2^bits is sampled.
fn bits(capacity: u32) -> u32 {
    (capacity / FRAMES).max(1).ilog2().max(LEAST_BITS - u32::from(capacity < SMALL))
}

/// Whether the block's extent is sampled: a hash of where it lies begins with zeroes.
pub(super) fn is_sampled(place: Place, bits: u32) -> bool {
    let extent = u64::from(place.object) << 40 ^ place.block >> EXTENT_BITS;
    let hash = (extent ^ extent >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash >> (64 - bits) == 0
}
