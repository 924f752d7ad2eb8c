//! The least memory that hits as much as is asked.

use super::advice::{Advice, Take};
use super::comparison::replay;
use super::error::{Error, Stop};
use super::monitor::Monitor;
use crate::input::trace::{Dimensions, Trace};
use crate::replay::sweep::Sweep;
use crate::replay::watch::Watch;
use crate::words::percent;
use forebay_policy::Spec;

/// The search ends where a size that is too small is this share of one that is not.
const NEAR: f64 = 0.97;

/// What came of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The share of the references that is to hit.
    pub share: f64,
    /// What does it, if any cache can, and what share it hits.
    pub found: Option<(Take, f64)>,
    /// The most that a cache of all pages hits.
    pub most: f64,
}

impl Reached {
    /// Halves between the largest size that is known to be too small for every policy and the smallest that is not for one. A policy that falls short where
    /// another does not needs more, and is asked no further.
    pub(super) fn search(
        share: f64,
        sweep: &Sweep,
        watch: &Watch,
        trace: &Trace,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let mut left: Vec<Spec> = sweep.specs.iter().filter(|spec| !spec.needs_future()).cloned().collect();
        let watch = Watch { states: 0, distances: false, by: None, ..watch.clone() };
        // The best first.
        let ask = |specs: &[Spec], pages: u32| {
            let one = Sweep { specs: specs.to_vec(), sizes: vec![pages], ..sweep.clone() };
            let (outcomes, stopped) = replay(&one, &watch, trace, monitor)?;
            if stopped.is_some() || outcomes.len() < specs.len() {
                return Err(Error::Stopped(Stop::Runs(outcomes.len(), specs.len(), trace.name.clone())));
            }
            let mut ratios: Vec<(f64, Spec)> =
                outcomes.iter().map(|outcome| outcome.counted.hit_ratio()).zip(specs.iter().cloned()).collect();
            ratios.sort_by(|one, other| other.0.total_cmp(&one.0));
            Ok(ratios)
        };
        let all = ask(&left, trace.pages)?;
        let most = all.first().map_or(0.0, |best| best.0);
        if most < share {
            return Ok(Self { share, found: None, most });
        }
        let (mut short, mut enough, mut best) = (0_u32, trace.pages, (all[0].1.label.clone(), most));
        left = all.into_iter().filter(|of| of.0 >= share).map(|of| of.1).collect();
        while enough - short > 1 && f64::from(short) < NEAR * f64::from(enough) {
            let middle = short + (enough - short) / 2;
            let ratios = ask(&left, middle)?;
            if ratios[0].0 >= share {
                best = (ratios[0].1.label.clone(), ratios[0].0);
                left = ratios.into_iter().filter(|of| of.0 >= share).map(|of| of.1).collect();
                enough = middle;
            } else {
                short = middle;
            }
        }
        let (policy, hits) = best;
        Ok(Self { share, found: Some((Take { policy, pages: enough }, hits)), most })
    }

    pub(super) fn advice(&self, trace: &Dimensions) -> Advice {
        let share = percent(self.share);
        let Some((take, hits)) = &self.found else {
            let text = format!(
                "No cache hits {share} % of the references: one that holds all pages, {}, hits {} %.",
                trace.bytes_in_words(trace.pages),
                percent(self.most)
            );
            return Advice { text, take: None };
        };
        let text = format!(
            "Take {} with {}: it hits {} % of the references, and is the least memory with which a policy that was asked hits {share} %, but for 3 %.",
            take.policy,
            trace.size_in_words(take.pages),
            percent(*hits)
        );
        Advice { text, take: Some(take.clone()) }
    }
}
