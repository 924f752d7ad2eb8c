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

/// A page that is remembered, in the policy or in a trial.
#[derive(Clone, Copy)]
struct Used {
    page: u32,
    /// How often it was used; in a trial, and among densities, its queue.
    times: u32,
    last: i64,
}

/// A small MQ for the sampled pages: so few frames that all are, and a turn is a reference.
enum Tried {
    /// By a lifeTime: resident are the ranks from the first limit up, in Qout those from the second.
    Life { life: i64, limits: [i64; 2], pages: Vec<Used> },
    /// By density. What is in neither is forgotten.
    Density { resident: Vec<Used>, q_out: Vec<Used> },
}

struct Trial {
    tried: Tried,
    hits: f64,
}

fn take_used(pages: &mut Vec<Used>, page: u32) -> Option<Used> {
    let place = pages.iter().position(|used| used.page == page)?;
    Some(pages.remove(place))
}

impl Trial {
    fn use_now(&mut self, page: u32, reference: u32, now: i64, queues: u32, sizes: [usize; 2]) {
        let rank = |used: &Used, life: i64| used.last + i64::from(used.times) * life;
        // Whether it was resident, and its queue if it was known.
        let (resident, k) = match &mut self.tried {
            Tried::Life { life, limits, pages } => {
                let used = take_used(pages, page);
                let of = |limit: i64| used.filter(|used| rank(used, *life) >= limit).map(|used| used.times);
                (of(limits[0]).is_some(), of(limits[1]))
            }
            Tried::Density { resident, q_out } => {
                let used = take_used(resident, page);
                (used.is_some(), used.or_else(|| take_used(q_out, page)).map(|used| used.times))
            }
        };
        self.hits += f64::from(u8::from(resident));
        let k = k.map_or(0, |k| if reference.is_multiple_of(1 << k) { k + 1 } else { k }).min(queues - 1);
        let used = Used { page, times: k, last: now };
        match &mut self.tried {
            Tried::Life { life, limits, pages } => {
                pages.push(used);
                let count = |pages: &[Used], from: i64, to: i64| {
                    pages.iter().filter(|used| (from..to).contains(&rank(used, *life))).count()
                };
                // A limit moves on by 64 turns at most, and the rest at later uses.
                let last = limits[0] + 64;
                while limits[0] < last && count(pages, limits[0], i64::MAX) > sizes[0] {
                    limits[0] += 1;
                }
                let last = limits[1] + 64;
                while limits[1] < last.min(limits[0]) && count(pages, limits[1], limits[0]) > sizes[1] {
                    limits[1] += 1;
                }
            }
            Tried::Density { resident, q_out } => {
                resident.push(used);
                while resident.len() > sizes[0] {
                    q_out.push(resident.remove(least_dense(&resident[..resident.len() - 1], now)));
                }
                q_out.drain(..q_out.len().saturating_sub(sizes[1]));
            }
        }
    }

    fn forget(&mut self, page: u32) {
        match &mut self.tried {
            Tried::Life { pages, .. } => _ = take_used(pages, page),
            Tried::Density { resident, q_out } => _ = take_used(resident, page).or_else(|| take_used(q_out, page)),
        }
    }
}

/// Of one density the oldest, and of those the one in the lower queue.
fn least_dense(pages: &[Used], now: i64) -> usize {
    let order = |used: &Used| {
        let age = (now - used.last) as u32;
        (density(age), std::cmp::Reverse(group(age)), used.times, used.last)
    };
    (0..pages.len()).min_by(|&a, &b| order(&pages[a]).partial_cmp(&order(&pages[b])).unwrap()).unwrap()
}

/// The ages of a group: all up to 32 have one of their own, then 16 share each doubling.
fn ages(group: u32) -> (u32, u32) {
    let start = |group: u32| if group < 16 { group } else { (16 + group % 16) << (group / 16 - 1) };
    (start(group), start(group + 1))
}

fn group(age: u32) -> u32 {
    (0..).find(|&group| age < ages(group).1).unwrap()
}

/// As long as no density was computed from what was seen: the most uses for the time in a frame until some later age.
fn density(age: u32) -> f64 {
    let (mut uses, mut time, mut unused, mut most) = (0.0, 0.0, 1.0, 0.0f64);
    for group in group(age)..112 {
        let (from, to) = ages(group);
        let (from, to) = (f64::from(from), f64::from(to));
        let rate = 8.0 / (from + to);
        let after = 1.0 / (1.0 + rate.min(1.0) * (to - from));
        uses += unused * (1.0 - after);
        time += unused * ((to - from) * (1.0 + after) / 2.0);
        unused *= after;
        most = most.max(uses / time);
    }
    most
}

/// MQ with an adaptive lifeTime. No more than 1,024 references: so densities are those that are supposed.
pub(crate) struct TriedLives {
    queues: u32,
    capacity: usize,
    most_out: usize,
    resident: Vec<Used>,
    q_out: Vec<Used>,
    /// Beyond Qout.
    far: Vec<u32>,
    /// Those of lifeTimes, and last the one by density.
    trials: Vec<Trial>,
    life: usize,
    by_density: bool,
}

impl TriedLives {
    pub(crate) fn new(capacity: usize, queues: u32, out: usize, density: bool) -> Self {
        let lives = [1, 4, 8, 16, 32, 64, 128, 256].map(|eighths| (eighths * capacity as i64 / 8).max(1));
        let lives = lives.map(|life| Tried::Life { life, limits: [0, 0], pages: vec![] });
        let dense = density.then(|| Tried::Density { resident: vec![], q_out: vec![] });
        let trials = lives.into_iter().chain(dense).map(|tried| Trial { tried, hits: 0.0 }).collect();
        let (resident, q_out, far) = Default::default();
        let most_out = out * capacity;
        Self { queues, capacity, most_out, resident, q_out, far, trials, life: 3, by_density: false }
    }

    fn k(&self, used: &Used) -> u32 {
        used.times.ilog2().min(self.queues - 1)
    }

    fn try_all(&mut self, page: u32, reference: u32, now: i64) {
        for trial in &mut self.trials {
            trial.use_now(page, reference, now, self.queues, [self.capacity, self.most_out]);
        }
        let was = self.life;
        for life in 0..8 {
            if self.trials[life].hits > self.trials[self.life].hits * if self.life == was { 1.01 } else { 1.0 } {
                self.life = life;
            }
        }
        if let [trials @ .., dense] = &self.trials[..]
            && matches!(dense.tried, Tried::Density { .. })
        {
            let (of_life, of_density) = (trials[self.life].hits, dense.hits);
            let (now, other) = if self.by_density { (of_density, of_life) } else { (of_life, of_density) };
            self.by_density ^= other > now * 1.005 + 3.0 / 16.0 * self.capacity as f64;
        }
        for trial in &mut self.trials {
            trial.hits *= 1.0 - 1.0 / 2048.0;
        }
    }

    /// Which resident page goes.
    fn victim(&self, now: i64) -> usize {
        if self.by_density {
            let pages: Vec<Used> = self.resident.iter().map(|used| Used { times: self.k(used), ..*used }).collect();
            return least_dense(&pages, now);
        }
        let Tried::Life { life, .. } = self.trials[self.life].tried else { panic!("a lifeTime") };
        let rank = |used: &Used| (used.last + i64::from(self.k(used)) * life, self.k(used), used.last);
        (0..self.resident.len()).min_by_key(|&place| rank(&self.resident[place])).unwrap()
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
                let victim = self.resident.remove(self.victim(now));
                evicted.push(victim.page);
                self.q_out.push(victim);
                while self.q_out.len() > self.most_out {
                    self.far.push(self.q_out.remove(0).page);
                }
                while self.far.len() > self.capacity {
                    let forgotten = self.far.remove(0);
                    self.trials.iter_mut().for_each(|trial| trial.forget(forgotten));
                }
            }
            if let Some(place) = self.q_out.iter().position(|used| used.page == page) {
                times += self.q_out.remove(place).times;
            }
            self.far.retain(|&other| other != page);
        }
        self.try_all(page, times, now);
        self.resident.push(Used { page, times, last: now });
        evicted
    }
}
