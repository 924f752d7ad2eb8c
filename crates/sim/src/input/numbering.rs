//! From places to dense page numbers, in the order of first use.
//!
//! The table is hashbrown's, and holds numbers alone: a key stands once, in the column that the simulator needs anyway. Its hash has a seed
//! drawn for each table, so blocks chosen against the hash are as good as random ones. A table of our own that fetched places in batches
//! was 2 to 3 times as fast at 300,000 pages, half as fast at 10,000, and 1.15 times over all (`bench/runs/2026-11-22-numbering.json`).
//!
//! Memory: 6 to 12 bytes a page, and half as much again while the table grows; with the places, which grow by an eighth, at most 25.5 bytes
//! a page, 21 where all pages are of one object.

use super::places::Places;
use crate::size::MOST_PAGES;
use foldhash::quality::RandomState;
use forebay_basis::Place;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;

/// There are more distinct pages than page numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPages;

/// The numbers of all pages seen.
#[derive(Debug, Default)]
pub struct Numbering {
    table: HashTable<u32>,
    places: Places,
    seed: RandomState,
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
        self.table.allocation_size() + self.places.bytes()
    }

    /// Appends the numbers of the pages at `places`; a page that was not seen before gets the next number.
    ///
    /// # Errors
    /// If there are no more numbers.
    pub fn number(&mut self, places: &[Place], numbers: &mut Vec<u32>) -> Result<(), TooManyPages> {
        for &place in places {
            numbers.push(self.find_or_insert(place)?);
        }
        Ok(())
    }

    fn find_or_insert(&mut self, place: Place) -> Result<u32, TooManyPages> {
        let Self { table, places, seed } = self;
        let known = |&number: &u32| places.of(number) == place;
        match table.entry(seed.hash_one(place), known, |&number| seed.hash_one(places.of(number))) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(vacant) => {
                let number = places.len() as u32;
                if u64::from(number) == MOST_PAGES {
                    return Err(TooManyPages);
                }
                vacant.insert(number);
                places.push(place);
                Ok(number)
            }
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

    #[test]
    fn memory_is_as_stated_through_every_growth() {
        for (objects, most) in [(1, 21.0), (7, 25.5)] {
            let mut numbering = Numbering::default();
            for number in 0..300_000u64 {
                let place = Place { object: number as u32 % objects, block: number << 20 };
                assert_eq!(numbering.number(&[place], &mut Vec::new()), Ok(()));
                let bytes = numbering.bytes() as f64 / (number + 1) as f64;
                assert!(number < 10_000 || bytes <= most, "{bytes} bytes a page at {number} pages");
            }
        }
    }
}
