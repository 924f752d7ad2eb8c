//! How many pages may stay: what was asked for, or less as long as the kernel reclaims pages by itself.
//!
//! The kernel reclaims the pages at the end of its own lists, and these may be the policy's best. So when it does, the size becomes what it has left there,
//! less a margin, until the policy's victims alone make room. This follows whatever limits the cache: a control group, whose limit other things count
//! against as well, or a system that is short of memory. Once the kernel has been quiet for a while, the size grows again, slowly, to find out whether there is
//! more room now.

use std::time::{Duration, Instant};

/// The margin in which the kernel need not reclaim: a part in this many of what is there.
const MARGIN: u64 = 32;
/// How long the kernel has to be quiet before the size grows.
const QUIET: Duration = Duration::from_secs(5);
/// It grows by a part in so many of what was asked for, every [`STEP`].
const GROWTH: u64 = 128;
const STEP: Duration = Duration::from_secs(1);
/// It never is less than a part in so many of what was asked for.
const LEAST: u64 = 64;

/// The size, in pages.
#[derive(Debug)]
pub(crate) struct Budget {
    asked: u64,
    now: u64,
    /// When the kernel reclaimed last, or the size has grown.
    since: Option<Instant>,
    quiet: Duration,
}

impl Budget {
    /// This many pages are asked for.
    pub(crate) fn new(asked: u64) -> Self {
        Self { asked, now: asked, since: None, quiet: QUIET }
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
        (self.asked, self.now, self.since) = (pages, pages, None);
    }

    /// The kernel has reclaimed pages, and has left this many.
    pub(crate) fn reclaimed(&mut self, left: u64, at: Instant) {
        let least = (self.asked / LEAST).max(1);
        self.now = self.now.min(left - left.div_ceil(MARGIN).min(left)).max(least);
        (self.since, self.quiet) = (Some(at), QUIET);
    }

    /// Time has passed: whether the size has changed.
    pub(crate) fn tick(&mut self, at: Instant) -> bool {
        let Some(since) = self.since.filter(|&since| at.saturating_duration_since(since) >= self.quiet) else {
            return false;
        };
        debug_assert!(since <= at);
        self.now = self.asked.min(self.now + self.asked.div_ceil(GROWTH));
        self.since = (self.now < self.asked).then_some(at);
        self.quiet = STEP;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_below_what_the_kernel_leaves_and_grows_when_the_kernel_is_quiet() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut budget = Budget::new(12_800);
        assert!(!budget.tick(at(100)) && budget.pages() == 12_800);
        budget.reclaimed(6400, at(100));
        assert_eq!(budget.pages(), 6200);
        budget.reclaimed(9000, at(101));
        assert_eq!(budget.pages(), 6200, "a later look at fewer pages would not make it larger");
        assert!(!budget.tick(at(105)), "the kernel was quiet for four seconds");
        assert!(budget.tick(at(106)) && budget.pages() == 6300);
        assert!(!budget.tick(at(106)) && budget.tick(at(107)) && budget.pages() == 6400);
        for second in 108..1000 {
            budget.tick(at(second));
        }
        assert_eq!(budget.pages(), 12_800);
        budget.reclaimed(0, at(1000));
        assert_eq!(budget.pages(), 200, "some pages are left to the policy");
    }

    #[test]
    fn another_size_counts_at_once() {
        let mut budget = Budget::new(100);
        budget.reclaimed(50, Instant::now());
        budget.ask(80);
        assert_eq!((budget.pages(), budget.asked()), (80, 80));
    }
}
