//! `forebay analyze`: what a trace is like, and what policies make of it.

use crate::failure::{Failure, unless_stopped};
use crate::files::{Pages, ReportFile};
use crate::input::{How, SAMPLE, managers, parse_threads};
use crate::terminal::analysis::{print, summary};
use crate::terminal::forms::{self, Form, Output};
use crate::terminal::progress::Terminal;
use clap::Args;
use clap::builder::PossibleValuesParser;
use forebay_policy::Spec;
use forebay_report::study::analysis::{keys, section};
use forebay_sim::Size;
use forebay_sim::analysis::{self, Section};
use forebay_sim::study::analysis::Asked;
use forebay_sim::study::{Analysis, Answer};
use std::io::Write;
use std::path::PathBuf;

/// Say what a trace is like: footprint and working set, space and time, temporal distances, frequencies, reference classes, and
/// what policies hit of it by distance, by request and by owner.
///
/// The figures are those that the papers draw; docs/analysis.md explains each, and the JSON that holds them all.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces; by default the embedded sample
    #[arg(value_name = "TRACE", default_value = SAMPLE, hide_default_value = true)]
    traces: Vec<String>,
    /// Only these sections; by default all
    #[arg(long, value_name = "SECTION,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(Section::ALL.map(Section::name)))]
    only: Vec<String>,
    /// The policies whose hits and misses are shown
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…,…", value_delimiter = ',', default_value = "lru,ubm,opt", value_parser = Spec::parse)]
    policies: Vec<Spec>,
    /// Their cache sizes: pages (1000), bytes (64MiB) or percent of the distinct pages (10%)
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', default_value = "10%", value_parser = str::parse::<Size>)]
    sizes: Vec<Size>,
    /// A TOML file that says which manager is in charge of which owners and files, for the policy lru-sp
    #[arg(long, value_name = "FILE")]
    managers: Option<PathBuf>,
    /// How many columns (times) and rows (positions) the space–time graph has
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "512x256", value_parser = parse_grid)]
    grid: (u32, u32),
    /// Threads; 0: one for each core
    #[arg(short, long, default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    report: ReportFile,
    #[command(flatten)]
    how: How,
}

/// The most cells in a direction: a picture has no more dots.
const MOST_CELLS: u32 = 4096;

fn parse_grid(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse().ok().filter(|number| (1..=MOST_CELLS).contains(number));
    text.split_once('x')
        .and_then(|(columns, rows)| Some((number(columns)?, number(rows)?)))
        .ok_or_else(|| format!("write COLUMNSxROWS, as in 512x256, each from 1 to {MOST_CELLS}"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { traces, how, report, .. } = arguments;
    how.check()?;
    report.check(traces)?;
    let asked = arguments.asked()?;
    let mut out = Output::new(report.wanted());
    if arguments.format == Form::Csv {
        forms::csv(&mut out, [Analysis::header()])?;
    }
    let mut analyses = Vec::new();
    let mut pages = Pages::default();
    let mut stopped = None;
    for name in traces {
        let answer = asked.of(name, how.read(name)?.as_mut(), &Terminal);
        let Some(analysis) = unless_stopped(answer, &mut stopped)? else { break };
        if report.wanted() {
            pages.add(keys(&analysis, &asked.asked.specs), section(&analysis, &asked.asked.specs));
        }
        match arguments.format {
            Form::Table => print(&analysis, &mut out)?,
            Form::Csv => forms::csv(&mut out, analysis.rows())?,
            Form::Json => {}
        }
        analyses.push(analysis);
    }
    if arguments.format == Form::Table && analyses.len() > 1 {
        summary(&analyses, &mut out)?;
    }
    if arguments.format == Form::Json {
        // On one line: a graph has a hundred thousand cells.
        serde_json::to_writer(&mut out, &analyses)?;
        writeln!(out)?;
    }
    out.flush()?;
    report.write(traces, pages)?;
    stopped.map_or(Ok(()), |stop| Err(stop.into()))
}

impl Arguments {
    fn asked(&self) -> Result<Asked, Failure> {
        let asked = |section: &Section| self.only.is_empty() || self.only.iter().any(|name| name == section.name());
        let specs = Spec::each_once(self.policies.iter().cloned());
        let managers = managers(self.managers.as_deref(), &specs)?;
        let sections = Section::ALL.into_iter().filter(asked).collect();
        let asked = analysis::Asked { sections, specs, sizes: Vec::new(), grid: self.grid, threads: self.threads };
        Ok(Asked { asked, sizes: self.sizes.clone(), managers, page_size: self.how.page_size })
    }
}
