//! `forebay mix`: several traces as one.

use crate::failure::Failure;
use crate::input::How;
use crate::terminal::progress::Progress;
use clap::Args;
use forebay_trace::mix::{Mix, Source, Span, Times};
use forebay_trace::{ConvertOptions, Reader};
use std::path::{Path, PathBuf};

/// Mix traces, as if all had happened at once on one machine: programs and files in one memory, volumes on one server.
///
/// Requests come in the order of their times. Owners and objects become SOURCE/NAME, where SOURCE is the file's name up to its first
/// dot: `forebay analyze OUT --only owners` tells hits and misses by source. OUT's name says its format, as for `convert`.
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
            "mix reads each trace twice, which standard input does not bear: name a file".to_owned(),
        ));
    }
    let times = match (arguments.scale, arguments.from_start) {
        (true, _) => Times::Scaled,
        (_, true) => Times::FromStart,
        _ => Times::Recorded,
    };
    let mut sources: Vec<Source> = Vec::new();
    for input in inputs {
        let reading = Progress::new(format!("reading {input}"), None);
        let span = Span::of(input, open(how, input)?.as_mut(), how.page_size, &mut |done| reading.set(done))?;
        let named = |name: &String| sources.iter().any(|source| source.name == *name);
        let numbered = (2..).map(|number| format!("{}#{number}", source_name(input)));
        let mut names = std::iter::once(source_name(input).to_owned()).chain(numbered);
        let name = names.find(|name| !named(name)).expect("there is always a next number");
        sources.push(Source { name, reader: open(how, input)?, span });
    }
    if times == Times::Recorded {
        warn_of_gaps(&sources);
    }
    let mut mix = Mix::new(sources, times, how.page_size)?;
    let options = ConvertOptions { page_size: how.page_size, force: arguments.force };
    let progress = Progress::new(format!("mixing {}", inputs.join(", ")), None);
    forebay_trace::convert(&mut mix, output, &options, &mut |done| progress.set(done))?;
    Ok(())
}

fn open(how: &How, input: &str) -> forebay_trace::Result<Box<dyn Reader>> {
    Ok(how.open(input)?.1)
}

/// What a trace's owners and objects are named after: its file's name up to the first dot, or the kind of a synthetic trace.
fn source_name(input: &str) -> &str {
    let file = Path::new(input).file_name().and_then(|name| name.to_str()).unwrap_or(input);
    let name = file.split(['.', ':']).next().unwrap_or_default();
    if name.is_empty() { file } else { name }
}

/// Says which source ends before the next one begins: they do not compete, which is seldom meant.
fn warn_of_gaps(sources: &[Source]) {
    let mut by_start: Vec<&Source> = sources.iter().filter(|source| source.span.has_times()).collect();
    by_start.sort_by_key(|source| source.span.first);
    let mut latest: Option<&Source> = None;
    for source in by_start {
        if let Some(before) = latest.filter(|before| before.span.last < source.span.first) {
            eprintln!(
                "forebay: {} ends before {} begins; --from-start or --scale makes them run at once",
                before.name, source.name
            );
        }
        if latest.is_none_or(|latest| latest.span.last < source.span.last) {
            latest = Some(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::source_name;

    #[test]
    fn a_source_is_named_after_its_file_or_its_kind() {
        let names = ["/tmp/gzip.lackey.zst", "zipf:pages=10", "web", ".hidden"].map(source_name);
        assert_eq!(names, ["gzip", "zipf", "web", ".hidden"]);
    }
}
