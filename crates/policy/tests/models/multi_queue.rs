//! MQ.

use crate::{Model, Reference};

#[derive(Clone)]
struct Block {
    page: u32,
    reference: u32,
    expire_time: usize,
}

/// MQ as in Figure 5 of its paper, a head being the start of its `Vec`. The runs here are too short for an adaptive lifeTime to
/// change.
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
            let out = self.q_out.iter().position(|block| block.page == page);
            let known = out.map(|place| self.q_out.remove(place));
            if self.queues.iter().map(Vec::len).sum::<usize>() == self.capacity {
                let victim = self.queues.iter_mut().find(|queue| !queue.is_empty()).unwrap().remove(0);
                evicted.push(victim.page);
                self.q_out.push(victim);
            }
            known.unwrap_or(Block { page, reference: 0, expire_time: 0 })
        });
        while self.q_out.len() > self.most_out {
            self.q_out.remove(0);
        }
        block.reference += 1;
        block.expire_time = self.now + self.life_time;
        let k = (block.reference.ilog2() as usize).min(self.queues.len() - 1);
        self.queues[k].push(block);
        self.adjust();
        evicted
    }
}
