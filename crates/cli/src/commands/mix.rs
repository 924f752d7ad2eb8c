//! `forebay mix`: several traces as one.

use crate::failure::Failure;
use crate::files::write_trace;
use crate::input::How;
use crate::terminal::progress::Terminal;
use clap::Args;
use forebay_sim::study::Monitor;
use forebay_trace::ConvertOptions;
use forebay_trace::mix::{self, Mix, Source, Span, Times};
use std::path::PathBuf;

/// Mix traces, as if all had happened at once on one machine: programs and files in one memory, volumes on one server.
///
/// Requests come in the order of their times. Owners and objects become SOURCE/NAME, where SOURCE is the file's name up to its first
/// dot: `forebay analyze OUT --only owners` shows hits and misses by source. OUT's name says its format, as for `convert`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Two or more traces: files or synthetic traces, each read twice
    #[arg(value_name = "TRACE", required = true, num_args = 2..)]
    inputs: Vec<String>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Stretch all traces to the same duration, that of the longest; one without times is spread by its references
    #[arg(long)]
    scale: bool,
    /// Count the times of each trace from its first request
    #[arg(long, conflicts_with = "scale")]
    from_start: bool,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { inputs, output, how, .. } = arguments;
    how.check()?;
    if inputs.iter().any(|name| name == "-") {
        return Err(Failure::Usage(
            "mix reads each trace twice, which standard input does not allow: name a file".to_owned(),
        ));
    }
    let times = match (arguments.scale, arguments.from_start) {
        (true, _) => Times::Scaled,
        (_, true) => Times::FromStart,
        _ => Times::Recorded,
    };
    let mut sources: Vec<Source> = Vec::new();
    for input in inputs {
        let reading = Terminal.begin(format!("reading {input}"), None, false);
        let span = Span::of(input, how.read(input)?.as_mut(), how.page_size, &mut |done| reading.at(done))?;
        sources.push(Source { name: mix::name(input, &sources), reader: how.read(input)?, span });
    }
    if times == Times::Recorded {
        for (before, after) in mix::gaps(&sources) {
            eprintln!("forebay: {before} ends before {after} begins; --from-start or --scale makes them run at once");
        }
    }
    let mut mix = Mix::new(sources, times, how.page_size)?;
    let options = ConvertOptions { page_size: how.page_size, force: arguments.force, ..ConvertOptions::default() };
    let progress = Terminal.begin(format!("mixing {}", inputs.join(", ")), None, false);
    write_trace(&mut mix, output, &options, progress.as_ref())
}
