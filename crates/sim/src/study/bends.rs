//! The sizes of a curve's points: more of them where it bends.

use super::error::Error;
use std::collections::BTreeMap;

/// Between neighbouring points whose miss ratios are farther apart something may be hidden.
const HIDES: f64 = 0.03;
/// Sizes that differ by a smaller share are the same for the purpose.
const NEAR: f64 = 0.01;

/// What lines miss at sizes: ratios by line, then by size.
pub(super) type Ratios = Vec<Vec<f64>>;

/// What lines miss at these sizes; `None` ends it.
pub(super) type At<'a> = &'a mut dyn FnMut(&[u32]) -> Result<Option<Ratios>, Error>;

/// Asks for the miss ratios at `sizes`, then at sizes between neighbours where a line bends, until no gap hides anything or there are `most` more;
/// returns all sizes, rising.
pub(super) fn followed(mut sizes: Vec<u32>, mut most: usize, at: At<'_>) -> Result<Vec<u32>, Error> {
    let mut known: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    while let Some(ratios) = at(&sizes)? {
        known.extend(
            sizes.iter().enumerate().map(|(index, &size)| (size, ratios.iter().map(|line| line[index]).collect())),
        );
        sizes = between(&known, most);
        most -= sizes.len();
        if sizes.is_empty() {
            break;
        }
    }
    Ok(known.into_keys().collect())
}

/// A size between each two neighbours of which a line is far apart: those with the widest gaps, at most this many, rising.
fn between(known: &BTreeMap<u32, Vec<f64>>, most: usize) -> Vec<u32> {
    let gap = |(one, other): (&[f64], &[f64])| {
        one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
    };
    let pairs = known.iter().zip(known.iter().skip(1));
    let hiding = pairs.filter_map(|((&small, one), (&large, other))| {
        let gap = gap((one, other));
        let apart = f64::from(large - small) > (NEAR * f64::from(small)).max(1.0);
        // The middle of a logarithmic axis.
        let middle = (f64::from(small) * f64::from(large)).sqrt().round() as u32;
        (gap > HIDES && apart).then(|| (gap, middle.clamp(small + 1, large - 1)))
    });
    let mut hiding: Vec<(f64, u32)> = hiding.collect();
    hiding.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut sizes: Vec<u32> = hiding.into_iter().take(most).map(|(_, middle)| middle).collect();
    sizes.sort_unstable();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(sizes: &[u32], most: usize, miss_ratio: impl Fn(u32) -> f64) -> Vec<u32> {
        followed(sizes.to_vec(), most, &mut |sizes| {
            Ok(Some(vec![sizes.iter().map(|&size| miss_ratio(size)).collect()]))
        })
        .unwrap()
    }

    #[test]
    fn a_cliff_between_two_points_is_found_to_a_percent_of_its_size() {
        let sizes = points(&[1, 100, 10_000], 40, |size| if size < 7_777 { 0.436 } else { 0.088 });
        let after = sizes.partition_point(|&size| size < 7_777);
        assert!(f64::from(sizes[after] - sizes[after - 1]) <= 78.0, "{sizes:?}");
    }

    #[test]
    fn no_gap_hides_a_fall_and_what_is_flat_gets_no_more_points() {
        let sizes = points(&[1, 10_000], 100, |size| 1.0 - f64::from(size) / 10_000.0);
        assert!(sizes.windows(2).all(|pair| pair[1] - pair[0] <= 300 + 1), "{sizes:?}");
        assert_eq!(points(&[1, 10, 10_000], 100, |_| 0.5), [1, 10, 10_000]);
        assert_eq!(points(&[1, 10_000], 3, |size| 1.0 / f64::from(size)).len(), 5);
    }
}
