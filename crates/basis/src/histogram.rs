//! Counts by number, in buckets whose width grows with the numbers.

use std::ops::AddAssign;

/// What is counted by number: below `2^(BITS + 1)` each number has a bucket of its own, above, each doubling has `2^BITS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram<T, const BITS: u32> {
    /// None behind the last that was asked for.
    buckets: Vec<T>,
}

impl<T: Clone + Default, const BITS: u32> Histogram<T, BITS> {
    /// What is counted in the bucket of a number.
    #[inline]
    pub fn at(&mut self, number: u64) -> &mut T {
        let bucket = Self::bucket(number);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, T::default());
        }
        &mut self.buckets[bucket]
    }

    /// Each bucket's least and greatest number, and what is counted in it, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        self.buckets.iter().enumerate().map(|(bucket, counted)| {
            let (least, greatest) = Self::bounds(bucket);
            (least, greatest, counted)
        })
    }

    fn bucket(number: u64) -> usize {
        let shift = (u64::BITS - 1 - BITS).saturating_sub(number.leading_zeros());
        ((shift as usize) << BITS) + (number >> shift) as usize
    }

    fn bounds(bucket: usize) -> (u64, u64) {
        let shift = (bucket >> BITS).saturating_sub(1);
        let least = ((bucket - (shift << BITS)) as u64) << shift;
        (least, least + ((1 << shift) - 1))
    }
}

impl<T: Clone + Default + AddAssign, const BITS: u32> Histogram<T, BITS> {
    /// Adds what another one has counted.
    pub fn join(&mut self, other: &Self) {
        for (least, _, counted) in other.iter() {
            *self.at(least) += counted.clone();
        }
    }
}

impl<const BITS: u32> Histogram<u64, BITS> {
    /// How many numbers are counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The greatest number in the bucket of the one at `rank`, counted from 1 up from the smallest; `None` if there are fewer.
    pub fn ranked(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        let reached = self.iter().find(|&(_, _, count)| {
            seen += count;
            seen >= rank
        });
        reached.map(|(_, greatest, _)| greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greatest<const BITS: u32>(number: u64) -> (u64, u64) {
        Histogram::<u64, BITS>::bounds(Histogram::<u64, BITS>::bucket(number))
    }

    #[test]
    fn every_number_is_in_a_bucket_as_wide_as_its_fineness_allows() {
        let mut next = 0;
        for number in (0..70_000).chain((0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1])).chain([u64::MAX]) {
            let (least, last) = greatest::<7>(number);
            assert!((least..=last).contains(&number) && last - least <= number >> 7, "{number} is in {least}..={last}");
            if number == next && number < 70_000 {
                next = last + 1;
                assert_eq!(greatest::<7>(next).0, next);
            }
        }
        assert_eq!([0, 1, 2, 3, 4, 8].map(greatest::<0>), [(0, 0), (1, 1), (2, 3), (2, 3), (4, 7), (8, 15)]);
        assert_eq!([7, 8, 9, 10, 15, 16].map(|number| greatest::<2>(number).1), [7, 9, 9, 11, 15, 19]);
    }

    #[test]
    fn ranks_are_found_and_counts_are_joined() {
        let mut histogram = Histogram::<u64, 0>::default();
        assert_eq!((histogram.count(), histogram.ranked(1), histogram.iter().count()), (0, None, 0));
        for number in [1, 2, 3, 9] {
            *histogram.at(number) += 1;
        }
        assert_eq!([1, 2, 3, 4, 5].map(|rank| histogram.ranked(rank)), [Some(1), Some(3), Some(3), Some(15), None]);
        let mut both = Histogram::default();
        *both.at(100) += 1;
        both.join(&histogram);
        assert_eq!((both.count(), both.ranked(5)), (5, Some(127)));
    }
}
