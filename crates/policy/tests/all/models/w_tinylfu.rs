//! W-TinyLFU.

use crate::models::{Model, Reference};

/// Window, probation and protected pages as `Vec`s, least recent first, and a number for each of the sketch's counters.
pub(crate) struct Admitted {
    window: Vec<Reference>,
    probation: Vec<Reference>,
    protected: Vec<Reference>,
    most_in_window: usize,
    capacity: usize,
    /// The counters: 16 for each of the sketch's words.
    counters: Vec<u64>,
    additions: usize,
    /// In adaptive mode: hits, references, the last hit ratio, the window in pages and the next step.
    climber: Option<(usize, usize, f64, f64, f64)>,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn find(pages: &mut Vec<Reference>, page: u32) -> Option<Reference> {
    let place = pages.iter().position(|other| other.page == page)?;
    Some(pages.remove(place))
}

impl Admitted {
    pub(crate) fn new(capacity: usize, share: f64, adaptive: bool) -> Self {
        let most_in_window = ((capacity as f64 * share).round() as usize).max(1);
        Self {
            window: Vec::new(),
            probation: Vec::new(),
            protected: Vec::new(),
            most_in_window,
            capacity,
            counters: vec![0; capacity.next_power_of_two().max(8) * 16],
            additions: 0,
            climber: adaptive.then_some((0, 0, 0.0, most_in_window as f64, capacity as f64 / 16.0)),
        }
    }

    /// Where the four counters of a page are.
    fn places(&self, reference: &Reference) -> Vec<usize> {
        let hash = mix(reference.place.block ^ mix(u64::from(reference.place.object))) >> 32;
        let bits = mix(hash);
        let stride = bits >> 32 | 1;
        let words = self.counters.len() as u64 / 16;
        (0..4).map(|i| (((u64::from(bits as u32) + stride * i) % words) * 16 + hash % 4 * 4 + i) as usize).collect()
    }

    fn frequency(&self, reference: &Reference) -> u64 {
        self.places(reference).into_iter().map(|place| self.counters[place]).min().unwrap()
    }

    fn record(&mut self, reference: &Reference) {
        let lower: Vec<usize> = self.places(reference).into_iter().filter(|&place| self.counters[place] < 15).collect();
        lower.iter().for_each(|&place| self.counters[place] += 1);
        self.additions += usize::from(!lower.is_empty());
        if self.additions >= 10 * self.capacity {
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
            self.additions /= 2;
        }
    }

    fn overflow(&mut self) {
        while self.window.len() > self.most_in_window {
            self.probation.push(self.window.remove(0));
        }
        while self.protected.len() > (self.capacity - self.most_in_window) * 4 / 5 {
            self.probation.push(self.protected.remove(0));
        }
    }

    fn evict(&mut self) -> u32 {
        let candidate = self.window.first().copied().filter(|_| self.window.len() == self.most_in_window);
        let victim = self.probation.first().or(self.protected.first()).copied();
        let evicted = match (candidate, victim) {
            (Some(candidate), Some(victim)) if self.frequency(&candidate) > self.frequency(&victim) => victim.page,
            (Some(candidate), _) => candidate.page,
            (None, victim) => victim.unwrap().page,
        };
        for pages in [&mut self.window, &mut self.probation, &mut self.protected] {
            find(pages, evicted);
        }
        evicted
    }

    fn climb(&mut self, hit: bool) {
        let Some((hits, references, last_ratio, window, step)) = &mut self.climber else { return };
        *hits += usize::from(hit);
        *references += 1;
        if *references == 10 * self.capacity {
            let ratio = *hits as f64 / *references as f64;
            let change = if ratio - *last_ratio >= 0.0 { *step } else { -*step };
            let restart = (ratio - *last_ratio).abs() >= 0.05;
            let next = if restart { self.capacity as f64 / 16.0 * change.signum() } else { change * 0.98 };
            let window = (*window + change).max(1.0).min((self.capacity as f64 * 0.8).max(1.0));
            self.climber = Some((0, 0, ratio, window, next));
            self.most_in_window = window.round() as usize;
            self.overflow();
        }
    }
}

impl Model for Admitted {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        self.record(reference);
        let mut evicted = Vec::new();
        let mut hit = true;
        if find(&mut self.window, page).is_some() {
            self.window.push(*reference);
        } else if find(&mut self.probation, page).or_else(|| find(&mut self.protected, page)).is_some() {
            self.protected.push(*reference);
        } else {
            hit = false;
            if self.window.len() + self.probation.len() + self.protected.len() == self.capacity {
                evicted.push(self.evict());
            }
            self.window.push(*reference);
        }
        self.overflow();
        self.climb(hit);
        evicted
    }
}
