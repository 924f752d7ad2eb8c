//! What policies hit, by temporal distance: UBM's figure 8, MQ's Table 3.

use crate::input::trace::Trace;
use crate::recency::Recency;
use crate::replay::misses::misses;
use crate::replay::outcome::ByDistance;
use forebay_basis::Histogram;
use forebay_policy::{Future, Spec};
use serde::Serialize;
use std::sync::Arc;

/// A policy's misses at a size.
pub(super) struct Replay {
    pub(super) policy: String,
    pub(super) pages: u32,
    /// When it missed, rising.
    pub(super) missed: Vec<u32>,
}

/// Hits and misses of a policy at a size, by temporal distance. First uses are in none of the counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HitsByDistance {
    /// The policy, as the user named it.
    pub policy: String,
    /// The cache's size.
    pub pages: u32,
    /// Hits of references nearer to the last one than the cache has pages.
    pub near_hits: u64,
    /// Misses of such references.
    pub near_misses: u64,
    /// Hits of those that are as far or farther.
    pub far_hits: u64,
    /// Misses of such references.
    pub far_misses: u64,
    /// By distance, in quarters of an octave.
    pub points: Vec<DistanceHits>,
}

/// Hits and misses up to a temporal distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DistanceHits {
    /// Up to this distance, and above that of the point before,
    pub distance: u64,
    /// this many hits,
    pub hits: u64,
    /// and this many misses.
    pub misses: u64,
}

impl HitsByDistance {
    /// The counts alone.
    pub fn by_distance(&self) -> ByDistance {
        let Self { near_hits, near_misses, far_hits, far_misses, .. } = *self;
        ByDistance { near_hits, near_misses, far_hits, far_misses }
    }

    /// The points added up to powers of two.
    pub fn octaves(&self) -> Vec<DistanceHits> {
        let mut octaves: Vec<DistanceHits> = Vec::new();
        for point in &self.points {
            let distance = point.distance.next_power_of_two();
            match octaves.last_mut() {
                Some(last) if last.distance == distance => {
                    (last.hits, last.misses) = (last.hits + point.hits, last.misses + point.misses);
                }
                _ => octaves.push(DistanceHits { distance, ..*point }),
            }
        }
        octaves
    }
}

impl Replay {
    pub(super) fn run(
        trace: &Trace,
        spec: &Spec,
        pages: u32,
        future: Option<&Arc<Future>>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Self {
        let future = future.filter(|_| spec.needs_future()).cloned();
        Self { policy: spec.label.clone(), pages, missed: misses(trace, spec, pages, future, progress) }
    }

    /// For each reference, whether it hit.
    pub(super) fn hits(&self) -> impl FnMut(usize) -> bool {
        let mut missed = self.missed.iter().peekable();
        move |time| missed.next_if(|&&missed| missed as usize == time).is_none()
    }
}

impl HitsByDistance {
    pub(super) fn of(trace: &Trace, replay: &Replay) -> Self {
        let mut recency = Recency::new(trace.pages);
        let mut hit = replay.hits();
        let mut counts = ByDistance::default();
        // Each distance is rounded up: four bounds for each doubling.
        let mut by_distance = Histogram::<[u64; 2], 2>::default();
        for (time, &page) in trace.references.iter().enumerate() {
            let hit = hit(time);
            if let Some(distance) = recency.refer(page) {
                by_distance.at(distance - 1)[usize::from(hit)] += 1;
                counts.count(distance < replay.pages.into(), hit);
            }
        }
        let points =
            by_distance.iter().map(|(_, below, &[misses, hits])| DistanceHits { distance: below + 1, hits, misses });
        let ByDistance { near_hits, near_misses, far_hits, far_misses } = counts;
        Self {
            policy: replay.policy.clone(),
            pages: replay.pages,
            near_hits,
            near_misses,
            far_hits,
            far_misses,
            points: points.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::trace;

    fn of(trace: &Trace, policy: &str, pages: u32) -> HitsByDistance {
        let future = Arc::new(Future::new(Arc::clone(&trace.references), trace.pages));
        HitsByDistance::of(trace, &Replay::run(trace, &Spec::parse(policy).unwrap(), pages, Some(&future), &|_| {}))
    }

    #[test]
    fn lru_hits_what_is_near_and_opt_also_what_is_far() {
        // Three rounds of blocks 1 to 4, and block 1 again.
        let trace = trace("1\n2\n3\n4\n1\n2\n3\n4\n1\n2\n3\n4\n4\n");
        let lru = of(&trace, "lru", 3);
        assert_eq!((lru.near_hits, lru.near_misses, lru.far_hits, lru.far_misses), (1, 0, 0, 8));
        let point = |distance, hits, misses| DistanceHits { distance, hits, misses };
        assert_eq!(lru.points, [point(1, 1, 0), point(2, 0, 0), point(3, 0, 0), point(4, 0, 8)]);
        // As in the command's own test OPT misses three times in the rounds after the first with 3 pages for 4.
        let opt = of(&trace, "opt", 3);
        assert_eq!((opt.near_hits, opt.near_misses, opt.far_hits, opt.far_misses), (1, 0, 6, 2));
    }

    #[test]
    fn the_counts_are_those_of_a_watched_run() {
        let text: String = (0..4000u64).map(|step| format!("{}\n", (step * step * 7 + step / 3) % 97)).collect();
        let trace = trace(&text);
        let watch = crate::Watch { distances: true, ..crate::Watch::default() };
        for name in ["lru", "ubm", "opt", "clock-pro"] {
            let sweep =
                crate::Sweep { specs: vec![Spec::parse(name).unwrap()], sizes: vec![30], warmup: 0, threads: 1 };
            let outcome = &sweep.run_watching(&watch, &trace, &|_| true)[0];
            let found = of(&trace, name, 30);
            let counts = ByDistance {
                near_hits: found.near_hits,
                near_misses: found.near_misses,
                far_hits: found.far_hits,
                far_misses: found.far_misses,
            };
            assert_eq!(Some(counts), outcome.by_distance, "{name}");
            assert_eq!(found.points.iter().map(|point| point.hits).sum::<u64>(), outcome.total.hits, "{name}");
        }
    }
}
