//! SMQ: the resident pages in 64 queues of equal length, from the least used to the most used.
//!
//! J. Thornber, the stochastic multi-queue policy of device mapper's cache, `drivers/md/dm-cache-policy-smq.c`, Linux
//! 4.2, 2015.
//!
//! ```text
//!   level 63   a a a p p p p     most used
//!      ...                       a page that is hit changes places with the oldest of the next level
//!   level 1    a a p p p p p     a: aged, p: protected
//!   level 0    a a a p p p p <-- new pages
//!              '-- oldest: the victim is the first aged page, from the lowest level up
//! ```
//!
//! No page has a count. A page that is hit goes to the young end of the next level, and the oldest page there comes
//! down in exchange: so the levels sort themselves, roughly, by how often their pages are used. Within one period only
//! a page's first hit counts. At the period's end the levels are made equally long again: from the lowest on, each
//! takes the oldest pages of those above, or gives its youngest up to the old end of the next.
//!
//! Every six periods a sentinel is put at the young end of each level. A page that comes to the young end is protected
//! until two have been put behind it; then it is aged. When there is no aged page, the oldest of the lowest level is
//! the victim. Without sentinels (`sentinel=0`) a new page has but level 0 to be used again in, a 64th of the cache:
//! better for loops, much worse where recency counts.
//!
//! Kept of the kernel's code: the clean queue with its levels (`q_push`, `q_requeue_before`), targets and
//! redistribution (`q_set_targets`, `q_redistribute`), the hit bits, and the sentinels with the kernel's periods of 10
//! and 60 seconds, one to six. Left out or changed:
//!
//! - The hotspot queue, with larger blocks and the promotion levels. It decides which blocks are worth copying to the
//!   fast device, and most misses are not; a buffer cache must admit every page that is missed.
//! - For the same reason the last resort of a protected victim: the kernel then does not admit the block.
//! - The dirty queue, a second one, which feeds writeback and has no victims. Here the caller refuses pages that are
//!   dirty.
//! - Sentinels are no entries of the queues: a page bears the number of the last one before it. A page that comes down
//!   is the next victim of its level, and not the last of the aged ones.
//! - References have no time here, so a period is counted in references.
//! - A hit bit belongs to the frame there, and a new page inherits it. Here it starts clear.
//!
//! The name notwithstanding, nothing is drawn at random, there or here.
//!
//! Refused victims keep their place, and the next is offered, the aged ones first.
//!
//! Reference figures: none outside; tested against a plain model. Parameters: `levels`, `period`, `sentinel`.
//! Memory: 20 bytes a page (two links, level, period and sentinel).

use crate::drawing::{Drawing, Drawn};
use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

const MOST_LEVELS: usize = 64;
/// Of more levels than these a picture leaves out the empty ones.
const FEW_LEVELS: usize = 8;
/// Periods have lower numbers than this; then they are counted anew. A page from before the first period has the highest.
const PERIODS: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, Default)]
struct Status {
    level: u8,
    /// The last period in which the page was hit: the hit bit is set if it is the present one.
    period: u32,
    /// The number of the last sentinel when the page came to the young end of its level.
    sentinel: u32,
}

/// The stochastic multi-queue.
#[derive(Debug)]
pub struct Smq {
    /// SM1. A resident page is in the queue of its level, the oldest at the back.
    nodes: Nodes<Status>,
    /// SM2. No aged page is younger than a protected one of its level.
    levels: [List; MOST_LEVELS],
    /// The highest level in use.
    top: usize,
    /// SM3. The number of resident pages.
    len: u32,
    /// The present period.
    period: u32,
    /// SM4. References in the present period, no more than its length.
    references: u64,
    /// A period's length for each page of the cache.
    period_share: f64,
    /// Periods between two sentinels; 0: there are none.
    sentinel_periods: u32,
    capacity: u32,
}

impl Policy for Smq {
    const INFO: Info = Info {
        name: "smq",
        title: "dm-cache's stochastic multi-queue",
        paper: "J. Thornber, Linux drivers/md/dm-cache-policy-smq.c, 2015",
        parameters: &[
            Parameter {
                name: "levels",
                help: "how many queues",
                kind: Kind::Integer { least: 1, most: MOST_LEVELS as u64 },
                default: "64",
            },
            Parameter {
                name: "period",
                help: "references between two redistributions, in multiples of the cache",
                kind: Kind::Real { least: 0.1, most: 1e6 },
                default: "1",
            },
            Parameter {
                name: "sentinel",
                help: "periods between two sentinels, which protect pages; 0: none",
                kind: Kind::Integer { least: 0, most: 1_000_000 },
                default: "6",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 20,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self {
            nodes: Nodes::new(setup.pages),
            levels: [List::new(); MOST_LEVELS],
            top: setup.settings.integer("levels") as usize - 1,
            len: 0,
            period: 0,
            references: 0,
            period_share: setup.settings.real("period"),
            sentinel_periods: setup.settings.integer("sentinel") as u32,
            capacity: setup.capacity,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.tick();
        let Status { level, period, .. } = self.nodes[reference.page];
        if period != self.period {
            self.nodes[reference.page].period = self.period;
            self.requeue(reference.page, usize::from(level));
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        self.tick();
        if self.len == self.capacity {
            self.evict(caller)?;
        }
        self.nodes[reference.page].period = self.period.wrapping_sub(1);
        self.push_young(reference.page, 0);
        self.len += 1;
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let is_aged = |page: &u32| self.is_aged(*page);
        let aged = self.levels.iter().flat_map(|level| level.back_to_front(&self.nodes).take_while(is_aged));
        let protected = self.levels.iter().flat_map(|level| level.back_to_front(&self.nodes).skip_while(is_aged));
        let victim = offer(aged.chain(protected), caller)?;
        self.drop_page(victim);
        caller.forget(victim);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes.is_linked(page) {
            self.drop_page(page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
        self.references = self.references.min(self.period_length());
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("lowest level", f64::from(self.levels[0].len()));
        show("highest level", f64::from(self.levels[self.top].len()));
        show("period", f64::from(self.period));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |page| {
            let state = if self.is_aged(page) { "aged" } else { "protected" };
            Drawn::resident(page).state(state).bit("hit bit", self.nodes[page].period == self.period)
        };
        for (level, queue) in self.levels[..=self.top].iter().enumerate().rev() {
            if self.top < FEW_LEVELS || !queue.is_empty() {
                drawing.row(
                    format!("level {level}"),
                    ["young end", "old end"],
                    queue.front_to_back(&self.nodes).map(drawn),
                );
            }
        }
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    fn check_invariants(&self) {
        for (level, queue) in self.levels.iter().enumerate() {
            queue.check(&self.nodes);
            assert!(queue.back_to_front(&self.nodes).all(|page| usize::from(self.nodes[page].level) == level)); // SM1
            let protected = queue.back_to_front(&self.nodes).skip_while(|&page| self.is_aged(page));
            assert!(protected.into_iter().all(|page| !self.is_aged(page))); // SM2
        }
        assert_eq!(self.levels.iter().map(List::len).sum::<u32>(), self.len); // SM3
        assert!(self.references <= self.period_length()); // SM4
        assert!(self.len <= self.capacity);
    }
}

impl Smq {
    fn period_length(&self) -> u64 {
        (f64::from(self.capacity) * self.period_share).ceil() as u64
    }

    /// Counts a reference; a period that is over ends before it.
    fn tick(&mut self) {
        if self.references == self.period_length() {
            self.references = 0;
            self.period += 1;
            if self.period == PERIODS {
                self.count_anew();
            }
            self.redistribute();
        }
        self.references += 1;
    }

    /// Gives the present period a low number that is as far from its sentinel. Of a page only whether it was hit in this period and
    /// how many sentinels are behind it counts, up to two.
    fn count_anew(&mut self) {
        let present = (self.period, self.last_sentinel());
        self.period = match self.sentinel_periods {
            0 => 1,
            sentinel => 2 * sentinel + present.0 % sentinel,
        };
        let last_sentinel = self.last_sentinel();
        for level in &self.levels {
            let mut next = level.back();
            while let Some(page) = next {
                next = self.nodes.towards_front(page);
                let Status { period, sentinel, .. } = &mut self.nodes[page];
                *period = self.period - u32::from(*period != present.0);
                *sentinel = last_sentinel.wrapping_sub(present.1.wrapping_sub(*sentinel).min(2));
            }
        }
    }

    fn last_sentinel(&self) -> u32 {
        self.period.checked_div(self.sentinel_periods).unwrap_or(0)
    }

    /// Whether two sentinels have been put behind the page; without sentinels every page is aged.
    fn is_aged(&self, page: u32) -> bool {
        self.sentinel_periods == 0 || self.last_sentinel().wrapping_sub(self.nodes[page].sentinel) >= 2
    }

    fn push_young(&mut self, page: u32, level: usize) {
        self.nodes[page].level = level as u8;
        self.nodes[page].sentinel = self.last_sentinel();
        self.levels[level].push_front(&mut self.nodes, page);
    }

    fn push_old(&mut self, page: u32, level: usize) {
        self.nodes[page].level = level as u8;
        self.nodes[page].sentinel = self.last_sentinel().wrapping_sub(2);
        self.levels[level].push_back(&mut self.nodes, page);
    }

    fn drop_page(&mut self, page: u32) {
        self.levels[usize::from(self.nodes[page].level)].remove(&mut self.nodes, page);
        self.len -= 1;
    }

    /// A page that is hit goes up by one level, in exchange for the oldest there.
    fn requeue(&mut self, page: u32, level: usize) {
        self.levels[level].remove(&mut self.nodes, page);
        let above = (level + 1).min(self.top);
        if above > level
            && let Some(oldest) = self.levels[above].back()
        {
            self.levels[above].remove(&mut self.nodes, oldest);
            self.push_old(oldest, level);
        }
        self.push_young(page, above);
    }

    fn redistribute(&mut self) {
        let levels = self.top + 1;
        let (share, remainder) = (self.len / levels as u32, self.len as usize % levels);
        for level in 0..self.top {
            let target = share + u32::from(level < remainder);
            let mut from = level + 1;
            while self.levels[level].len() < target {
                match self.levels[from].back() {
                    Some(page) => {
                        self.levels[from].remove(&mut self.nodes, page);
                        self.push_young(page, level);
                    }
                    // The lower levels are as long as they should be, so there are pages further up.
                    None => from += 1,
                }
            }
            while self.levels[level].len() > target {
                let page = self.levels[level].front().expect("the level is too long");
                self.levels[level].remove(&mut self.nodes, page);
                self.push_old(page, level + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::long_run;

    /// The periods begin right behind a sentinel, as the first does.
    #[test]
    fn counting_periods_anew_changes_nothing() {
        for spec in ["smq:period=0.2", "smq:period=0.1:sentinel=1", "smq:period=1:sentinel=0:levels=4"] {
            long_run::is_as_the_first::<Smq>(
                spec,
                &[|smq| smq.period = PERIODS - PERIODS % 6, |smq| smq.period = PERIODS - PERIODS % 6 - 90],
            );
        }
    }
}
