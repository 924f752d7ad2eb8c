//! `forebay steer-guard`: what `forebay steer --memory` starts, and nobody else.

use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;

/// Look after programs whose memory was steered until a moment ago. `forebay steer --memory` starts it.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Control groups of these programs
    #[arg(required = true, value_name = "CGROUP")]
    groups: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    Ok(forebay_server::guard(&arguments.groups)?)
}
