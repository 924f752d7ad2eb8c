//! MQ with a fixed lifeTime, as in Figure 5 of its paper. Times are in references.

use super::blocks::{Blocks, Place};
use crate::parts::list::{List, offer};
use crate::policy::{AllRefused, Caller};

/// Times are kept in 32 bits and compared by their difference, so no lifeTime is longer than this. Each reference demotes at most one
/// page of each queue: the oldest, if its lifeTime is over. So a page leaves its queue well within 2^31 references of its entry.
pub(super) const LONGEST_LIFE: u32 = 1 << 30;

#[derive(Debug)]
pub(super) struct Figure5 {
    pub(super) blocks: Blocks,
    pub(super) now: u64,
    pub(super) life_time: u32,
    /// MF1. Before this time no queue's head but Q0's is expired.
    next_expiry: u64,
}

impl Figure5 {
    pub(super) fn new(blocks: Blocks, life_time: u32) -> Self {
        Self { blocks, now: 0, life_time, next_expiry: u64::MAX }
    }

    /// A reference to a page for which there is room.
    #[inline]
    pub(super) fn use_now(&mut self, page: u32) {
        let block = self.blocks.nodes[page];
        let reference = block.next_reference();
        let k = self.blocks.queue_num(reference);
        self.blocks.nodes[page].set_reference(reference);
        if block.place() == Place::Queue(k) && self.blocks.queues[k].back() != Some(page) {
            // Most hits: neither the queue nor its head changes, so MF1 holds.
            self.blocks.nodes[page].entered = self.now as u32;
            self.blocks.queues[k].move_to_front(&mut self.blocks.nodes, page);
        } else {
            self.blocks.leave(page);
            self.enter(page, k);
        }
        // `Adjust()`.
        self.now += 1;
        if self.now > self.next_expiry {
            self.demote();
        }
    }

    /// A cache above has evicted a page that is resident or in Qout, after so many hits there.
    pub(super) fn evicted_above(&mut self, page: u32, hits: u32) {
        let block = &mut self.blocks.nodes[page];
        let reference = block.reference().saturating_add(hits);
        block.set_reference(reference);
        if let Place::Queue(_) = block.place() {
            let k = self.blocks.queue_num(reference);
            self.blocks.leave(page);
            self.enter(page, k);
        }
    }

    #[inline]
    fn enter(&mut self, page: u32, k: usize) {
        if self.blocks.queues[k].is_empty() && k > 0 {
            self.next_expiry = self.next_expiry.min(self.now + u64::from(self.life_time)); // MF1
        }
        self.blocks.enter(page, k, self.now as u32);
    }

    #[inline(never)]
    fn demote(&mut self) {
        for k in 1..self.blocks.queues.len() {
            if let Some(page) = self.blocks.queues[k].back()
                && self.is_expired(page)
            {
                self.blocks.leave(page);
                self.enter(page, k - 1);
                self.blocks.prefetch_head(k);
            }
        }
        let heads = self.blocks.queues[1..].iter().filter_map(List::back);
        let lives = heads.map(|page| self.life_left(page));
        self.next_expiry = lives.min().map_or(u64::MAX, |life| self.now + u64::from(life.max(0).unsigned_abs())); // MF1
    }

    /// References until a page in a queue is expired.
    fn life_left(&self, page: u32) -> i32 {
        self.blocks.nodes[page].entered.wrapping_add(self.life_time).wrapping_sub(self.now as u32) as i32
    }

    fn is_expired(&self, page: u32) -> bool {
        self.life_left(page) < 0
    }

    /// `EvictBlock()`.
    pub(super) fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.blocks.resident(), caller)?;
        if let Place::Queue(k) = self.blocks.place(victim) {
            self.blocks.leave(victim);
            self.blocks.prefetch_head(k);
        }
        self.blocks.enter_q_out(victim);
        self.limit_ghosts(caller);
        Ok(())
    }

    pub(super) fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while let Some(page) = self.blocks.too_old_for_q_out() {
            caller.forget(page);
        }
    }

    pub(super) fn check(&self) {
        self.blocks.check();
        if self.now < self.next_expiry {
            let mut heads = self.blocks.queues[1..].iter().filter_map(List::back);
            assert!(heads.all(|page| !self.is_expired(page))); // MF1
        }
    }
}
