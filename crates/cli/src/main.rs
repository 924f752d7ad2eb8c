//! The command `forebay`: what every replacement policy would make of a trace, the traces themselves, and the policies at work.

mod commands;
mod failure;
mod files;
mod input;
mod terminal;
mod top;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::{
    advise, analyze, clock, compare, completions, control, convert, curve, devices, experiment, explain, formats,
    guard, info, levels, managers, manual, mix, mount, policies, record, run, serve, steer,
};
use failure::Failure;
use std::path::Path;
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
    Record(record::Arguments),
    Compare(Box<compare::Arguments>),
    Curve(curve::Arguments),
    Levels(levels::Arguments),
    Analyze(analyze::Arguments),
    Info(info::Arguments),
    Convert(convert::Arguments),
    Mix(mix::Arguments),
    Managers(managers::Arguments),
    Policies(policies::Arguments),
    Explain(explain::Arguments),
    Formats(formats::Arguments),
    Devices(devices::Arguments),
    Experiment(experiment::Arguments),
    Serve(Box<serve::Arguments>),
    Mount(Box<mount::Arguments>),
    Steer(Box<steer::Arguments>),
    #[command(name = "mount-clock", hide = true)]
    Clock(clock::Arguments),
    #[command(name = "steer-guard", hide = true)]
    Guard(guard::Arguments),
    Run(run::Arguments),
    Advise(advise::Arguments),
    Control(control::Arguments),
    Top(commands::top::Arguments),
    Manual(manual::Arguments),
    Completions(completions::Arguments),
}

const EXAMPLES: &str = include_str!("main.txt").trim_ascii_end();

/// An option's negative number is its value, of which it is said what is wrong with it, and no option of its own.
fn take_negative(command: clap::Command) -> clap::Command {
    let takes = |arg: clap::Arg| {
        let option = !arg.is_positional() && arg.get_action().takes_values();
        arg.allow_negative_numbers(option)
    };
    command.mut_args(takes).mut_subcommands(take_negative)
}

/// Ends with what is wrong with the command line, and what may be meant by it.
fn exit(error: &clap::Error) -> ! {
    // Of a command whose own words were not recognised, its usage is shown.
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(file)) if usage.contains(" control record ") => {
            eprintln!(
                "forebay: {file}: what of the recording? `forebay control record start {file}` begins it, `record snapshot {file}` writes what was recorded so far"
            );
            std::process::exit(2);
        }
        Some(ContextValue::String(trace)) if Path::new(trace).is_file() || trace.contains(['.', '/']) => {
            eprintln!("forebay: {trace}: name a command first, as in `forebay compare {trace}`");
            std::process::exit(2);
        }
        _ => error.exit(),
    }
}

/// Runs a service, whatever limits and signals it has inherited.
fn service(run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    forebay_server::settle();
    run()
}

fn main() -> ExitCode {
    let matches = take_negative(Arguments::command()).try_get_matches().unwrap_or_else(|error| exit(&error));
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let verbose = arguments.verbose;
    let sample = || self::Arguments::parse_from(["forebay", "compare"]).command.expect("it is named");
    let done = match arguments.command.unwrap_or_else(sample) {
        Command::Record(arguments) => record::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments, verbose),
        Command::Curve(arguments) => curve::run(&arguments),
        Command::Levels(arguments) => levels::run(&arguments),
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments, verbose),
        Command::Mix(arguments) => mix::run(&arguments),
        Command::Managers(arguments) => managers::run(&arguments),
        Command::Policies(arguments) => policies::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Formats(arguments) => formats::run(&arguments),
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Experiment(arguments) => experiment::run(&arguments),
        Command::Serve(arguments) => service(|| serve::run(*arguments)),
        Command::Mount(arguments) => service(|| mount::run(*arguments)),
        Command::Steer(arguments) => steer::run(*arguments),
        Command::Clock(arguments) => clock::run(&arguments),
        Command::Guard(arguments) => guard::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Control(arguments) => control::run(arguments),
        Command::Top(arguments) => commands::top::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments, self::Arguments::command()),
        Command::Completions(arguments) => completions::run(&arguments, self::Arguments::command()),
    };
    match done {
        Ok(()) | Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::Said(_)) {
                eprintln!("forebay: {failure}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
