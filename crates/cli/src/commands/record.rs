//! `forebay record`: what a program or a device references, as a trace.

mod kernel;

use crate::failure::Failure;
use crate::files::{check_path, page_size_option};
use crate::input::How;
use crate::terminal::interrupt;
use crate::terminal::progress::progress;
use clap::{ArgGroup, Args};
use forebay_basis::parse_bytes;
use forebay_basis::show_bytes;
use forebay_record::{Asked, Folder, Made, OWN_FAILURE, What};
use forebay_server::{Age, Count};
use forebay_sim::study::{Progress, counted};
use forebay_trace::{Origin, Summary};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Record what a program references, as a trace: parts of files, memory, blocks of a device, or pages of the page cache.
///
/// Files are those of PROGRAM and all that it starts, recorded by strace, without being root; with --page-cache by the kernel, as root. The program's input,
/// output and exit code are its own.
/// OUT's name says its format, as for `convert`; it appears when it is whole. Ctrl-C is for the program: the recording ends when it does.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG, group = ArgGroup::new("what").required(true).multiple(true).args(["program", "pid", "blocks", "page_cache", "groups"]))]
pub(crate) struct Arguments {
    /// The program, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Record the program's references to memory instead, by valgrind; or with --epochs by page tables
    #[arg(long, conflicts_with_all = ["pid", "blocks"])]
    memory: bool,
    /// With --memory, as root: record page faults, and which pages were used in each second or less (an epoch), by the processor's reference bits. Of PROGRAM and all
    /// that it starts, or of a --cgroup. Uses within an epoch count as one
    #[arg(long, requires = "memory", conflicts_with_all = ["mapped", "page_size", "page_cache"])]
    epochs: bool,
    /// Record the files of this process, which runs already, and of those that it starts
    #[arg(long, value_name = "PID", conflicts_with_all = ["program", "blocks"])]
    pid: Vec<u32>,
    /// Record the requests to a block device by the kernel's tracepoints, as root, while PROGRAM runs or until Ctrl-C
    #[arg(long, value_name = "DEVICE")]
    blocks: Option<PathBuf>,
    /// Record all uses of pages in the kernel's page cache, hits too, as root: of files below directories, of a --cgroup, or of PROGRAM; until Ctrl-C or its end
    #[arg(long, value_name = "DIRECTORY", num_args = 0.., conflicts_with_all = ["memory", "pid", "blocks", "mapped", "page_size"])]
    page_cache: Option<Vec<PathBuf>>,
    /// With --page-cache: record the files that the processes of a control group use, and of the groups below it; with --epochs their memory; may be given again
    #[arg(long = "cgroup", value_name = "PATH", conflicts_with_all = ["pid", "blocks"])]
    groups: Vec<PathBuf>,
    /// Count a mapping of a file as a read of all that is mapped; without it mappings are left out
    #[arg(long, conflicts_with_all = ["memory", "blocks"])]
    mapped: bool,
    /// End the recording after this time, and PROGRAM with it
    #[arg(long, value_name = "TIME", value_parser = str::parse::<Age>)]
    duration: Option<Age>,
    /// End the recording after this many requests, and PROGRAM with it
    #[arg(long, value_name = "REQUESTS", value_parser = str::parse::<Count>)]
    limit: Option<Count>,
    /// Page size to keep in the trace; by default `compare` infers it from the requests
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    page_size: Option<u64>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

const SHORT: &str = "\
Example: `forebay record -o make.parquet -- make -j2`, then `forebay compare make.parquet`; docs/record.md says more.
Exit status: that of the program, 0 where --duration or --limit ended it; 125 the recording failed, 126 the program cannot
be run, 127 there is no such program.";

const LONG: &str = include_str!("record.txt").trim_ascii_end();

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.duration.is_some_and(|duration| duration.0.is_zero()) {
        return Err(Failure::Usage("--duration 0: a recording takes some time: give more, as 60s".to_owned()));
    }
    if arguments.epochs || arguments.page_cache.is_some() {
        return kernel::run(arguments, arguments.page_cache.as_deref());
    }
    if !arguments.groups.is_empty() {
        let what = "--cgroup is for --page-cache, and for --memory with --epochs: other recordings are of a program that is started, or of a --pid";
        return Err(Failure::Usage(what.to_owned()));
    }
    let what = match &arguments.blocks {
        Some(device) => What::Blocks(device.clone()),
        None if arguments.memory => What::Memory,
        None if arguments.pid.is_empty() => What::Files,
        None => What::Processes(arguments.pid.clone()),
    };
    let asked = Asked {
        what,
        program: &arguments.program,
        answers: false,
        mapped: arguments.mapped,
        duration: arguments.duration.map(|duration| duration.0),
        limit: arguments.limit.map(|limit| limit.0),
        page_size: arguments.page_size,
        out: &arguments.output,
        force: arguments.force,
        say: Arc::new(say),
    };
    let made = record(&asked).map_err(own)?;
    if made.requests > 0 {
        tell(&asked, &made).map_err(own)?;
    }
    if made.code == 0 { Ok(()) } else { Err(Failure::Said(made.code)) }
}

/// A failure that is not the program's, by its exit code.
fn own(failure: Failure) -> Failure {
    match failure {
        Failure::Said(_) | Failure::Program(..) => failure,
        failure => Failure::Program(OWN_FAILURE, failure.to_string()),
    }
}

/// Tells the user what happens meanwhile.
fn say(message: &str) {
    // The reader of standard error may have ended: the recording goes on.
    let _ = writeln!(io::stderr(), "forebay: {message}");
}

/// Says what was written.
fn wrote(out: &Path, requests: u64) {
    let bytes = std::fs::metadata(out).map_or(0, |metadata| metadata.len());
    say(&format!("wrote {} ({}, {})", out.display(), counted(requests, "request"), show_bytes(bytes)));
}

/// Records, with a line that says how far it is where the program writes nothing in between.
pub(crate) fn record(asked: &Asked<'_>) -> Result<Made, Failure> {
    How { page_size: asked.page_size, ..How::default() }.check()?;
    let quiet = asked.program.is_empty() || !io::stdout().is_terminal();
    let progress = quiet.then(|| progress("recording"));
    forebay_trace::write::check(asked.out, asked.force)?;
    check_path("--output", asked.out, &[])?;
    let made = asked.record(&mut |requests| progress.iter().for_each(|progress| progress.at(requests)));
    // From now on Ctrl-C ends the command.
    interrupt::install();
    let made = made?;
    wrote(asked.out, made.requests);
    if made.requests == 0 {
        say("the program referenced no file: there is nothing to compare");
    }
    Ok(made)
}

/// Records a program to a temporary file, and says how to keep it.
pub(crate) fn record_for_now(program: &[String]) -> Result<String, Failure> {
    let program: Vec<OsString> = program.iter().map(OsString::from).collect();
    let failed = |error: io::Error| Failure::File(std::env::temp_dir(), error);
    let folder = Folder::new().map_err(failed)?;
    let name = Path::new(&program[0]).file_name().unwrap_or(&program[0]).to_string_lossy().into_owned();
    let out = folder.path().join(format!("{name}.parquet"));
    let asked = Asked {
        what: What::Files,
        program: &program,
        answers: true,
        mapped: false,
        duration: None,
        limit: None,
        page_size: None,
        out: &out,
        force: false,
        say: Arc::new(say),
    };
    let made = record(&asked)?;
    if made.requests == 0 {
        return Err(Failure::Said(1));
    }
    if made.code != 0 {
        say(&format!("{name} ended with exit code {}: compared is what it did until then", made.code));
    }
    // From here on the user's.
    folder.keep();
    say(&format!("to keep the recording: mv {} .", out.display()));
    Ok(out.display().to_string())
}

/// Says what a recording holds, and how to go on.
fn tell(asked: &Asked<'_>, made: &Made) -> Result<(), Failure> {
    // Formats of pages know neither files nor owners, nor when; memory is one thing, of one owner.
    let knows = match asked.what {
        What::Memory => Knows::Neither,
        _ if made.page_size.is_some() => Knows::Neither,
        What::Blocks(_) => Knows::Owners,
        What::Files | What::Processes(_) => Knows::FilesAndOwners,
    };
    tell_of(asked.out, made.page_size, knows)
}

/// What a recording knows beside pages.
enum Knows {
    Neither,
    Owners,
    FilesAndOwners,
    Processes,
}

/// The same of a file. `page_size`: what a reader of it must be given.
fn tell_of(out: &Path, page_size: Option<u64>, knows: Knows) -> Result<(), Failure> {
    let name = out.display().to_string();
    let mut reader = How::default().read(&name)?;
    let summary = Summary::of(&name, reader.as_mut(), page_size, &mut |_| {})?;
    let (references, pages) = (counted(summary.references, "reference"), counted(summary.pages, "page"));
    let size = show_bytes(summary.page_size);
    let origin = if summary.page_size_origin == Origin::Requests { ", from the requests" } else { "" };
    let mut holds = show_bytes(summary.pages.saturating_mul(summary.page_size));
    match knows {
        Knows::FilesAndOwners => holds = format!("{holds} of {}", counted(summary.objects, "file")),
        Knows::Processes => {
            let processes = if summary.objects == 1 { "process" } else { "processes" };
            holds = format!("{holds} of {} {processes}", summary.objects);
        }
        Knows::Neither | Knows::Owners => {}
    }
    if matches!(knows, Knows::FilesAndOwners | Knows::Owners) {
        holds = format!("{holds}, by {}", counted(summary.owners, "owner"));
    }
    if let Some(span) = summary.span {
        holds = format!("{holds}, in {:.3} s", span as f64 / 1e9);
    }
    say(&format!("{references} to {pages} of {size}{origin}: {holds}"));
    let given = page_size.map_or(String::new(), page_size_option);
    say(&format!("next: forebay compare {}{given}", quoted(&name)));
    Ok(())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    // A zero byte is in no name and no argument.
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |word| word.into_owned())
}
