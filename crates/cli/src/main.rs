//! The command `forebay`: what every replacement policy would make of a trace, the traces themselves, and the policies at work.

mod advice;
mod analysis_advice;
mod analysis_charts;
mod analysis_figures;
mod analysis_table;
mod analyze;
mod by_owner;
mod charts;
mod compare;
mod compare_forms;
mod control;
mod convert;
mod curve;
mod device;
mod devices;
mod experiment;
mod failure;
mod formats;
mod info;
mod input;
mod interrupt;
mod levels;
mod levels_table;
mod managers;
mod manual;
mod mix;
mod only;
mod output;
mod plot;
mod policies;
mod progress;
mod report;
mod sampling;
mod serve;
mod table;
mod top;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Measure buffer replacement policies on your own references.
///
/// Without a command, compares every policy on the embedded sample: cscope, gcc and SQLite at work at once.
#[derive(Parser)]
#[command(name = "forebay", version, arg_required_else_help = false, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Say on standard error where the time goes.
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    Compare(Box<compare::Arguments>),
    Curve(curve::Arguments),
    Levels(levels::Arguments),
    Analyze(analyze::Arguments),
    Info(info::Arguments),
    Convert(convert::Arguments),
    Mix(mix::Arguments),
    Policies(policies::Arguments),
    Formats(formats::Arguments),
    Devices(devices::Arguments),
    Experiment(experiment::Arguments),
    Serve(Box<serve::Arguments>),
    Control(control::Arguments),
    Top(top::Arguments),
    Manual(manual::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  forebay compare trace.csv.gz --sizes 1%,10%,64MiB     every policy at three sizes
  forebay compare t.lis --policies lru,clock-pro,opt    some policies at the usual sizes
  strace -f -y -ttt -o t.strace make; forebay compare t.strace
                                                        what `make` would want of a cache
  forebay compare zipf:pages=100000,references=10M      a synthetic trace
  forebay curve trace.lis --sample 1% --policies lru,arc  miss-ratio curves, estimated
  forebay levels t.csv -l 'lru:8MiB*12' -l lru:1GiB,mq:1GiB
                                                        twelve caches over one, of either policy
  forebay analyze trace.lis                             distances, classes, space and time
  forebay info trace.vscsi.zst                          what a trace holds
  forebay convert trace.spc trace.parquet               a trace for DuckDB, Polars, pandas
  forebay mix gzip.parquet web.spc -o both.parquet --scale
                                                        two traces in one memory
  forebay serve --volume data=/srv/data.img --cache 1GiB
                                                        a volume behind a cache, over NBD

Exit status: 0 done, 1 a trace or the system failed, 2 the command line is wrong,
130 stopped by Ctrl-C: what was done by then is shown.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let verbose = arguments.verbose;
    let done = match arguments.command {
        None => compare::run(&compare::Arguments::of_sample(), verbose),
        Some(Command::Compare(arguments)) => compare::run(&arguments, verbose),
        Some(Command::Curve(arguments)) => curve::run(&arguments),
        Some(Command::Levels(arguments)) => levels::run(&arguments),
        Some(Command::Analyze(arguments)) => analyze::run(&arguments),
        Some(Command::Info(arguments)) => info::run(&arguments),
        Some(Command::Convert(arguments)) => convert::run(&arguments, verbose),
        Some(Command::Mix(arguments)) => mix::run(&arguments),
        Some(Command::Policies(arguments)) => policies::run(&arguments),
        Some(Command::Formats(arguments)) => formats::run(&arguments),
        Some(Command::Devices(arguments)) => devices::run(&arguments),
        Some(Command::Experiment(arguments)) => experiment::run(&arguments),
        Some(Command::Serve(arguments)) => serve::run(*arguments),
        Some(Command::Control(arguments)) => control::run(arguments),
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Manual(arguments)) => manual::run(&arguments),
    };
    match done {
        Ok(()) | Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(Failure::Said(code)) => ExitCode::from(code),
        Err(Failure::Usage(message)) => {
            eprintln!("forebay: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Stopped(message)) => {
            eprintln!("forebay: {message}");
            ExitCode::from(interrupt::EXIT_CODE)
        }
        Err(Failure::Failed(message)) => {
            eprintln!("forebay: {message}");
            ExitCode::FAILURE
        }
    }
}
