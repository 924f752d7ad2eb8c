//! DULO.

use crate::models::{Model, Reference, take};
use forebay_basis::Place;

/// DULO on `Vec`s, bottom first, and the times of all fetches ever made.
pub(crate) struct Dual {
    pub(crate) capacity: usize,
    pub(crate) correlation_max: usize,
    pub(crate) bank_max: usize,
    pub(crate) longest: usize,
    pub(crate) correlation: Vec<u32>,
    pub(crate) bank: Vec<u32>,
    /// Sequences with their `H` and the size that they were formed with.
    pub(crate) eviction: Vec<(f64, usize, Vec<u32>)>,
    pub(crate) inflation: f64,
    pub(crate) young: Vec<u32>,
    pub(crate) fetched: Vec<Place>,
    pub(crate) places: Vec<(u32, Place)>,
    pub(crate) beside: Option<Beside>,
}

/// LRU of the same size, and what its seeks say of the size of the buffer.
#[derive(Default)]
pub(crate) struct Beside {
    lru: Vec<u32>,
    /// Where the arms stand, ours and LRU's.
    ours: Option<Place>,
    theirs: Option<Place>,
    seeks: f64,
    won: f64,
    share: f64,
}

impl Beside {
    /// Takes a reference, and says how large the buffer is to be.
    fn reference(&mut self, capacity: usize, reference: &Reference, hit: bool, again: bool) -> usize {
        let Reference { page, place, .. } = *reference;
        let seeks = |arm: &mut Option<Place>| arm.replace(Place { block: place.block + 1, ..place }) != Some(place);
        let held = take(&mut self.lru, page);
        if self.lru.len() == capacity {
            self.lru.remove(0);
        }
        self.lru.push(page);
        let ours = !hit && seeks(&mut self.ours);
        let theirs = !held && seeks(&mut self.theirs);
        self.seeks += f64::from(u8::from(theirs));
        let won = f64::from(u8::from(theirs)) - f64::from(u8::from(ours));
        self.won += won;
        let gain = (100.0 * self.won / self.seeks.max(1.0)).clamp(0.0, 3.0);
        let step = 0.019 * (1.0 + gain);
        self.share += match won {
            1.0 => step,
            -1.0 if self.won < 0.0 => -3.0 * step,
            -1.0 => -step,
            _ if ours && theirs && again => 0.01 * gain,
            _ => 0.0,
        };
        self.share = self.share.clamp(0.02, 0.95);
        capacity - ((capacity as f64 * self.share) as usize).max((capacity / 2).clamp(1, 16))
    }
}

impl Dual {
    /// Buffer and bank in percent of the capacity, the bank at most half of it.
    pub(crate) fn new(capacity: usize, correlation: f64, bank: f64, longest: usize) -> Self {
        let part = |percent: f64| (capacity as f64 * percent / 100.0).round() as usize;
        Self {
            capacity,
            correlation_max: part(correlation),
            bank_max: part(bank).min(capacity / 2).max(1),
            longest,
            correlation: Vec::new(),
            bank: Vec::new(),
            eviction: Vec::new(),
            inflation: 0.0,
            young: Vec::new(),
            fetched: Vec::new(),
            places: Vec::new(),
            beside: None,
        }
    }

    /// With a buffer whose size adapts.
    pub(crate) fn adaptive(capacity: usize) -> Self {
        let mut dual = Self::new(capacity, 0.0, 5.0, 128);
        dual.correlation_max = capacity - (capacity / 2).clamp(1, 16);
        dual.beside = Some(Beside { share: 0.02, ..Beside::default() });
        dual
    }

    fn resident(&self) -> Vec<u32> {
        let evictable = self.eviction.iter().flat_map(|sequence| &sequence.2);
        self.correlation.iter().chain(&self.bank).chain(evictable).copied().collect()
    }

    fn place(&self, page: u32) -> Place {
        self.places.iter().find(|known| known.0 == page).unwrap().1
    }

    /// When the page was fetched, the last time first.
    fn fetches(&self, page: u32) -> Vec<usize> {
        let place = self.place(page);
        (0..self.fetched.len()).rev().filter(|&time| self.fetched[time] == place).take(2).collect()
    }

    /// Whether `b` is not to be coalesced with `a`, the last block of a sequence: the paper's rules 1 to 3.
    fn ends(&self, a: u32, b: u32) -> bool {
        let (at_a, at_b) = (self.place(a), self.place(b));
        let (times_a, times_b) = (self.fetches(a), self.fetches(b));
        at_a.object != at_b.object
            || at_b.block > at_a.block + 4
            || times_a.len() != times_b.len()
            || times_a.iter().zip(&times_b).any(|(a, b)| a + 1 != *b)
    }

    fn top(&mut self, page: u32) {
        self.correlation.push(page);
        while self.correlation.len() > self.correlation_max {
            self.bank.push(self.correlation.remove(0));
            if self.bank.len() == self.bank_max {
                self.refill();
            }
        }
    }

    fn refill(&mut self) {
        let stack = std::mem::take(&mut self.bank);
        let mut blocks = stack.clone();
        blocks.sort_by_key(|&page| self.place(page));
        let mut sequences: Vec<Vec<u32>> = Vec::new();
        for page in blocks {
            match sequences.last_mut() {
                Some(last) if last.len() < self.longest && !self.ends(*last.last().unwrap(), page) => last.push(page),
                _ => sequences.push(vec![page]),
            }
        }
        let lowest = |sequence: &Vec<u32>| stack.iter().position(|page| sequence.contains(page)).unwrap();
        sequences.sort_by_key(lowest);
        for blocks in sequences {
            self.eviction.push((self.inflation + 1.0 / blocks.len() as f64, blocks.len(), blocks));
        }
        // The sort is stable: of equals, what came first stays lower.
        self.eviction.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    }

    fn evict(&mut self) -> u32 {
        loop {
            if self.eviction.is_empty() {
                if self.bank.is_empty() {
                    self.bank.push(self.correlation.remove(0));
                }
                self.refill();
            }
            let (h, _, blocks) = &mut self.eviction[0];
            let (h, page) = (*h, blocks.remove(0));
            if blocks.is_empty() {
                self.eviction.remove(0);
            }
            if !take(&mut self.young, page) {
                self.inflation = h;
                return page;
            }
            self.top(page);
        }
    }
}

impl Model for Dual {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let resident = self.resident();
        let mut evicted = Vec::new();
        if resident.contains(&page) {
            if let Some(beside) = &mut self.beside {
                beside.reference(self.capacity, reference, true, false);
            }
            if take(&mut self.correlation, page) {
                self.correlation.push(page);
            } else if !self.young.contains(&page) {
                self.young.push(page);
            }
        } else {
            if resident.len() == self.capacity {
                evicted.push(self.evict());
            }
            let again = self.fetched.contains(&reference.place);
            if let Some(beside) = &mut self.beside {
                self.correlation_max = beside.reference(self.capacity, reference, false, again);
            }
            self.fetched.push(reference.place);
            self.places.retain(|known| known.0 != page);
            self.places.push((page, reference.place));
            self.top(page);
        }
        evicted
    }
}
