//! A set of points in time, with its earliest and its latest found in a few steps.
//!
//! A bit for each point in time, over it a bit for each word that is not empty, and so on: four or five levels of
//! 64-fold branching cover 2^30 references, with 1/63 more memory than the bits themselves. Nothing is hashed or probed: each operation
//! looks at one word of each level at most twice, up and down, whatever the times.

use crate::parts::prefetch::prefetch;

#[derive(Debug)]
pub(crate) struct TimeSet {
    /// `levels[0]` has a bit for each time, `levels[k + 1]` one for each word of `levels[k]`; the last is one word.
    levels: Vec<Vec<u64>>,
}

impl TimeSet {
    /// Empty; times are below `end`, for which itself there is a bit too, so that it may be asked about.
    pub(crate) fn new(end: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = end / 64 + 1;
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            words = words.div_ceil(64);
        }
    }

    #[inline]
    pub(crate) fn contains(&self, time: u32) -> bool {
        let word = self.levels[0].get(time as usize / 64);
        word.is_some_and(|word| word & 1 << (time % 64) != 0)
    }

    /// Something at that time will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, time: u32) {
        prefetch(&self.levels[0], time as usize / 64);
    }

    pub(crate) fn insert(&mut self, time: u32) {
        let mut index = time as usize;
        for level in &mut self.levels {
            let word = &mut level[index / 64];
            let was_empty = *word == 0;
            *word |= 1 << (index % 64);
            if !was_empty {
                break;
            }
            index /= 64;
        }
    }

    pub(crate) fn remove(&mut self, time: u32) {
        let mut index = time as usize;
        for level in &mut self.levels {
            let word = &mut level[index / 64];
            *word &= !(1 << (index % 64));
            if *word != 0 {
                break;
            }
            index /= 64;
        }
    }

    /// The latest time before `end`.
    pub(crate) fn latest_before(&self, end: u32) -> Option<u32> {
        let mut index = end as usize;
        for (height, level) in self.levels.iter().enumerate() {
            // The bits below `index` in its word; none when the word is past the end or `index` starts a word.
            let word = level.get(index / 64).map_or(0, |word| word & !(u64::MAX << (index % 64)));
            if word != 0 {
                return Some(self.descend(height, index / 64, word, |word| 63 - word.leading_zeros()));
            }
            index /= 64;
        }
        None
    }

    /// The earliest time that is not before `start`.
    pub(crate) fn earliest_from(&self, start: u32) -> Option<u32> {
        let mut index = start as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(index / 64).map_or(0, |word| word & (u64::MAX << (index % 64)));
            if word != 0 {
                return Some(self.descend(height, index / 64, word, u64::trailing_zeros));
            }
            index = index / 64 + 1;
        }
        None
    }

    /// How many times there are from `start` on.
    pub(crate) fn count_from(&self, start: u32) -> u32 {
        let index = start as usize;
        let words = self.levels[0].get(index / 64..).unwrap_or_default();
        let before = words.first().map_or(0, |word| (word & !(u64::MAX << (index % 64))).count_ones());
        words.iter().map(|word| word.count_ones()).sum::<u32>() - before
    }

    fn descend(&self, height: usize, word_index: usize, word: u64, pick: impl Fn(u64) -> u32) -> u32 {
        let mut index = word_index * 64 + pick(word) as usize;
        for level in self.levels[..height].iter().rev() {
            index = index * 64 + pick(level[index]) as usize;
        }
        index as u32
    }

    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(end in prop_oneof![1u32..20_000, (1u32..300).prop_map(|words| words * 64)], steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..300)) {
            let mut set = TimeSet::new(end as usize);
            let mut model = BTreeSet::new();
            for (insert, time) in steps {
                let time = time % end;
                if insert {
                    set.insert(time);
                    model.insert(time);
                } else {
                    set.remove(time);
                    model.remove(&time);
                }
                for bound in [0, time, time + 1, end] {
                    prop_assert_eq!(set.latest_before(bound), model.range(..bound).next_back().copied());
                    prop_assert_eq!(set.earliest_from(bound), model.range(bound..).next().copied());
                    prop_assert_eq!(set.count_from(bound) as usize, model.range(bound..).count());
                    prop_assert_eq!(set.contains(bound), model.contains(&bound));
                }
            }
        }
    }
}
