//! `forebay curve`: miss-ratio curves, exact or estimated from a sample of the pages.

use crate::failure::{Failure, unless_stopped};
use crate::files::{Files, Pages};
use crate::input::{Chosen, How, SAMPLE, doubt, parse_threads};
use crate::terminal::curves::print;
use crate::terminal::forms::{Answers, Form, Output};
use crate::terminal::progress::Terminal;
use clap::{Args, ValueEnum};
use forebay_policy::Spec;
use forebay_report::study::curves::{keys, section};
use forebay_sim::curve::Spacing;
use forebay_sim::study::Curves;
use forebay_sim::study::curves::{Asked, Part};
use forebay_sim::{Sample, Size};

/// How many sizes there are where nothing is said, and how many more at most.
const POINTS: u32 = 40;

/// Miss-ratio curves: what policies miss, as a function of the cache's size.
///
/// LRU and OPT get all sizes from one pass over the trace, other policies are replayed at each. With `--sample`, LRU's curve is
/// estimated by SHARDS, that of other policies by miniature simulation.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces; by default the embedded sample
    #[arg(value_name = "TRACE", default_value = SAMPLE, hide_default_value = true)]
    traces: Vec<String>,
    /// Policies, each with its parameters if wanted, or `all`; `forebay policies` lists them
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…,…", value_delimiter = ',', default_value = "lru,opt", value_parser = str::parse::<Chosen>)]
    policies: Vec<Chosen>,
    /// How many sizes, up to the footprint, and none besides; by default 40, and more where a curve bends
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    points: Option<u32>,
    /// How they are spaced
    #[arg(long, value_enum, default_value = "log")]
    spacing: Spaced,
    /// These sizes instead: pages (1000), bytes (64MiB) or percent of the distinct pages (10%)
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', value_parser = str::parse::<Size>, conflicts_with_all = ["points", "spacing"])]
    sizes: Vec<Size>,
    /// Estimate the curves from this share of the pages (1% or 0.01)
    #[arg(long, value_name = "RATE")]
    sample: Option<Sample>,
    /// Estimate LRU's curve from at most this many pages, however large the trace
    #[arg(long, value_name = "NUMBER", conflicts_with = "sample", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    sample_pages: Option<u32>,
    /// Also make the exact curves, and tell how far the estimated miss ratios are off on average
    #[arg(long)]
    errors: bool,
    /// Threads; 0: one for each core
    #[arg(short, long, default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spaced {
    /// At equal differences
    Even,
    /// At equal ratios
    Log,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { traces, files, how, .. } = arguments;
    how.check()?;
    let asked = arguments.asked();
    asked.check(traces)?;
    files.check(traces)?;
    doubt(&asked.sizes);
    let mut answers = Answers::new::<Curves>(arguments.format, Output::new(files.wanted()))?;
    let mut pages = Pages::default();
    let mut stopped = None;
    for name in traces {
        let answer = asked.of(name, &|| how.read(name), &Terminal);
        let Some(curves) = unless_stopped(answer, &mut stopped)? else { break };
        if files.wanted() {
            pages.add(keys(&curves), section(&curves));
        }
        answers.add(&curves, print)?;
        stopped = curves.stopped;
        if stopped.is_some() {
            break;
        }
    }
    answers.finish()?;
    files.write(traces, pages)?;
    stopped.map_or(Ok(()), |stop| Err(stop.into()))
}

impl Arguments {
    fn asked(&self) -> Asked {
        let spacing = match self.spacing {
            Spaced::Even => Spacing::Even,
            Spaced::Log => Spacing::Log,
        };
        Asked {
            specs: Spec::each_once(self.policies.iter().flat_map(|Chosen(specs)| specs.clone())),
            sizes: self.sizes.clone(),
            points: self.points.unwrap_or(POINTS),
            spacing,
            more: if self.points.is_some() { 0 } else { POINTS },
            part: self.sample.map(Part::Share).or(self.sample_pages.map(Part::Pages)),
            errors: self.errors,
            page_size: self.how.page_size,
            threads: self.threads,
        }
    }
}
