//! When reference bits are looked at: an epoch is the time between two looks.
//!
//! Uses of pages that are there are known by their bits alone, so of an epoch the policy learns which pages were used, and neither when nor how often. The shorter
//! the epochs, the more it learns, and the more it costs: to clear the bits takes longer than to read them, and the next use of each page a little, too.

use forebay_basis::has_come_enough;
use std::time::{Duration, Instant};

/// Between two looks passes at least this many times what the last one took: they take 4 % of a processor at the most.
const REST: u32 = 24;
const SHORT_REST: u32 = 8;
/// Where nothing leaves there is a look, too, if there were faults: at what came and went without one.
const CALM: Duration = Duration::from_secs(1);

/// The time since the last look.
#[derive(Debug)]
pub(crate) struct Epoch {
    began: Instant,
    /// What the last look took.
    took: Duration,
    /// How many pages had come by then.
    came: u64,
    /// Faults since then.
    faults: u64,
    looks: u64,
    all_took: Duration,
    /// There is a look each time, with and without faults.
    regular: bool,
    /// The last look of either kind: when it ended, what it took, and how many pages had come by then.
    seen: (Instant, Duration, u64),
}

impl Epoch {
    /// `regular`: also without faults.
    pub(crate) fn new(now: Instant, regular: bool) -> Self {
        Self {
            began: now,
            took: Duration::ZERO,
            came: 0,
            faults: 0,
            looks: 0,
            all_took: Duration::ZERO,
            regular,
            seen: (now, Duration::ZERO, 0),
        }
    }

    /// There were faults.
    pub(crate) fn faulted(&mut self, faults: usize) {
        self.faults += faults as u64;
    }

    /// Whether it is over, where the cache has room for `capacity` pages, `there` are there, and `came` have come so far.
    pub(crate) fn is_over(&self, capacity: u64, there: u64, came: u64, now: Instant) -> bool {
        self.is_long(now) || self.may_end(now) && has_come_enough(capacity, there, came - self.came)
    }

    /// Whether it is over however few pages have come.
    pub(crate) fn is_long(&self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.began);
        self.may_end(now) && passed >= CALM && (self.regular || self.faults > 0)
    }

    /// Whether there is to be a glance, a look that clears no bit: as many pages have come since the last look of either kind as end an epoch.
    pub(crate) fn has_glance(&self, capacity: u64, there: u64, came: u64, now: Instant) -> bool {
        let (at, took, before) = self.seen;
        now.saturating_duration_since(at) >= took * REST && has_come_enough(capacity, there, came - before)
    }

    /// A glance is over that began at `began`.
    pub(crate) fn glanced(&mut self, came: u64, began: Instant, now: Instant) {
        let took = now.saturating_duration_since(began);
        self.seen = (now, took, came);
        self.all_took += took;
    }

    /// Whether the last look was so long ago that there may be another.
    pub(crate) fn may_end(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= self.took * REST
    }

    /// The same where pages would leave without need.
    pub(crate) fn may_end_early(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= self.took * SHORT_REST
    }

    /// A look is over that began at `began`: the next epoch begins.
    pub(crate) fn looked(&mut self, came: u64, began: Instant, now: Instant) {
        self.took = now.saturating_duration_since(began);
        (self.began, self.came, self.faults) = (now, came, 0);
        // What a glance takes is known from the last one.
        (self.seen.0, self.seen.2) = (now, came);
        self.looks += 1;
        self.all_took += self.took;
    }

    /// How many looks there were, and what they took.
    pub(crate) fn looks(&self) -> (u64, Duration) {
        (self.looks, self.all_took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_over_when_much_has_come_or_faults_were_long_ago() {
        let begin = Instant::now();
        let mut epoch = Epoch::new(begin, false);
        let is_over = |epoch: &Epoch, there, came, now| epoch.is_over(6400, there, came, now);
        assert!(!is_over(&epoch, 6400, 199, begin) && is_over(&epoch, 6400, 200, begin));
        assert!(is_over(&epoch, 6000, 200, begin) && !is_over(&epoch, 5999, 9999, begin), "there is room");
        assert!(!epoch.is_over(64, 64, 15, begin), "a small cache is not looked at for each page");
        assert!(!is_over(&epoch, 6400, 0, begin + CALM), "nothing has happened");
        epoch.faulted(1);
        assert!(is_over(&epoch, 6400, 0, begin + CALM));
        let took = Duration::from_millis(10);
        epoch.looked(200, begin, begin + took);
        assert!(!is_over(&epoch, 6400, 9999, begin + took * REST), "looks take a small part of the time");
        assert!(is_over(&epoch, 6400, 9999, begin + took * (REST + 1)));
        assert_eq!(epoch.looks(), (1, took));
        assert!(is_over(&Epoch::new(begin, true), 0, 0, begin + CALM), "nothing needs to have happened");
    }

    #[test]
    fn there_are_glances_between_looks_that_take_long() {
        let begin = Instant::now();
        let mut epoch = Epoch::new(begin, false);
        let has_glance = |epoch: &Epoch, came, now| epoch.has_glance(6400, 6400, came, now);
        let (long, short) = (Duration::from_millis(10), Duration::from_micros(100));
        epoch.looked(200, begin - long, begin);
        assert!(!epoch.is_over(6400, 6400, 9999, begin + long) && has_glance(&epoch, 400, begin + long));
        assert!(!has_glance(&epoch, 399, begin + long), "few pages have come since");
        epoch.glanced(400, begin + long - short, begin + long);
        assert!(
            !has_glance(&epoch, 9999, begin + long + short * REST - short),
            "they take a small part of the time, too"
        );
        assert!(has_glance(&epoch, 600, begin + long + short * REST));
        assert_eq!(epoch.looks(), (1, long + short));
    }
}
