//! `forebay completions`: what a shell needs to complete commands and options.

use crate::failure::Failure;
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use std::io::{self, Write};

/// Write the completions of commands and options for a shell.
///
/// For bash: forebay completions bash >~/.local/share/bash-completion/completions/forebay
#[derive(Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// `root` is the whole program's command.
pub(crate) fn run(arguments: &Arguments, mut root: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut root, "forebay", &mut script);
    Ok(io::stdout().write_all(&script)?)
}
