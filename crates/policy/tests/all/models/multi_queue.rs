//! MQ.

use crate::models::{Model, Reference};

#[derive(Clone)]
struct Block {
    page: u32,
    reference: u32,
    expire_time: usize,
}

/// MQ as in Figure 5 of its paper, a head being the start of its `Vec`.
pub(crate) struct MultiQueue {
    queues: Vec<Vec<Block>>,
    q_out: Vec<Block>,
    most_out: usize,
    life_time: usize,
    now: usize,
    capacity: usize,
}

impl MultiQueue {
    pub(crate) fn new(capacity: usize, queues: usize, life_time: usize, out: usize) -> Self {
        let queues = vec![Vec::new(); queues];
        Self { queues, q_out: Vec::new(), most_out: out * capacity, life_time, now: 0, capacity }
    }

    fn adjust(&mut self) {
        self.now += 1;
        for k in 1..self.queues.len() {
            if self.queues[k].first().is_some_and(|head| head.expire_time < self.now) {
                let head = self.queues[k].remove(0);
                self.queues[k - 1].push(Block { expire_time: self.now + self.life_time, ..head });
            }
        }
    }
}

impl Model for MultiQueue {
    fn reference(&mut self, reference: &Reference, _: usize) -> Vec<u32> {
        let page = reference.page;
        let mut evicted = Vec::new();
        let found = self.queues.iter_mut().find_map(|queue| {
            let place = queue.iter().position(|block| block.page == page)?;
            Some(queue.remove(place))
        });
        let mut block = found.unwrap_or_else(|| {
            if self.queues.iter().map(Vec::len).sum::<usize>() == self.capacity {
                let victim = self.queues.iter_mut().find(|queue| !queue.is_empty()).unwrap().remove(0);
                evicted.push(victim.page);
                self.q_out.push(victim);
                self.q_out.drain(..self.q_out.len().saturating_sub(self.most_out));
            }
            let out = self.q_out.iter().position(|block| block.page == page);
            out.map_or(Block { page, reference: 0, expire_time: 0 }, |place| self.q_out.remove(place))
        });
        block.reference += 1;
        block.expire_time = self.now + self.life_time;
        let k = (block.reference.ilog2() as usize).min(self.queues.len() - 1);
        self.queues[k].push(block);
        self.adjust();
        evicted
    }
}

/// A page that is remembered, for the trials or at all.
#[derive(Clone, Copy)]
struct Used {
    page: u32,
    times: u32,
    last: i64,
}

struct Trial {
    life: i64,
    /// The pages with ranks from here up are resident.
    threshold: i64,
    hits: f64,
}

/// MQ with an adaptive lifeTime. So few frames are all in the sample, and a turn is a reference.
pub(crate) struct TriedLives {
    queues: u32,
    capacity: usize,
    most_out: usize,
    resident: Vec<Used>,
    q_out: Vec<Used>,
    /// Beyond Qout.
    far: Vec<u32>,
    seen: Vec<Used>,
    trials: Vec<Trial>,
    best: usize,
}

impl TriedLives {
    pub(crate) fn new(capacity: usize, queues: u32, out: usize) -> Self {
        let lives = [1, 4, 8, 16, 32, 64, 128, 256, 512].map(|eighths| (eighths * capacity as i64 / 8).max(1));
        let trials = lives.map(|life| Trial { life, threshold: 0, hits: 0.0 }).into_iter().collect();
        let (resident, q_out, far, seen) = Default::default();
        Self { queues, capacity, most_out: out * capacity, resident, q_out, far, seen, trials, best: 3 }
    }

    fn rank(&self, used: &Used, life: i64) -> i64 {
        used.last + i64::from(used.times.ilog2().min(self.queues - 1)) * life
    }

    fn try_lives(&mut self, page: u32, now: i64) {
        let place = self.seen.iter().position(|used| used.page == page);
        let before = place.map(|place| self.seen.remove(place));
        let used = Used { page, times: before.map_or(1, |used| used.times + 1), last: now };
        self.seen.push(used);
        let mut trials = std::mem::take(&mut self.trials);
        for trial in &mut trials {
            let has = before.is_some_and(|used| self.rank(&used, trial.life) >= trial.threshold);
            trial.hits = trial.hits * (1.0 - 1.0 / 2048.0) + f64::from(u8::from(has));
            let resident = |threshold| self.seen.iter().filter(|used| self.rank(used, trial.life) >= threshold).count();
            // A threshold moves on by 64 turns at most, and the rest at later uses.
            let last = trial.threshold + 64;
            while trial.threshold < last && resident(trial.threshold) > self.capacity {
                trial.threshold += 1;
            }
        }
        let (was, mut best) = (self.best, self.best);
        for (trial, Trial { hits, .. }) in trials.iter().enumerate() {
            if *hits > trials[best].hits * if best == was { 1.005 } else { 1.0 } {
                best = trial;
            }
        }
        (self.best, self.trials) = (best, trials);
    }
}

impl Model for TriedLives {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let (page, now) = (reference.page, now as i64);
        let mut evicted = Vec::new();
        let mut times = 1;
        if let Some(place) = self.resident.iter().position(|used| used.page == page) {
            times += self.resident.remove(place).times;
        } else {
            if self.resident.len() == self.capacity {
                let life = self.trials[self.best].life;
                let order = |used: &Used| (self.rank(used, life), used.times.ilog2().min(self.queues - 1), used.last);
                let victim = (0..self.capacity).min_by_key(|&place| order(&self.resident[place])).unwrap();
                let victim = self.resident.remove(victim);
                evicted.push(victim.page);
                self.q_out.push(victim);
                while self.q_out.len() > self.most_out {
                    self.far.push(self.q_out.remove(0).page);
                }
                while self.far.len() > self.capacity {
                    let forgotten = self.far.remove(0);
                    self.seen.retain(|used| used.page != forgotten);
                }
            }
            if let Some(place) = self.q_out.iter().position(|used| used.page == page) {
                times += self.q_out.remove(place).times;
            }
            self.far.retain(|&other| other != page);
        }
        self.try_lives(page, now);
        self.resident.push(Used { page, times, last: now });
        evicted
    }
}
