//! `forebay control`: steers a running server.

use crate::failure::Failure;
use crate::terminal::width;
use crate::top::Figures;
use clap::{Args, Subcommand, ValueEnum};
use forebay_server::{Answer, Command, ManagerReport, Report, ask};
use std::io::{self, Write};
use std::path::PathBuf;

/// Control a running `forebay serve`, `forebay mount` or `forebay steer` with --control PATH: sizes, volumes, limits, flushes, recording, the log.
///
/// What is changed so lasts until the server ends or reads its configuration again (SIGHUP, `reload`), which puts back what the
/// configuration says. Only the server's owner, and root, can control it.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub(crate) struct Arguments {
    /// The server's socket: what its --control says
    #[arg(short, long, value_name = "PATH", env = "FOREBAY_CONTROL")]
    socket: Option<PathBuf>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t, global = true)]
    format: Form,
    #[command(subcommand)]
    command: What,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For a person
    #[default]
    Text,
    /// For a program
    Json,
    /// The volumes of `statistics`, for a program
    Csv,
}

#[derive(Subcommand)]
enum What {
    #[command(flatten)]
    Plain(Command),
    /// Serve another volume
    ///
    /// A file that is open elsewhere, as that of a volume which was just detached, is waited for, up to 5 seconds.
    #[command(display_order = 7)]
    Attach {
        /// Its name, or all of it as after --volume
        #[arg(value_name = "NAME|NAME=PATH[,OPTION=VALUE]…")]
        name: String,
        /// Its path and options, as after --volume NAME=
        #[arg(value_name = "PATH[,OPTION=VALUE]…")]
        spec: Option<String>,
    },
    /// Record the references of clients as a trace, for `forebay compare`
    #[command(subcommand, display_order = 12)]
    Record(Record),
}

#[derive(Subcommand)]
enum Record {
    /// Begin a trace: a file of the server's machine, whole when the recording stops
    Start {
        /// Its name ends in .parquet or .csv
        file: PathBuf,
    },
    /// Complete the trace
    Stop,
    /// Write a trace of what has been recorded so far, and go on
    Snapshot {
        /// Its name ends in .parquet or .csv
        file: PathBuf,
    },
}

const SHORT: &str = "\
Examples: `forebay control --help` shows some, docs/volumes.md explains them.
Exit status: 0 done, 1 it could not be done or there is no server, 2 the command makes no sense.";

const LONG: &str = include_str!("control.txt").trim_ascii_end();

impl From<What> for Command {
    fn from(what: What) -> Self {
        match what {
            What::Plain(Command::Hint { file, advice }) => Command::Hint { file: absolute(file), advice },
            What::Plain(command) => command,
            What::Attach { name, spec: Some(spec) } => Self::Attach { volume: format!("{name}={spec}") },
            What::Attach { name, spec: None } => Self::Attach { volume: name },
            What::Record(Record::Start { file }) => Self::RecordStart { file: absolute(file) },
            What::Record(Record::Stop) => Self::RecordStop {},
            What::Record(Record::Snapshot { file }) => Self::RecordSnapshot { file: absolute(file) },
        }
    }
}

/// The file as the server, which is in another folder, finds it: one that is there without links and `..`.
fn absolute(file: PathBuf) -> PathBuf {
    file.canonicalize().or_else(|_| std::path::absolute(&file)).unwrap_or(file)
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { socket, format, command } = arguments;
    let socket = socket.ok_or_else(|| {
        let what = "of which server? --socket PATH is what its --control says (`forebay serve … --control /run/forebay/control`); \
                    FOREBAY_CONTROL=PATH says it for all commands";
        Failure::Usage(what.to_owned())
    })?;
    let command = command.into();
    if format == Form::Csv && command != (Command::Statistics {}) {
        return Err(Failure::Usage(
            "--format csv is for `statistics`; this command answers in text or JSON".to_owned(),
        ));
    }
    let line = ask(&socket, &command)?;
    let unknown = |error| Failure::from(format!("{}: the answer is none of this version: {error}", socket.display()));
    let answer: Answer = serde_json::from_str(&line).map_err(unknown)?;
    let mut out = io::stdout();
    if format == Form::Json {
        writeln!(out, "{}", line.trim_end())?;
        return match answer {
            Answer::Refused { .. } => Err(Failure::Said(2)),
            Answer::Failed { .. } => Err(Failure::Said(1)),
            Answer::Done { .. } | Answer::Statistics { .. } | Answer::Managers { .. } => Ok(()),
        };
    }
    match answer {
        Answer::Refused { message } => return Err(Failure::Usage(message)),
        Answer::Failed { message } => return Err(message.into()),
        Answer::Done { message, .. } => writeln!(out, "{message}")?,
        Answer::Managers { managers } => write!(out, "{}", ManagerReport::table(&managers))?,
        Answer::Statistics { statistics } if format == Form::Csv => {
            Figures::new(&statistics, &Report::default()).write_csv(&mut out)?;
        }
        Answer::Statistics { statistics } => {
            write!(out, "{}", Figures::new(&statistics, &Report::default()).table(width()))?
        }
    }
    Ok(())
}
