//! Policies × sizes over a trace.

pub use super::asked::{Asked, FirstLevel, USUAL_SIZES, Warmup};
use super::error::{Error, Question, Stop};
use super::kernel::BesideKernel;
use super::monitor::{Monitor, UntilStopped};
use super::reach::Reached;
use super::sampling::Sampled;
use crate::input::ingest::{Keep, LoadTimes};
use crate::input::sample::Sample;
use crate::input::trace::{Dimensions, Trace};
use crate::readahead::Readahead;
use crate::replay::ends::Ends;
use crate::replay::misses::behind;
use crate::replay::outcome::{Counts, PartCounts, RunOutcome};
use crate::replay::stream::Streamed;
use crate::replay::sweep::Sweep;
use crate::replay::watch::{By, Watch};
use crate::size::Size;
use crate::words::process;
use forebay_model::Model;
use forebay_model::presets::Named;
use forebay_policy::Spec;
use forebay_policy::managers::Rules;
use forebay_trace::{Circumstances, Paging, Reader};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What came of one trace.
#[derive(Debug)]
pub struct Comparison {
    /// The whole trace; of a sampled one the footprint is an estimate.
    pub trace: Dimensions,
    /// References at the start that are not counted.
    pub warmup: u64,
    /// The sizes in pages, in rising order, each once, with what the user wrote.
    pub sizes: Vec<(u32, Size)>,
    /// Whether the last size is the most that there may be.
    pub at_most: bool,
    /// The device whose costs are told.
    pub device: Option<Named>,
    /// The share of the pages from which it is estimated, and how many they were, if it is.
    pub sample: Option<(f64, u32)>,
    /// What was read ahead.
    pub readahead: Readahead,
    /// How the trace was recorded, where it says so.
    pub recorded: Option<Circumstances>,
    /// The bytes of the program's own blocks, where the pages are smaller and nobody asked for these.
    pub larger_blocks: Option<u64>,
    /// Policies that were asked and not run: they know the future, and cannot be run with readahead.
    pub left_out: Vec<String>,
    /// By policy, then by size.
    pub outcomes: Vec<RunOutcome>,
    /// What the kernel's own page cache would make of it, if that was asked or the trace is a front end's.
    pub beside_kernel: Option<BesideKernel>,
    /// The least memory that hits as much as was asked, if that was.
    pub reached: Option<Reached>,
    /// What the trace costs with next to no cache and with a cache of everything, if sizes are compared and hits alone do not tell.
    pub ends: Option<Ends>,
    /// What hits and misses are split by, if they are.
    pub by: Option<By>,
    /// The names of these owners or files by number.
    pub parts: Vec<String>,
    /// Where it was stopped.
    pub stopped: Option<Stop>,
    /// Where the time went, unless it was sampled.
    pub times: Option<Times>,
}

/// Where the time of a comparison went.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Reading and numbering.
    pub load: LoadTimes,
    /// By the clock: of the replay, or of all if the trace was streamed.
    pub elapsed: Duration,
    /// Whether the trace was replayed while it was read.
    pub streamed: bool,
}

impl Asked {
    /// Checks what no trace can answer.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn check(&self) -> Result<(), Question> {
        let by_managers =
            |spec: &Spec| Rules::are_for(spec) && self.managers.as_ref().is_some_and(|rules| rules.need_future());
        let foreseen = match self.specs.iter().find(|spec| by_managers(spec)) {
            None if self.specs.iter().all(Spec::needs_future) => self.specs.first(),
            managed => managed,
        };
        let foreseen = foreseen.filter(|_| self.reads_ahead());
        foreseen.map_or(Ok(()), |spec| Err(Question::ReadaheadForeseen(spec.label.clone())))
    }

    pub(super) fn reads_ahead(&self) -> bool {
        self.readahead.as_ref().is_some_and(|rule| !rule.is_none())
    }

    /// Compares over the trace called `name`.
    ///
    /// # Errors
    /// What is wrong with the trace, or with the question for this trace.
    pub fn of(&self, name: &str, reader: &mut dyn Reader, monitor: &dyn Monitor) -> Result<Comparison, Error> {
        let recorded = reader.circumstances().cloned();
        if self.page_size.is_none() && reader.holds_objects() {
            monitor.warn(&format!(
                "{name}: the sizes of its objects are not used: caches hold as many objects, however large they are"
            ));
        }
        let larger_blocks = reader.larger_blocks().filter(|_| self.page_size.is_none());
        let (asked, left_out) = self.of_recorded(recorded.as_ref(), monitor)?;
        let comparison = match (asked.sample, asked.streams()) {
            (Some(sample), _) => asked.estimate(name, reader, sample, monitor),
            (None, Some(warmup)) => asked.stream(name, reader, warmup, monitor),
            (None, None) => asked.load(name, reader, monitor),
        };
        Ok(Comparison { recorded, larger_blocks, left_out, ..comparison? })
    }

    /// The warm-up, if the trace need not be held to answer: nothing that is asked depends on references to come.
    fn streams(&self) -> Option<u64> {
        let Warmup::References(warmup) = self.warmup else { return None };
        let known = self.reach.is_none() && self.sizes.iter().all(|size| !matches!(size, Size::Percent(_)));
        let alone = self.behind.is_none()
            && self.by().is_none()
            && self.states == 0
            && !self.reads_ahead()
            && self.kernel != Some(true);
        (known && alone && Sweep::can_stream(&self.specs)).then_some(warmup)
    }

    fn sizes(&self, page_size: u64, footprint: u32) -> Result<Vec<(u32, Size)>, Error> {
        let mut sizes = in_pages(&self.sizes, page_size, footprint)?;
        if let Some(most) = self.at_most {
            let pages = most.pages(page_size, footprint)?;
            sizes.retain(|&(of, _)| of < pages);
            sizes.push((pages, most));
        }
        Ok(sizes)
    }

    /// What hits and misses are split by: under managers by owner, since each owner's is another.
    fn by(&self) -> Option<By> {
        self.by.or(self.managers.is_some().then_some(By::Owner))
    }

    pub(super) fn watch(&self) -> Watch {
        Watch {
            device: self.device.as_ref().map(|device| Model::clone(&device.model)),
            think_ms: self.think_ms,
            readahead: self.readahead.clone().unwrap_or_default(),
            distances: self.by_distance,
            by: self.by(),
            states: self.states,
            epochs: self.epochs,
            ..Watch::default()
        }
    }

    fn sweep(&self, specs: &[Spec], sizes: Vec<u32>, warmup: u64) -> Sweep {
        let warmup = usize::try_from(warmup).unwrap_or(usize::MAX);
        Sweep { specs: specs.to_vec(), sizes, warmup, threads: self.threads }
    }

    /// An answer without outcomes.
    pub(super) fn empty(&self, trace: Dimensions, sizes: Vec<(u32, Size)>) -> Comparison {
        Comparison {
            trace,
            warmup: 0,
            sizes,
            at_most: self.at_most.is_some(),
            device: self.device.clone(),
            sample: None,
            readahead: self.readahead.clone().unwrap_or_default(),
            recorded: None,
            larger_blocks: None,
            left_out: Vec::new(),
            outcomes: Vec::new(),
            beside_kernel: None,
            reached: None,
            ends: None,
            by: self.by(),
            parts: Vec::new(),
            stopped: None,
            times: None,
        }
    }

    /// What a trace must keep for this question.
    pub fn keep(&self) -> Keep {
        let first_level = self.behind.iter().map(|first_level| &first_level.spec);
        let keep = Sweep::keep(&self.specs.iter().chain(first_level).cloned().collect::<Vec<_>>());
        let costs = self.costs() || self.kernel == Some(true);
        let [owner, file] = [By::Owner, By::File].map(|by| self.by() == Some(by));
        Keep { places: keep.places || costs || file || self.epochs, requests: keep.requests || costs || owner }
    }

    /// Compares over a trace that was read before, by [`read`]: hit for hit what [`of`](Asked::of) answers.
    ///
    /// # Errors
    /// What is wrong with the question for this trace.
    ///
    /// # Panics
    /// If a part of the pages is asked for, which is chosen while a trace is read, or the trace lacks what [`keep`](Asked::keep) says.
    pub fn of_held(&self, trace: &Trace, monitor: &dyn Monitor) -> Result<Comparison, Error> {
        assert!(self.sample.is_none(), "a sample is taken while a trace is read");
        let (mut asked, left_out) = self.of_recorded(trace.circumstances.as_ref(), monitor)?;
        if self.kernel.is_none() && !trace.has(asked.keep()) {
            asked.kernel = None;
        }
        assert!(trace.has(asked.keep()), "the trace was read for other questions");
        Ok(Comparison { recorded: trace.circumstances.clone(), left_out, ..asked.over(trace, monitor)? })
    }

    /// Reads what this question needs of a trace, and compares.
    fn load(&self, name: &str, reader: &mut dyn Reader, monitor: &dyn Monitor) -> Result<Comparison, Error> {
        self.over(&read(name, reader, self.page_size, self.keep(), monitor)?, monitor)
    }

    /// Whether more than hits tells what a run costs.
    pub(super) fn costs(&self) -> bool {
        self.device.is_some() || self.reads_ahead()
    }

    /// Compares over a trace that has what this question needs.
    fn over(&self, trace: &Trace, monitor: &dyn Monitor) -> Result<Comparison, Error> {
        let below;
        let mut trace = trace;
        if let Some(FirstLevel { spec, size }) = &self.behind {
            let pages = size.pages(trace.page_size, trace.pages)?;
            let nothing = || Question::NothingMisses(trace.name.clone(), pages);
            below = behind(trace, spec, pages).ok_or_else(nothing)?;
            trace = &below;
        }
        let mut sizes = self.sizes(trace.page_size, trace.pages)?;
        self.fit_to_recorded(&mut sizes, trace)?;
        let warmup = self.warmup.references(&trace.dimensions())?;
        let mut specs = self.specs.clone();
        if let Some(managers) = &self.managers {
            give(managers, &mut specs, trace, monitor)?;
        }
        let mut sweep = self.sweep(&specs, pages(&sizes), warmup);
        let start = Instant::now();
        let reached = match self.reach {
            Some(share) => Some(Reached::search(share, &sweep, &self.watch(), trace, monitor)?),
            None => None,
        };
        if let Some((found, _)) = reached.as_ref().and_then(|reached| reached.found.as_ref()) {
            if !sizes.iter().any(|&(pages, _)| pages == found.pages) {
                sizes.push((found.pages, Size::Pages(found.pages.into())));
                sizes.sort_by_key(|&(pages, _)| pages);
            }
            sweep.sizes = pages(&sizes);
        }
        let ends = if self.costs() && sizes.len() > 1 { Some(self.ends(trace, sweep.warmup, monitor)?) } else { None };
        let (outcomes, stopped) = replay(&sweep, &self.watch(), trace, monitor)?;
        let (beside_kernel, stopped) = match stopped {
            None => self.beside_kernel(&sweep, trace, monitor)?,
            stopped => (None, stopped),
        };
        let times = Some(Times { load: trace.times, elapsed: start.elapsed(), streamed: false });
        let parts = match self.by() {
            Some(By::Owner) => trace.names.owners().to_vec(),
            Some(By::File) => trace.names.objects().to_vec(),
            None => Vec::new(),
        };
        let found = Comparison { beside_kernel, reached, ..self.empty(trace.dimensions(), sizes) };
        Ok(Comparison { warmup, outcomes, ends, parts, stopped, times, ..found })
    }

    /// What a trace costs at both ends.
    fn ends(&self, trace: &Trace, warmup: usize, monitor: &dyn Monitor) -> Result<Ends, Error> {
        let [without, with_all] = Ends::runs(trace.pages, warmup, self.threads, &self.watch());
        let run = |(sweep, watch): (Sweep, Watch)| Ok::<_, Error>(replay(&sweep, &watch, trace, monitor)?.0.remove(0));
        Ok(Ends { without: run(without)?, with_all: run(with_all)? })
    }

    /// Compares miniatures of the caches on a share of the pages.
    fn estimate(
        &self,
        name: &str,
        reader: &mut dyn Reader,
        sample: Sample,
        monitor: &dyn Monitor,
    ) -> Result<Comparison, Error> {
        if self.warmup != Warmup::References(0) {
            return Err(Question::WarmUpOfSample.into());
        }
        let sampled = Sampled::load(name, reader, self.page_size, Sweep::keep(&self.specs), sample, monitor)?;
        let sizes = self.sizes(sampled.whole.page_size, sampled.whole.pages)?;
        let miniatures = sizes.iter().map(|&(pages, _)| sampled.miniature(pages)).collect::<Result<_, _>>()?;
        let sweep = self.sweep(&self.specs, miniatures, 0);
        let (outcomes, stopped) = replay(&sweep, &Watch::default(), &sampled.trace, monitor)?;
        let pages = sizes.iter().map(|&(pages, _)| pages).cycle();
        let estimate = |(outcome, pages)| sampled.estimate(outcome, pages);
        let outcomes = outcomes.into_iter().zip(pages).map(estimate).collect();
        let sample = Some((sample.rate, sampled.trace.pages));
        Ok(Comparison { sample, outcomes, stopped, ..self.empty(sampled.whole.clone(), sizes) })
    }

    /// Compares while the trace is read, without holding it.
    fn stream(
        &self,
        name: &str,
        reader: &mut dyn Reader,
        warmup: u64,
        monitor: &dyn Monitor,
    ) -> Result<Comparison, Error> {
        let paging = Paging::of(reader, self.page_size).map_err(Question::PageSize)?;
        // No size is a share of the footprint, which is not known yet.
        let sizes = self.sizes(paging.page_size(), 0)?;
        let sweep = self.sweep(&self.specs, pages(&sizes), warmup);
        let start = Instant::now();
        let mut read = None;
        let replaying = monitor.begin(format!("replaying {name}"), None, true);
        let streamed = sweep.stream(&self.watch(), name, reader, self.page_size, &mut |done, share| {
            read = share;
            replaying.set(done, share)
        })?;
        drop(replaying);
        let Streamed { trace, outcomes, ends, times, stopped } = streamed;
        let stop = || Stop::References(trace.references, name.to_owned(), read);
        let stopped = stopped.then(stop);
        if let Err(question) = self.warmup.references(&trace) {
            return Err(stopped.map_or(question.into(), Error::Stopped));
        }
        let times = Some(Times { load: times, elapsed: start.elapsed(), streamed: true });
        Ok(Comparison { warmup, outcomes, ends, stopped, times, ..self.empty(trace, sizes) })
    }
}

/// The sizes in pages, in rising order, each once, with what the user wrote.
pub(super) fn in_pages(asked: &[Size], page_size: u64, footprint: u32) -> Result<Vec<(u32, Size)>, Error> {
    let mut sizes: Vec<(u32, Size)> = Vec::new();
    for &size in asked {
        let pages = size.pages(page_size, footprint)?;
        if sizes.iter().all(|&(other, _)| other != pages) {
            sizes.push((pages, size));
        }
    }
    sizes.sort_by_key(|&(pages, _)| pages);
    Ok(sizes)
}

impl Comparison {
    /// Whether the sizes are those of whoever names none.
    pub(super) fn has_usual_sizes(&self) -> bool {
        let usual = in_pages(&USUAL_SIZES.map(Size::Percent), self.trace.page_size, self.trace.pages);
        let asked = pages(&self.sizes);
        let and_one = |usual: &[(u32, Size)]| asked.len() <= usual.len() + 1;
        !self.at_most
            && usual.is_ok_and(|usual| and_one(&usual) && pages(&usual).iter().all(|pages| asked.contains(pages)))
    }
}

pub(super) fn pages(sizes: &[(u32, Size)]) -> Vec<u32> {
    sizes.iter().map(|&(pages, _)| pages).collect()
}

/// Reads a trace to be held, for [`Asked::of_held`] with what is kept of it.
///
/// # Errors
/// What is wrong with the trace.
pub fn read(
    name: &str,
    reader: &mut dyn Reader,
    page_size: Option<u64>,
    keep: Keep,
    monitor: &dyn Monitor,
) -> Result<Trace, Error> {
    let reading = monitor.begin(format!("reading {name}"), None, true);
    let (stopped, mut read) = (AtomicBool::new(false), 0);
    let mut reader = UntilStopped { name, reader, stopped: &stopped };
    let trace = Trace::load(name, &mut reader, page_size, keep, &mut |done| {
        read = done;
        stopped.store(!reading.set(done, None), Ordering::Relaxed);
    });
    if stopped.into_inner() { Err(Error::Stopped(Stop::Reading(read, name.to_owned()))) } else { Ok(trace?) }
}

/// Gives the policies that have managers those of the trace.
pub(super) fn give(managers: &Rules, specs: &mut [Spec], trace: &Trace, monitor: &dyn Monitor) -> Result<(), Error> {
    let warn = |message: &str| monitor.warn(message);
    let assignment = managers.assign(&trace.name, trace.names.owners(), trace.names.objects(), &warn)?;
    let assignment = Arc::new(assignment);
    for spec in specs.iter_mut().filter(|spec| Rules::are_for(spec)) {
        spec.managers = Some(Arc::clone(&assignment));
    }
    Ok(())
}

/// The outcomes of the policies that are done at all sizes, and where it was stopped.
pub(super) fn replay(
    sweep: &Sweep,
    watch: &Watch,
    trace: &Trace,
    monitor: &dyn Monitor,
) -> Result<(Vec<RunOutcome>, Option<Stop>), Error> {
    let replaying = monitor.begin(format!("replaying {}", trace.name), Some(sweep.work(watch, trace)), true);
    let mut outcomes = sweep.run_watching(watch, trace, &|more| replaying.add(more));
    let (done, all) = (outcomes.len(), sweep.specs.len() * sweep.sizes.len());
    if done == all {
        return Ok((outcomes, None));
    }
    // The answers stand by policy and size: of a policy that is done at some sizes nothing can be told.
    outcomes = outcomes
        .chunk_by(|one, other| one.policy == other.policy)
        .filter(|of_policy| of_policy.len() == sweep.sizes.len())
        .flatten()
        .cloned()
        .collect();
    let stop = Stop::Policies(done, all, trace.name.clone());
    if outcomes.is_empty() { Err(Error::Stopped(stop)) } else { Ok((outcomes, Some(stop))) }
}

impl Comparison {
    /// The outcomes of each policy, by size.
    pub fn policies(&self) -> impl Iterator<Item = &[RunOutcome]> {
        self.outcomes.chunks(self.sizes.len())
    }

    /// The outcomes of each size, by policy.
    pub fn by_size(&self) -> impl Iterator<Item = (u32, Vec<&RunOutcome>)> {
        let of_size = |column| self.outcomes.iter().skip(column).step_by(self.sizes.len()).collect();
        self.sizes.iter().enumerate().map(move |(column, &(pages, _))| (pages, of_size(column)))
    }

    /// What a cache of all pages gives, under every policy.
    pub fn with_all(&self) -> Option<RunOutcome> {
        let of_hits = || {
            let Counts { references, compulsory_misses, .. } = self.outcomes.first()?.counted;
            let counted = Counts::new(references, references - compulsory_misses, compulsory_misses);
            Some(RunOutcome { pages: self.trace.pages, counted, ..RunOutcome::default() })
        };
        let with_costs = || self.ends.as_ref().map(|ends| ends.with_all.clone());
        if self.device.is_some() || !self.readahead.is_none() { with_costs() } else { of_hits() }
    }

    /// Where the time went, unless it was sampled.
    pub fn times_in_words(&self) -> Option<String> {
        let Times { load, elapsed, streamed } = self.times?;
        let [reading, numbering, elapsed] = [load.reading, load.numbering, elapsed].map(|time| time.as_secs_f64());
        let (reading, numbering) =
            (format!("reading {reading:.2} s (decompress, parse)"), format!("numbering {numbering:.2} s"));
        let (runs, replay) = (self.outcomes.len(), self.outcomes.iter().map(|outcome| outcome.seconds).sum::<f64>());
        Some(match streamed {
            true => format!("{elapsed:.2} s elapsed for {reading}, {numbering} and {runs} runs at once"),
            false => format!("{reading}, {numbering}; replay {replay:.2} s in {runs} runs, {elapsed:.2} s elapsed"),
        })
    }

    /// Whether hits and misses are told by temporal distance.
    pub fn tells_distances(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.by_distance.is_some())
    }

    /// Leaves distances out.
    pub fn forget_distances(&mut self) {
        self.outcomes.iter_mut().for_each(|outcome| outcome.by_distance = None);
    }

    /// Leaves states along the trace out.
    pub fn forget_states(&mut self) {
        self.outcomes.iter_mut().for_each(|outcome| outcome.states.clear());
    }

    /// The numbers of the owners that made references, in falling order of these; none if nothing is told by owner.
    pub fn parts_by_references(&self) -> Vec<usize> {
        let Some(first) = self.outcomes.first() else { return Vec::new() };
        let references = |&owner: &usize| {
            let PartCounts { hits, misses } = part_counts(first, owner);
            hits + misses
        };
        let mut owners: Vec<usize> = (0..self.parts.len()).filter(|owner| references(owner) > 0).collect();
        owners.sort_by_key(|owner| (Reverse(references(owner)), &self.parts[*owner]));
        owners
    }

    /// The owners or files that made references, the processes of a program together: those with the most references first.
    pub fn parts_together(&self, by: By) -> Vec<(&str, Vec<usize>)> {
        let mut names: HashMap<&str, Vec<usize>> = HashMap::new();
        for part in self.parts_by_references() {
            let name = self.parts[part].as_str();
            let program = process(name).filter(|_| by == By::Owner);
            names.entry(program.unwrap_or(name)).or_default().push(part);
        }
        let mut parts: Vec<(&str, Vec<usize>)> = names.into_iter().collect();
        let references = |of: &[usize]| {
            let PartCounts { hits, misses } =
                self.outcomes.first().map(|first| part_sum(first, of)).unwrap_or_default();
            hits + misses
        };
        parts.sort_by_key(|&(name, ref of)| (Reverse(references(of)), name));
        parts
    }

    /// The outcomes at this size, or at the largest one if it was not asked.
    pub fn at_size(&self, pages: Option<u32>) -> Option<(u32, Vec<&RunOutcome>)> {
        let asked = pages.filter(|pages| self.sizes.iter().any(|(asked, _)| asked == pages));
        let size = asked.or(self.sizes.last().map(|&(pages, _)| pages))?;
        self.by_size().find(|&(pages, _)| pages == size)
    }
}

/// What became of the references of several owners or files.
pub fn part_sum(outcome: &RunOutcome, of: &[usize]) -> PartCounts {
    of.iter().map(|&part| part_counts(outcome, part)).sum()
}

/// What became of the references of an owner, by its number.
pub fn part_counts(outcome: &RunOutcome, owner: usize) -> PartCounts {
    outcome.parts.get(owner).copied().unwrap_or_default()
}
