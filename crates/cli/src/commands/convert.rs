//! `forebay convert`: a trace in another format.

use crate::failure::Failure;
use crate::files::{print_trace, write_trace};
use crate::input::How;
use crate::terminal::progress::Terminal;
use clap::Args;
use forebay_sim::study::Monitor;
use forebay_trace::ConvertOptions;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Convert a trace to Parquet, CSV, oracleGeneral or LIRS text.
///
/// OUT's name says which: `.parquet`; `.csv`; `.oracleGeneral` or `.bin`; `.lirs` or `.trace`. All but Parquet are
/// compressed if a `.gz`, `.zst` or `.xz` follows. Parquet keeps all that there is, CSV too; oracleGeneral and LIRS text know
/// pages alone, which are numbered by first use. OUT appears only when it is whole; `-` is CSV on standard output.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A trace file, `-` for standard input, a synthetic trace, or `sample`
    #[arg(value_name = "IN")]
    input: String,
    /// The file to write, or `-` for standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(arguments: &Arguments, verbose: bool) -> Result<(), Failure> {
    arguments.how.check()?;
    let (format, mut reader) = arguments.how.open(&arguments.input)?;
    let options =
        ConvertOptions { page_size: arguments.how.page_size, force: arguments.force, ..ConvertOptions::default() };
    let progress = Terminal.begin(format!("converting {}", arguments.input), None, false);
    let start = Instant::now();
    if arguments.output == Path::new("-") {
        print_trace(reader.as_mut(), progress.as_ref())?;
    } else {
        write_trace(reader.as_mut(), &arguments.output, &options, progress.as_ref())?;
    }
    if verbose {
        let (name, seconds) = (format.name, start.elapsed().as_secs_f64());
        eprintln!("forebay: {} ({name}): read and written in {seconds:.2} s", arguments.input);
    }
    Ok(())
}
