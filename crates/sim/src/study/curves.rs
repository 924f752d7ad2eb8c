//! Miss-ratio curves: what policies miss, as a function of the cache's size.

use super::bends;
use super::comparison::{read, replay};
use super::error::{Error, Question, Stop};
use super::figures::Point;
use super::monitor::Monitor;
use super::recorded::warn_of_readahead;
use super::sampling::{Sampled, warn_of_few};
use crate::curve::{self, Curve, FixedSize, Sampling, Spacing};
use crate::input::sample::Sample;
use crate::input::trace::{Dimensions, Trace};
use crate::replay::sweep::Sweep;
use crate::replay::watch::Watch;
use crate::size::Size;
use forebay_policy::{Lru, Policy, Spec};
use forebay_trace::{Paging, Reader};
use std::cell::Cell;
use std::collections::BTreeMap;

/// What is asked of every trace.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The policies.
    pub specs: Vec<Spec>,
    /// These sizes,
    pub sizes: Vec<Size>,
    /// or, if they are none, this many up to the footprint,
    pub points: u32,
    /// spaced so,
    pub spacing: Spacing,
    /// and this many more at most where a curve bends.
    pub more: u32,
    /// Estimate the curves from a part of the pages.
    pub part: Option<Part>,
    /// Also make the exact curves, and tell how far the estimated ones are off.
    pub errors: bool,
    /// The bytes of a page; by default the trace's own.
    pub page_size: Option<u64>,
    /// Threads to run on; 0: one for each core.
    pub threads: usize,
}

/// A part of a trace's pages.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A share.
    Share(Sample),
    /// At most this many, however large the trace; for LRU's curve alone.
    Pages(u32),
    /// All of what is read: it is a sample already, of this rate, of a trace of so many references.
    Taken(Sampling),
}

/// The curves of one trace.
#[derive(Debug)]
pub struct Curves {
    /// The whole trace; of a sampled one the footprint is an estimate.
    pub trace: Dimensions,
    /// The sizes in pages, rising, each once.
    pub sizes: Vec<u32>,
    /// The share of the pages, and how many they were, if sampled.
    pub sample: Option<(f64, u32)>,
    /// One for each policy.
    pub lines: Vec<Line>,
    /// Where it was stopped.
    pub stopped: Option<Stop>,
}

/// A policy's curve.
#[derive(Debug)]
pub struct Line {
    /// The policy, as the user named it.
    pub policy: String,
    /// Whether the policy knows the future.
    pub off_line: bool,
    /// Its hits by size.
    pub curve: Curve,
    /// The standard error that the sample itself tells of, averaged over the sizes.
    pub spread: Option<f64>,
    /// The mean absolute error of the miss ratio.
    pub error: Option<f64>,
}

/// Opens the trace, once or twice.
type Open<'a> = &'a dyn Fn() -> forebay_trace::Result<Box<dyn Reader>>;

impl Asked {
    /// Checks what no trace can answer.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn check(&self, traces: &[String]) -> Result<(), Question> {
        if self.errors && self.part.is_none() {
            return Err(Question::ErrorsOfExact);
        }
        if self.errors && traces.iter().any(|name| name == "-") {
            return Err(Question::ErrorsOfInput);
        }
        match self.part {
            Some(Part::Pages(_)) if self.specs.iter().any(|spec| !is_lru(spec)) => Err(Question::FixedSizeBeyondLru),
            _ => Ok(()),
        }
    }

    /// The curves of the trace called `name`.
    ///
    /// # Errors
    /// What is wrong with the trace, or with the question for this trace; or that it was stopped.
    pub fn of(&self, name: &str, open: Open<'_>, monitor: &dyn Monitor) -> Result<Curves, Error> {
        let warned = Cell::new(false);
        let open: Open<'_> = &|| {
            let reader = open()?;
            if !warned.replace(true) {
                warn_of_readahead(name, reader.circumstances(), "curves", monitor);
            }
            Ok(reader)
        };
        let mut curves = match self.part {
            Some(Part::Share(sample)) => {
                let keep = Sweep::keep(&self.specs);
                let sampled = Sampled::load(name, open()?.as_mut(), self.page_size, keep, sample, monitor)?;
                self.sampled(&sampled, monitor)?
            }
            Some(Part::Taken(sampling)) => {
                let part = read(name, open()?.as_mut(), self.page_size, Sweep::keep(&self.specs), monitor)?;
                self.sampled(&Sampled::of(part, sampling), monitor)?
            }
            Some(Part::Pages(most)) => self.of_fixed_size(name, open, most, monitor)?,
            None => self.exact(name, open, None, monitor)?,
        };
        if self.errors && curves.stopped.is_none() {
            let exact = self.exact(name, open, Some(&curves.sizes), monitor)?;
            curves.stopped = exact.stopped;
            for (line, exact) in curves.lines.iter_mut().zip(exact.lines) {
                line.error = Some(line.curve.mean_absolute_error(&exact.curve, &curves.sizes));
            }
        }
        Ok(curves)
    }

    /// The exact curves, at these sizes or those that are asked.
    fn exact(&self, name: &str, open: Open<'_>, sizes: Option<&[u32]>, monitor: &dyn Monitor) -> Result<Curves, Error> {
        let trace = read(name, open()?.as_mut(), self.page_size, Sweep::keep(&self.specs), monitor)?;
        let references = trace.len() as f64;
        let mut runs = Runs::new(&trace, self.specs.clone(), self.threads, monitor);
        let mut ratios = |sizes: &[u32]| {
            let ratios =
                |hits: &BTreeMap<u32, u64>| sizes.iter().map(|size| 1.0 - hits[size] as f64 / references).collect();
            Ok(runs.at(sizes)?.map(|all| all.iter().map(ratios).collect()))
        };
        let sizes = match sizes {
            Some(sizes) => bends::followed(sizes.to_vec(), 0, &mut ratios)?,
            None => self.followed(self.sizes(&trace.dimensions(), |_| Ok(()))?, &mut ratios)?,
        };
        let Runs { specs, hits, stopped, .. } = runs;
        let line = |(spec, hits): (Spec, BTreeMap<u32, u64>)| {
            let steps = hits.into_iter().map(|(size, hits)| (size, hits as f64)).collect();
            let curve = Curve::through(references, steps);
            Line { policy: spec.label.clone(), off_line: spec.needs_future(), curve, spread: None, error: None }
        };
        let lines = specs.into_iter().zip(hits).map(line).collect();
        Ok(Curves { trace: trace.dimensions(), sizes, sample: None, lines, stopped })
    }

    /// The curves estimated from a share of the pages.
    fn sampled(&self, sampled: &Sampled, monitor: &dyn Monitor) -> Result<Curves, Error> {
        let (part, sampling) = (&sampled.trace, sampled.sampling);
        let (of_lru, replayed): (Vec<Spec>, Vec<Spec>) = self.specs.iter().cloned().partition(is_lru);
        let shards = (!of_lru.is_empty()).then(|| curve::shards(part, sampling, &|_| true).expect("nothing stops it"));
        let mut runs = Runs::new(part, replayed, self.threads, monitor);
        let miniatures =
            |sizes: &[u32]| sizes.iter().map(|&size| sampled.miniature(size)).collect::<Result<Vec<_>, _>>();
        let estimated = |sizes: &[u32], miniatures: &[u32], hits: &BTreeMap<u32, u64>| {
            let hits = miniatures.iter().map(|miniature| hits[miniature]);
            curve::miniature(part, sampling, &sizes.iter().copied().zip(hits).collect::<Vec<_>>())
        };
        let asked = self.sizes(&sampled.whole, |size| sampled.miniature(size).map(drop))?;
        let sizes = self.followed(asked, &mut |sizes| {
            let miniatures = miniatures(sizes)?;
            let Some(hits) = runs.at(&miniatures)? else { return Ok(None) };
            let curves = hits.iter().map(|hits| estimated(sizes, &miniatures, hits)).chain(shards.clone());
            Ok(Some(curves.map(|curve| sizes.iter().map(|&size| curve.miss_ratio(size)).collect()).collect()))
        })?;
        let Runs { specs: replayed, hits, stopped, .. } = runs;
        let miniatures = miniatures(&sizes)?;
        let line = |spec: &Spec| {
            let lru = is_lru(spec);
            let curve = match replayed.iter().position(|replayed| replayed.label == spec.label) {
                Some(index) => estimated(&sizes, &miniatures, &hits[index]),
                None => shards.clone().filter(|_| lru)?,
            };
            let spread = lru.then(|| curve::lru_spread(part, sampling, &sizes));
            Some(Line { policy: spec.label.clone(), off_line: spec.needs_future(), curve, spread, error: None })
        };
        let lines = self.specs.iter().filter_map(line).collect();
        let sample = Some((sampling.rate, part.pages));
        Ok(Curves { trace: sampled.whole.clone(), sizes, sample, lines, stopped })
    }

    /// These sizes, and more where it is asked and a curve bends.
    fn followed(&self, sizes: Vec<u32>, ratios: bends::At<'_>) -> Result<Vec<u32>, Error> {
        let more = if self.sizes.is_empty() { self.more as usize } else { 0 };
        bends::followed(sizes, more, ratios)
    }

    /// LRU's curve, estimated from this many pages.
    fn of_fixed_size(&self, name: &str, open: Open<'_>, most: u32, monitor: &dyn Monitor) -> Result<Curves, Error> {
        let mut reader = open()?;
        let paging = Paging::of(reader.as_ref(), self.page_size).map_err(Question::PageSize)?;
        let reading = monitor.begin(format!("sampling {name}"), None, false);
        let mut sample = FixedSize::new(most);
        sample.read(name, reader.as_mut(), self.page_size, &mut |done| reading.set(done, None))?;
        drop(reading);
        let (references, page_size, page_size_origin) = (sample.whole(), paging.page_size(), paging.origin());
        if references == 0 {
            return Err(forebay_trace::Error::new(name, "has no references: there is nothing to sample").into());
        }
        let trace =
            Dimensions { name: name.to_owned(), references, pages: sample.pages().max(1), page_size, page_size_origin };
        warn_of_few(name, sample.sampled_pages(), sample.rate(), "--sample-pages", monitor);
        let curve = sample.curve();
        let sizes = self.followed(self.sizes(&trace, |_| Ok(()))?, &mut |sizes| {
            Ok(Some(vec![sizes.iter().map(|&size| curve.miss_ratio(size)).collect()]))
        })?;
        let line = |spec: &Spec| {
            let (policy, off_line) = (spec.label.clone(), spec.needs_future());
            Line { policy, off_line, curve: curve.clone(), spread: None, error: None }
        };
        let lines = self.specs.iter().map(line).collect();
        Ok(Curves { trace, sizes, sample: Some((sample.rate(), sample.sampled_pages())), lines, stopped: None })
    }

    /// The sizes in pages, rising, each once: those asked, or points of those for which there is an answer.
    fn sizes(&self, trace: &Dimensions, answers: impl Fn(u32) -> Result<(), Error>) -> Result<Vec<u32>, Error> {
        let mut sizes = Vec::new();
        for size in &self.sizes {
            let pages = size.pages(trace.page_size, trace.pages)?;
            answers(pages)?;
            sizes.push(pages);
        }
        if self.sizes.is_empty() {
            sizes = self.spacing.sizes(self.points, trace.pages);
            sizes.retain(|&size| answers(size).is_ok());
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(sizes)
    }
}

/// Policies being replayed at ever more sizes.
struct Runs<'a> {
    trace: &'a Trace,
    /// Those that are done at all sizes.
    specs: Vec<Spec>,
    /// By policy, then by size.
    hits: Vec<BTreeMap<u32, u64>>,
    threads: usize,
    monitor: &'a dyn Monitor,
    stopped: Option<Stop>,
}

impl<'a> Runs<'a> {
    fn new(trace: &'a Trace, specs: Vec<Spec>, threads: usize, monitor: &'a dyn Monitor) -> Self {
        Self { trace, specs, hits: Vec::new(), threads, monitor, stopped: None }
    }

    /// Replays at these sizes, and returns the hits by policy at all so far; none if it is stopped.
    fn at(&mut self, sizes: &[u32]) -> Result<Option<&[BTreeMap<u32, u64>]>, Error> {
        if self.stopped.is_some() {
            return Ok(None);
        }
        let first = self.hits.is_empty();
        let mut new: Vec<u32> = sizes.to_vec();
        new.dedup();
        let sweep = Sweep { specs: self.specs.clone(), sizes: new, warmup: 0, threads: self.threads };
        let (outcomes, stopped) = match replay(&sweep, &Watch::default(), self.trace, self.monitor) {
            Err(Error::Stopped(stop)) if !first => (Vec::new(), Some(stop)),
            done => done?,
        };
        self.stopped = stopped;
        if first {
            self.specs.retain(|spec| outcomes.iter().any(|outcome| outcome.policy == spec.label));
            self.hits = vec![BTreeMap::new(); self.specs.len()];
        } else if self.stopped.is_some() {
            return Ok(None);
        }
        for (hits, outcomes) in self.hits.iter_mut().zip(outcomes.chunks(sweep.sizes.len())) {
            hits.extend(outcomes.iter().map(|outcome| (outcome.pages, outcome.total.hits)));
        }
        Ok(Some(&self.hits))
    }
}

/// Whether the one pass of LRU's stack, and so SHARDS, is for this policy.
fn is_lru(spec: &Spec) -> bool {
    spec.info.name == Lru::INFO.name
}

impl Curves {
    /// What a policy's cache of this many pages makes of the trace.
    pub fn point(&self, line: &Line, pages: u32) -> Point {
        let (references, miss_ratio) = (self.trace.references, line.curve.miss_ratio(pages));
        Point { pages, references, misses: (miss_ratio * references as f64).round() as u64, miss_ratio }
    }

    /// All points, line by line.
    pub fn points(&self) -> impl Iterator<Item = (&Line, Point)> {
        let of = move |line| self.sizes.iter().map(move |&pages| (line, self.point(line, pages)));
        self.lines.iter().flat_map(of)
    }
}
