//! `forebay advise`: what a program says of its files reaches the cache of a mount.

use crate::failure::Failure;
use clap::Args;
use forebay_run::preload::{Library, command};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

/// Run a program whose advice on its files reaches the cache of `forebay mount`.
///
/// Programs say what they will do with a file: posix_fadvise, madvise, posix_madvise, readahead. The kernel does not pass that on to a mounted
/// directory; this command does, by a library that it preloads. The program, and what it starts, sees no difference.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub(crate) struct Arguments {
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

const SHORT: &str = "\
Example: `forebay advise -- dd if=/mnt/data/file iflag=nocache of=/dev/null`; docs/advise.md says what each advice does.
Exit status: that of the program; 126 it cannot be run so, 127 there is no such program, 1 the library is not there.";

const LONG: &str = include_str!("advise.txt").trim_ascii_end();

const LIBRARY: Library = Library { file: "libforebay_advise.so", package: "forebay-advise", variable: "FOREBAY_LIB" };

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut command = command(&LIBRARY, &arguments.program)?;
    let error = command.exec();
    Err(Failure::Program(126, format!("{}: cannot be run: {error}", command.get_program().display())))
}
