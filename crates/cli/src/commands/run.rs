//! `forebay run`: a program whose large memory is under a policy.

use crate::commands::replayed::lines;
use crate::failure::Failure;
use crate::files::check_path;
use clap::Args;
use forebay_basis::parse_bytes;
use forebay_basis::show_bytes;
use forebay_policy::Spec;
use forebay_record::OWN_FAILURE;
use forebay_report::file::write;
use forebay_run::{Asked, Ended, Figures};
use forebay_sim::study::{counted, grouped};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run a program in little memory: at most so much of its large memory is resident, under any policy.
///
/// Large memory is what the program allocates or maps in pieces of 128 KiB or more, files that it maps privately among them; it is paged to a file
/// without a name. The program is not changed, and all that it starts runs so, too, each process with a limit of its own. Its exit code and signals are its own.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub(crate) struct Arguments {
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// The most bytes of each process' large memory that are resident: 64 pages or more
    #[arg(short, long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: u64,
    /// The policy that chooses the pages that leave; `forebay policies` lists them
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…", default_value = "clock-pro", value_parser = Spec::parse)]
    policy: Spec,
    /// The bytes of a page: a power of two from 4 KiB to 2 MiB
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = parse_bytes)]
    page_size: u64,
    /// The most bytes that are read ahead from swap space and mapped files; 0: nothing is
    #[arg(long, value_name = "BYTES", default_value = READAHEAD, value_parser = parse_bytes)]
    readahead: u64,
    /// The folder to whose file system pages go, in files without a name
    #[arg(long, value_name = "FOLDER", default_value = "/var/tmp")]
    swap: PathBuf,
    /// Make swap space as slow as a disk: a preset of `forebay devices`, or a TOML file
    #[arg(long, value_name = "DEVICE")]
    delay: Option<String>,
    /// Write what the policy has seen to a trace, which is whole when the program has ended
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print figures of each process at the end, instead of one line for all
    #[arg(long)]
    stats: bool,
    /// Write figures of each process to a file at the end, as JSON; it is replaced
    #[arg(long, value_name = "FILE")]
    figures: Option<PathBuf>,
}

/// As the kernel reads ahead of files.
const READAHEAD: &str = "128KiB";

/// The most references that are replayed at the end: more take a while.
const MOST_REPLAYED: u64 = 20_000_000;

/// The exit code of a program that SIGBUS ended, as shells have it.
const BY_SIGBUS: u8 = 128 + 7;

const SHORT: &str = "\
Example: `forebay run --memory 64MiB -- sort -S 1G big.txt`; docs/run.md says what is paged and what is not.
Exit status: that of the program; 125 its memory cannot be paged here, 126 it cannot be run so, 127 there is no such
program, 2 the options are wrong.";

const LONG: &str = include_str!("run.txt").trim_ascii_end();

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let program = arguments.program[0].to_string_lossy();
    if program.starts_with('-') {
        let why = format!("there is no option `{program}`; a program of that name is run as `./{program}`");
        return Err(Failure::Usage(why));
    }
    if let Some(out) = &arguments.record {
        check_path("--record", out, &[])?;
    }
    if let Some(out) = &arguments.figures {
        check_path("--figures", out, &[])?;
    }
    let page_size = u32::try_from(arguments.page_size).unwrap_or(u32::MAX);
    let asked = Asked {
        program: &arguments.program,
        memory: arguments.memory,
        page_size,
        readahead: u32::try_from(arguments.readahead).unwrap_or(u32::MAX),
        policy: arguments.policy.clone(),
        swap: &arguments.swap,
        delay: arguments.delay.as_deref(),
        record: arguments.record.as_deref(),
    };
    let ended = asked.run().map_err(|error| match Failure::from(error) {
        failure @ (Failure::Usage(_) | Failure::Program(..)) => failure,
        failure => Failure::Program(OWN_FAILURE, failure.to_string()),
    })?;
    // First the line: a file that cannot be written is an error, and ends this. If nobody reads the line, the file is written all the same.
    let _ = std::io::stderr().write_all(tell(arguments, &ended).as_bytes());
    if let Some(out) = &arguments.figures {
        write(out, json(&ended.processes).as_bytes())?;
    }
    if let (Some(requests), Some(out)) = (ended.recorded, &arguments.record) {
        let _ = std::io::stderr().write_all(tell_of_recording(arguments, &ended, requests, out).as_bytes());
    }
    if ended.code == 0 { Ok(()) } else { Err(Failure::Said(ended.code)) }
}

/// What there is to say at the end.
fn tell(arguments: &Arguments, ended: &Ended) -> String {
    let mut said = ended.messages.lines().map(|line| format!("forebay: {line}\n")).collect::<String>();
    let mut line = |text: String| writeln!(said, "forebay: {text}").expect("a string grows");
    let sum = Figures::sum(&ended.processes);
    if arguments.stats {
        ended.processes.iter().for_each(|figures| line(format!("process {}: {}", figures.process, show(figures))));
    }
    match ended.processes.len() {
        0 if ended.messages.is_empty() => {
            line("the program had no memory in pieces of 128 KiB or more: nothing was paged".to_owned());
        }
        // They say why.
        0 => {}
        1 if arguments.stats => {}
        processes => {
            let of = if processes > 1 { format!("{processes} processes: ") } else { String::new() };
            line(format!("{of}{}", show(&sum)));
        }
    }
    if ended.code == BY_SIGBUS {
        line("ended by SIGBUS: where a page failed, an error above says why".to_owned());
    }
    said
}

/// What there is to say of a recording.
fn tell_of_recording(arguments: &Arguments, ended: &Ended, requests: u64, out: &Path) -> String {
    let (mut said, mut next) = (Vec::new(), String::new());
    if requests > 0 {
        next = format!("; now: forebay compare {}", out.display());
    }
    // Of one process it is known for which size the trace is.
    if let ([one], 1..) = (&ended.processes[..], requests) {
        next += &format!(" --sizes {}B", one.policy_capacity);
        if requests <= MOST_REPLAYED {
            match lines(out, one.policy_capacity, &arguments.policy, arguments.readahead) {
                Ok(lines) => said.extend(lines),
                Err(why) => said.push(format!("it cannot be replayed: {why}")),
            }
        }
    }
    said.push(format!("wrote {} ({}){next}", out.display(), counted(requests, "reference")));
    said.iter().map(|line| format!("forebay: {line}\n")).collect()
}

/// A list of an object for each process, in the order of their numbers.
fn json(processes: &[Figures]) -> String {
    #[derive(Serialize)]
    struct Process {
        #[serde(flatten)]
        figures: Figures,
        hit_ratio: Option<f64>,
        readahead_ratio: Option<f64>,
    }
    let of_one = |&figures: &Figures| {
        let process = Process { figures, hit_ratio: figures.hit_ratio(), readahead_ratio: figures.readahead_ratio() };
        // In the order of their names.
        serde_json::to_value(process).expect("numbers under names")
    };
    let all: Vec<serde_json::Value> = processes.iter().map(of_one).collect();
    serde_json::to_string_pretty(&all).expect("numbers under names") + "\n"
}

fn show(figures: &Figures) -> String {
    let ratio =
        |name, ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!(", {name} {:.1} %", 100.0 * ratio));
    let ratios = ratio("hit ratio", figures.hit_ratio()) + &ratio("read ahead", figures.readahead_ratio());
    let failed = if figures.failed > 0 { format!(", {} with SIGBUS", figures.failed) } else { String::new() };
    let files = match figures.traffic.file_read {
        0 => String::new(),
        read => format!("; files: {} read", counted(read, "page")),
    };
    format!(
        "{} allocated at most, {}, {} minor{failed}, waited {:.1?}{ratios}; {}; swap: {} read, {} written{files}",
        show_bytes(figures.most),
        counted(figures.major, "major fault"),
        grouped(figures.minor),
        Duration::from_nanos(figures.waited),
        counted(figures.traffic.compulsory, "new page"),
        counted(figures.traffic.read, "page"),
        counted(figures.traffic.written, "page"),
    )
}
