//! LRU-K.

use crate::models::{Model, Reference};

/// What is known of a page: the times of its last K uncorrelated uses, 0 for never, and of its last use.
struct History {
    page: u32,
    times: Vec<usize>,
    last: usize,
}

/// LRU-K with a look at every page for each victim.
pub(crate) struct Histories {
    resident: Vec<History>,
    ghosts: Vec<History>,
    k: usize,
    correlated: usize,
    most_ghosts: usize,
    capacity: usize,
}

impl Histories {
    pub(crate) fn new(capacity: usize, k: usize, correlated: usize, history: usize) -> Self {
        let (resident, ghosts) = Default::default();
        Self { resident, ghosts, k, correlated, most_ghosts: history * capacity, capacity }
    }
}

impl Model for Histories {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let (page, now) = (reference.page, now + 1);
        if let Some(history) = self.resident.iter_mut().find(|history| history.page == page) {
            if now - history.last > self.correlated {
                let burst = history.last - history.times[0];
                for i in (1..self.k).rev() {
                    let newer = history.times[i - 1];
                    history.times[i] = if newer == 0 { 0 } else { newer + burst };
                }
                history.times[0] = now;
            }
            history.last = now;
            return Vec::new();
        }
        let known = self.ghosts.iter().position(|history| history.page == page);
        let mut history = match known {
            Some(place) => self.ghosts.remove(place),
            None => History { page, times: vec![0; self.k], last: 0 },
        };
        let mut evicted = Vec::new();
        if self.resident.len() == self.capacity {
            let order = |history: &History| {
                let in_burst = now - history.last <= self.correlated;
                (in_burst, if in_burst { 0 } else { history.times[self.k - 1] }, history.last)
            };
            let victim = (0..self.capacity).min_by_key(|&place| order(&self.resident[place])).unwrap();
            let victim = self.resident.remove(victim);
            evicted.push(victim.page);
            self.ghosts.push(victim);
        }
        history.times.rotate_right(1);
        history.times[0] = now;
        history.last = now;
        self.resident.push(history);
        while self.ghosts.len() > self.most_ghosts {
            self.ghosts.remove(0);
        }
        evicted
    }
}
