//! `forebay compare`: policies × sizes over traces.

use crate::charts;
use crate::compare_forms::{CSV_HEADER, print_csv, to_json};
use crate::device::{self, Device};
use crate::failure::Failure;
use crate::input::{How, SAMPLE};
use crate::interrupt;
use crate::managers::Managers;
use crate::output::{Form, grouped};
use crate::progress::Progress;
use crate::report::Files;
use crate::sampling::Sampled;
use crate::table;
use clap::Args;
use forebay_policy::Spec;
use forebay_sim::{Extent, Keep, Model, Outcome, Readahead, Sample, Size, Streamed, Sweep, Trace, Watch};
use forebay_trace::{Format, Paging, Reader};
use std::io::{self, Write};
use std::path::PathBuf;

/// Compare what replacement policies would make of a trace, at each cache size.
///
/// Each TRACE is a file in any format that `forebay formats` lists (compressed or not), `-` for standard input, a synthetic
/// trace such as `zipf:pages=100000,references=10M`, or `sample`, the embedded one, which is also the default.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces; by default the embedded sample
    #[arg(value_name = "TRACE", default_value = SAMPLE, hide_default_value = true)]
    traces: Vec<String>,
    /// Policies, each with its parameters if wanted (`gclock:max=7`), or `all`; `forebay policies` lists them
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…,…", value_delimiter = ',', default_value = "all", value_parser = parse_policy)]
    policies: Vec<Chosen>,
    /// Cache sizes: pages (1000), bytes (64MiB) or percent of the distinct pages (10%)
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', default_value = DEFAULT_SIZES, value_parser = str::parse::<Size>)]
    sizes: Vec<Size>,
    /// References at the start that warm the caches and are not counted: a number, or percent of the trace
    #[arg(short, long, value_name = "REFERENCES", default_value = "0", value_parser = parse_warmup)]
    warmup: Warmup,
    /// Also tell what the misses cost on a device: time, waits, requests, money; `forebay devices` lists those known by name
    #[arg(short, long, value_name = "NAME|FILE.toml", value_parser = device::parse)]
    device: Option<Device>,
    /// What the program takes of its own for each reference, while the device goes on
    #[arg(long, value_name = "MICROSECONDS", requires = "device", default_value_t = 0.0, hide_default_value = true, value_parser = parse_think)]
    think: f64,
    /// Read pages ahead, and tell what became of them: none, fixed[:pages=8], linux[:max=128KiB], regular[:max=128KiB]
    #[arg(short, long, value_name = "RULE[:PARAMETER=VALUE]", default_value = "none", hide_default_value = true, value_parser = str::parse::<Readahead>)]
    readahead: Readahead,
    /// Also split hits and misses by temporal distance, below the number of pages in the cache and from there on
    #[arg(long)]
    by_distance: bool,
    /// Also take each policy's state so many times along the trace (partition sizes, targets, queues), for JSON and the report,
    /// which takes 200 by itself
    #[arg(long, value_name = "TIMES")]
    states: Option<u32>,
    /// Replay what misses in a first-level cache of this policy and size instead of the trace, as in lru@1000 or lru@64MiB;
    /// the sizes in percent are then of the pages that miss
    #[arg(short, long, value_name = "POLICY@SIZE", value_parser = parse_first_level)]
    behind: Option<FirstLevel>,
    /// Estimate the hits from this share of the pages (1% or 0.01), by miniature simulation
    #[arg(long, value_name = "RATE", conflicts_with_all = ["device", "readahead", "by_distance", "states", "behind", "managers"])]
    sample: Option<Sample>,
    /// A TOML file that says which manager is in charge of which owners and files, for the policy lru-sp; hits and misses are
    /// then shown by owner, too
    #[arg(long, value_name = "FILE")]
    managers: Option<PathBuf>,
    /// Threads; 0: one for each core
    #[arg(short, long, default_value_t = 0)]
    threads: usize,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    how: How,
}

/// How often states are taken for a report that does not say: about as often as a chart has room for.
const STATES_OF_REPORT: u32 = 200;

const DEFAULT_SIZES: &str = "1%,2%,5%,10%,20%,50%";

/// What one word of `--policies` names.
#[derive(Clone, Debug)]
struct Chosen(Vec<Spec>);

fn parse_policy(text: &str) -> Result<Chosen, String> {
    match text.trim() {
        "all" => Ok(Chosen(Spec::all())),
        text => Spec::parse(text).map(|spec| Chosen(vec![spec])),
    }
}

fn parse_think(text: &str) -> Result<f64, String> {
    let microseconds = text.parse().ok().filter(|think: &f64| think.is_finite() && *think >= 0.0);
    microseconds.ok_or_else(|| "write a number of microseconds (2.5)".to_owned())
}

/// A cache in front of those that are compared.
#[derive(Clone, Debug)]
struct FirstLevel {
    spec: Spec,
    size: Size,
}

fn parse_first_level(text: &str) -> Result<FirstLevel, String> {
    let (policy, size) = text.split_once('@').ok_or("write POLICY@SIZE, as in lru@1000 or lru@64MiB")?;
    let spec = Spec::parse(policy)?;
    if spec.needs_future() {
        return Err(format!("{policy} knows the future: it is no first-level cache"));
    }
    Ok(FirstLevel { spec, size: size.parse()? })
}

#[derive(Clone, Copy, Debug)]
enum Warmup {
    References(u64),
    Percent(f64),
}

fn parse_warmup(text: &str) -> Result<Warmup, String> {
    let wrong =
        || "write a number of references (100000) or percent of the trace (20%), less than all of it".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
            percent.map(Warmup::Percent).ok_or_else(wrong)
        }
        None => text.parse().map(Warmup::References).map_err(|_| wrong()),
    }
}

impl Warmup {
    fn references(self, trace: &Extent) -> Result<u64, Failure> {
        let references = match self {
            Self::References(references) => references,
            Self::Percent(percent) => (trace.references as f64 * percent / 100.0) as u64,
        };
        if references < trace.references {
            return Ok(references);
        }
        Err(Failure::Usage(format!(
            "a warm-up of {references} references leaves nothing to count: {} has {}",
            trace.name, trace.references
        )))
    }
}

impl Arguments {
    /// What `forebay` does when it is told nothing: all policies on the embedded sample.
    pub(crate) fn of_sample() -> Self {
        Self {
            traces: vec![SAMPLE.to_owned()],
            policies: vec![Chosen(Spec::all())],
            sizes: DEFAULT_SIZES.split(',').map(|size| size.parse().expect("the default sizes are sizes")).collect(),
            warmup: Warmup::References(0),
            device: None,
            think: 0.0,
            readahead: Readahead::default(),
            by_distance: false,
            states: None,
            behind: None,
            sample: None,
            managers: None,
            threads: 0,
            format: Form::Table,
            files: Files::default(),
            how: How::default(),
        }
    }

    /// The policies, each once.
    fn specs(&self) -> Vec<Spec> {
        let mut specs: Vec<Spec> = Vec::new();
        for (chosen, spec) in self.policies.iter().flat_map(|chosen| chosen.0.iter().map(move |spec| (chosen, spec))) {
            // `all` are those that can be asked.
            if chosen.0.len() > 1 && !self.readahead.is_none() && spec.needs_future() {
                continue;
            }
            if specs.iter().all(|other| other.label != spec.label) {
                specs.push(spec.clone());
            }
        }
        specs
    }

    /// The warm-up, if the trace need not be held to answer: nothing that is asked depends on references to come.
    fn streams(&self, specs: &[Spec]) -> Option<u64> {
        let Warmup::References(warmup) = self.warmup else { return None };
        let known = self.sizes.iter().all(|size| !matches!(size, Size::Percent(_)));
        let alone = self.behind.is_none() && self.managers.is_none() && self.states() == 0 && self.readahead.is_none();
        (known && alone && Sweep::can_stream(specs)).then_some(warmup)
    }

    /// The sizes in pages, in rising order, each once, with what the user wrote.
    pub(crate) fn sizes(&self, page_size: u64, footprint: u32) -> Result<Vec<(u32, Size)>, Failure> {
        let mut sizes: Vec<(u32, Size)> = Vec::new();
        for &size in &self.sizes {
            let pages = size.pages(page_size, footprint).map_err(Failure::Usage)?;
            if sizes.iter().all(|&(other, _)| other != pages) {
                sizes.push((pages, size));
            }
        }
        sizes.sort_by_key(|&(pages, _)| pages);
        Ok(sizes)
    }

    fn watch(&self) -> Watch {
        let device = self.device.as_ref().map(|device| Model::clone(&device.model));
        Watch {
            device,
            think_ms: self.think / 1e3,
            readahead: self.readahead.clone(),
            distances: self.by_distance || self.files.report(),
            owners: self.managers.is_some(),
            states: self.states(),
        }
    }

    fn states(&self) -> u32 {
        self.states.unwrap_or(if self.files.report() { STATES_OF_REPORT } else { 0 })
    }
}

/// What came of one trace.
pub(crate) struct Comparison {
    pub(crate) trace: Extent,
    pub(crate) warmup: u64,
    /// The sizes in pages, in rising order, each once, with what the user wrote.
    pub(crate) sizes: Vec<(u32, Size)>,
    /// The device whose costs are told, as the user named it.
    pub(crate) device: Option<Device>,
    /// The share of the pages from which it is estimated, and how many they were, if it is.
    pub(crate) sample: Option<(f64, u32)>,
    /// The rule of readahead, as the user named it.
    pub(crate) readahead: Readahead,
    /// By policy, then by size.
    pub(crate) outcomes: Vec<Outcome>,
    /// The owners' names by number, if hits and misses are shown by owner.
    pub(crate) owners: Vec<String>,
    /// What is not done, if it was stopped.
    stopped: Option<String>,
}

impl Comparison {
    /// Drops what was looked at for the report alone.
    fn forget(&mut self, distances: bool, states: bool) {
        for outcome in &mut self.outcomes {
            if distances {
                outcome.by_distance = None;
            }
            if states {
                outcome.states.clear();
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments, verbose: bool) -> Result<(), Failure> {
    arguments.how.check()?;
    let specs = arguments.specs();
    let managers = Managers::for_specs(arguments.managers.as_deref(), &specs)?;
    if arguments.states > Some(0) && arguments.format != Form::Json && !arguments.files.report() {
        return Err(Failure::Usage(
            "--states is told in JSON and the report: add --format json or --report FILE.html".to_owned(),
        ));
    }
    if let Some(spec) = specs.iter().find(|spec| spec.needs_future() && !arguments.readahead.is_none()) {
        return Err(Failure::Usage(format!(
            "{} knows what is referenced next, and not what is read ahead: leave it or --readahead out",
            spec.label
        )));
    }
    arguments.files.check(&arguments.traces)?;
    let mut out = io::stdout().lock();
    let mut answers = Vec::new();
    let mut sections = Vec::new();
    let mut keys = Vec::new();
    let mut stopped = None;
    if arguments.format == Form::Csv {
        writeln!(out, "{CSV_HEADER}")?;
    }
    for name in &arguments.traces {
        let mut comparison = compare(name, &specs, managers.as_ref(), arguments, verbose)?;
        if arguments.files.wanted() {
            if sections.is_empty() {
                keys = charts::keys_of_comparison(&comparison);
            }
            sections.push(charts::of_comparison(&comparison));
            comparison.forget(!arguments.by_distance, arguments.states.is_none());
        }
        match arguments.format {
            Form::Table => table::print(&comparison, &mut out)?,
            Form::Csv => print_csv(&comparison, &mut out)?,
            Form::Json => answers.push(to_json(&comparison)),
        }
        stopped = comparison.stopped;
        if stopped.is_some() {
            break;
        }
    }
    if arguments.format == Form::Json {
        serde_json::to_writer_pretty(&mut out, &answers)?;
        writeln!(out)?;
    } else if arguments.format == Form::Table && arguments.traces == [SAMPLE] {
        writeln!(out, "\nThis is the embedded sample. Your own: `forebay compare TRACE`; more: `forebay --help`.")?;
    }
    out.flush()?;
    arguments.files.write(&arguments.traces, keys, sections)?;
    stopped.map_or(Ok(()), |message| Err(Failure::Stopped(message)))
}

fn compare(
    name: &str,
    specs: &[Spec],
    managers: Option<&Managers>,
    arguments: &Arguments,
    verbose: bool,
) -> Result<Comparison, Failure> {
    let (format, mut reader) = arguments.how.open(name)?;
    if let Some(sample) = arguments.sample {
        return estimate(name, reader.as_mut(), specs, sample, arguments);
    }
    if let Some(warmup) = arguments.streams(specs) {
        return stream(name, format, reader.as_mut(), specs, warmup, arguments, verbose);
    }
    let reading = Progress::new(format!("reading {name}"), None);
    let first_level = arguments.behind.iter().map(|first_level| &first_level.spec);
    let keep = Sweep::keep(&specs.iter().chain(first_level).cloned().collect::<Vec<_>>());
    let costs = arguments.device.is_some() || !arguments.readahead.is_none();
    let keep = Keep { places: keep.places || costs, requests: keep.requests || costs };
    let trace = Trace::load(name, reader.as_mut(), arguments.how.page_size, keep, &mut |done| reading.set(done))?;
    reading.finish();
    let trace = match &arguments.behind {
        None => trace,
        Some(FirstLevel { spec, size }) => {
            let pages = size.pages(trace.page_size, trace.pages).map_err(Failure::Usage)?;
            trace.behind(spec, pages).ok_or_else(|| {
                Failure::Usage(format!("nothing of {name} misses in a first-level cache of {pages} pages"))
            })?
        }
    };
    let extent = trace.extent();
    let sizes = arguments.sizes(trace.page_size, trace.pages)?;
    let warmup = arguments.warmup.references(&extent)?;
    let mut specs = specs.to_vec();
    if let Some(managers) = managers {
        managers.give(&mut specs, &trace)?;
    }
    let sizes_in_pages = sizes.iter().map(|&(pages, _)| pages).collect();
    let sweep = Sweep { specs, sizes: sizes_in_pages, warmup: warmup as usize, threads: arguments.threads };
    let start = std::time::Instant::now();
    let (outcomes, stopped) = replay(&sweep, &arguments.watch(), &trace)?;
    if verbose {
        let replay: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
        eprintln!(
            "forebay: {name} ({}): reading {:.2} s (decompress, parse), numbering {:.2} s; replay {:.2} s in {} runs, {:.2} s elapsed",
            format.name,
            trace.times.reading.as_secs_f64(),
            trace.times.numbering.as_secs_f64(),
            replay,
            outcomes.len(),
            start.elapsed().as_secs_f64(),
        );
    }
    let device = arguments.device.clone();
    let readahead = arguments.readahead.clone();
    let owners = if managers.is_some() { trace.names.owners().to_vec() } else { Vec::new() };
    Ok(Comparison { trace: extent, warmup, sizes, device, readahead, sample: None, outcomes, owners, stopped })
}

/// The outcomes of the policies that are done at all sizes, and what is not done, if it was stopped.
fn replay(sweep: &Sweep, watch: &Watch, trace: &Trace) -> Result<(Vec<Outcome>, Option<String>), Failure> {
    let name = &trace.name;
    let replaying = Progress::new(format!("replaying {name}"), Some(sweep.work(watch, trace)));
    interrupt::listen();
    let mut outcomes = sweep.run_watching(watch, trace, &|more| {
        replaying.add(more);
        !interrupt::asked()
    });
    interrupt::ignore();
    replaying.finish();
    let (done, asked) = (outcomes.len(), sweep.specs.len() * sweep.sizes.len());
    if done == asked {
        return Ok((outcomes, None));
    }
    // The answers stand by policy and size: of a policy that is done at some sizes nothing can be told.
    outcomes = outcomes
        .chunk_by(|one, other| one.policy == other.policy)
        .filter(|of_policy| of_policy.len() == sweep.sizes.len())
        .flatten()
        .cloned()
        .collect();
    let message = format!("stopped after {done} of {asked} runs over {name}; shown are the policies done at all sizes");
    if outcomes.is_empty() { Err(Failure::Stopped(message)) } else { Ok((outcomes, Some(message))) }
}

/// Compares miniatures of the caches on a share of the pages.
fn estimate(
    name: &str,
    reader: &mut dyn Reader,
    specs: &[Spec],
    sample: Sample,
    arguments: &Arguments,
) -> Result<Comparison, Failure> {
    if !matches!(arguments.warmup, Warmup::References(0)) {
        return Err(Failure::Usage("a sample has no warm-up of its own: leave out --warmup or --sample".to_owned()));
    }
    let sampled = Sampled::load(name, reader, &arguments.how, Sweep::keep(specs), sample)?;
    let sizes = arguments.sizes(sampled.whole.page_size, sampled.whole.pages)?;
    let miniatures = sizes.iter().map(|&(pages, _)| sampled.miniature(pages)).collect::<Result<_, _>>()?;
    let sweep = Sweep { specs: specs.to_vec(), sizes: miniatures, warmup: 0, threads: arguments.threads };
    let (outcomes, stopped) = replay(&sweep, &Watch::default(), &sampled.trace)?;
    let pages = sizes.iter().map(|&(pages, _)| pages).cycle();
    let outcomes = outcomes.into_iter().zip(pages).map(|(outcome, pages)| sampled.estimate(outcome, pages)).collect();
    let sample = Some((sample.rate, sampled.trace.pages));
    Ok(Comparison {
        trace: sampled.whole,
        warmup: 0,
        sizes,
        device: None,
        readahead: Readahead::default(),
        sample,
        outcomes,
        owners: Vec::new(),
        stopped,
    })
}

/// Compares while the trace is read, without holding it.
fn stream(
    name: &str,
    format: &Format,
    reader: &mut dyn Reader,
    specs: &[Spec],
    warmup: u64,
    arguments: &Arguments,
    verbose: bool,
) -> Result<Comparison, Failure> {
    let page_size = arguments.how.page_size;
    let paging = Paging::new(reader.unit(), page_size).map_err(Failure::Usage)?;
    // No size is a share of the footprint, which is not known yet.
    let sizes = arguments.sizes(paging.page_size(), 0)?;
    let sizes_in_pages = sizes.iter().map(|&(pages, _)| pages).collect();
    let warmup_references = usize::try_from(warmup).unwrap_or(usize::MAX);
    let sweep =
        Sweep { specs: specs.to_vec(), sizes: sizes_in_pages, warmup: warmup_references, threads: arguments.threads };
    let replaying = Progress::new(format!("replaying {name}"), None);
    let start = std::time::Instant::now();
    interrupt::listen();
    let mut share_done = None;
    let streamed = sweep.stream(&arguments.watch(), name, reader, page_size, &mut |done, share| {
        replaying.set_of(done, share);
        share_done = share;
        !interrupt::asked()
    })?;
    interrupt::ignore();
    replaying.finish();
    let Streamed { trace, outcomes, times, stopped } = streamed;
    let stopped = stopped.then(|| {
        let share = share_done.map_or_else(String::new, |share| format!(" (about {:.0} % of it)", 100.0 * share));
        format!("stopped after {} references of {name}{share}; shown is what they gave", grouped(trace.references))
    });
    if let Err(failure) = arguments.warmup.references(&trace) {
        return Err(stopped.map_or(failure, Failure::Stopped));
    }
    if verbose {
        eprintln!(
            "forebay: {name} ({}): {:.2} s elapsed for reading {:.2} s (decompress, parse), numbering {:.2} s and {} runs at once",
            format.name,
            start.elapsed().as_secs_f64(),
            times.reading.as_secs_f64(),
            times.numbering.as_secs_f64(),
            outcomes.len(),
        );
    }
    let device = arguments.device.clone();
    let readahead = Readahead::default();
    let owners = Vec::new();
    Ok(Comparison { trace, warmup, sizes, device, readahead, sample: None, outcomes, owners, stopped })
}
