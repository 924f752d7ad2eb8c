//! `forebay steer`: the policies at work, in the kernel's own page cache.

use crate::failure::Failure;
use crate::files::check_path;
use clap::Args;
use forebay_record::OWN_FAILURE;
use forebay_report::file::write;
use forebay_server::{Hooks, Lowered, Reload, Report, SteerOptions, log, lower, steer};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Keep the kernel's page cache of files, or programs' memory, to a size, under any policy: what hits stays as quick as it is.
///
/// Nothing is mounted and no program is changed. Forebay sees which pages of the files are used, the policy decides which are to
/// stay, and the others leave. Nothing can be lost: pages leave once they are in storage, and when Forebay ends, however it ends, the
/// kernel goes on with its own lists. It needs Linux 6.12 or later and root, and for memory x86-64 and swap space.
///
/// With a PROGRAM, the files that it and its children use are steered until it ends; with --memory their memory is. Its exit code is that of this command.
///
/// The options may stand in a file (--config), under the same names; command-line options override the file.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: SteerOptions,
    /// A program to run in a control group of its own, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Read options from a file, under their long names; `directories` and `cgroup` are lists, and each share is a table, `[[share]]`
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
}

const SHORT: &str = "\
Examples: `forebay steer --help` shows some, docs/steer.md explains them.
Exit status: that of PROGRAM; without one 0 stopped in order, 1 the system failed, or with --once more is there than --cache;
2 the options are wrong.";

const LONG: &str = include_str!("steer.txt").trim_ascii_end();

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let has_program = !arguments.program.is_empty();
    steered(arguments).map_err(|failure| match failure {
        // The program's exit code may be 1, too.
        failure @ (Failure::Usage(_) | Failure::Program(..) | Failure::Said(_)) => failure,
        failure if has_program => Failure::Program(OWN_FAILURE, failure.to_string()),
        failure => failure,
    })
}

fn steered(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { options, program, config } = arguments;
    let has_program = !program.is_empty();
    let reload = config.map(|path| -> Reload<SteerOptions> {
        let options = options.clone();
        Box::new(move || SteerOptions::read(&path).map(|file| options.clone().over(file)))
    });
    let options = reload.as_ref().map_or(Ok(options), |read| read())?;
    let figures = options.figures.clone();
    if let Some(out) = &figures {
        check_path("--figures", out, &[])?;
    }
    let program = command(&program)?;
    if !has_program {
        // A program would inherit what a service makes of its limits and signals.
        forebay_server::settle();
    }
    let log = log::start(options.level(has_program), &log::To::Terminal)?;
    if options.once {
        return brought_down(&lower(&options, has_program)?, figures);
    }
    let hooks = Hooks { reload, log, ready: Box::new(|| ()) };
    let ended = steer(options, program, hooks)?;
    if let Some(out) = figures {
        write(&out, json(&ended.report).as_bytes())?;
    }
    if has_program {
        say(&ended.report);
    }
    match ended.program {
        Some(Err(why)) => Err(Failure::Program(126, why)),
        Some(Ok(code)) if code != 0 => Err(Failure::Said(code)),
        _ => Ok(()),
    }
}

/// The program, if one is named.
pub(crate) fn command(program: &[OsString]) -> Result<Option<Command>, Failure> {
    let Some((name, rest)) = program.split_first() else { return Ok(None) };
    let mut command = Command::new(forebay_record::find(name)?);
    command.arg0(name).args(rest);
    Ok(Some(command))
}

/// Says what came of a program's page cache or memory, on standard error: the program has the other stream.
fn say(report: &Report) {
    // Standard error may be closed: then nobody reads it.
    if let Some(page_cache) = &report.page_cache {
        let _ = writeln!(std::io::stderr(), "forebay: {}: {page_cache}", page_cache.name);
    }
    if let Some(memory) = &report.memory {
        let _ = writeln!(std::io::stderr(), "forebay: {}: {memory}", memory.name);
    }
}

/// Says what is there.
fn brought_down(lowered: &Lowered, figures: Option<PathBuf>) -> Result<(), Failure> {
    if let Some(out) = figures {
        write(&out, json(lowered).as_bytes())?;
    }
    if !lowered.is_done() {
        return Err(lowered.to_string().into());
    }
    writeln!(std::io::stdout(), "{lowered}")?;
    Ok(())
}

fn json(figures: &impl Serialize) -> String {
    serde_json::to_string_pretty(figures).expect("numbers under names") + "\n"
}
