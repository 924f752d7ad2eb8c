//! `forebay levels`: hierarchies of caches over traces.

use crate::device::{self, Device};
use crate::failure::Failure;
use crate::input::{How, SAMPLE};
use crate::interrupt;
use crate::levels_table;
use crate::output::Form;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use forebay_policy::Spec;
use forebay_sim::levels::{Analysis, Histogram, Level, Mode, Outcome, Write as Writes};
use forebay_sim::{Extent, Hierarchy, Keep, Model, Size, Sweep, Trace};
use rayon::prelude::*;
use serde_json::json;
use std::collections::HashSet;
use std::io::{self, Write};

/// Replay a trace through a hierarchy of caches: first-level caches by owner, one cache at each level below.
///
/// Levels may name alternatives; every combination of them is replayed.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces; by default the embedded sample
    #[arg(value_name = "TRACE", default_value = SAMPLE, hide_default_value = true)]
    traces: Vec<String>,
    /// A level, from the first one down: a policy and a size (lru:64MiB, mq:lifetime=9000:10%), at the first level times the number of its
    /// caches (lru:8MiB*12), over which owners are spread; or alternatives to be compared
    #[arg(short, long = "level", value_name = "POLICY[:PARAMETER=VALUE]…:SIZE[*CACHES],…", required = true, value_parser = parse_level)]
    levels: Vec<Alternatives>,
    /// Who keeps a page that passes
    #[arg(short, long, value_enum, default_value_t)]
    mode: Keeping,
    /// What becomes of writes, level by level, the last one named holding for all below: `through`, `back` (dirty pages are sent down
    /// when they are evicted) or `back:REFERENCES` (and each time that so many references of the trace have passed)
    #[arg(short, long, value_name = "through|back[:REFERENCES],…", value_delimiter = ',', default_value = "back", value_parser = parse_write)]
    write: Vec<Writes>,
    /// Also tell what the last level's misses and writes cost on a device; `forebay devices` lists those known by name
    #[arg(short, long, value_name = "NAME|FILE.toml", value_parser = device::parse)]
    device: Option<Device>,
    /// Also analyze the references that each level gets: by temporal distance, and how unevenly they spread over pages
    #[arg(short, long)]
    analyze: bool,
    /// Threads; 0: one for each core
    #[arg(short, long, default_value_t = 0)]
    threads: usize,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Keeping {
    /// Every level that it passes
    #[default]
    Inclusive,
    /// One level: what goes up leaves the cache below, what is evicted is demoted to it
    Exclusive,
    /// Every level that it passes; and each tells the one below what it evicts and how often it has hit there
    Hints,
}

impl From<Keeping> for Mode {
    fn from(keeping: Keeping) -> Self {
        match keeping {
            Keeping::Inclusive => Self::Inclusive,
            Keeping::Exclusive => Self::Exclusive,
            Keeping::Hints => Self::Hints,
        }
    }
}

/// What one `--level` names.
#[derive(Clone, Debug)]
struct Alternatives(Vec<Asked>);

/// A level as the user named it.
#[derive(Clone, Debug)]
struct Asked {
    spec: Spec,
    size: Size,
    caches: u32,
}

/// So many caches are more than anybody has in front of one: each takes memory for every page of the trace.
const MOST_CACHES: u32 = 4096;

fn parse_level(text: &str) -> Result<Alternatives, String> {
    text.split(',').map(|text| parse_cache(text.trim())).collect::<Result<_, _>>().map(Alternatives)
}

fn parse_cache(text: &str) -> Result<Asked, String> {
    let form = || format!("`{text}` is no level: write POLICY:SIZE, as in lru:64MiB, mq:10% or lru:8MiB*12");
    let (policy, size) = text.rsplit_once(':').ok_or_else(form)?;
    let spec = Spec::parse(policy)?;
    if spec.needs_future() {
        return Err(format!(
            "{policy} knows the future, which here depends on the caches above: \
             for a bound at the second level see `forebay compare --behind`"
        ));
    }
    let (size, caches) = match size.split_once('*') {
        None => (size, 1),
        Some((size, caches)) => {
            let caches = caches.trim().parse().ok().filter(|caches| (1..=MOST_CACHES).contains(caches));
            (size, caches.ok_or_else(|| format!("`{text}`: write 1 to {MOST_CACHES} caches, as in lru:8MiB*12"))?)
        }
    };
    Ok(Asked { spec, size: size.parse()?, caches })
}

fn parse_write(text: &str) -> Result<Writes, String> {
    match text.trim().split_once(':') {
        None if text.trim() == "through" => Ok(Writes::Through),
        None if text.trim() == "back" => Ok(Writes::Back { flush: None }),
        Some(("back", references)) => {
            let references = references.parse().ok().filter(|&references: &u64| references > 0);
            let wrong = || format!("`{text}`: after `back:` write a number of references, at least 1");
            Ok(Writes::Back { flush: Some(references.ok_or_else(wrong)?) })
        }
        _ => Err(format!("`{text}` is no way to write: take through, back or back:REFERENCES")),
    }
}

/// What came of one trace.
pub(crate) struct Levels {
    pub(crate) trace: Extent,
    pub(crate) device: Option<Device>,
    /// How many owners made the references.
    pub(crate) owners: usize,
    /// Those that were replayed to the end, with what came of them.
    pub(crate) runs: Vec<(Hierarchy, Outcome)>,
    /// What is not done, if it was stopped.
    stopped: Option<String>,
}

impl Arguments {
    fn check(&self) -> Result<(), Failure> {
        if self.levels[1..].iter().flat_map(|level| &level.0).any(|asked| asked.caches > 1) {
            return Err(Failure::Usage(
                "several caches (*N) are for the first --level: those below are one cache each".to_owned(),
            ));
        }
        if self.write.len() > self.levels.len() {
            return Err(Failure::Usage(format!(
                "--write names {} levels, and --level {}: leave some out",
                self.write.len(),
                self.levels.len()
            )));
        }
        self.how.check()
    }

    /// Every combination of the alternatives, for a trace with pages of that size and so many of them.
    fn hierarchies(&self, page_size: u64, footprint: u32) -> Result<Vec<Hierarchy>, Failure> {
        let mut combinations: Vec<Vec<Level>> = vec![Vec::new()];
        for (index, alternatives) in self.levels.iter().enumerate() {
            let write = *self.write.get(index).or(self.write.last()).expect("clap gives a default");
            let levels = alternatives.0.iter().map(|asked| {
                let pages = asked.size.pages(page_size, footprint).map_err(Failure::Usage)?;
                Ok(Level { spec: asked.spec.clone(), pages, caches: asked.caches, write })
            });
            let levels: Vec<Level> = levels.collect::<Result<_, Failure>>()?;
            let with =
                |above: Vec<Level>| levels.iter().map(move |level| [above.clone(), vec![level.clone()]].concat());
            combinations = combinations.into_iter().flat_map(with).collect();
        }
        let device = self.device.as_ref().map(|device| Model::clone(&device.model));
        let hierarchy =
            |levels| Hierarchy { levels, mode: self.mode.into(), device: device.clone(), analyze: self.analyze };
        Ok(combinations.into_iter().map(hierarchy).collect())
    }

    fn keep(&self) -> Keep {
        let specs: Vec<Spec> = self.levels.iter().flat_map(|level| &level.0).map(|asked| asked.spec.clone()).collect();
        Keep { places: self.device.is_some() || Sweep::keep(&specs).places, requests: true }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.check()?;
    let mut out = io::stdout().lock();
    let mut answers = Vec::new();
    let mut stopped = None;
    if arguments.format == Form::Csv {
        writeln!(out, "{CSV_HEADER}")?;
    }
    for name in &arguments.traces {
        let levels = replay(name, arguments)?;
        match arguments.format {
            Form::Table => levels_table::print(&levels, &mut out)?,
            Form::Csv => print_csv(&levels, &mut out)?,
            Form::Json => answers.push(to_json(&levels)),
        }
        stopped = levels.stopped;
        if stopped.is_some() {
            break;
        }
    }
    if arguments.format == Form::Json {
        serde_json::to_writer_pretty(&mut out, &answers)?;
        writeln!(out)?;
    }
    out.flush()?;
    stopped.map_or(Ok(()), |message| Err(Failure::Stopped(message)))
}

fn replay(name: &str, arguments: &Arguments) -> Result<Levels, Failure> {
    let (_, mut reader) = arguments.how.open(name)?;
    let reading = Progress::new(format!("reading {name}"), None);
    let page_size = arguments.how.page_size;
    let trace = Trace::load(name, reader.as_mut(), page_size, arguments.keep(), &mut |done| reading.set(done))?;
    reading.finish();
    let hierarchies = arguments.hierarchies(trace.page_size, trace.pages)?;
    let asked = hierarchies.len();
    let replaying = Progress::new(format!("replaying {name}"), Some(asked as u64 * trace.len() as u64));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(arguments.threads).build();
    let pool = pool.map_err(|error| Failure::Failed(format!("threads cannot be started: {error}")))?;
    interrupt::listen();
    let progress = |more| {
        replaying.add(more);
        !interrupt::asked()
    };
    let one = |hierarchy: Hierarchy| hierarchy.run(&trace, &progress).map(|outcome| (hierarchy, outcome));
    let runs: Vec<_> = pool.install(|| hierarchies.into_par_iter().with_max_len(1).filter_map(one).collect());
    interrupt::ignore();
    replaying.finish();
    let stopped = (runs.len() < asked).then(|| format!("stopped after {} of {asked} runs over {name}", runs.len()));
    let owners = trace.requests.owner.iter().collect::<HashSet<_>>().len();
    Ok(Levels { trace: trace.extent(), device: arguments.device.clone(), owners, runs, stopped })
}

/// What a mode is called.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Inclusive => "inclusive",
        Mode::Exclusive => "exclusive",
        Mode::Hints => "hints",
    }
}

/// A way to write, as the user writes it.
pub(crate) fn write(write: Writes) -> String {
    match write {
        Writes::Through => "through".to_owned(),
        Writes::Back { flush: None } => "back".to_owned(),
        Writes::Back { flush: Some(references) } => format!("back:{references}"),
    }
}

const CSV_HEADER: &str = "trace,mode,hierarchy,level,policy,pages,caches,write,references,hits,hit_ratio,reads,read_hits,\
    writes_received,writes_sent,demotions_received,hints_received,\
    storage_reads,storage_writes,device_ms,wait_mean_ms,wait_p99_ms,requests,mean_request_pages,bytes,price";

/// A row for each level of each hierarchy; storage and device, which are the hierarchy's, stand in the rows of its last level.
fn print_csv(levels: &Levels, out: &mut impl Write) -> Result<(), Failure> {
    let mut rows = csv::Writer::from_writer(out);
    for (number, (hierarchy, outcome)) in levels.runs.iter().enumerate() {
        for (index, (level, passed)) in hierarchy.levels.iter().zip(&outcome.levels).enumerate() {
            let mut row = vec![
                levels.trace.name.clone(),
                mode(hierarchy.mode).to_owned(),
                (number + 1).to_string(),
                (index + 1).to_string(),
                level.spec.label.clone(),
                level.pages.to_string(),
                level.caches.to_string(),
                write(level.write),
                passed.references.to_string(),
                passed.hits.to_string(),
                format!("{:.6}", passed.hit_ratio()),
                passed.reads.to_string(),
                passed.read_hits.to_string(),
                passed.writes_received.to_string(),
                passed.writes_sent.to_string(),
                passed.demotions_received.to_string(),
                passed.hints_received.to_string(),
            ];
            if index + 1 == hierarchy.levels.len() {
                row.extend([outcome.storage_reads.to_string(), outcome.storage_writes.to_string()]);
                if let Some(cost) = outcome.device {
                    row.extend([
                        format!("{:.1}", cost.device_ms),
                        format!("{:.6}", cost.wait_mean_ms),
                        format!("{:.3}", cost.wait_p99_ms),
                        cost.requests.to_string(),
                        format!("{:.3}", cost.mean_request_pages),
                        cost.bytes.to_string(),
                        cost.price.map_or_else(String::new, |price| format!("{price:.6}")),
                    ]);
                }
            }
            row.resize(CSV_HEADER.split(',').count(), String::new());
            rows.write_record(row)?;
        }
    }
    rows.flush()?;
    Ok(())
}

/// As `forebay analyze` tells it of a trace.
fn analysis(analysis: &Analysis) -> serde_json::Value {
    let powers = || (0..).map(|power| 1u64 << power);
    let distances = powers().zip(analysis.distances.counts());
    let distances = distances.map(|(distance, references)| json!({ "distance": distance, "references": references }));
    let percent = |histogram: &Histogram| histogram.at_least().into_iter().map(|share| 100.0 * share);
    let frequency = powers().zip(percent(&analysis.pages).zip(percent(&analysis.references)));
    let frequency = frequency.map(|(times, (pages, references))| {
        json!({ "times": times, "pages_percent": pages, "references_percent": references })
    });
    json!({
        "temporal_distance": { "points": distances.collect::<Vec<_>>() },
        "frequency": frequency.collect::<Vec<_>>(),
    })
}

fn to_json(levels: &Levels) -> serde_json::Value {
    let Levels { trace, device, runs, .. } = levels;
    let runs = runs.iter().map(|(hierarchy, outcome)| {
        let levels = hierarchy.levels.iter().zip(&outcome.levels).map(|(level, passed)| {
            json!({
                "policy": level.spec.label,
                "pages": level.pages,
                "caches": level.caches,
                "write": write(level.write),
                "references": passed.references,
                "hits": passed.hits,
                "hit_ratio": passed.hit_ratio(),
                "reads": passed.reads,
                "read_hits": passed.read_hits,
                "writes_received": passed.writes_received,
                "writes_sent": passed.writes_sent,
                "demotions_received": passed.demotions_received,
                "hints_received": passed.hints_received,
                "analysis": passed.analysis.as_ref().map(analysis),
            })
        });
        json!({
            "levels": levels.collect::<Vec<_>>(),
            "mode": mode(hierarchy.mode),
            "storage_reads": outcome.storage_reads,
            "storage_writes": outcome.storage_writes,
            "device": outcome.device.map(device::to_json),
            "seconds": outcome.seconds,
        })
    });
    json!({
        "trace": trace.name,
        "device": device.as_ref().map(|device| &device.name),
        "references": trace.references,
        "footprint_pages": trace.pages,
        "page_size": trace.page_size,
        "runs": runs.collect::<Vec<_>>(),
    })
}
