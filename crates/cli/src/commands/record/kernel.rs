//! `forebay record --page-cache` and `--memory --epochs`: all uses of files in the kernel's page cache, or of programs' memory as page tables tell of them.

use super::{Arguments, Knows, quoted, say, tell_of, wrote};
use crate::commands::steer::command;
use crate::failure::Failure;
use crate::files::check_path;
use crate::terminal::interrupt;
use crate::terminal::progress::progress;
use forebay_record::OWN_FAILURE;
use forebay_server::{Hooks, Recording, log, record_memory, record_page_cache};
use forebay_sim::study::Progress;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Records files, below directories and of whom else the arguments name; without a list of directories memory.
pub(super) fn run(arguments: &Arguments, directories: Option<&[PathBuf]>) -> Result<(), Failure> {
    recorded(arguments, directories).map_err(|failure| match failure {
        Failure::Usage(_) | Failure::Said(_) | Failure::Program(..) => failure,
        failure if failure.exit_code() == 2 => failure,
        failure => Failure::Program(OWN_FAILURE, failure.to_string()),
    })
}

fn recorded(arguments: &Arguments, directories: Option<&[PathBuf]>) -> Result<(), Failure> {
    let Arguments { program, output, groups, duration, limit, force, .. } = arguments;
    let files = directories.unwrap_or_default();
    if files.is_empty() && groups.is_empty() && program.is_empty() {
        let behind = if directories.is_some() { "directories behind --page-cache, " } else { "" };
        let hint = format!("name {behind}a control group by --cgroup, or a program behind `--`");
        return Err(Failure::Usage(format!("there is nothing to record; {hint}")));
    }
    forebay_trace::write::check(output, *force)?;
    check_path("--output", output, &[])?;
    let program = command(program)?;
    if program.is_none() {
        // A program would inherit what a service makes of its limits and signals.
        forebay_server::settle();
    }
    let log = log::start("warn", &log::To::Terminal)?;
    let places = files.iter().chain(groups).map(|place| place.display().to_string()).collect::<Vec<_>>();
    let begun = match program {
        Some(_) => String::new(),
        None => {
            let what = if directories.is_some() { "page cache" } else { "memory" };
            format!("recording the {what} of {}; Ctrl-C ends that", places.join(", "))
        }
    };
    let quiet = program.is_none() || !io::stdout().is_terminal();
    let shown = quiet.then(|| progress("recording"));
    let recording = Recording {
        out: output.clone(),
        force: *force,
        duration: duration.map(|duration| duration.0),
        limit: limit.map(|limit| limit.0),
        progress: Box::new(move |uses| shown.iter().for_each(|shown| shown.at(uses))),
    };
    let ready = Box::new(move || {
        if !begun.is_empty() {
            say(&begun)
        }
    });
    let hooks = Hooks { reload: None, log, ready };
    let ended = match directories {
        Some(files) => record_page_cache((files.to_vec(), groups.clone()), recording, program, hooks)?,
        None => record_memory(groups.clone(), recording, program, hooks)?,
    };
    // From now on Ctrl-C ends the command.
    interrupt::install();
    if let Some(held) = ended.held {
        wrote(output, held.written);
        match held.written {
            0 if directories.is_none() => say("no memory was used: there is nothing to compare"),
            0 => say("no file was used: there is nothing to compare"),
            _ => {
                tell_of(output, None, if directories.is_some() { Knows::FilesAndOwners } else { Knows::Processes })?;
                say(&format!("then, with a size and the policy that it names: {}", steering(arguments, directories)));
            }
        }
    }
    match ended.program {
        Some(Err(why)) => Err(Failure::Program(126, why)),
        Some(Ok(code)) if code != 0 => Err(Failure::Said(code)),
        _ => Ok(()),
    }
}

/// The command that steers what was recorded.
fn steering(Arguments { program, groups, .. }: &Arguments, directories: Option<&[PathBuf]>) -> String {
    let mut words = vec!["forebay steer".to_owned()];
    words.extend(directories.unwrap_or_default().iter().map(|directory| quoted(&directory.to_string_lossy())));
    words.extend(groups.iter().map(|group| format!("--cgroup {}", quoted(&group.to_string_lossy()))));
    let option = if directories.is_some() { "--cache" } else { "--memory" };
    words.push(format!("{option} SIZE --policy NAME"));
    if !program.is_empty() {
        words.push("--".to_owned());
        words.extend(program.iter().map(|word| quoted(&word.to_string_lossy())));
    }
    words.join(" ")
}
