//! `forebay serve`: the policies at work, in front of files, devices and object storage.

use crate::failure::Failure;
use clap::Args;
use forebay_server::{Error, Hooks, Options};
use std::io::IsTerminal;
use std::path::PathBuf;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

/// Serve files, devices and object storage as volumes over NBD, behind a cache under any policy.
///
/// Every volume is an export of its name; the only one is the default export, too. Writes are kept in the cache and written back
/// soon (mode=write-back), and durable after the client's flush, as on a disk: file systems and databases flush when it matters.
/// What was written and not flushed is lost if the server is killed or the machine fails; mode=write-through leaves less to be
/// lost, and waits for storage with each write. All connections share the cache, and a flush on one is a flush of the volume: a
/// client may use several.
///
/// The options may stand in a file (--config), under the same names; what the command line says goes before.
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
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "FOREBAY_LOG", value_parser = |text: &str| filter(text).map(|_| text.to_owned()))]
    log: String,
}

const SHORT: &str = "\
Examples: `forebay serve --help` shows some, docs/volumes.md explains them.
Exit status: 0 stopped in order, 1 storage or the system failed, 2 the options are wrong.";

const LONG: &str = include_str!("serve.txt").trim_ascii_end();

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Levels, for all or for parts. The library takes any word for the name of a part, and a mistyped level would silence the log.
fn filter(text: &str) -> Result<EnvFilter, String> {
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let is_part = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    for word in text.split(',') {
        let known =
            word.split_once('=').map_or_else(|| is_level(word), |(part, level)| is_part(part) && is_level(level));
        if !known {
            let levels = LEVELS.join(", ");
            return Err(format!(
                "`{word}` is no level: write info, or a part and its level, forebay_nbd=debug; levels are {levels}"
            ));
        }
    }
    EnvFilter::try_new(text).map_err(|error| format!("`{text}`: {error}"))
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let filter = filter(&arguments.log).expect("it was tried when it was read");
    let ansi = std::io::stderr().is_terminal();
    let (filter, level) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(ansi).with_target(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    let Arguments { options, config, .. } = arguments;
    let read = move || match &config {
        Some(path) => Options::read(path).map(|file| options.clone().over(file)),
        None => Ok(options.clone()),
    };
    let first = read();
    let log = move |text: &str| {
        let filter = self::filter(text).map_err(|error| Error::Usage(format!("log: {error}")))?;
        level.reload(filter).map_err(|error| Error::Failed(error.to_string()))
    };
    let serve = |first| forebay_server::serve(first, Hooks { reload: Box::new(read), log: Box::new(log) });
    first.and_then(serve).map_err(|error| match error {
        Error::Usage(message) => Failure::Usage(message),
        Error::Failed(message) => Failure::from(message),
    })
}
