//! `forebay manual`: a manual page for each command.

use crate::failure::Failure;
use clap::builder::Resettable;
use clap::{Args, Command};
use clap_mangen::Man;
use forebay_sim::study::counted;
use roff::{Roff, roman};
use std::path::{Path, PathBuf};

/// Write the manual pages, one for each command, to a folder: `man -l FOLDER/forebay-serve.1` shows one.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to; it is made if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// `root` is the whole program's command.
pub(crate) fn run(arguments: &Arguments, mut root: Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let failed = |path: &Path, error| Failure::File(path.to_owned(), error);
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    root.build();
    let (mut commands, mut pages) = (vec![&root], 0);
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|command| command.get_name() != "help"));
        // Built, a command is displayed as its page is called: forebay-serve.
        let path = folder.join(format!("{}.1", command.get_display_name().unwrap_or(command.get_name())));
        page(command.clone()).and_then(|page| std::fs::write(&path, page)).map_err(|error| failed(&path, error))?;
        pages += 1;
    }
    eprintln!("forebay: wrote {} to {}", counted(pages, "page"), folder.display());
    Ok(())
}

/// A command's page. What its long help says at the end under headings of capitals are sections.
fn page(mut command: Command) -> std::io::Result<Vec<u8>> {
    let end = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    let sectioned = end.lines().next().is_some_and(is_heading);
    if sectioned {
        command = command.after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    if sectioned {
        let mut sections = Roff::new();
        for line in end.lines() {
            if is_heading(line) {
                sections.control("SH", [line]).control("nf", []);
            } else {
                sections.text([roman(line)]);
            }
        }
        sections.to_writer(&mut page)?;
    }
    Ok(page)
}

fn is_heading(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|letter| letter.is_ascii_uppercase() || letter == ' ')
}
