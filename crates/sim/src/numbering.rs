//! From places to dense page numbers, in the order of first use.
//!
//! ```text
//! slots:   lines of 16 numbers; a group of 16 neighbouring blocks has one home line, each block a slot of its own in it
//! places:  blocks and objects by number: what a slot's number is compared with
//! ```
//!
//! Open addressing, the slots holding numbers alone: a key stands once, in the column that the simulator needs anyway. The home line is a
//! hash of object and group, so sequential blocks share cache lines. The slot within the line is permuted by the hash: blocks that are all
//! multiples of 16 spread as well. A slot that is taken sends the block to the same slot of the next line, and once it has been to all
//! lines, to the next slot of each.
//!
//! Every probe ends: it comes to each slot once, and a third of the slots are empty. It stays short: which line and slot a block has
//! depends on a seed drawn for each table, so blocks chosen against the hash are as good as random ones. Then the slots of one number in
//! their lines are filled like a table of their own, two thirds on average; only in a small table may all of them be taken, and there a
//! probe of all lines is short, too.
//!
//! Places are looked up in batches, step by step: all slots, then all keys, each fetched while the step before goes on, so that
//! their cache misses overlap.
//!
//! Memory: at most two thirds of the slots are taken and they grow by a half, so 6 to 9 bytes a page; with the places, which
//! grow by an eighth, at most 22.5 bytes a page, 18 where all pages are of one object. The slots are made anew from the places
//! when they grow, and the old ones are given up before.

use crate::places::Places;
use crate::size::MOST_PAGES;
use foldhash::quality::RandomState;
use forebay_policy::Place;
use forebay_policy::prefetch::prefetch;
use std::hash::BuildHasher;

/// The numbers in a cache line of 64 bytes.
const LINE: usize = 16;
/// A slot that is not taken.
const EMPTY: u32 = u32::MAX;
/// Places looked up together: enough to hide memory's latency, few enough for the first-level cache.
const BATCH: usize = 128;
/// The lines of an empty table.
const FIRST_LINES: usize = 64;

/// There are more distinct pages than page numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPages;

/// The numbers of all pages seen.
#[derive(Debug)]
pub struct Numbering {
    slots: Vec<u32>,
    places: Places,
    seed: RandomState,
}

impl Default for Numbering {
    fn default() -> Self {
        Self { slots: vec![EMPTY; FIRST_LINES * LINE], places: Places::default(), seed: RandomState::default() }
    }
}

impl Numbering {
    /// The places of the pages seen, by number.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The places alone.
    pub fn into_places(self) -> Places {
        self.places
    }

    /// How many distinct pages were seen.
    pub fn pages(&self) -> u32 {
        self.places.len() as u32
    }

    /// The bytes of memory that the numbering takes.
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>() + self.places.bytes()
    }

    /// Appends the numbers of the pages at `places`; a page that was not seen before gets the next number.
    ///
    /// # Errors
    /// If there are no more numbers.
    pub fn number(&mut self, places: &[Place], numbers: &mut Vec<u32>) -> Result<(), TooManyPages> {
        for batch in places.chunks(BATCH) {
            self.number_batch(batch, numbers)?;
        }
        Ok(())
    }

    fn number_batch(&mut self, batch: &[Place], numbers: &mut Vec<u32>) -> Result<(), TooManyPages> {
        let Some(last) = self.pages().checked_sub(1) else {
            for &place in batch {
                numbers.push(self.find_or_insert(place)?);
            }
            return Ok(());
        };
        let mut homes = [0; BATCH];
        for (home, &place) in homes.iter_mut().zip(batch) {
            let (line, slot) = self.home(place);
            *home = line * LINE + slot;
            prefetch(&self.slots, *home);
        }
        let mut found = [0; BATCH];
        for (number, &home) in found.iter_mut().zip(&homes[..batch.len()]) {
            // An empty slot stands for some page: whatever is found is compared below.
            *number = self.slots[home].min(last);
            self.places.prefetch(*number);
        }
        for (&place, number) in batch.iter().zip(found) {
            let known = self.places.of(number) == place;
            numbers.push(if known { number } else { self.find_or_insert(place)? });
        }
        Ok(())
    }

    fn find_or_insert(&mut self, place: Place) -> Result<u32, TooManyPages> {
        let at = self.find(place);
        if self.slots[at] != EMPTY {
            return Ok(self.slots[at]);
        }
        let number = self.pages();
        if u64::from(number) == MOST_PAGES {
            return Err(TooManyPages);
        }
        self.places.push(place);
        self.slots[at] = number;
        if self.places.len() * 3 > self.slots.len() * 2 {
            self.grow();
        }
        Ok(number)
    }

    /// The slot that holds the place's number, or the empty one that would.
    fn find(&self, place: Place) -> usize {
        self.probe(place, |number| number == EMPTY || self.places.of(number) == place)
    }

    /// The first slot whose number is wanted, of all slots in the order in which the place is looked for.
    #[inline]
    fn probe(&self, place: Place, wanted: impl Fn(u32) -> bool) -> usize {
        let (home, first) = self.home(place);
        let (mut line, mut slot) = (home, first);
        loop {
            let at = line * LINE + slot;
            if wanted(self.slots[at]) {
                return at;
            }
            line = if (line + 1) * LINE == self.slots.len() { 0 } else { line + 1 };
            if line == home {
                slot = (slot + 1) % LINE;
                assert_ne!(slot, first, "a third of the slots are empty");
            }
        }
    }

    /// The line, and the slot in it, where the place's number is looked for first.
    #[inline]
    fn home(&self, place: Place) -> (usize, usize) {
        let hash = self.seed.hash_one((place.block / LINE as u64, place.object));
        let lines = (self.slots.len() / LINE) as u64;
        // The line is the hash's upper bits, and the slot depends on its lower ones.
        let line = (u128::from(hash) * u128::from(lines)) >> 64;
        (line as usize, (place.block ^ hash) as usize % LINE)
    }

    fn grow(&mut self) {
        let lines = self.slots.len() / LINE;
        self.slots = Vec::new();
        self.slots = vec![EMPTY; (lines + lines / 2) * LINE];
        for number in 0..self.pages() {
            // Pages differ, so the first empty slot is theirs; the earliest pages, often the most used, get their home.
            let at = self.probe(self.places.of(number), |taken| taken == EMPTY);
            self.slots[at] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn check(places: &[Place]) {
        let mut numbering = Numbering::default();
        let mut numbers = Vec::new();
        numbering.number(places, &mut numbers).unwrap();
        let mut known: HashMap<Place, u32> = HashMap::new();
        for (&place, number) in places.iter().zip(&numbers) {
            let next = known.len() as u32;
            assert_eq!(*number, *known.entry(place).or_insert(next), "{place:?}");
            assert_eq!(numbering.places().of(*number), place);
        }
        assert_eq!((numbers.len(), numbering.pages()), (places.len(), known.len() as u32));
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_a_map_in_the_order_of_first_use(
            runs in prop::collection::vec(
                (0..3u32, prop_oneof![0..5000u64, any::<u64>(), (0..300u64).prop_map(|n| n << 44)], 1..60u64), 1..400),
        ) {
            let run = |&(object, first, length): &(u32, u64, u64)| {
                (0..length).map(move |block| Place { object, block: u64::wrapping_add(first, block) })
            };
            check(&runs.iter().flat_map(run).collect::<Vec<_>>());
        }
    }

    /// How many slots are looked at for a page, on average, once all are numbered; and bytes a page.
    fn slots_looked_at(places: &[Place]) -> (f64, f64) {
        let mut numbering = Numbering::default();
        numbering.number(places, &mut Vec::new()).unwrap();
        let looked_at = |&place: &Place| {
            let slots = std::cell::Cell::new(0);
            numbering.probe(place, |number| {
                slots.set(slots.get() + 1);
                numbering.places.of(number) == place
            });
            slots.get()
        };
        let sum: usize = places.iter().map(looked_at).sum();
        (sum as f64 / places.len() as f64, numbering.bytes() as f64 / f64::from(numbering.pages()))
    }

    type Kind = (&'static str, fn(u64, u64) -> u64);

    /// Blocks of many kinds, by their number in the set and by what differs between sets.
    const KINDS: [Kind; 8] = [
        ("dense", |n, set| n + set),
        ("every 8th", |n, _| n * 8),
        ("every 16th", |n, set| n * 16 + set % 16),
        ("multiples of any number", |n, set| n.wrapping_mul(set)),
        ("every 4096th", |n, _| n << 12),
        ("far apart", |n, _| n << 40),
        ("runs of 16", |n, set| ((n / 16) << 30) | (n % 16) << (set % 8)),
        ("random", |n, set| random(n ^ set << 32)),
    ];

    fn random(n: u64) -> u64 {
        n.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29).wrapping_mul(0x9e6c_63d0_876a_46b1)
    }

    /// Runs what may never end, and fails when it takes longer than a minute.
    fn ends(what: &str, run: impl FnOnce() + Send + 'static) {
        let (done, wait) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            run();
            done.send(()).unwrap();
        });
        let waited = wait.recv_timeout(std::time::Duration::from_secs(60));
        assert_ne!(waited, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "waited a minute for {what}");
        thread.join().unwrap();
    }

    #[test]
    fn pages_of_every_kind_are_found_near_their_home_in_bounded_memory() {
        for (kind, block) in KINDS {
            let places: Vec<Place> = (0..300_000).map(|n| Place { object: 0, block: block(n, 999_983) }).collect();
            let (slots, bytes) = slots_looked_at(&places);
            // At two thirds linear probing looks at 2 slots for a page that it finds.
            assert!(slots < 2.3, "{kind}: {slots} slots");
            assert!(bytes <= 18.1, "{kind}: {bytes} bytes a page");
        }
        let places: Vec<Place> = (0..300_000).map(|n| Place { object: n as u32 % 7, block: random(n) }).collect();
        let (slots, bytes) = slots_looked_at(&places);
        assert!(slots < 2.3 && bytes <= 22.6, "{slots} slots, {bytes} bytes a page");
    }

    #[test]
    fn a_table_with_all_lines_taken_in_one_column_still_finds_what_is_there_and_what_is_not() {
        let mut numbering = Numbering::default();
        let column = numbering.home(Place { object: 0, block: 0 }).1;
        let mut of_column = (0..).map(|n| Place { object: 0, block: random(n) });
        let mut places: Vec<Place> = Vec::new();
        while places.len() < FIRST_LINES + 20 {
            places.extend(of_column.by_ref().find(|&place| numbering.home(place).1 == column));
        }
        ends("pages of one column", move || {
            for (number, &place) in places.iter().enumerate() {
                assert_eq!(numbering.find_or_insert(place), Ok(number as u32));
            }
            for (number, &place) in places.iter().enumerate() {
                assert_eq!(numbering.find_or_insert(place), Ok(number as u32));
            }
        });
    }

    #[test]
    fn ten_thousand_sets_of_pages_are_numbered_through_every_growth() {
        ends("10,000 sets of pages", || {
            let mut numbers = Vec::new();
            for set in 0..10_000u64 {
                let (kind, block) = KINDS[set as usize % KINDS.len()];
                let stride = random(set + 1) | 1;
                let places: Vec<Place> =
                    (0..2_400).map(|n| Place { object: (n % (1 + set % 3)) as u32, block: block(n, stride) }).collect();
                let mut numbering = Numbering::default();
                let first = numbering.slots.len();
                for _ in 0..2 {
                    numbers.clear();
                    numbering.number(&places, &mut numbers).unwrap();
                    assert!(numbers.iter().copied().eq(0..2_400), "{kind}, {set}");
                }
                assert!(numbering.slots.len() >= first * 27 / 8, "it grew three times");
            }
        });
    }
}
