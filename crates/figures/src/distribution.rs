//! Values counted in steps of an eighth of a power of two: a quantile is known within an eighth of itself.

use crate::Tally;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The buckets of a power of two. Values below this have a bucket each.
const STEPS: u64 = 8;

/// The last one holds values from 15 × 2^44 on, some 73 hours in nanoseconds, and all above.
const BUCKETS: usize = 368;

/// Where a value is counted.
fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let power = value.ilog2();
    let step = (value >> (power - STEPS.ilog2())) & (STEPS - 1);
    (u64::from(power - STEPS.ilog2() + 1) * STEPS + step).min(BUCKETS as u64 - 1) as usize
}

/// The values of a bucket are not below this, and below that of the next one.
fn least(bucket: usize) -> u64 {
    let (power, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if power == 0 { step } else { (STEPS + step) << (power - 1) }
}

/// Values counted in steps, by several threads.
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
        self.add_many(value, 1);
    }

    /// Counts a value several times.
    #[inline]
    pub fn add_many(&self, value: u64, times: u64) {
        self.buckets[bucket(value)].fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Ordering::Relaxed);
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

/// Values counted in steps: those from 0 to 7 have a bucket each, and from there on each power of two has eight of one width. The last bucket holds
/// those above, too.
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

    /// What the given share of the values does not exceed, as if those of a bucket were evenly spread over it; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            if seen + count >= wanted {
                let (from, to) = (least(bucket), least(bucket + 1));
                let part = (wanted - seen) as f64 / count as f64;
                return from + (part * (to - from - 1) as f64).round() as u64;
            }
            seen += count;
        }
        0
    }

    /// How many values there are below each power of two and not below the one before it, from 1 on.
    pub fn by_powers_of_two(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = (0..u64::BITS).map(|power| bucket(1 << power)).take_while(|&end| end < BUCKETS - 1);
        let begins = [0].into_iter().chain(ends.clone());
        let last = self.buckets.len();
        let counts = begins.zip(ends).take_while(move |&(from, _)| from < last);
        let count = move |(from, to): (usize, usize)| self.buckets[from..to.min(last)].iter().sum();
        (0..).map(|power| 1 << power).zip(counts.map(count))
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
    fn a_bucket_begins_where_the_one_before_it_ends() {
        for number in 0..BUCKETS - 1 {
            let (from, to) = (least(number), least(number + 1));
            assert_eq!([bucket(from), bucket(to - 1)], [number; 2]);
            assert!(from < STEPS || to - from <= from / STEPS);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_values_within_an_eighth() {
        let histogram = Histogram::default();
        let mut values: Vec<u64> = (0..10_000_u64).map(|number| number * number * 37 % 4_000_037).collect();
        values.iter().for_each(|&value| histogram.add(value));
        values.sort_unstable();
        let read = histogram.read();
        for share in [0.01, 0.1, 0.5, 0.9, 0.99, 1.0] {
            let exact = values[(share * values.len() as f64) as usize - 1] as f64;
            let shown = read.quantile(share) as f64;
            assert!((shown - exact).abs() <= exact / 8.0, "{share}: {shown} for {exact}");
        }
        let powers: Vec<(u64, u64)> = read.by_powers_of_two().collect();
        assert_eq!(powers.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        for (index, &(bound, count)) in powers.iter().enumerate() {
            let least = if index == 0 { 0 } else { bound / 2 };
            let exact = values.iter().filter(|&&value| (least..bound).contains(&value)).count() as u64;
            assert_eq!(count, exact, "below {bound}");
        }
    }

    #[test]
    fn values_are_counted_in_steps() {
        let histogram = Histogram::default();
        [0, 1, 3, 3, 4].into_iter().for_each(|value| histogram.add(value));
        let read = histogram.read();
        assert_eq!(read, Distribution { buckets: vec![1, 1, 0, 2, 1], sum: 11 });
        assert_eq!((read.count(), read.mean()), (5, 2.2));
        assert_eq!([0.1, 0.4, 0.8, 1.0].map(|share| read.quantile(share)), [0, 1, 3, 4]);
        assert_eq!((Distribution::default().quantile(0.5), Distribution::default().mean()), (0, 0.0));
        histogram.add(u64::MAX / 2);
        assert_eq!(histogram.read().buckets.len(), BUCKETS);
        assert_eq!(histogram.read().since(&read).count(), 1);
        let other = Histogram::default();
        other.add_many(3, 2);
        other.absorb(&read);
        assert_eq!(other.read(), Distribution { buckets: vec![1, 1, 0, 4, 1], sum: 17 });
    }
}
