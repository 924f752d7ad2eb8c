//! How long references wait, in buckets whose width is at most 1/128 of what they hold.

use forebay_basis::Histogram;

/// Waits above 0, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    histogram: Histogram<u64, 7>,
    longest: u64,
}

impl Waits {
    pub(crate) fn record(&mut self, ms: f64) {
        let wait = (ms * 1e6).round() as u64;
        self.longest = self.longest.max(wait);
        *self.histogram.at(wait) += 1;
    }

    /// The shortest wait, in milliseconds, that `share` of `references` do not exceed. Those not recorded do not wait.
    pub(crate) fn quantile(&self, share: f64, references: u64) -> f64 {
        let rank = (share * references as f64).ceil() as u64;
        let at_once = references.saturating_sub(self.histogram.count());
        if at_once >= rank {
            return 0.0;
        }
        let longest = self.longest;
        self.histogram.ranked(rank - at_once).map_or(longest, |wait| wait.min(longest)) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_count_references_that_do_not_wait() {
        let mut waits = Waits::default();
        waits.record(9.5);
        assert_eq!(waits.quantile(0.99, 100), 0.0);
        assert_eq!(waits.quantile(0.99, 99), 9.5);
        waits.record(20.0);
        assert!((9.5..9.6).contains(&waits.quantile(0.5, 3)));
        assert_eq!((waits.quantile(0.99, 3), Waits::default().quantile(0.99, 0)), (20.0, 0.0));
    }
}
