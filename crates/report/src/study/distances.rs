//! Hits and misses by temporal distance, of a comparison and of an analysis.

use super::in_pages;
use crate::model::{Axis, Chart, Kind, Series, Unit, View, X};
use forebay_sim::ByDistance;

/// A part of the bars, and what is counted in it.
type Distance = (&'static str, fn(&ByDistance) -> u64);

const DISTANCES: [Distance; 4] = [
    ("hits, nearer than the size", |counts| counts.near_hits),
    ("hits, farther", |counts| counts.far_hits),
    ("misses, nearer", |counts| counts.near_misses),
    ("misses, farther", |counts| counts.far_misses),
];

/// Hits and misses nearer and farther than the cache has pages: of each size the policies' counts.
pub(super) fn near_and_far(sizes: impl Iterator<Item = (u32, Vec<(String, ByDistance)>)>) -> Chart {
    let view = |(pages, counts): (u32, Vec<(String, ByDistance)>)| {
        let labels = counts.iter().map(|(policy, _)| policy.clone()).collect();
        let series = |(name, count): &Distance| Series::new(*name, counts.iter().map(|(_, of)| count(of) as f64));
        View { label: in_pages(pages), ..View::only(X::Labels(labels), DISTANCES.iter().map(series).collect()) }
    };
    let words = (
        "distances",
        "Hits and misses by temporal distance",
        "References nearer to the page's last use than the cache has pages, which LRU always hits if nothing is read ahead, and farther \
            ones, which it takes more than recency to hit; first uses are left out.",
    );
    let axes = (Axis::linear("policy", Unit::Text), Axis::linear("references", Unit::Number));
    Chart::new(words, Kind::Ranking, axes).keyed(sizes.map(view))
}
