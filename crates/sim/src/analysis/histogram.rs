//! Counts by distance, in buckets that double.

/// Counts of numbers from 1 up, in buckets whose upper bounds double in so many steps: each number is rounded up to a bound.
#[derive(Clone, Debug)]
pub(super) struct Histogram<T> {
    steps: u64,
    buckets: Vec<T>,
}

impl<T: Clone + Default> Histogram<T> {
    /// An empty one; `steps` is a power of two.
    pub(super) fn new(steps: u64) -> Self {
        debug_assert!(steps.is_power_of_two());
        Self { steps, buckets: vec![T::default(); 65 * steps as usize] }
    }

    /// What is counted in the bucket of a number from 1 up.
    #[inline]
    pub(super) fn at(&mut self, number: u64) -> &mut T {
        let octave = number.ilog2();
        let above = number - (1 << octave);
        // Rounded up; the last step is the first of the next octave.
        let step = ((u128::from(above) * u128::from(self.steps)).div_ceil(1 << octave)) as u64;
        &mut self.buckets[(u64::from(octave) * self.steps + step) as usize]
    }

    /// Upper bounds, in their order, and what is counted up to each and above the one before, from 1 to the last that has
    /// something as `filled` tells.
    pub(super) fn iter(&self, filled: impl Fn(&T) -> bool) -> impl Iterator<Item = (u64, &T)> {
        let end = self.buckets.iter().rposition(filled).map_or(0, |last| last + 1);
        // In the first octaves there are fewer numbers than steps.
        self.buckets[..end].iter().enumerate().filter_map(|(index, bucket)| {
            let (octave, step) = (index as u64 / self.steps, index as u64 % self.steps);
            let above = step << octave;
            above.is_multiple_of(self.steps).then(|| ((1 << octave) + above / self.steps, bucket))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up_to_the_next_bound() {
        let mut by_powers = Histogram::<u32>::new(1);
        for number in [1, 2, 3, 4, 5, 8, 9] {
            *by_powers.at(number) += 1;
        }
        let bounds: Vec<(u64, u32)> =
            by_powers.iter(|&count| count > 0).map(|(bound, &count)| (bound, count)).collect();
        assert_eq!(bounds, [(1, 1), (2, 1), (4, 2), (8, 2), (16, 1)]);

        let mut by_quarters = Histogram::<u32>::new(4);
        for number in 1..=20 {
            *by_quarters.at(number) += 1;
        }
        let bounds: Vec<(u64, u32)> =
            by_quarters.iter(|&count| count > 0).map(|(bound, &count)| (bound, count)).collect();
        let each = [1, 2, 3, 4, 5, 6, 7, 8].map(|bound| (bound, 1));
        assert_eq!(bounds, [&each[..], &[(10, 2), (12, 2), (14, 2), (16, 2), (20, 4)]].concat());
    }

    #[test]
    fn nothing_counted_has_no_bounds() {
        assert_eq!(Histogram::<u32>::new(1).iter(|&count| count > 0).count(), 0);
    }
}
