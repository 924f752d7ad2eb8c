//! `forebay mount-clock`: what `forebay mount` starts as a recording begins, and nobody else.

use crate::failure::Failure;
use crate::terminal::say;
use clap::Args;
use std::path::PathBuf;

/// Print what a request takes on its way to a mount and back, in nanoseconds. `forebay mount` starts it as a recording begins.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Where it is mounted
    mountpoint: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let failed = |error| Failure::File(arguments.mountpoint.clone(), error);
    let nanoseconds = forebay_server::round_trip(&arguments.mountpoint).map_err(failed)?;
    say(&mut std::io::stdout(), nanoseconds.to_string())
}
