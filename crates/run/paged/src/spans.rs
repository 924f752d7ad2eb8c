//! Sets of addresses.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that are apart from each other: start and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(BTreeMap<usize, usize>);

impl Spans {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn insert(&mut self, range: &Range<usize>) {
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    /// Takes the first `length` bytes of a range that has as many.
    pub(crate) fn take(&mut self, length: usize) -> Option<usize> {
        let (&start, &end) = self.0.iter().find(|(start, end)| *end - *start >= length)?;
        self.0.remove(&start);
        if start + length < end {
            self.0.insert(start + length, end);
        }
        Some(start)
    }

    /// What of a range is in the set.
    pub(crate) fn within(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self
            .0
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(&start, &end)| start.max(range.start)..end.min(range.end))
            .collect();
        found.reverse();
        found
    }

    /// What of a range is not.
    pub(crate) fn without(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        gaps(range, &self.within(range))
    }
}

/// What of a range is in none of the pieces, which lie within it in order.
pub(crate) fn gaps(range: &Range<usize>, pieces: &[Range<usize>]) -> Vec<Range<usize>> {
    let starts = std::iter::once(range.start).chain(pieces.iter().map(|piece| piece.end));
    let ends = pieces.iter().map(|piece| piece.start).chain(std::iter::once(range.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of a range is in the set, by its ends.
    fn within(spans: &Spans, range: Range<usize>) -> Vec<(usize, usize)> {
        spans.within(&range).iter().map(|piece| (piece.start, piece.end)).collect()
    }

    #[test]
    fn spans_join_and_say_what_they_have() {
        let mut spans = Spans::new();
        spans.insert(&(10..20));
        spans.insert(&(30..40));
        assert_eq!(within(&spans, 15..35), [(15, 20), (30, 35)]);
        assert_eq!(spans.without(&(5..50)), [5..10, 20..30, 40..50]);
        spans.insert(&(20..30));
        assert_eq!(within(&spans, 0..100), [(10, 40)]);
        spans.insert(&(5..100));
        assert_eq!(within(&spans, 0..200), [(5, 100)]);
        assert_eq!(spans.without(&(6..99)), []);
        assert_eq!([spans.take(96), spans.take(20), spans.take(75), spans.take(1)], [None, Some(5), Some(25), None]);
        assert_eq!(within(&spans, 0..200), []);
    }
}
