//! `forebay manual`: a manual page for each command.

use crate::failure::Failure;
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use std::path::{Path, PathBuf};

/// Write the manual pages, one for each command, to a folder: `man -l FOLDER/forebay-serve.1` shows one.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to; it is made if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let failed = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut root = crate::Arguments::command();
    root.build();
    let commands = root.get_subcommands().filter(|command| command.get_name() != "help");
    // A command of a page of its own is called as it is found: forebay-serve.
    let pages = commands.map(|command| command.clone().name(format!("forebay-{}", command.get_name())));
    for command in std::iter::once(root.clone()).chain(pages) {
        let path = folder.join(format!("{}.1", command.get_name()));
        let mut page = Vec::new();
        Man::new(command.display_name(None::<String>)).render(&mut page).map_err(|error| failed(&path, error))?;
        std::fs::write(&path, page).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
