//! `forebay compare`: policies × sizes over traces.

use crate::commands::dask;
use crate::commands::record::record_for_now;
use crate::failure::{Failure, stopped_with_advice, unless_stopped};
use crate::files::{Files, Pages};
use crate::input::{Chosen, How, SAMPLE, doubt, managers, parse_threads};
use crate::terminal::comparison::print;
use crate::terminal::forms::{Answers, Form, Output};
use crate::terminal::progress::Terminal;
use crate::terminal::say;
use clap::{Args, ValueEnum};
use forebay_model::presets::Named;
use forebay_policy::Spec;
use forebay_report::study::comparison::{keys, section};
use forebay_sim::study::Comparison;
use forebay_sim::study::comparison::{Asked, FirstLevel, Warmup};
use forebay_sim::{By, Readahead, Sample, Size};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Compare what replacement policies would make of a trace, at each cache size.
///
/// Each TRACE is a file in any format that `forebay formats` lists (compressed or not), `-` for standard input, a synthetic
/// trace such as `zipf:pages=100000,references=10M`, or `sample`, the embedded one, which is also the default.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces; by default the embedded sample
    #[arg(value_name = "TRACE", default_value = SAMPLE, hide_default_value = true)]
    traces: Vec<String>,
    /// TRACE… is a program and its arguments: run it, record its files, and compare (`--record -- make -j2`); its output goes to
    /// standard error
    #[arg(long, conflicts_with_all = ["trace_format", "columns"])]
    record: bool,
    /// Policies, each with its parameters if wanted (`gclock:max=7`), or `all`; `forebay policies` lists them
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…,…", value_delimiter = ',', default_value = "all", value_parser = str::parse::<Chosen>)]
    policies: Vec<Chosen>,
    /// Cache sizes: pages (1000), bytes (64MiB) or percent of the distinct pages (10%)
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', default_value = "1%,2%,5%,10%,20%,50%", value_parser = str::parse::<Size>)]
    sizes: Vec<Size>,
    /// A budget of memory: weigh this size, and none above it
    #[arg(long, value_name = "SIZE", value_parser = str::parse::<Size>)]
    at_most: Option<Size>,
    /// Also look for the least memory with which this share of the references hits (90%); the advice names it
    #[arg(long, value_name = "PERCENT", value_parser = parse_reach, conflicts_with_all = ["at_most", "sample", "epochs"])]
    reach: Option<f64>,
    /// References at the start that warm the caches and are not counted: a number, or percent of the trace
    #[arg(short, long, value_name = "REFERENCES", default_value = "0", value_parser = str::parse::<Warmup>)]
    warmup: Warmup,
    /// Also tell what the misses cost on a device: time, waits, requests, money; `forebay devices` lists those known by name
    #[arg(short, long, value_name = "NAME|FILE.toml", value_parser = str::parse::<Named>)]
    device: Option<Named>,
    /// Also show what references wait, and requests, in a table for each size
    #[arg(long, requires = "device")]
    waits: bool,
    /// What the program takes of its own for each reference, while the device goes on
    #[arg(long, value_name = "MICROSECONDS", requires = "device", default_value_t = 0.0, hide_default_value = true, value_parser = parse_think)]
    think: f64,
    /// Read pages ahead, and tell what became of them: none, fixed[:pages=8], linux[:max=128KiB], kernel[:max=128KiB:request=1280KiB], regular[:max=128KiB];
    /// by default what the cache read ahead that recorded the trace, or none
    #[arg(short, long, value_name = "RULE[:PARAMETER=VALUE]", value_parser = str::parse::<Readahead>)]
    readahead: Option<Readahead>,
    /// Also what the kernel's own page cache of the same memory would make of the trace, alone and steered (`forebay steer`): by default (auto)
    /// of what a front end has recorded
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, hide_default_value = true)]
    kernel: Kernel,
    /// Policies learn of uses at the end of epochs alone, as `forebay steer --memory` tells them of reference bits; of misses as they come
    #[arg(long, conflicts_with_all = ["device", "readahead", "by_distance", "by", "states", "behind", "sample", "managers", "dask", "report", "plot"])]
    epochs: bool,
    /// Also split hits and misses by temporal distance, below the number of pages in the cache and from there on
    #[arg(long)]
    by_distance: bool,
    /// Also show misses by program (its processes together) or by file, at the size that the advice names
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<ByWhat>,
    /// Also take each policy's state this many times along the trace (partition sizes, targets, queues), for JSON and the report,
    /// which takes 200 by itself
    #[arg(long, value_name = "TIMES")]
    states: Option<u32>,
    /// Replay what misses in a first-level cache of this policy and size instead of the trace, as in lru@1000 or lru@64MiB;
    /// the sizes in percent are then of the pages that miss
    #[arg(short, long, value_name = "POLICY@SIZE", value_parser = str::parse::<FirstLevel>)]
    behind: Option<FirstLevel>,
    /// Estimate the hits from this share of the pages (1% or 0.01), by miniature simulation
    #[arg(long, value_name = "RATE", conflicts_with_all = ["device", "readahead", "by_distance", "by", "states", "behind", "managers"])]
    sample: Option<Sample>,
    /// A TOML file that says which manager is in charge of which owners and files, for the policy lru-sp; hits and misses are
    /// then shown by owner, too
    #[arg(long, value_name = "FILE")]
    managers: Option<PathBuf>,
    /// Threads; 0: one for each core
    #[arg(short, long, default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// Let the workers of the Dask cluster with this scheduler make the runs (`tcp://scheduler:8786`), through the Python package;
    /// they read the traces
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["record", "by", "states", "sample", "managers", "reach", "threads", "trace_format", "columns", "owners", "files"])]
    dask: Option<String>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    how: How,
}

/// When the kernel's own page cache is among the answers.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Kernel {
    /// Where a mount, volumes, a run or steering recorded the trace
    #[default]
    Auto,
    /// Of every trace
    Always,
    /// Of none
    Never,
}

impl Kernel {
    fn asked(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Always => Some(true),
            Self::Never => Some(false),
        }
    }
}

/// What misses are split by.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ByWhat {
    /// Who references
    Owner,
    /// What is referenced
    File,
}

impl From<ByWhat> for By {
    fn from(what: ByWhat) -> Self {
        match what {
            ByWhat::Owner => Self::Owner,
            ByWhat::File => Self::File,
        }
    }
}

/// How often states are taken for a report that does not say: about as often as a chart has room for.
const STATES_OF_REPORT: u32 = 200;

fn parse_reach(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
    let share = percent.map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "write a share of the references in percent, above 0 and up to 100 (90%)".to_owned())
}

fn parse_think(text: &str) -> Result<f64, String> {
    let microseconds = text.parse().ok().filter(|think: &f64| think.is_finite() && *think >= 0.0);
    microseconds.ok_or_else(|| "write a number of microseconds (2.5)".to_owned())
}

impl Arguments {
    /// The policies, each once.
    fn specs(&self) -> Vec<Spec> {
        Spec::each_once(self.policies.iter().flat_map(|Chosen(specs)| specs.clone()))
    }

    fn asked(&self) -> Result<Asked, Failure> {
        let specs = self.specs();
        Ok(Asked {
            managers: managers(self.managers.as_deref(), &specs)?.map(Arc::new),
            specs,
            sizes: self.sizes.clone(),
            warmup: self.warmup,
            device: self.device.clone(),
            think_ms: self.think / 1e3,
            readahead: self.readahead.clone(),
            epochs: self.epochs,
            by_distance: self.by_distance || self.files.report(),
            by: self.by.map(Into::into),
            states: self.states.unwrap_or(if self.files.report() { STATES_OF_REPORT } else { 0 }),
            behind: self.behind.clone(),
            sample: self.sample,
            kernel: self.kernel.asked(),
            at_most: self.at_most,
            reach: self.reach,
            page_size: self.how.page_size,
            threads: self.threads,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, verbose: bool) -> Result<(), Failure> {
    arguments.how.check()?;
    let asked = arguments.asked()?;
    if arguments.states > Some(0) && arguments.format != Form::Json && !arguments.files.report() {
        return Err(Failure::Usage(
            "--states is shown in JSON and the report: add --format json or --report FILE.html".to_owned(),
        ));
    }
    asked.check()?;
    arguments.files.check(&arguments.traces)?;
    doubt(&asked.sizes);
    let recorded;
    let traces = if arguments.record {
        if arguments.traces == [SAMPLE] {
            return Err(Failure::Usage("--record needs a program: forebay compare --record -- make -j2".to_owned()));
        }
        recorded = [record_for_now(&arguments.traces)?];
        &recorded
    } else {
        &arguments.traces[..]
    };
    let mut made = match &arguments.dask {
        Some(scheduler) => dask::comparisons(scheduler, &asked, traces)?,
        None => Vec::new(),
    }
    .into_iter();
    let mut out = Output::new(arguments.files.wanted());
    let mut answers = Answers::new::<Comparison>(arguments.format, &mut out)?;
    let mut pages = Pages::default();
    let (mut stopped, mut ended) = (None, Ok(()));
    for name in traces {
        let (format, answer) = match made.next() {
            Some(comparison) => ("", Ok(comparison)),
            None => {
                let (format, mut reader) = arguments.how.open(name)?;
                (format.name, asked.of(name, reader.as_mut(), &Terminal))
            }
        };
        let Some(mut comparison) = unless_stopped(answer, &mut stopped)? else { break };
        if let (true, Some(times)) = (verbose, comparison.times_in_words()) {
            eprintln!("forebay: {name} ({format}): {times}");
        }
        if arguments.files.wanted() {
            pages.add(keys(&comparison), section(&comparison));
            // What was looked at for the report alone.
            if !arguments.by_distance {
                comparison.forget_distances();
            }
            if arguments.states.is_none() {
                comparison.forget_states();
            }
        }
        if arguments.format == Form::Csv {
            let notes =
                [comparison.recorded_in_words(), comparison.larger_blocks_in_words(), comparison.left_out_in_words()];
            notes.into_iter().flatten().for_each(|note| eprintln!("forebay: {name}: {note}"));
        }
        answers.add(&comparison, |comparison, out| print(comparison, arguments.waits, out))?;
        if let Some(stop) = comparison.stopped {
            ended = Err(stopped_with_advice(stop, arguments.format));
            break;
        }
    }
    answers.finish()?;
    if arguments.format == Form::Table && traces == [SAMPLE] {
        say(&mut out, "\nThis is the embedded sample. Your own: `forebay compare TRACE`; more: `forebay --help`.")?;
        out.flush()?;
    }
    arguments.files.write(traces, pages)?;
    stopped.map_or(ended, |stop| Err(stop.into()))
}
