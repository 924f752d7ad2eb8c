//! How long references wait, in buckets whose width is at most 1/128 of what they hold.

/// Buckets for each doubling, as a power of two.
const FINENESS: u32 = 7;

/// Waits above 0, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    buckets: Vec<u64>,
    longest: u64,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; ((64 - FINENESS + 1) as usize) << FINENESS], longest: 0 }
    }

    pub(crate) fn record(&mut self, ms: f64) {
        let wait = (ms * 1e6).round() as u64;
        self.longest = self.longest.max(wait);
        self.buckets[bucket(wait)] += 1;
    }

    /// The shortest wait, in milliseconds, that `share` of `references` do not exceed. Those not recorded do not wait.
    pub(crate) fn quantile(&self, share: f64, references: u64) -> f64 {
        let rank = (share * references as f64).ceil() as u64;
        let recorded: u64 = self.buckets.iter().sum();
        let mut seen = references.saturating_sub(recorded);
        if seen >= rank {
            return 0.0;
        }
        for (index, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return last_of(index).min(self.longest) as f64 / 1e6;
            }
        }
        self.longest as f64 / 1e6
    }
}

/// Below `2^FINENESS` each number has its bucket; above, a bucket's width doubles when its numbers do.
fn bucket(wait: u64) -> usize {
    let shift = (64 - FINENESS - 1).saturating_sub(wait.leading_zeros());
    ((shift as usize) << FINENESS) + (wait >> shift) as usize
}

/// The largest number of a bucket.
fn last_of(bucket: usize) -> u64 {
    let shift = (bucket >> FINENESS).saturating_sub(1);
    let start = (bucket - (shift << FINENESS)) as u64;
    (start << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_a_bucket_that_ends_at_most_a_128th_above_it() {
        let mut next = 0;
        for number in (0..70_000).chain((0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1])).chain([u64::MAX]) {
            let last = last_of(bucket(number));
            assert!(number <= last && last - number <= number >> FINENESS, "{number} is in a bucket up to {last}");
            if number == next && number < 70_000 {
                next = last + 1;
                assert_eq!(bucket(next), bucket(number) + 1);
            }
        }
    }

    #[test]
    fn quantiles_count_references_that_do_not_wait() {
        let mut waits = Waits::new();
        waits.record(9.5);
        assert_eq!(waits.quantile(0.99, 100), 0.0);
        assert_eq!(waits.quantile(0.99, 99), 9.5);
        waits.record(20.0);
        assert!((9.5..9.6).contains(&waits.quantile(0.5, 3)));
        assert_eq!((waits.quantile(0.99, 3), Waits::new().quantile(0.99, 0)), (20.0, 0.0));
    }
}
