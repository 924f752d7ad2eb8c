//! Hierarchies of caches over a trace.

use super::comparison::read;
use super::error::{Error, MOST_CACHES, ParseError, Question, Stop};
use super::monitor::Monitor;
use super::recorded::warn_of_readahead;
use crate::input::ingest::Keep;
use crate::input::trace::Dimensions;
use crate::levels::{Hierarchy, HierarchyOutcome, Level, Mode, Write};
use crate::replay::sweep::Sweep;
use crate::size::{Size, SizeError};
use crate::words::{counted, significant};
use forebay_basis::show_bytes;
use forebay_model::Model;
use forebay_model::presets::Named;
use forebay_policy::Spec;
use forebay_trace::Reader;
use rayon::prelude::*;
use std::collections::HashSet;
use std::str::FromStr;

/// What is asked of every trace.
#[derive(Debug)]
pub struct Asked {
    /// From the first level down, at least one; every combination of the alternatives is replayed.
    pub levels: Vec<Alternatives>,
    /// Who keeps a page that passes.
    pub mode: Mode,
    /// What becomes of writes, level by level, the last one holding for all below; at least one.
    pub writes: Vec<Write>,
    /// The device whose costs are told.
    pub device: Option<Named>,
    /// Whether to analyze the references that each level gets.
    pub analyze: bool,
    /// The bytes of a page; by default the trace's own.
    pub page_size: Option<u64>,
    /// Threads to run on; 0: one for each core.
    pub threads: usize,
}

/// Caches that are compared at one level.
#[derive(Clone, Debug)]
pub struct Alternatives(pub Vec<Caches>);

/// The caches of a level.
#[derive(Clone, Debug)]
pub struct Caches {
    /// Their policy.
    pub spec: Spec,
    /// The size of each.
    pub size: Size,
    /// How many there are.
    pub caches: u32,
}

impl FromStr for Alternatives {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        text.split(',').map(|text| text.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Caches {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (policy, size) = text.rsplit_once(':').ok_or_else(|| ParseError::Level(text.to_owned()))?;
        let spec = Spec::parse(policy).map_err(ParseError::Policy)?;
        if spec.needs_future() {
            return Err(ParseError::LevelForeseen(policy.to_owned()));
        }
        let (size, caches) = match size.split_once('*') {
            None => (size, 1),
            Some((size, caches)) => {
                let caches = caches.trim().parse().ok().filter(|caches| (1..=MOST_CACHES).contains(caches));
                (size, caches.ok_or_else(|| ParseError::Caches(text.to_owned()))?)
            }
        };
        Ok(Self { spec, size: size.parse()?, caches })
    }
}

impl FromStr for Write {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim().split_once(':') {
            None if text.trim() == "through" => Ok(Self::Through),
            None if text.trim() == "back" => Ok(Self::Back { flush: None }),
            Some(("back", references)) => {
                let references = references.parse().ok().filter(|&references: &u64| references > 0);
                Ok(Self::Back { flush: Some(references.ok_or_else(|| ParseError::Interval(text.to_owned()))?) })
            }
            _ => Err(ParseError::Write(text.to_owned())),
        }
    }
}

/// What came of one trace.
#[derive(Debug)]
pub struct Levels {
    /// The trace.
    pub trace: Dimensions,
    /// The device whose costs are told.
    pub device: Option<Named>,
    /// How many owners made the references.
    pub owners: usize,
    /// Those that were replayed to the end, with what came of them.
    pub runs: Vec<(Hierarchy, HierarchyOutcome)>,
    /// Where it was stopped.
    pub stopped: Option<Stop>,
}

impl Asked {
    /// Checks what no trace can answer.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn check(&self) -> Result<(), Question> {
        if self.levels[1..].iter().flat_map(|level| &level.0).any(|asked| asked.caches > 1) {
            return Err(Question::CachesBelow);
        }
        let (writes, levels) = (self.writes.len(), self.levels.len());
        if writes > levels { Err(Question::WritesBeyondLevels(writes, levels)) } else { Ok(()) }
    }

    /// Replays the trace called `name`.
    ///
    /// # Errors
    /// What is wrong with the trace, or with the question for this trace.
    pub fn of(&self, name: &str, reader: &mut dyn Reader, monitor: &dyn Monitor) -> Result<Levels, Error> {
        let trace = read(name, reader, self.page_size, self.keep(), monitor)?;
        warn_of_readahead(name, trace.circumstances.as_ref(), "levels", monitor);
        let hierarchies = self.hierarchies(trace.page_size, trace.pages)?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build().map_err(Error::Threads)?;
        let all = hierarchies.len();
        let replaying = monitor.begin(format!("replaying {name}"), Some(all as u64 * trace.len() as u64), true);
        let progress = |more| replaying.add(more);
        let one = |hierarchy: Hierarchy| hierarchy.run(&trace, &progress).map(|outcome| (hierarchy, outcome));
        let runs: Vec<_> = pool.install(|| hierarchies.into_par_iter().with_max_len(1).filter_map(one).collect());
        let done = runs.len();
        let stop = || Stop::Runs(done, all, name.to_owned());
        let owners = trace.requests.owner.iter().collect::<HashSet<_>>().len();
        let stopped = (done < all).then(stop);
        Ok(Levels { trace: trace.dimensions(), device: self.device.clone(), owners, runs, stopped })
    }

    /// Every combination of the alternatives, for a trace with pages of that size and this many of them.
    fn hierarchies(&self, page_size: u64, footprint: u32) -> Result<Vec<Hierarchy>, Error> {
        let mut combinations: Vec<Vec<Level>> = vec![Vec::new()];
        for (index, alternatives) in self.levels.iter().enumerate() {
            let write = *self.writes.get(index).or(self.writes.last()).expect("there is a way to write");
            let levels = alternatives.0.iter().map(|asked| {
                let pages = asked.size.pages(page_size, footprint)?;
                Ok(Level { spec: asked.spec.clone(), pages, caches: asked.caches, write })
            });
            let levels: Vec<Level> = levels.collect::<Result<_, SizeError>>()?;
            let with =
                |above: Vec<Level>| levels.iter().map(move |level| [above.clone(), vec![level.clone()]].concat());
            combinations = combinations.into_iter().flat_map(with).collect();
        }
        let device = self.device.as_ref().map(|device| Model::clone(&device.model));
        let hierarchy = |levels| Hierarchy { levels, mode: self.mode, device: device.clone(), analyze: self.analyze };
        Ok(combinations.into_iter().map(hierarchy).collect())
    }

    fn keep(&self) -> Keep {
        let specs: Vec<Spec> = self.levels.iter().flat_map(|level| &level.0).map(|asked| asked.spec.clone()).collect();
        Keep { places: self.device.is_some() || Sweep::keep(&specs).places, requests: true }
    }
}

impl Levels {
    /// Which combination to take, if there are several: the one whose storage has the least to do.
    pub fn advice(&self) -> Option<String> {
        let work = |of: &(Hierarchy, HierarchyOutcome)| match of.1.device {
            Some(cost) => cost.device_ms,
            None => (of.1.storage_reads + of.1.storage_writes) as f64,
        };
        let mut ranked: Vec<&(Hierarchy, HierarchyOutcome)> = self.runs.iter().collect();
        ranked.sort_by(|one, other| work(one).total_cmp(&work(other)));
        let [best, second, ..] = ranked[..] else { return None };
        let named = |of: &(Hierarchy, HierarchyOutcome)| {
            let level = |level: &Level| format!("{} with {}", level.spec.label, self.trace.bytes_in_words(level.pages));
            of.0.levels.iter().map(level).collect::<Vec<_>>().join(" above ")
        };
        let outcome = &best.1;
        let does = match (&self.device, outcome.device) {
            (Some(device), Some(cost)) => {
                format!("keeps {} at work for {} s", device.name, significant(cost.device_ms / 1e3))
            }
            _ => format!(
                "leaves {} and {} to the storage",
                counted(outcome.storage_reads, "read"),
                counted(outcome.storage_writes, "write")
            ),
        };
        let less = 100.0 * (1.0 - work(best) / work(second).max(f64::MIN_POSITIVE));
        let than = if less < 0.05 { "as much as" } else { &format!("{} % less than", significant(less)) };
        let memory = |of: &(Hierarchy, HierarchyOutcome)| -> u64 {
            of.0.levels.iter().map(|level| self.trace.bytes(level.pages) * u64::from(level.caches)).sum()
        };
        let more = match memory(best).checked_sub(memory(second)) {
            Some(more) if more > 0 => format!(", which has {} less memory", show_bytes(more)),
            _ => String::new(),
        };
        Some(format!("Take {}: it {does}, {than} the runner-up, {}{more}.", named(best), named(second)))
    }

    /// Whether any level got hints.
    pub fn tells_hints(&self) -> bool {
        self.runs.iter().flat_map(|(_, outcome)| &outcome.levels).any(|passed| passed.hints_received > 0)
    }
}
