//! DULO.

use crate::models::{DEVICE, Model, REQUEST, Reference, take};
use forebay_basis::Place;

/// DULO on `Vec`s, bottom first, and the times of all fetches ever made.
pub(crate) struct Dual {
    pub(crate) capacity: usize,
    pub(crate) correlation_max: usize,
    pub(crate) bank_max: usize,
    pub(crate) longest: usize,
    pub(crate) correlation: Vec<u32>,
    pub(crate) bank: Vec<u32>,
    /// Sequences with their `H`, the size that they were formed with, and how many had entered before.
    pub(crate) eviction: Vec<(f64, usize, Vec<u32>, usize)>,
    pub(crate) entered: usize,
    pub(crate) inflation: f64,
    pub(crate) young: Vec<u32>,
    pub(crate) fetched: Vec<Place>,
    /// Of each page its place, and the times of its fetches when it entered, the last one first.
    pub(crate) known: Vec<(u32, Place, Vec<usize>)>,
    pub(crate) tried: Option<Tried>,
    pub(crate) costs: Costs,
    /// The user's request, and that of the last fetch.
    pub(crate) request: usize,
    pub(crate) fetched_in: usize,
}

/// What a request and a page cost, and whether neighbours cost a request each.
#[derive(Clone, Copy)]
pub(crate) struct Costs {
    request: f64,
    page: f64,
    apart: bool,
}

/// With the block behind the one fetched last and that one's request, and the seeks or costs.
type Trial = (Dual, Option<(Place, usize)>, f64);

/// Three of them with fixed buffers, over a sample of the blocks, and what their seeks say of the size of the buffer.
pub(crate) struct Tried {
    trials: Vec<Trial>,
    best: usize,
    /// The blocks ever seen: their places in this are their page numbers in the trials.
    known: Vec<Place>,
    frames: usize,
    left: usize,
}

const SECTIONS: [f64; 3] = [0.02, 0.45, 0.95];

fn buffer(capacity: usize, section: f64) -> usize {
    capacity - ((capacity as f64 * section) as usize).max((capacity / 2).clamp(1, 16))
}

impl Tried {
    fn new(capacity: usize, costs: Costs) -> Self {
        let frames = (capacity / 4).max(1);
        let trial = |section| {
            let mut dual = Dual::new(frames, 0.0, 5.0, 128);
            dual.correlation_max = buffer(frames, section);
            dual.costs = costs;
            (dual, None, 0.0)
        };
        Self { trials: SECTIONS.map(trial).into(), best: 1, known: Vec::new(), frames, left: frames.div_ceil(256) }
    }

    fn is_sampled(place: Place) -> bool {
        let extent = (u64::from(place.object) << 40) ^ (place.block >> 3);
        let hash = (extent ^ (extent >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash >> 62 == 0
    }

    /// Takes a reference; `fetched`: the cache's fetches, this one included.
    fn reference(&mut self, place: Place, fetched: &mut Vec<Place>, request: usize) {
        if !Self::is_sampled(place) {
            return;
        }
        let page = self.known.iter().position(|&known| known == place).unwrap_or_else(|| {
            self.known.push(place);
            self.known.len() - 1
        });
        for (dual, behind, seeks) in &mut self.trials {
            std::mem::swap(&mut dual.fetched, fetched);
            if !dual.hit(page as u32) {
                let next = Place { block: place.block.wrapping_add(1), ..place };
                let begins = behind.replace((next, request)) != Some((place, request));
                *seeks += dual.costs.page + if begins { dual.costs.request } else { 0.0 };
                if dual.resident().len() == dual.capacity {
                    dual.evict();
                }
                dual.admit(page as u32, place);
            }
            std::mem::swap(&mut dual.fetched, fetched);
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.frames.div_ceil(256);
            let seeks: Vec<f64> = self.trials.iter().map(|trial| trial.2).collect();
            let best = (0..seeks.len()).min_by(|&a, &b| seeks[a].total_cmp(&seeks[b])).unwrap();
            let present = seeks[self.best];
            if present - seeks[best] > 0.3 * present.sqrt() {
                self.best = best;
            }
            for trial in &mut self.trials {
                trial.2 *= 0.5f64.powf(1.0 / 1536.0);
            }
        }
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
            entered: 0,
            inflation: 0.0,
            young: Vec::new(),
            fetched: Vec::new(),
            known: Vec::new(),
            tried: None,
            costs: Costs { request: 1.0, page: 0.0, apart: false },
            request: 0,
            fetched_in: 0,
        }
    }

    /// With a buffer whose size adapts.
    pub(crate) fn adaptive(capacity: usize) -> Self {
        Self::new(capacity, 0.0, 5.0, 128).adapts()
    }

    fn adapts(self) -> Self {
        let (capacity, mut dual) = (self.capacity, self);
        let tried = Tried::new(capacity, dual.costs);
        dual.correlation_max = buffer(capacity, SECTIONS[tried.best]);
        dual.tried = Some(tried);
        dual
    }

    /// By the prices of the device.
    pub(crate) fn by_device(mut self) -> Self {
        let one = DEVICE.request + DEVICE.page;
        self.costs = Costs { request: DEVICE.request / one, page: DEVICE.page / one, apart: true };
        if self.tried.is_some() { self.adapts() } else { self }
    }

    pub(crate) fn resident(&self) -> Vec<u32> {
        let evictable = self.eviction.iter().flat_map(|sequence| &sequence.2);
        self.correlation.iter().chain(&self.bank).chain(evictable).copied().collect()
    }

    fn known(&self, page: u32) -> &(u32, Place, Vec<usize>) {
        self.known.iter().find(|known| known.0 == page).unwrap()
    }

    pub(crate) fn place(&self, page: u32) -> Place {
        self.known(page).1
    }

    /// A page enters from this place.
    pub(crate) fn know(&mut self, page: u32, place: Place) {
        let times = (0..self.fetched.len()).rev().filter(|&time| self.fetched[time] == place).take(2).collect();
        self.known.retain(|known| known.0 != page);
        self.known.push((page, place, times));
    }

    /// Whether `b` is not to be coalesced with `a`, the last block of a sequence: the paper's rules 1 to 3.
    fn ends(&self, a: u32, b: u32) -> bool {
        let (at_a, at_b) = (self.place(a), self.place(b));
        let (times_a, times_b) = (&self.known(a).2, &self.known(b).2);
        at_a.object != at_b.object
            || at_b.block > at_a.block + if self.costs.apart { 1 } else { 4 }
            || times_a.is_empty()
            || times_a.len() != times_b.len()
            || times_a.iter().zip(times_b).any(|(a, b)| a + 1 != *b)
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

    pub(crate) fn refill(&mut self) {
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
            let h = self.inflation + (self.costs.request / blocks.len() as f64 + self.costs.page);
            self.eviction.push((h, blocks.len(), blocks, self.entered));
            self.entered += 1;
        }
        // The sort is stable: of equals, what came first stays lower.
        self.eviction.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    }

    fn evict(&mut self) -> u32 {
        // What the section has too much leaves as it entered.
        let blocks: usize = self.eviction.iter().map(|sequence| sequence.2.len()).sum();
        let drains = blocks > self.capacity - self.correlation_max;
        loop {
            if self.eviction.is_empty() {
                if self.bank.is_empty() {
                    self.bank.push(self.correlation.remove(0));
                }
                self.refill();
            }
            let first =
                if drains { (0..self.eviction.len()).min_by_key(|&at| self.eviction[at].3).unwrap() } else { 0 };
            let (h, _, blocks, _) = &mut self.eviction[first];
            let (h, page) = (*h, blocks.remove(0));
            if blocks.is_empty() {
                self.eviction.remove(first);
            }
            if !take(&mut self.young, page) {
                if !drains {
                    self.inflation = h;
                }
                return page;
            }
            self.top(page);
        }
    }

    /// Whether the page is resident; then it is used.
    fn hit(&mut self, page: u32) -> bool {
        let resident = self.resident().contains(&page);
        if take(&mut self.correlation, page) {
            self.correlation.push(page);
        } else if resident && !self.young.contains(&page) {
            self.young.push(page);
        }
        resident
    }

    /// A page enters that has been fetched.
    fn admit(&mut self, page: u32, place: Place) {
        self.know(page, place);
        self.top(page);
    }

    /// The trials take a reference, and say how large the buffer is to be.
    fn learn(&mut self, place: Place) -> Option<usize> {
        let tried = self.tried.as_mut()?;
        tried.reference(place, &mut self.fetched, self.request);
        Some(buffer(self.capacity, SECTIONS[tried.best]))
    }
}

impl Model for Dual {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        if self.costs.apart {
            self.request = now / REQUEST;
        }
        let Reference { page, place, .. } = *reference;
        let mut evicted = Vec::new();
        if self.hit(page) {
            self.learn(place);
        } else {
            if self.resident().len() == self.capacity {
                evicted.push(self.evict());
            }
            if std::mem::replace(&mut self.fetched_in, self.request) != self.request {
                // A time at which nothing was fetched.
                self.fetched.push(Place { object: u32::MAX, block: 0 });
            }
            self.fetched.push(place);
            self.correlation_max = self.learn(place).unwrap_or(self.correlation_max);
            self.admit(page, place);
        }
        evicted
    }
}
