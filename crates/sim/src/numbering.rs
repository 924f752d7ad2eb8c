//! From places to dense page numbers, in the order of first use.
//!
//! ```text
//! slots:   lines of 16 numbers; a group of 16 neighbouring blocks has one home line, each block a slot of its own in it
//! places:  blocks and objects by number: what a slot's number is compared with
//! ```
//!
//! Open addressing, the slots holding numbers alone: a key stands once, in the column that the simulator needs anyway. The home line is a
//! hash of object and group, so sequential blocks share cache lines; a slot that is taken sends the block to the same slot of
//! the next line. The slot within the line is permuted by the hash: blocks that are all multiples of 16 spread as well.
//!
//! Places are looked up in batches, step by step: all slots, then all keys, each fetched while the step before goes on, so that
//! their cache misses overlap.
//!
//! Memory: at most two thirds of the slots are taken and they grow by a half, so 6 to 9 bytes a page; with the places, which
//! grow by an eighth, at most 22.5 bytes a page, 18 where all pages are of one object. The slots are made anew from the places
//! when they grow, and the old ones are given up before.

use crate::places::Places;
use crate::size::MOST_PAGES;
use forebay_policy::Place;
use forebay_policy::prefetch::prefetch;

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
}

impl Default for Numbering {
    fn default() -> Self {
        Self { slots: vec![EMPTY; FIRST_LINES * LINE], places: Places::default() }
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
        let (mut line, slot) = self.home(place);
        loop {
            let at = line * LINE + slot;
            let number = self.slots[at];
            if number == EMPTY || self.places.of(number) == place {
                return at;
            }
            line = if (line + 1) * LINE == self.slots.len() { 0 } else { line + 1 };
        }
    }

    /// The line, and the slot in it, where the place's number is looked for first.
    #[inline]
    fn home(&self, place: Place) -> (usize, usize) {
        // Odd factors: the fractions of the golden ratio and of the square roots of 3 and 5.
        let group = (place.block / LINE as u64) ^ u64::from(place.object).wrapping_mul(0xbb67_ae85_84ca_a73b);
        let product = u128::from(group) * 0x9e37_79b9_7f4a_7c15;
        let hash = ((product >> 64) as u64 ^ product as u64).wrapping_mul(0x3c6e_f372_fe94_f82b);
        let lines = (self.slots.len() / LINE) as u64;
        let line = (u128::from(hash) * u128::from(lines)) >> 64;
        // The product's upper half depends on all bits of the group.
        let slot = (place.block ^ hash >> 32) as usize % LINE;
        (line as usize, slot)
    }

    fn grow(&mut self) {
        let lines = self.slots.len() / LINE;
        self.slots = Vec::new();
        self.slots = vec![EMPTY; (lines + lines / 2) * LINE];
        for number in 0..self.pages() {
            // Pages differ, so the first empty slot is theirs; the earliest pages, often the most used, get their home.
            let (mut line, slot) = self.home(self.places.of(number));
            while self.slots[line * LINE + slot] != EMPTY {
                line = if (line + 1) * LINE == self.slots.len() { 0 } else { line + 1 };
            }
            self.slots[line * LINE + slot] = number;
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

    /// How many lines are looked at for a page, on average, once all are numbered.
    fn lines_looked_at(places: impl Iterator<Item = Place>) -> (f64, f64) {
        let places: Vec<Place> = places.collect();
        let mut numbering = Numbering::default();
        numbering.number(&places, &mut Vec::new()).unwrap();
        let lines = numbering.slots.len() / LINE;
        let looked_at = |&place: &Place| (numbering.find(place) / LINE + lines - numbering.home(place).0) % lines + 1;
        let sum: usize = places.iter().map(looked_at).sum();
        (sum as f64 / places.len() as f64, numbering.bytes() as f64 / f64::from(numbering.pages()))
    }

    #[test]
    fn pages_of_every_kind_are_found_near_their_home_in_bounded_memory() {
        let random = |n: u64| n.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29).wrapping_mul(0x9e6c_63d0_876a_46b1);
        type Block = fn(u64) -> u64;
        let kinds: [(&str, Block); 6] = [
            ("dense", |n| n),
            ("every 8th", |n| n * 8),
            ("every 16th", |n| n * 16),
            ("every 4096th", |n| n << 12),
            ("far apart", |n| n << 40),
            ("runs of 16", |n| ((n / 16) << 30) | (n % 16)),
        ];
        let places = |block: Block| (0..300_000).map(move |n| Place { object: 0, block: block(n) });
        for (kind, block) in kinds {
            let (lines, bytes) = lines_looked_at(places(block));
            // At two thirds linear probing looks at 2 slots for a page that it finds.
            assert!(lines < 2.3, "{kind}: {lines} lines");
            assert!(bytes <= 18.1, "{kind}: {bytes} bytes a page");
        }
        let (lines, bytes) = lines_looked_at((0..300_000).map(|n| Place { object: n as u32 % 7, block: random(n) }));
        assert!(lines < 2.3 && bytes <= 22.6, "{lines} lines, {bytes} bytes a page");
    }
}
