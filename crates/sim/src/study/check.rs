//! Which policy hits most at a size: a quick replay under all of them, of a part of a long trace.

use super::monitor::Monitor;
use crate::analysis::Best;
use crate::input::places::Places;
use crate::input::requests::Requests;
use crate::input::sample::mix;
use crate::input::trace::Trace;
use crate::replay::sweep::Sweep;
use crate::replay::watch::Watch;
use forebay_policy::Spec;
use std::sync::Arc;

/// Longer traces are sampled down to about this many references,
const QUICK: f64 = 1e6;
/// but not to caches of fewer pages.
const FEWEST: f64 = 100.0;

/// The policy with the most hits in a cache of this many pages, the first among equals, and LRU's there.
pub(super) fn best(trace: &Trace, pages: u32, threads: usize, monitor: &dyn Monitor) -> Best {
    let rate = (QUICK / trace.len() as f64).max(FEWEST / f64::from(pages)).min(1.0);
    let sample = (rate < 1.0).then(|| sample(trace, rate));
    let replayed = sample.as_ref().unwrap_or(trace);
    let sees = |spec: &Spec| {
        let uses = spec.info.uses;
        !(uses.place && replayed.places.is_empty() || uses.request && replayed.requests.first.is_empty())
    };
    let specs = Spec::all().into_iter().filter(|spec| !spec.needs_future() && sees(spec)).collect();
    let size = ((f64::from(pages) * rate).round() as u32).max(1);
    let sweep = Sweep { specs, sizes: vec![size], warmup: 0, threads };
    let work = sweep.work(&Watch::default(), replayed);
    let checking = monitor.begin(format!("checking policies on {}", trace.name), Some(work), false);
    let outcomes = sweep.run(replayed, &|more| {
        checking.add(more);
        true
    });
    let hit_ratio =
        |policy: &str| outcomes.iter().find(|of| of.policy == policy).map_or(0.0, |of| of.total.hit_ratio());
    let best = super::advice::best_on_line(outcomes.iter()).expect("some policies need no places");
    Best {
        policy: best.policy.clone(),
        pages,
        hit_ratio: best.total.hit_ratio(),
        lru_hit_ratio: hit_ratio("lru"),
        sample: rate,
    }
}

/// All references to a share of the pages, without places: neighbours are not sampled together.
fn sample(trace: &Trace, rate: f64) -> Trace {
    let mut numbers = vec![None; trace.pages as usize];
    let mut pages = 0;
    let mut number = |page: u32| {
        let taken = (mix(page.into()) as f64) < rate * 2f64.powi(64);
        taken.then(|| {
            *numbers[page as usize].get_or_insert_with(|| {
                pages += 1;
                pages - 1
            })
        })
    };
    let references: Vec<u32> = trace.references.iter().filter_map(|&page| number(page)).collect();
    Trace {
        name: trace.name.clone(),
        references: Arc::new(references),
        pages,
        places: Places::default(),
        requests: Requests::default(),
        names: trace.names.clone(),
        circumstances: None,
        ..*trace
    }
}
