//! How many pages may stay: what was asked for, or less as long as the kernel reclaims pages by itself or programs wait for memory.
//!
//! The kernel reclaims the pages at the end of its own lists, and these may be the policy's best. So when it does, the size becomes what it has left there,
//! less a margin, twice of what it took at the most, until the policy's victims alone make room. This follows whatever limits the cache: a control group, whose limit other things count
//! against as well, or a system that is short of memory. Once the kernel has been quiet for a while, the size grows again to find out whether there is
//! more room now: by little at first, and then by twice as much each time. Each time that the kernel reclaims after that, the next attempt comes later.
//!
//! What the kernel reclaims without need (DAMON takes what was not used for long) says nothing of room. Callers leave it out.
//!
//! Where programs wait for memory, what the kernel reclaims may be others' memory. Then the size gives a part of what is there back each time.

use std::time::{Duration, Instant};

/// The margin in which the kernel need not reclaim: a part in this many of what is there.
const MARGIN: u64 = 64;
/// How long the kernel has to be quiet before the size grows, at least and at most. An attempt that was too much costs some dozens of pages, and a size that is
/// too small costs its difference.
const QUIET: Duration = Duration::from_millis(100);
const MOST_QUIET: Duration = Duration::from_secs(5);
/// Every [`STEP`] it grows by a part of what was asked for: a 256th at first, a 16th at most.
const STEP: Duration = Duration::from_millis(100);
const FIRST_GROWTH: u64 = 256;
const MOST_GROWTH: u64 = 16;
/// It is never less than a 64th of what was asked for.
const LEAST: u64 = 64;
/// The part of what is there that is given back where memory is short: half of it in two seconds.
const GIVEN: u64 = 32;

/// The size, in pages.
#[derive(Debug)]
pub(crate) struct Budget {
    asked: u64,
    now: u64,
    /// When it grows next, if it is less than was asked for.
    next: Option<Instant>,
    /// How long the kernel has to be quiet before it grows.
    quiet: Duration,
    /// It has grown since the kernel reclaimed last, and grows by a part in this many.
    growth: Option<u64>,
}

impl Budget {
    /// This many pages are asked for.
    pub(crate) fn new(asked: u64) -> Self {
        Self { asked, now: asked, next: None, quiet: QUIET, growth: None }
    }

    /// How many pages may stay now.
    pub(crate) fn pages(&self) -> u64 {
        self.now
    }

    /// How many pages were asked for.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// Another size is asked for.
    pub(crate) fn ask(&mut self, pages: u64) {
        *self = Self::new(pages);
    }

    /// What is asked for follows a limit: what the kernel has been seen to leave of it still counts.
    pub(crate) fn follow(&mut self, pages: u64) {
        self.asked = pages;
        self.now = if self.next.is_none() { pages } else { self.now.min(pages) };
    }

    /// The kernel has reclaimed `pages` pages. `left` pages are still in the cache.
    pub(crate) fn reclaimed(&mut self, pages: u64, left: u64, at: Instant) {
        let margin = left.div_ceil(MARGIN).min(2 * pages);
        self.shrink(left.saturating_sub(margin), at);
    }

    /// Memory is short, and `there` pages are in the cache.
    pub(crate) fn short(&mut self, there: u64, at: Instant) {
        let used = self.now.min(there);
        self.shrink(used - used.div_ceil(GIVEN), at);
    }

    fn shrink(&mut self, pages: u64, at: Instant) {
        let least = (self.asked / LEAST).max(1);
        self.now = self.now.min(pages).max(least);
        if self.growth.take().is_some() {
            self.quiet = (self.quiet * 2).min(MOST_QUIET);
        }
        self.next = Some(at + self.quiet);
    }

    /// Time has passed: the size grows if that is due.
    pub(crate) fn tick(&mut self, at: Instant) {
        if self.next.is_none_or(|next| at < next) {
            return;
        }
        let growth = self.growth.map_or(FIRST_GROWTH, |growth| (growth / 2).max(MOST_GROWTH));
        self.now = self.asked.min(self.now + self.asked.div_ceil(growth));
        self.growth = Some(growth);
        self.next = Some(at + STEP);
        if self.now == self.asked {
            (self.next, self.quiet, self.growth) = (None, QUIET, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_below_what_the_kernel_leaves() {
        let at = Instant::now();
        let mut budget = Budget::new(12_800);
        budget.tick(at + MOST_QUIET);
        assert_eq!(budget.pages(), 12_800);
        budget.reclaimed(32, 6400, at);
        assert_eq!(budget.pages(), 6336);
        budget.reclaimed(1000, 6400, at);
        assert_eq!(budget.pages(), 6300);
        budget.reclaimed(1000, 9000, at);
        assert_eq!(budget.pages(), 6300, "a later look at more pages does not make it larger");
        budget.reclaimed(1000, 0, at);
        assert_eq!(budget.pages(), 200, "some pages are left to the policy");
    }

    #[test]
    fn it_grows_when_the_kernel_is_quiet_and_waits_longer_each_time_that_this_was_too_much() {
        let begin = Instant::now();
        let mut budget = Budget::new(12_800);
        budget.reclaimed(1000, 6400, begin);
        budget.tick(begin + QUIET - QUIET / 10);
        assert_eq!(budget.pages(), 6300, "it was not quiet for long enough");
        budget.tick(begin + QUIET);
        assert_eq!(budget.pages(), 6350);
        budget.tick(begin + QUIET);
        assert_eq!(budget.pages(), 6350);
        budget.tick(begin + QUIET + STEP);
        assert_eq!(budget.pages(), 6450);
        let again = begin + QUIET + 2 * STEP;
        budget.reclaimed(1000, 6400, again);
        assert_eq!(budget.pages(), 6300);
        budget.tick(again + QUIET);
        assert_eq!(budget.pages(), 6300);
        budget.tick(again + 2 * QUIET);
        assert_eq!(budget.pages(), 6350);
        (1..20).for_each(|step| budget.tick(again + 2 * QUIET + step * STEP));
        assert_eq!(budget.pages(), 12_800);
        budget.reclaimed(1000, 6400, again);
        budget.tick(again + QUIET);
        assert_eq!(budget.pages(), 6350, "what was there in the end is no longer too much");
    }

    #[test]
    fn what_is_there_is_given_back_by_parts_where_memory_is_short_and_comes_back_when_it_is_quiet() {
        let begin = Instant::now();
        let mut budget = Budget::new(12_800);
        budget.short(3200, begin);
        assert_eq!(budget.pages(), 3100, "room that nothing has taken is no memory to give");
        budget.short(3200, begin);
        assert_eq!(budget.pages(), 3003);
        (0..1000).for_each(|_| budget.short(3200, begin));
        assert_eq!(budget.pages(), 200, "some pages are left to the policy");
        budget.tick(begin + QUIET);
        assert_eq!(budget.pages(), 250);
    }

    #[test]
    fn a_size_that_follows_a_limit_keeps_what_the_kernel_has_shown() {
        let begin = Instant::now();
        let mut budget = Budget::new(12_800);
        budget.follow(9600);
        assert_eq!((budget.pages(), budget.asked()), (9600, 9600));
        budget.reclaimed(1000, 6400, begin);
        budget.follow(9700);
        assert_eq!((budget.pages(), budget.asked()), (6300, 9700));
        budget.follow(5000);
        assert_eq!((budget.pages(), budget.asked()), (5000, 5000));
        budget.tick(begin + QUIET);
        budget.follow(5100);
        assert_eq!(budget.pages(), 5100, "the kernel was quiet");
    }

    #[test]
    fn another_size_counts_at_once() {
        let mut budget = Budget::new(100);
        budget.reclaimed(9, 50, Instant::now());
        budget.ask(80);
        assert_eq!((budget.pages(), budget.asked()), (80, 80));
    }
}
