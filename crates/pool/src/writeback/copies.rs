//! Memory for the copies of pages that are being written: one store for all writebacks of a pool, of a fixed length.
//!
//! 1. A writeback gets as many places as it wants, at most half of those that are free, so that further ones find some, too; and at least one.
//! 2. If none is free it waits, as long as others give places back.
//! 3. If none has been given back for [`STALLED`], devices hang. From then on until one is given back nobody waits: pages are written from where they lie, and
//!    stay as they are meanwhile.
//!
//! Who waits holds its volume's `writing`. Who has places waits for its device alone, so no two wait for each other.

use crate::core::frames::Frames;
use crate::core::memory::Memory;
use crate::sync::{Condvar, Mutex, lock};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// How long nothing is given back before nobody waits any more.
const STALLED: Duration = Duration::from_secs(1);

pub(crate) struct Copies {
    /// A place a page.
    places: Frames,
    store: Mutex<Store>,
    given: Condvar,
}

struct Store {
    /// In order, none next to another.
    free: Vec<Range<u32>>,
    /// How often places have been given back.
    gifts: u64,
    /// Nothing has been given back for long.
    stalled: bool,
}

/// Places that are given back when this is dropped.
pub(crate) struct Copy<'a> {
    copies: &'a Copies,
    places: Range<u32>,
}

impl Copies {
    /// So many places. They take memory as they are used.
    ///
    /// # Errors
    /// There are no addresses for them.
    pub(crate) fn new(places: u32, page_size: usize) -> io::Result<Self> {
        let store = Store { free: std::iter::once(0..places).collect(), gifts: 0, stalled: false };
        Ok(Self { places: Frames::new(places, page_size, false)?, store: Mutex::new(store), given: Condvar::new() })
    }

    /// Places for up to `wanted` pages, which lie in a row. `None`: devices hang that have them all (3).
    pub(crate) fn take(&self, wanted: usize) -> Option<Copy<'_>> {
        let mut store = lock(&self.store);
        loop {
            if let Some(places) = store.take(u32::try_from(wanted).unwrap_or(u32::MAX)) {
                return Some(Copy { copies: self, places });
            }
            if store.stalled {
                return None;
            }
            let seen = store.gifts;
            let waits = |store: &mut Store| store.gifts == seen && !store.stalled;
            store = self.given.wait_timeout_while(store, STALLED, waits).expect("no thread panicked under this lock").0;
            if store.gifts == seen {
                store.stalled = true;
            }
        }
    }
}

impl Store {
    fn take(&mut self, wanted: u32) -> Option<Range<u32>> {
        let free: u32 = self.free.iter().map(|range| range.end - range.start).sum();
        let most = wanted.min(free / 2).max(1);
        let length = |range: &Range<u32>| (range.end - range.start).min(most);
        // The first of the longest: what has memory already is used again.
        let place = (0..self.free.len()).rev().max_by_key(|&place| length(&self.free[place]))?;
        let range = &mut self.free[place];
        let taken = range.start..range.start + length(range);
        range.start = taken.end;
        if range.start == range.end {
            self.free.remove(place);
        }
        Some(taken)
    }

    fn give(&mut self, places: Range<u32>) {
        let place = self.free.partition_point(|range| range.end <= places.start);
        self.free.insert(place, places);
        if self.free.get(place + 1).is_some_and(|next| next.start == self.free[place].end) {
            self.free[place].end = self.free.remove(place + 1).end;
        }
        if place > 0 && self.free[place - 1].end == self.free[place].start {
            self.free[place - 1].end = self.free.remove(place).end;
        }
        self.gifts += 1;
        self.stalled = false;
    }
}

impl Copy<'_> {
    /// How many pages it has room for.
    pub(crate) fn pages(&self) -> usize {
        self.places.len()
    }

    /// Where the copy of its `page`th page lies.
    pub(crate) fn pointer(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages(), "a page of this copy");
        self.copies.places.pointer(self.places.start + page as u32)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        // A thread that panicked under this lock has left nobody who waits.
        if let Ok(mut store) = self.copies.store.lock() {
            store.give(self.places.clone());
            self.copies.given.notify_all();
        }
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn each_gets_half_of_what_is_free_at_most_and_all_is_whole_again_in_the_end() {
        let copies = Copies::new(16, 4096).expect("there are addresses");
        let takes = [100, 3, 100, 100, 100, 100].map(|wanted| copies.take(wanted).expect("some are free"));
        assert_eq!(takes.each_ref().map(Copy::pages), [8, 3, 2, 1, 1, 1]);
        let mut places: Vec<u32> = takes.iter().flat_map(|copy| copy.places.clone()).collect();
        places.sort_unstable();
        assert_eq!(places, (0..16).collect::<Vec<_>>(), "no place twice");
        let [first, second, third, fourth, fifth, sixth] = takes;
        for copy in [second, fifth, first, sixth, third, fourth] {
            drop(copy);
        }
        let free = lock(&copies.store).free.clone();
        assert_eq!((free.len(), free[0].clone()), (1, 0..16));
    }

    #[test]
    fn who_finds_none_waits_for_one_and_nobody_waits_once_devices_hang() {
        let copies = Copies::new(1, 4096).expect("there are addresses");
        let first = copies.take(1).expect("it is free");
        std::thread::scope(|scope| {
            let next = scope.spawn(|| copies.take(1).is_some());
            std::thread::sleep(STALLED / 10);
            drop(first);
            assert!(next.join().expect("no panic"), "it was given back in time");
        });
        let held = copies.take(1).expect("it is free");
        let begin = Instant::now();
        assert!(copies.take(1).is_none());
        let waited = begin.elapsed();
        assert!(waited >= STALLED, "{waited:?}");
        assert!(copies.take(1).is_none());
        assert!(begin.elapsed() < waited + STALLED / 2, "the second did not wait");
        drop(held);
        assert!(copies.take(1).is_some(), "all is well again");
    }
}
