//! `forebay mount`: the policies at work, in front of a directory.

use crate::failure::Failure;
use clap::Args;
use forebay_server::{DirectoryOptions, Hooks, MountOptions, Reload, log};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Show directories elsewhere, their files behind a cache under any policy.
///
/// Programs use it as any directory. Their reads and writes go through the cache; the system keeps no copies of its own, so that --cache is
/// the memory that files take. Writes are written back soon (--mode write-back), and are durable after fsync, as everywhere.
///
/// It goes to the background once it is mounted. `fusermount3 -u MOUNTPOINT` ends it, and so does SIGTERM: the process
/// flushes everything, and ends. `fusermount3` does not wait for that. The system's log or --log-file says what could not be flushed.
///
/// The options may stand in a file (--config), under the same names; command-line options override the file.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub(crate) struct Arguments {
    /// The directory whose files are shown
    #[arg(requires = "mountpoint", required_unless_present = "config")]
    source: Option<PathBuf>,
    /// Where: an empty directory. Neither it nor the source may lie within the other
    #[arg(required_unless_present = "config")]
    mountpoint: Option<PathBuf>,
    /// Show one more directory, behind the same cache; may be given again. None may lie within another
    #[arg(long, num_args = 2, value_names = ["SOURCE", "MOUNTPOINT"])]
    also: Vec<PathBuf>,
    #[command(flatten)]
    options: MountOptions,
    /// Stay in the foreground, and log on standard error
    #[arg(long)]
    foreground: bool,
    /// Read options from a file, under their long names, and `[[mount]]` tables with source, mountpoint, mode, readahead, read-only and watch
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace or off, or for parts of the program, as in info,forebay_fuse=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "FOREBAY_LOG", value_parser = log::parse)]
    log: String,
    /// Append the log to a file. In the background it goes to the system's log otherwise
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// It has been started to go to the background.
    #[arg(long, hide = true)]
    detached: bool,
}

const SHORT: &str = "\
Examples: `forebay mount --help` shows some, docs/mount.md explains them.
Exit status: 0 mounted, or with --foreground unmounted in order; 1 the system or storage failed, 2 the options are wrong.";

const LONG: &str = include_str!("mount.txt").trim_ascii_end();

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    if !arguments.foreground && !arguments.detached {
        return run_in_background();
    }
    let to = match &arguments.log_file {
        Some(path) => log::To::File(path),
        None if arguments.detached => log::To::System,
        None => log::To::Terminal,
    };
    let log = log::start(&arguments.log, &to)?;
    let Arguments { source, mountpoint, also, mut options, config, detached, .. } = arguments;
    let named: Vec<PathBuf> = source.into_iter().chain(mountpoint).chain(also).collect();
    let directory = |named: &[PathBuf]| DirectoryOptions {
        source: named[0].clone(),
        mountpoint: named[1].clone(),
        ..DirectoryOptions::default()
    };
    options.mounts = named.chunks_exact(2).map(directory).collect();
    let reload = config.map(|path| -> Reload<MountOptions> {
        let options = options.clone();
        Box::new(move || MountOptions::read(&path).map(|file| options.clone().over(file)))
    });
    let options = reload.as_ref().map_or(Ok(options), |read| read())?;
    let ready = move || {
        if detached && let Err(error) = leave_terminal() {
            eprintln!("forebay: cannot leave the terminal: {error}");
        }
    };
    let hooks = Hooks { reload, log, ready: Box::new(ready) };
    Ok(forebay_server::mount(options, hooks)?)
}

/// Starts this command anew, and returns when it has mounted.
fn run_in_background() -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::from(format!("cannot go to the background: {error}; try --foreground"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut mounted = child.stdout.take().expect("it is piped");
    if mounted.read(&mut [0]).map_err(failed)? > 0 {
        return Ok(());
    }
    // It has said why on standard error.
    let status = child.wait().map_err(failed)?;
    Err(Failure::Said(status.code().map_or(1, |code| code as u8)))
}

/// Says that it is mounted to whoever has started it, and lets go of the terminal.
fn leave_terminal() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::process::setsid()?;
    io::stdout().write_all(b"m")?;
    io::stdout().flush()?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}
