//! `forebay levels`: hierarchies of caches over traces.

use crate::failure::{Failure, unless_stopped};
use crate::files::{Files, Pages};
use crate::input::{How, SAMPLE, parse_threads};
use crate::terminal::forms::{Answers, Form, Output};
use crate::terminal::levels::print;
use crate::terminal::progress::Terminal;
use clap::{Args, ValueEnum};
use forebay_model::presets::Named;
use forebay_report::study::levels::{keys, section};
use forebay_sim::levels::{Mode, Write};
use forebay_sim::study::Levels;
use forebay_sim::study::levels::{Alternatives, Asked};

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
    #[arg(short, long = "level", value_name = "POLICY[:PARAMETER=VALUE]…:SIZE[*CACHES],…", required = true, value_parser = str::parse::<Alternatives>)]
    levels: Vec<Alternatives>,
    /// Who keeps a page that passes
    #[arg(short, long, value_enum, default_value_t)]
    mode: Keeping,
    /// What becomes of writes, level by level, the last one named holding for all below: `through`, `back` (dirty pages are sent down
    /// when they are evicted) or `back:REFERENCES` (and each time that REFERENCES references of the trace have passed)
    #[arg(short, long, value_name = "through|back[:REFERENCES],…", value_delimiter = ',', default_value = "back", value_parser = str::parse::<Write>)]
    write: Vec<Write>,
    /// Also tell what the last level's misses and writes cost on a device; `forebay devices` lists those known by name
    #[arg(short, long, value_name = "NAME|FILE.toml", value_parser = str::parse::<Named>)]
    device: Option<Named>,
    /// Also analyze the references that each level gets: by temporal distance, and how unevenly they spread over pages; not in the report
    #[arg(short, long)]
    analyze: bool,
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

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Keeping {
    /// Every level that it passes
    #[default]
    Inclusive,
    /// One level: what goes up leaves the cache below, what is evicted is demoted to it
    Exclusive,
    /// Every level that it passes; and each notifies the one below of what it evicts and how often it has hit there
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

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let asked = Asked {
        levels: arguments.levels.clone(),
        mode: arguments.mode.into(),
        writes: arguments.write.clone(),
        device: arguments.device.clone(),
        analyze: arguments.analyze,
        page_size: arguments.how.page_size,
        threads: arguments.threads,
    };
    asked.check()?;
    arguments.how.check()?;
    arguments.files.check(&arguments.traces)?;
    let mut answers = Answers::new::<Levels>(arguments.format, Output::new(arguments.files.wanted()))?;
    let mut pages = Pages::default();
    let mut stopped = None;
    for name in &arguments.traces {
        let answer = asked.of(name, arguments.how.read(name)?.as_mut(), &Terminal);
        let Some(levels) = unless_stopped(answer, &mut stopped)? else { break };
        if arguments.files.wanted() {
            pages.add(keys(&levels), section(&levels));
        }
        answers.add(&levels, print)?;
        stopped = levels.stopped;
        if stopped.is_some() {
            break;
        }
    }
    answers.finish()?;
    arguments.files.write(&arguments.traces, pages)?;
    stopped.map_or(Ok(()), |stop| Err(stop.into()))
}
