//! MQ with an adaptive lifeTime. Times are in turns of the trials.
//!
//! ```text
//!   Q1    tail  w w | w w | w  head      pages of one queue whose last uses are of one turn, a cell, are neighbours
//!   Q0    tail  c c c | c | c  head      `oldest` has the first page of each cell
//! ```
//!
//! A page stays in the queue of its last use. The victim is the head that Figure 5 would evict first, had lifeTime always been what it is now;
//! or, while the density is the best trial, the first page of the least dense cell.

use super::blocks::{Blocks, Place};
use super::density::{Filled, Turns};
use super::trials::{REMEMBERED, Trials};
use crate::parts::list::offer;
use crate::policy::{AllRefused, Caller};

/// No page's entry is longer ago than this many turns, as far as is remembered.
const OLDEST: u32 = 1 << 30;
/// Page numbers looked at in a turn for that.
const SWEPT: u32 = 4;
/// No page: the cell is empty.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Ranked {
    /// MR1. `far` has at most as many pages as there are frames, all sampled.
    pub(super) blocks: Blocks,
    pub(super) trials: Trials,
    /// MR2. By queue, then turn of the last use: the page that is nearest to the head, of turns that are remembered; and whether there is one.
    oldest: Vec<u32>,
    filled: Vec<Turns>,
    groups: Filled,
    /// The capacity that a turn is a 32nd of.
    base: u32,
    /// The page number whose age is looked at next.
    swept: u32,
    pages: u32,
}

impl Ranked {
    pub(super) fn new(blocks: Blocks, pages: u32, density: bool) -> Self {
        let (capacity, queues, blocks_out) = (blocks.capacity, blocks.queues.len(), blocks.out);
        Self {
            blocks,
            trials: Trials::new(pages, capacity, queues, blocks_out, density),
            oldest: vec![NONE; queues * REMEMBERED],
            filled: vec![Turns::new(); queues],
            groups: Filled::new(queues),
            base: capacity,
            swept: 0,
            pages,
        }
    }

    /// A reference to a page for which there is room.
    #[inline]
    pub(super) fn use_now(&mut self, page: u32) {
        let block = self.blocks.nodes[page];
        let reference = block.next_reference();
        let k = self.blocks.queue_num(reference);
        if self.trials.has(page) {
            self.trials.refer(page, block.entered, reference);
        }
        self.move_to(page, k, reference);
        if self.trials.passes() {
            self.next_turn();
        }
    }

    /// A cache above has evicted a page that is resident or in Qout, after so many hits there.
    pub(super) fn evicted_above(&mut self, page: u32, hits: u32) {
        let block = self.blocks.nodes[page];
        let reference = block.reference().saturating_add(hits);
        if block.place() == Place::Out {
            self.blocks.nodes[page].set_reference(reference);
            return;
        }
        let k = self.blocks.queue_num(reference);
        if self.trials.has(page) {
            self.trials.forget(page, block.entered);
            self.trials.begin_with(page, k);
        }
        self.move_to(page, k, reference);
    }

    #[inline]
    fn move_to(&mut self, page: u32, k: usize, reference: u32) {
        self.leave(page);
        self.blocks.nodes[page].set_reference(reference);
        let turn = self.trials.now();
        self.blocks.enter(page, k, turn);
        let cell = cell(k, turn);
        if self.oldest[cell] == NONE {
            self.oldest[cell] = page;
            self.filled[k].set(turn, true);
        }
    }

    #[inline]
    pub(super) fn leave(&mut self, page: u32) {
        let block = self.blocks.nodes[page];
        if let Place::Queue(k) = block.place()
            && self.oldest[cell(k, block.entered)] == page
        {
            let newer = self.blocks.nodes.towards_front(page);
            let newer = newer.filter(|&newer| self.blocks.nodes[newer].entered == block.entered);
            self.oldest[cell(k, block.entered)] = newer.unwrap_or(NONE);
            self.filled[k].set(block.entered, newer.is_some());
        }
        self.blocks.leave(page);
    }

    /// A page becomes unknown, to the trials too.
    pub(super) fn drop_page(&mut self, page: u32) {
        if self.trials.has(page) {
            self.trials.forget(page, self.blocks.nodes[page].entered);
        }
        self.leave(page);
    }

    /// A few page numbers are looked at in each turn: so no entry is so long ago that the turns' numbers come round.
    #[inline(never)]
    fn next_turn(&mut self) {
        let now = self.trials.now();
        for (k, turns) in self.filled.iter_mut().enumerate() {
            turns.set(now, false);
            self.oldest[cell(k, now)] = NONE;
        }
        for _ in 0..SWEPT {
            self.swept = if self.swept + 1 < self.pages { self.swept + 1 } else { 0 };
            let block = &mut self.blocks.nodes[self.swept];
            if now.wrapping_sub(block.entered) > OLDEST {
                block.entered = now.wrapping_sub(OLDEST);
            }
        }
    }

    pub(super) fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let first = if self.trials.by_density() { self.least_dense() } else { None };
        let first = first.or_else(|| self.ranked_first());
        let victim = offer(first.into_iter().chain(self.blocks.resident()), caller)?;
        if let Place::Queue(k) = self.blocks.place(victim) {
            self.leave(victim);
            self.blocks.prefetch_head(k);
        }
        self.blocks.enter_q_out(victim);
        self.limit_ghosts(caller);
        Ok(())
    }

    /// Of pages whose last use is remembered; what is older goes before them.
    fn least_dense(&mut self) -> Option<u32> {
        let now = self.trials.now();
        let heads = self.blocks.queues.iter().filter_map(|queue| queue.back());
        let age = |page: u32| now.wrapping_sub(self.blocks.nodes[page].entered);
        if let Some(page) = heads.max_by_key(|&page| age(page))
            && age(page) >= REMEMBERED as u32
        {
            return Some(page);
        }
        let (k, turn) = self.trials.least_dense(&self.filled, &mut self.groups)?;
        Some(self.oldest[cell(k, turn)])
    }

    /// The head that would be evicted first, had lifeTime always been what it is now.
    fn ranked_first(&self) -> Option<u32> {
        let now = self.trials.now();
        let life_time = i64::from(self.trials.life_time());
        let heads = self.blocks.queues.iter().enumerate().filter_map(|(k, queue)| Some((k, queue.back()?)));
        let life_left = |&(k, page): &(usize, u32)| {
            k as i64 * life_time - i64::from(now.wrapping_sub(self.blocks.nodes[page].entered))
        };
        heads.min_by_key(life_left).map(|(_, page)| page)
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while let Some(page) = self.blocks.too_old_for_q_out() {
            if self.trials.has(page) {
                self.blocks.enter_far(page);
            } else {
                caller.forget(page);
            }
        }
        while self.blocks.far.len() > self.blocks.capacity {
            let Some(page) = self.blocks.far.back() else { break };
            self.drop_page(page);
            caller.forget(page);
        }
    }

    /// A turn stays as long as it is while the capacity is between half and twice of that which it is a 32nd of; the trials have other
    /// frames and go on. Beyond, turns have another length, so all times are counted in those, and all trials begin anew: that takes time
    /// in proportion to the pages that are known, which the change of the capacity pays for.
    pub(super) fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.blocks.capacity = capacity;
        if capacity / 2 <= self.base && self.base / 2 <= capacity {
            self.trials.set_frames(capacity);
        } else {
            self.count_anew(caller);
        }
        self.limit_ghosts(caller);
    }

    fn count_anew<C: Caller>(&mut self, caller: &mut C) {
        let capacity = self.blocks.capacity;
        let trials = self.trials.anew(capacity);
        let (turn, old, new) = (self.trials.now(), self.trials.width(), trials.width());
        while let Some(page) = self.blocks.far.back() {
            self.leave(page);
            caller.forget(page);
        }
        self.oldest.fill(NONE);
        self.filled.fill(Turns::new());
        let lists = self.blocks.queues.iter().chain([&self.blocks.q_out]);
        let pages: Vec<u32> = lists.flat_map(|list| list.back_to_front(&self.blocks.nodes)).collect();
        for page in pages {
            let block = &mut self.blocks.nodes[page];
            let age = u64::from(turn.wrapping_sub(block.entered)) * u64::from(old) / u64::from(new);
            block.entered = turn.wrapping_sub(age.min(u64::from(OLDEST)) as u32);
            let block = *block;
            if let Place::Queue(k) = block.place()
                && age < REMEMBERED as u64
                && self.oldest[cell(k, block.entered)] == NONE
            {
                self.oldest[cell(k, block.entered)] = page;
                self.filled[k].set(block.entered, true);
            }
        }
        self.trials = trials;
        self.base = capacity;
        self.groups = Filled::new(self.filled.len());
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        self.pages = self.pages.max(pages);
        self.blocks.nodes.reserve(pages);
        self.trials.reserve(pages);
    }

    pub(super) fn bytes(&self) -> usize {
        let cells = self.oldest.capacity() * size_of::<u32>() + self.filled.capacity() * size_of::<Turns>();
        self.blocks.bytes() + self.trials.bytes() + cells + self.groups.bytes()
    }

    pub(super) fn check(&self) {
        self.blocks.check();
        let mut far = self.blocks.far.back_to_front(&self.blocks.nodes);
        assert!(far.all(|page| self.trials.has(page))); // MR1
        assert!(self.blocks.far.len() <= self.blocks.capacity); // MR1
        let now = self.trials.now();
        let mut oldest = vec![NONE; self.oldest.len()];
        for (k, queue) in self.blocks.queues.iter().enumerate() {
            for page in queue.front_to_back(&self.blocks.nodes) {
                let turn = self.blocks.nodes[page].entered;
                if now.wrapping_sub(turn) < REMEMBERED as u32 {
                    oldest[cell(k, turn)] = page;
                }
            }
        }
        assert!(oldest == self.oldest); // MR2
        for k in 0..self.filled.len() {
            assert!((0..REMEMBERED as u32).all(|turn| self.filled[k].has(turn) == (oldest[cell(k, turn)] != NONE))); // MR2
        }
        let lists = self.blocks.queues.iter().chain([&self.blocks.q_out, &self.blocks.far]);
        let known = lists.flat_map(|list| list.back_to_front(&self.blocks.nodes)).filter(|&page| self.trials.has(page));
        self.trials.check_invariants(known.map(|page| (page, self.blocks.nodes[page].entered)));
    }
}

fn cell(k: usize, turn: u32) -> usize {
    k * REMEMBERED + turn as usize % REMEMBERED
}
