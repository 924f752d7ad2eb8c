//! Miss-ratio curves: what policies miss, as a function of the cache's size.

use super::comparison::read;
use super::error::{Error, Question, Stop};
use super::figures::Point;
use super::monitor::Monitor;
use super::sampling::Sampled;
use crate::curve::{self, Curve, FixedSize, Spacing};
use crate::input::sample::Sample;
use crate::input::trace::{Dimensions, Trace};
use crate::replay::outcome::RunOutcome;
use crate::replay::sweep::Sweep;
use crate::replay::watch::Watch;
use crate::size::Size;
use forebay_policy::{Lru, Policy, Spec};
use forebay_trace::{Paging, Reader};

/// What is asked of every trace.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The policies.
    pub specs: Vec<Spec>,
    /// These sizes,
    pub sizes: Vec<Size>,
    /// or, if they are none, so many up to the footprint,
    pub points: u32,
    /// spaced so.
    pub spacing: Spacing,
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
    /// At most so many, however large the trace; for LRU's curve alone.
    Pages(u32),
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
        let mut curves = match self.part {
            Some(Part::Share(sample)) => self.sampled(name, open, sample, monitor)?,
            Some(Part::Pages(most)) => self.of_fixed_size(name, open, most, monitor)?,
            None => self.exact(name, open, None, monitor)?,
        };
        if self.errors {
            let exact = self.exact(name, open, Some(&curves.sizes), monitor)?;
            for (line, exact) in curves.lines.iter_mut().zip(exact.lines) {
                line.error = Some(line.curve.mean_absolute_error(&exact.curve, &curves.sizes));
            }
        }
        Ok(curves)
    }

    /// The exact curves, at these sizes or those that are asked.
    fn exact(&self, name: &str, open: Open<'_>, sizes: Option<&[u32]>, monitor: &dyn Monitor) -> Result<Curves, Error> {
        let trace = read(name, open()?.as_mut(), self.page_size, Sweep::keep(&self.specs), monitor)?;
        let sizes = match sizes {
            Some(sizes) => sizes.to_vec(),
            None => self.sizes(&trace.dimensions(), |_| Ok(()))?,
        };
        let outcomes = self.replay(&trace, self.specs.clone(), sizes.clone(), monitor)?;
        let line = |outcomes: &[RunOutcome]| {
            let steps = outcomes.iter().map(|outcome| (outcome.pages, outcome.total.hits as f64)).collect();
            let (policy, off_line) = (outcomes[0].policy.clone(), outcomes[0].off_line);
            Line { policy, off_line, curve: Curve::through(trace.len() as f64, steps), spread: None, error: None }
        };
        let lines = outcomes.chunks(sizes.len()).map(line).collect();
        Ok(Curves { trace: trace.dimensions(), sizes, sample: None, lines })
    }

    /// The curves estimated from a share of the pages.
    fn sampled(&self, name: &str, open: Open<'_>, sample: Sample, monitor: &dyn Monitor) -> Result<Curves, Error> {
        let keep = Sweep::keep(&self.specs);
        let sampled = Sampled::load(name, open()?.as_mut(), self.page_size, keep, sample, monitor)?;
        let sizes = self.sizes(&sampled.whole, |size| sampled.miniature(size).map(drop))?;
        let miniatures = sizes.iter().map(|&size| sampled.miniature(size)).collect::<Result<_, _>>()?;
        let Sampled { trace: part, sampling, whole } = sampled;
        let replayed = self.specs.iter().filter(|spec| !is_lru(spec)).cloned().collect();
        let outcomes = self.replay(&part, replayed, miniatures, monitor)?;
        let mut replayed = outcomes.chunks(sizes.len());
        let line = |spec: &Spec| {
            let lru = is_lru(spec);
            let curve = if lru {
                curve::shards(&part, sampling, &|_| true).expect("nothing stops it")
            } else {
                let hits = replayed.next().into_iter().flatten().map(|outcome| outcome.total.hits);
                curve::miniature(&part, sampling, &sizes.iter().copied().zip(hits).collect::<Vec<_>>())
            };
            let spread = lru.then(|| curve::lru_spread(&part, sampling, &sizes));
            Line { policy: spec.label.clone(), off_line: spec.needs_future(), curve, spread, error: None }
        };
        let lines = self.specs.iter().map(line).collect();
        Ok(Curves { trace: whole, sizes, sample: Some((sample.rate, part.pages)), lines })
    }

    /// LRU's curve, estimated from so many pages.
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
        let sizes = self.sizes(&trace, |_| Ok(()))?;
        let line = |spec: &Spec| {
            let (policy, off_line) = (spec.label.clone(), spec.needs_future());
            Line { policy, off_line, curve: sample.curve(), spread: None, error: None }
        };
        let lines = self.specs.iter().map(line).collect();
        Ok(Curves { trace, sizes, sample: Some((sample.rate(), sample.sampled_pages())), lines })
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

    fn replay(
        &self,
        trace: &Trace,
        specs: Vec<Spec>,
        sizes: Vec<u32>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<RunOutcome>, Error> {
        let all = specs.len() * sizes.len();
        let sweep = Sweep { specs, sizes, warmup: 0, threads: self.threads };
        let work = sweep.work(&Watch::default(), trace);
        let replaying = monitor.begin(format!("replaying {}", trace.name), Some(work), true);
        let outcomes = sweep.run(trace, &|more| replaying.add(more));
        let done = outcomes.len();
        let stop = || Error::Stopped(Stop::Points(done, all, trace.name.clone()));
        if done == all { Ok(outcomes) } else { Err(stop()) }
    }
}

/// Whether the one pass of LRU's stack, and so SHARDS, is for this policy.
fn is_lru(spec: &Spec) -> bool {
    spec.info.name == Lru::INFO.name
}

impl Curves {
    /// What a policy's cache of so many pages makes of the trace.
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
