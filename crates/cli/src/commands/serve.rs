//! `forebay serve`: the policies at work, in front of files, devices and object storage.

use crate::failure::Failure;
use clap::Args;
use forebay_server::{Hooks, Options, Reload, log};
use std::path::PathBuf;

/// Serve files, devices and object storage as volumes over NBD, behind a cache under any policy.
///
/// Every volume is an export of its name; the only one is the default export, too. Writes are kept in the cache and written back
/// soon (mode=write-back), and durable after the client's flush, as on a disk: file systems and databases flush when it matters.
/// What was written and not flushed is lost if the server is killed or the machine fails; mode=write-through leaves less to be
/// lost, and waits for storage with each write. All connections share the cache, and a flush on one is a flush of the volume: a
/// client may use several.
///
/// The options may stand in a file (--config), under the same names; command-line options override the file.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Read options from a file: the long names, `[[volume]]` tables with name, path and the volume's options, and a `[tls]` table
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// What to log on standard error: error, warn, info, debug, trace or off, or for parts of the program, as in
    /// info,forebay_nbd=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "FOREBAY_LOG", value_parser = log::parse)]
    log: String,
}

const SHORT: &str = "\
Examples: `forebay serve --help` shows some, docs/volumes.md explains them.
Exit status: 0 stopped in order, 1 storage or the system failed, 2 the options are wrong.";

const LONG: &str = include_str!("serve.txt").trim_ascii_end();

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let log = log::start(&arguments.log, &log::To::Terminal)?;
    let Arguments { options, config, .. } = arguments;
    let reload = config.map(|path| -> Reload<Options> {
        let options = options.clone();
        Box::new(move || Options::read(&path).map(|file| options.clone().over(file)))
    });
    let options = reload.as_ref().map_or(Ok(options), |read| read())?;
    let hooks = Hooks { reload, log, ready: Box::new(|| ()) };
    Ok(forebay_server::serve(options, hooks)?)
}
