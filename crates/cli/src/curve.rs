//! `forebay curve`: miss-ratio curves, exact or estimated from a sample of the pages.

use crate::charts;
use crate::failure::Failure;
use crate::input::{How, SAMPLE};
use crate::interrupt;
use crate::output::Form;
use crate::plot;
use crate::progress::Progress;
use crate::report::Files;
use crate::sampling::Sampled;
use clap::{Args, ValueEnum};
use forebay_policy::{Lru, Policy, Spec};
use forebay_sim::curve::{self, FixedSize, Spacing};
use forebay_sim::{Curve, Extent, Outcome, Sample, Size, Sweep, Trace, Watch};
use serde_json::json;
use std::io::{self, Write};

/// Miss-ratio curves: what policies miss, as a function of the cache's size.
///
/// LRU and OPT get all sizes from one pass over the trace, other policies are replayed at each. With `--sample`, LRU's curve is
/// estimated by SHARDS, that of other policies by miniature simulation.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces; by default the embedded sample
    #[arg(value_name = "TRACE", default_value = SAMPLE, hide_default_value = true)]
    traces: Vec<String>,
    /// Policies, each with its parameters if wanted; `forebay policies` lists them
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…,…", value_delimiter = ',', default_value = "lru,opt", value_parser = Spec::parse)]
    policies: Vec<Spec>,
    /// How many sizes, up to the footprint
    #[arg(long, value_name = "NUMBER", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    points: u32,
    /// How they are spaced
    #[arg(long, value_enum, default_value = "log")]
    spacing: Spaced,
    /// These sizes instead: pages (1000), bytes (64MiB) or percent of the distinct pages (10%)
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', value_parser = str::parse::<Size>, conflicts_with_all = ["points", "spacing"])]
    sizes: Vec<Size>,
    /// Estimate the curves from this share of the pages (1% or 0.01)
    #[arg(long, value_name = "RATE")]
    sample: Option<Sample>,
    /// Estimate LRU's curve from at most so many pages, however large the trace
    #[arg(long, value_name = "NUMBER", conflicts_with = "sample", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    sample_pages: Option<u32>,
    /// Also make the exact curves, and tell how far the estimated miss ratios are off on average
    #[arg(long)]
    errors: bool,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spaced {
    /// At equal differences
    Even,
    /// At equal ratios
    Log,
}

/// The curves of one trace.
pub(crate) struct Curves {
    /// The whole trace; of a sampled one the footprint is an estimate.
    pub(crate) trace: Extent,
    pub(crate) sizes: Vec<u32>,
    /// The share of the pages, and how many they were, if sampled.
    pub(crate) sample: Option<(f64, u32)>,
    pub(crate) lines: Vec<Line>,
}

/// A policy's curve.
pub(crate) struct Line {
    pub(crate) policy: String,
    /// Whether the policy knows the future.
    pub(crate) off_line: bool,
    pub(crate) curve: Curve,
    /// The standard error that the sample itself tells of, averaged over the sizes.
    pub(crate) spread: Option<f64>,
    /// The mean absolute error of the miss ratio.
    pub(crate) error: Option<f64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.how.check()?;
    arguments.check()?;
    arguments.files.check(&arguments.traces)?;
    let mut out = io::stdout().lock();
    let mut answers = Vec::new();
    let mut sections = Vec::new();
    let mut keys = Vec::new();
    if arguments.format == Form::Csv {
        writeln!(out, "{CSV_HEADER}")?;
    }
    for name in &arguments.traces {
        let curves = arguments.curves(name)?;
        if arguments.files.wanted() {
            keys = charts::keys_of_curves(&curves);
            sections.push(charts::of_curves(&curves));
        }
        match arguments.format {
            Form::Table => plot::print(&curves, &mut out)?,
            Form::Csv => print_csv(&curves, &mut out)?,
            Form::Json => answers.push(to_json(&curves)),
        }
    }
    if arguments.format == Form::Json {
        serde_json::to_writer_pretty(&mut out, &answers)?;
        writeln!(out)?;
    }
    out.flush()?;
    arguments.files.write(&arguments.traces, keys, sections)
}

impl Arguments {
    fn check(&self) -> Result<(), Failure> {
        let sampled = self.sample.is_some() || self.sample_pages.is_some();
        let usage = |message: &str| Err(Failure::Usage(message.to_owned()));
        if self.errors && !sampled {
            return usage(
                "--errors compares estimated curves with exact ones: add --sample RATE or --sample-pages NUMBER",
            );
        }
        if self.errors && self.traces.iter().any(|name| name == "-") {
            return usage("--errors reads the trace twice, which standard input does not bear: name a file");
        }
        if self.sample_pages.is_some() && self.policies.iter().any(|spec| !is_lru(spec)) {
            return usage("--sample-pages estimates LRU's curve alone: add --policies lru, or take --sample RATE");
        }
        Ok(())
    }

    fn curves(&self, name: &str) -> Result<Curves, Failure> {
        let mut curves = match (self.sample, self.sample_pages) {
            (Some(sample), _) => self.sampled(name, sample)?,
            (None, Some(most)) => self.of_fixed_size(name, most)?,
            (None, None) => self.exact(name, None)?,
        };
        if self.errors {
            let exact = self.exact(name, Some(&curves.sizes))?;
            for (line, exact) in curves.lines.iter_mut().zip(exact.lines) {
                line.error = Some(line.curve.mean_absolute_error(&exact.curve, &curves.sizes));
            }
        }
        Ok(curves)
    }

    /// The exact curves, at these sizes or those that are asked.
    fn exact(&self, name: &str, sizes: Option<&[u32]>) -> Result<Curves, Failure> {
        let (_, mut reader) = self.how.open(name)?;
        let reading = Progress::new(format!("reading {name}"), None);
        let keep = Sweep::keep(&self.policies);
        let trace = Trace::load(name, reader.as_mut(), self.how.page_size, keep, &mut |done| reading.set(done))?;
        reading.finish();
        let sizes = match sizes {
            Some(sizes) => sizes.to_vec(),
            None => self.sizes(&trace.extent(), |_| Ok(()))?,
        };
        let outcomes = self.replay(&trace, self.policies.clone(), sizes.clone())?;
        let line = |outcomes: &[Outcome]| Line {
            policy: outcomes[0].policy.clone(),
            off_line: outcomes[0].off_line,
            curve: Curve::through(
                trace.len() as f64,
                outcomes.iter().map(|outcome| (outcome.pages, outcome.total.hits as f64)).collect(),
            ),
            spread: None,
            error: None,
        };
        let lines = outcomes.chunks(sizes.len()).map(line).collect();
        Ok(Curves { trace: trace.extent(), sizes, sample: None, lines })
    }

    /// The curves estimated from a share of the pages.
    fn sampled(&self, name: &str, sample: Sample) -> Result<Curves, Failure> {
        let (_, mut reader) = self.how.open(name)?;
        let sampled = Sampled::load(name, reader.as_mut(), &self.how, Sweep::keep(&self.policies), sample)?;
        let sizes = self.sizes(&sampled.whole, |size| sampled.miniature(size).map(drop))?;
        let miniatures = sizes.iter().map(|&size| sampled.miniature(size)).collect::<Result<_, _>>()?;
        let Sampled { trace: part, sampling, whole } = sampled;
        let replayed = self.policies.iter().filter(|spec| !is_lru(spec)).cloned().collect();
        let outcomes = self.replay(&part, replayed, miniatures)?;
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
        let lines = self.policies.iter().map(line).collect();
        Ok(Curves { trace: whole, sizes, sample: Some((sample.rate, part.pages)), lines })
    }

    /// LRU's curve, estimated from so many pages.
    fn of_fixed_size(&self, name: &str, most: u32) -> Result<Curves, Failure> {
        let (_, mut reader) = self.how.open(name)?;
        let paging = forebay_trace::Paging::new(reader.unit(), self.how.page_size).map_err(Failure::Usage)?;
        let reading = Progress::new(format!("sampling {name}"), None);
        let mut sample = FixedSize::new(most);
        sample.read(name, reader.as_mut(), self.how.page_size, &mut |done| {
            reading.set(done);
            true
        })?;
        reading.finish();
        if sample.whole() == 0 {
            return Err(Failure::Failed(format!("{name}: has no references: there is nothing to sample")));
        }
        let (references, page_size) = (sample.whole(), paging.page_size());
        let trace = Extent { name: name.to_owned(), references, pages: sample.pages().max(1), page_size };
        let sizes = self.sizes(&trace, |_| Ok(()))?;
        let line = |spec: &Spec| {
            let (policy, off_line) = (spec.label.clone(), spec.needs_future());
            Line { policy, off_line, curve: sample.curve(), spread: None, error: None }
        };
        let lines = self.policies.iter().map(line).collect();
        Ok(Curves { trace, sizes, sample: Some((sample.rate(), sample.sampled_pages())), lines })
    }

    /// The sizes in pages, rising, each once: those asked, or points of those for which there is an answer.
    fn sizes(&self, trace: &Extent, answers: impl Fn(u32) -> Result<(), Failure>) -> Result<Vec<u32>, Failure> {
        let mut sizes = Vec::new();
        for size in &self.sizes {
            let pages = size.pages(trace.page_size, trace.pages).map_err(Failure::Usage)?;
            answers(pages)?;
            sizes.push(pages);
        }
        if self.sizes.is_empty() {
            let spacing = match self.spacing {
                Spaced::Even => Spacing::Even,
                Spaced::Log => Spacing::Log,
            };
            sizes = spacing.sizes(self.points, trace.pages);
            sizes.retain(|&size| answers(size).is_ok());
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(sizes)
    }

    fn replay(&self, trace: &Trace, specs: Vec<Spec>, sizes: Vec<u32>) -> Result<Vec<Outcome>, Failure> {
        let asked = specs.len() * sizes.len();
        let sweep = Sweep { specs, sizes, warmup: 0, threads: self.threads };
        let replaying = Progress::new(format!("replaying {}", trace.name), Some(sweep.work(&Watch::default(), trace)));
        interrupt::listen();
        let outcomes = sweep.run(trace, &|more| {
            replaying.add(more);
            !interrupt::asked()
        });
        interrupt::ignore();
        replaying.finish();
        if outcomes.len() == asked {
            return Ok(outcomes);
        }
        Err(Failure::Stopped(format!("stopped at {} of {asked} points of {}", outcomes.len(), trace.name)))
    }
}

/// Whether the one pass of LRU's stack, and so SHARDS, is for this policy.
fn is_lru(spec: &Spec) -> bool {
    spec.info.name == Lru::INFO.name
}

impl Curves {
    /// Hits and misses of a policy's cache of so many pages, and the ratio of the misses.
    fn point(&self, line: &Line, pages: u32) -> (u64, u64, f64) {
        let miss_ratio = line.curve.miss_ratio(pages);
        let misses = (miss_ratio * self.trace.references as f64).round() as u64;
        (self.trace.references - misses, misses, miss_ratio)
    }
}

const CSV_HEADER: &str = "trace,policy,pages,references,hits,misses,hit_ratio,miss_ratio";

fn print_csv(curves: &Curves, out: &mut impl Write) -> Result<(), Failure> {
    let mut rows = csv::Writer::from_writer(out);
    for line in &curves.lines {
        for &pages in &curves.sizes {
            let (hits, misses, miss_ratio) = curves.point(line, pages);
            rows.write_record([
                &curves.trace.name,
                &line.policy,
                &pages.to_string(),
                &curves.trace.references.to_string(),
                &hits.to_string(),
                &misses.to_string(),
                &format!("{:.6}", 1.0 - miss_ratio),
                &format!("{miss_ratio:.6}"),
            ])?;
        }
    }
    Ok(rows.flush()?)
}

fn to_json(curves: &Curves) -> serde_json::Value {
    let Curves { trace, sizes, sample, lines } = curves;
    let points = |line: &Line| -> Vec<_> {
        let point = |&pages: &u32| {
            let (hits, misses, miss_ratio) = curves.point(line, pages);
            json!({ "pages": pages, "hits": hits, "misses": misses, "hit_ratio": 1.0 - miss_ratio, "miss_ratio": miss_ratio })
        };
        sizes.iter().map(point).collect()
    };
    let lines = lines.iter().map(|line| {
        json!({
            "policy": line.policy,
            "spread": line.spread,
            "mean_absolute_error": line.error,
            "points": points(line),
        })
    });
    json!({
        "trace": trace.name,
        "references": trace.references,
        "footprint_pages": trace.pages,
        "page_size": trace.page_size,
        "estimate": sample.is_some(),
        "sample": sample.map(|(rate, pages)| json!({ "rate": rate, "pages": pages })),
        "curves": lines.collect::<Vec<_>>(),
    })
}
