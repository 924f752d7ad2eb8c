//! What a trace is like, in the figures that the papers draw: a file for each.
//!
//! An [`Analysis`] holds plain lists of points, and serialises under stable names, which `docs/analysis.md` explains. Time is
//! virtual: a unit is a reference. A distance without further word is the temporal distance, from one reference of a page to its
//! next.

mod classes;
pub(crate) mod distances;
mod footprint;
pub(crate) mod frequency;
mod lengths;
mod owners;
mod replays;
mod space_time;

pub use classes::{BlockRun, Classes, Runs};
pub use distances::{DistancePoint, TemporalDistances, WorkingSetPoint};
pub use footprint::FootprintPoint;
pub use frequency::FrequencyPoint;
pub use lengths::{LengthPoint, Lengths, count_and_mean, no_longer};
pub use owners::{OwnerHits, OwnerRun, Owners};
pub use replays::{DistanceHits, HitsByDistance};
pub use space_time::SpaceTime;

use crate::input::ingest::Keep;
use crate::input::trace::{Dimensions, Trace};
use crate::replay::sweep::Sweep;
use distances::Gaps;
use forebay_policy::{Future, Spec};
use forebay_trace::Origin;
use rayon::prelude::*;
use replays::Replay;
use serde::Serialize;
use std::sync::Arc;

/// A part of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// Distinct pages, as they grow with the references.
    Footprint,
    /// The mean number of distinct pages in a window.
    WorkingSet,
    /// References by time and position.
    SpaceTime,
    /// References by temporal distance.
    TemporalDistance,
    /// Pages and references by frequency.
    Frequency,
    /// Sequential, looping and other references.
    Classes,
    /// Hits and misses of policies by temporal distance.
    HitsByDistance,
    /// Lengths of requests, before and after policies.
    RequestLength,
    /// Hits and misses by owner.
    Owners,
}

impl Section {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 9] = [
        Self::Footprint,
        Self::WorkingSet,
        Self::SpaceTime,
        Self::TemporalDistance,
        Self::Frequency,
        Self::Classes,
        Self::HitsByDistance,
        Self::RequestLength,
        Self::Owners,
    ];

    /// Its name, for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Footprint => "footprint",
            Self::WorkingSet => "working-set",
            Self::SpaceTime => "space-time",
            Self::TemporalDistance => "temporal-distance",
            Self::Frequency => "frequency",
            Self::Classes => "classes",
            Self::HitsByDistance => "hits-by-distance",
            Self::RequestLength => "request-length",
            Self::Owners => "owners",
        }
    }

    /// Whether it tells of policies.
    pub fn replays(self) -> bool {
        matches!(self, Self::HitsByDistance | Self::RequestLength | Self::Owners)
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The parts wanted.
    pub sections: Vec<Section>,
    /// The policies whose hits and misses are told.
    pub specs: Vec<Spec>,
    /// Their sizes in pages, each at least 1.
    pub sizes: Vec<u32>,
    /// How many columns (times) and rows (positions) the space–time graph has.
    pub grid: (u32, u32),
    /// Threads to run on; 0: one for each core.
    pub threads: usize,
}

/// What a trace is like; what was not asked is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// What the trace is called.
    pub trace: String,
    /// How many references there are.
    pub references: u64,
    /// How many distinct pages there are.
    pub footprint_pages: u32,
    /// The bytes of a page.
    pub page_size: u64,
    /// Where the page size comes from.
    #[serde(skip)]
    pub page_size_origin: Origin,
    /// Distinct pages, as they grow with the references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Vec<FootprintPoint>>,
    /// The mean number of distinct pages in a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Vec<WorkingSetPoint>>,
    /// References by time and position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_time: Option<SpaceTime>,
    /// References by temporal distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temporal_distance: Option<TemporalDistances>,
    /// Pages and references by frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Vec<FrequencyPoint>>,
    /// Sequential, looping and other references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Classes>,
    /// Hits and misses by temporal distance, for each policy at each size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits_by_distance: Option<Vec<HitsByDistance>>,
    /// Lengths of requests: the trace's own first, then what reaches the device after each policy at each size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_length: Option<Vec<Lengths>>,
    /// Hits and misses by owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owners: Option<Owners>,
    /// The policy with the most hits at the largest size asked, where loops are longer than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
}

/// The policy that hits most at a size, and what it hits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// The policy.
    pub policy: String,
    /// The cache's size.
    pub pages: u32,
    /// Its hits by references.
    pub hit_ratio: f64,
    /// Those of LRU.
    pub lru_hit_ratio: f64,
    /// The share of the pages from which both are estimated; 1: they are exact.
    pub sample: f64,
}

impl Asked {
    /// What a trace must keep to answer.
    pub fn keep(&self) -> Keep {
        let any = |sections: &[Section]| sections.iter().any(|&section| self.wants(section));
        let of_policies = if self.replays() { Sweep::keep(&self.specs) } else { Keep::default() };
        Keep {
            places: of_policies.places || any(&[Section::SpaceTime, Section::Classes, Section::RequestLength]),
            requests: of_policies.requests || any(&[Section::RequestLength, Section::Owners]),
        }
    }

    /// How many references are looked at, all passes together.
    pub fn work(&self, trace: &Trace) -> u64 {
        let runs = if self.replays() { self.specs.len() * self.sizes.len() } else { 0 };
        (runs + usize::from(self.classifies())) as u64 * trace.len() as u64
    }

    fn wants(&self, section: Section) -> bool {
        self.sections.contains(&section)
    }

    fn replays(&self) -> bool {
        self.sections.iter().any(|section| section.replays())
    }

    fn classifies(&self) -> bool {
        self.wants(Section::SpaceTime) || self.wants(Section::Classes)
    }
}

impl Analysis {
    /// Analyses a trace. `progress` is notified of each further number of references looked at, from any thread.
    ///
    /// # Panics
    /// If the trace lacks what [`Asked::keep`] says.
    pub fn of(trace: &Trace, asked: &Asked, progress: &(dyn Fn(u64) + Sync)) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(asked.threads).build().expect("threads can be started");
        pool.install(|| {
            let of_references = || Self::of_references(trace, asked, progress);
            let before = || asked.wants(Section::RequestLength).then(|| Lengths::before(trace));
            let replays = || Self::replays(trace, asked, progress);
            let ((mut analysis, before), replays) = rayon::join(|| rayon::join(of_references, before), replays);
            analysis.add(trace, asked, before, &replays);
            analysis
        })
    }

    /// How much there is of the trace.
    pub fn dimensions(&self) -> Dimensions {
        Dimensions {
            name: self.trace.clone(),
            references: self.references,
            pages: self.footprint_pages,
            page_size: self.page_size,
            page_size_origin: self.page_size_origin,
        }
    }

    /// Adds what the replays tell, and what the lengths were before them.
    fn add(&mut self, trace: &Trace, asked: &Asked, before: Option<Lengths>, replays: &[Replay]) {
        let wants = |section| asked.wants(section);
        let hits_by_distance = || replays.par_iter().map(|replay| HitsByDistance::of(trace, replay)).collect();
        self.hits_by_distance = wants(Section::HitsByDistance).then(hits_by_distance);
        let after = || replays.par_iter().map(|replay| Lengths::after(trace, replay)).collect::<Vec<_>>();
        self.request_length = before.map(|before| std::iter::once(before).chain(after()).collect());
        self.owners = wants(Section::Owners).then(|| Owners::of(trace, replays));
    }

    /// The parts that no policy has to do with.
    fn of_references(trace: &Trace, asked: &Asked, progress: &(dyn Fn(u64) + Sync)) -> Self {
        let wants = |section| asked.wants(section);
        let gaps =
            (wants(Section::WorkingSet) || wants(Section::TemporalDistance)).then(|| Gaps::of(&trace.references));
        let mut grid = wants(Section::SpaceTime).then(|| SpaceTime::new(trace, asked.grid));
        let classes = wants(Section::Classes).then(|| Classes::of(trace, grid.as_mut(), progress));
        if let (None, Some(grid)) = (&classes, &mut grid) {
            grid.fill(trace, progress);
        }
        let gaps = gaps.as_ref();
        Self {
            trace: trace.name.clone(),
            references: trace.len() as u64,
            footprint_pages: trace.pages,
            page_size: trace.page_size,
            page_size_origin: trace.page_size_origin,
            footprint: wants(Section::Footprint).then(|| footprint::growth(&trace.references)),
            working_set: gaps.filter(|_| wants(Section::WorkingSet)).map(Gaps::working_set),
            space_time: grid,
            temporal_distance: gaps.filter(|_| wants(Section::TemporalDistance)).map(Gaps::distances),
            frequency: wants(Section::Frequency).then(|| frequency::points(trace)),
            classes,
            hits_by_distance: None,
            request_length: None,
            owners: None,
            best: None,
        }
    }

    /// The misses of each policy at each size.
    fn replays(trace: &Trace, asked: &Asked, progress: &(dyn Fn(u64) + Sync)) -> Vec<Replay> {
        if !asked.replays() {
            return Vec::new();
        }
        let future = asked.specs.iter().any(Spec::needs_future);
        let future = future.then(|| Arc::new(Future::new(Arc::clone(&trace.references), trace.pages)));
        let runs: Vec<(&Spec, u32)> =
            asked.specs.iter().flat_map(|spec| asked.sizes.iter().map(move |&size| (spec, size))).collect();
        let one = |&(spec, size): &(&Spec, u32)| Replay::run(trace, spec, size, future.as_ref(), progress);
        runs.par_iter().with_max_len(1).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trace::{Input, Options};

    /// A trace of lines as each format has them.
    pub(super) fn trace(text: &str) -> Trace {
        let input = Input::from_bytes("test", Box::leak(text.to_owned().into_boxed_str()).as_bytes()).unwrap();
        let (_, mut reader) = forebay_trace::reader::read(input, &Options::default()).unwrap();
        Trace::load("test", reader.as_mut(), None, Keep { places: true, requests: true }, &mut |_| {}).unwrap()
    }

    fn asked(sections: &[Section]) -> Asked {
        let specs = ["lru", "ubm", "opt"].map(|name| Spec::parse(name).unwrap()).to_vec();
        Asked { sections: sections.to_vec(), specs, sizes: vec![2, 3], grid: (8, 4), threads: 1 }
    }

    #[test]
    fn what_is_not_asked_is_left_out_and_needs_nothing() {
        for section in Section::ALL {
            let asked = asked(&[section]);
            let reader =
                &mut forebay_trace::open("loop:pages=4,references=40".as_ref(), &Options::default()).unwrap().1;
            let trace = Trace::load("test", reader.as_mut(), None, asked.keep(), &mut |_| {}).unwrap();
            let value = toml::Table::try_from(Analysis::of(&trace, &asked, &|_| {})).unwrap();
            let names: Vec<&str> = value.keys().map(String::as_str).collect();
            let section = section.name().replace('-', "_");
            assert_eq!(names.len(), 5, "{section}: {names:?}");
            assert!(names.contains(&section.as_str()), "{section}: {names:?}");
        }
    }

    #[test]
    fn progress_adds_up_to_the_work() {
        let trace = trace("1\n2\n3\n1\n");
        let asked = asked(&Section::ALL);
        let done = std::sync::atomic::AtomicU64::new(0);
        Analysis::of(&trace, &asked, &|more| {
            done.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!((done.into_inner(), asked.work(&trace)), (7 * 4, 7 * 4));
    }
}
