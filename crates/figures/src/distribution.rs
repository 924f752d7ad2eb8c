//! Values counted by powers of two.

use crate::Tally;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BUCKETS: usize = 48;

/// Values counted by powers of two, by several threads.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts a time in nanoseconds.
    #[inline]
    pub fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl Tally for Histogram {
    type Read = Distribution;

    fn read(&self) -> Distribution {
        let mut buckets: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        buckets.truncate(buckets.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
        Distribution { buckets, sum: self.sum.load(Ordering::Relaxed) }
    }

    fn absorb(&self, more: &Distribution) {
        for (bucket, &count) in self.buckets.iter().zip(&more.buckets) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
        if more.sum > 0 {
            self.sum.fetch_add(more.sum, Ordering::Relaxed);
        }
    }
}

/// Values counted by powers of two: bucket `i` holds those below 2^i, and not below 2^(i - 1); the last one those above, too.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// The number of values in each bucket; those behind the last are empty.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Distribution {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The mean; 0 if there are no values.
    pub fn mean(&self) -> f64 {
        let count = self.count();
        if count == 0 { 0.0 } else { self.sum as f64 / count as f64 }
    }

    /// A bound that the given share of the values does not exceed, within a factor of two; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (power, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return 1 << power;
            }
        }
        0
    }

    /// The values that came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before)).collect();
        Self { buckets, sum: self.sum.saturating_sub(before.sum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_between_powers_of_two() {
        let histogram = Histogram::default();
        [0, 1, 3, 3, 4].into_iter().for_each(|value| histogram.add(value));
        let read = histogram.read();
        assert_eq!(read, Distribution { buckets: vec![1, 1, 2, 1], sum: 11 });
        assert_eq!((read.count(), read.mean()), (5, 2.2));
        assert_eq!([0.1, 0.4, 0.8, 1.0].map(|share| read.quantile(share)), [1, 2, 4, 8]);
        assert_eq!((Distribution::default().quantile(0.5), Distribution::default().mean()), (0, 0.0));
        histogram.add(u64::MAX / 2);
        assert_eq!(histogram.read().buckets.len(), BUCKETS);
        assert_eq!(histogram.read().since(&read).count(), 1);
        let other = Histogram::default();
        other.add(3);
        other.absorb(&read);
        assert_eq!(other.read(), Distribution { buckets: vec![1, 1, 3, 1], sum: 14 });
    }
}
