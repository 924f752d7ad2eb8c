//! Random: any resident page, each with the same chance, is the victim.
//!
//! L. A. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5(2), 1966: the
//! policy that uses no information, against which others show what theirs is worth.
//!
//! The resident pages stand in one array; a victim's place is filled from the end. After a refusal the places behind the
//! one drawn are offered in turn.
//!
//! Reference figures: none outside; on uniform references its hit ratio is the share of the pages that fit.
//! Deviations: none. Parameters: `seed`; the generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
//! Memory: 8 bytes a page (its place in the array; the array).

use crate::drawing::{Drawing, Drawn};
use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

const ABSENT: u32 = u32::MAX;

/// Random replacement.
#[derive(Debug)]
pub struct Random {
    /// RA1. `places[page]` is where the page stands in `resident`, or `ABSENT`.
    places: Vec<u32>,
    resident: Vec<u32>,
    capacity: u32,
    state: u64,
}

impl Policy for Random {
    const INFO: Info = Info {
        name: "random",
        title: "any resident page",
        paper: "L. A. Belady, A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 5(2), 1966",
        parameters: &[Parameter {
            name: "seed",
            help: "where the sequence of random numbers starts",
            kind: Kind::Integer { least: 0, most: u64::MAX },
            default: "1",
        }],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 8,
        hit_sets_bit: true,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self {
            places: vec![ABSENT; setup.pages as usize],
            resident: Vec::with_capacity(setup.capacity.min(setup.pages) as usize),
            capacity: setup.capacity,
            state: setup.settings.integer("seed"),
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.resident.len() as u32
    }

    fn contains(&self, page: u32) -> bool {
        self.places[page as usize] != ABSENT
    }

    fn awaits_use(&self, _: u32) -> bool {
        false
    }

    fn hit(&mut self, _: &Reference) {}

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        self.places[reference.page as usize] = self.len();
        self.resident.push(reference.page);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        if self.resident.is_empty() {
            return Err(AllRefused);
        }
        let drawn = self.draw(self.resident.len());
        let (before, after) = self.resident.split_at(drawn);
        let victim = *after.iter().chain(before).find(|&&page| caller.evict(page)).ok_or(AllRefused)?;
        self.drop_page(victim);
        caller.forget(victim);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.contains(page) {
            self.drop_page(page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        if pages as usize > self.places.len() {
            self.places.resize(pages as usize, ABSENT);
        }
    }

    fn draw(&self, drawing: &mut Drawing) {
        drawing.row("frames", ["first frame", "last frame"], self.resident.iter().copied().map(Drawn::resident));
    }

    fn bytes(&self) -> usize {
        (self.places.capacity() + self.resident.capacity()) * size_of::<u32>()
    }

    fn check_invariants(&self) {
        assert!(self.len() <= self.capacity);
        assert_eq!(self.places.iter().filter(|&&place| place != ABSENT).count(), self.resident.len());
        for (place, &page) in self.resident.iter().enumerate() {
            assert_eq!(self.places[page as usize] as usize, place); // RA1
        }
    }
}

impl Random {
    fn drop_page(&mut self, page: u32) {
        let place = std::mem::replace(&mut self.places[page as usize], ABSENT) as usize;
        self.resident.swap_remove(place);
        if let Some(&moved) = self.resident.get(place) {
            self.places[moved as usize] = place as u32;
        }
    }

    /// A number below `end`, by SplitMix64 and Lemire's multiplication.
    fn draw(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((u128::from(bits) * end as u128) >> 64) as usize
    }
}
