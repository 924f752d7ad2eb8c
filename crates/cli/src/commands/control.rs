//! `forebay control`: steers a running server.

use super::top::Figures;
use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use forebay_server::{Age, Answer, Command, Count, Report, Share, Size};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Steer a running `forebay serve --control PATH`: sizes, volumes, limits, flushes, recording, the log.
///
/// What is changed so lasts until the server ends or reads its configuration again (SIGHUP, `reload`), which puts back what the
/// configuration says. Only the server's owner, and root, can control it.
#[derive(Args)]
#[command(after_help = SHORT, after_long_help = LONG)]
pub(crate) struct Arguments {
    /// The server's socket: what its --control says
    #[arg(short, long, value_name = "PATH", env = "FOREBAY_CONTROL")]
    socket: PathBuf,
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
}

#[derive(Subcommand)]
enum What {
    /// Show all figures since the server's start
    Statistics,
    /// Change the size of a cache
    ///
    /// Pages that have to leave are written first. If that takes longer than 5 seconds, the cache keeps its size.
    Resize {
        /// `shared`, or the volume whose own cache it is
        cache: String,
        /// Its bytes, as 512MiB
        size: Size,
    },
    /// Make durable what was written, as a client's flush does
    Flush {
        /// This volume alone [default: all]
        volume: Option<String>,
    },
    /// Let the clean pages of a volume leave the cache: its next reads come from storage
    ///
    /// Dirty pages and those in use stay.
    Drop {
        /// The volume
        volume: String,
    },
    /// Say that a cache of the client's own has evicted a part of a volume: a hint for the policy, as mq takes it
    ///
    /// No page is read or leaves by this. Programs send such hints over one connection to the socket: docs/volumes.md.
    Evicted {
        /// The volume
        volume: String,
        /// The first byte
        offset: Size,
        /// How many bytes, as 8KiB
        length: Size,
        /// The hits that they had in the client's cache
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        hits: u32,
        /// They were changed there, and have just been written
        #[arg(long)]
        dirty: bool,
    },
    /// Serve another volume
    ///
    /// A file that a volume just detached still has open is waited for, up to 5 seconds.
    Attach {
        /// Its name
        name: String,
        /// Its path and options, as after --volume NAME=
        #[arg(value_name = "PATH[,OPTION=VALUE]…")]
        spec: String,
    },
    /// Remove a volume: no new client sees it, and it is closed when those that have it have left
    Detach {
        /// The volume
        volume: String,
    },
    /// Show or change how much of a cache may be dirty, and for how long
    Dirty {
        /// `shared`, or the volume whose own cache it is
        cache: String,
        /// The share that may be dirty before writers wait, as 25%
        #[arg(long, value_name = "SHARE")]
        limit: Option<Share>,
        /// How long a page may be dirty before it is written back, as 5s
        #[arg(long, value_name = "TIME")]
        age: Option<Age>,
    },
    /// Limit what is read from and written to a volume's storage; what is not named has no limit then
    Rate {
        /// The volume
        volume: String,
        /// The most bytes a second, as 100MiB
        #[arg(long, value_name = "SIZE")]
        rate: Option<Size>,
        /// The most requests a second
        #[arg(long, value_name = "NUMBER")]
        iops: Option<Count>,
    },
    /// Limit the connections to a volume; those there are stay
    Connections {
        /// The volume
        volume: String,
        /// The most at a time [default: no limit]
        limit: Option<Count>,
    },
    /// Change what is logged
    Log {
        /// error, warn, info, debug, trace or off, or for parts of the program, as info,forebay_nbd=debug
        level: String,
    },
    /// Record the references of clients as a trace, for `forebay compare`
    #[command(subcommand)]
    Record(Record),
    /// Read the configuration again, as SIGHUP does
    Reload,
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

const LONG: &str = "\
EXAMPLES
  forebay serve --volume data=/srv/data.img --control /run/forebay/control
        a server that takes commands
  export FOREBAY_CONTROL=/run/forebay/control
        so that --socket need not be said each time
  forebay control resize shared 2GiB
        a larger cache, while clients work
  forebay control attach logs /srv/logs.img,read-only,rate=50MiB
        one more volume
  forebay control flush data && forebay control drop data
        a cold start, for a measurement
  forebay control record start /tmp/data.parquet; sleep 600; forebay control record stop
        ten minutes of references, for `forebay compare /tmp/data.parquet`
  forebay control --format json statistics
        all figures for a program

PROTOCOL
  A command is a line of JSON, {\"command\":\"resize\",\"cache\":\"shared\",\"size\":\"2GiB\"}, its answer another:
  {\"answer\":\"done\",\"message\":\"...\",\"figures\":{...}}, or \"statistics\", \"refused\" (it makes no sense), \"failed\".
  docs/volumes.md has all commands.

EXIT STATUS
  0   done
  1   it could not be done, or no server answers
  2   the command makes no sense

ENVIRONMENT
  FOREBAY_CONTROL   as --socket";

impl From<What> for Command {
    fn from(what: What) -> Self {
        match what {
            What::Statistics => Self::Statistics {},
            What::Resize { cache, size } => Self::Resize { cache, size },
            What::Flush { volume } => Self::Flush { volume },
            What::Drop { volume } => Self::Drop { volume },
            What::Evicted { volume, offset, length, hits, dirty } => {
                Self::Evicted { volume, offset, length, hits, dirty }
            }
            What::Attach { name, spec } => Self::Attach { volume: format!("{name}={spec}") },
            What::Detach { volume } => Self::Detach { volume },
            What::Dirty { cache, limit, age } => Self::Dirty { cache, limit, age },
            What::Rate { volume, rate, iops } => Self::Rate { volume, rate, iops },
            What::Connections { volume, limit } => Self::Connections { volume, limit },
            What::Log { level } => Self::Log { level },
            What::Record(Record::Start { file }) => Self::RecordStart { file: absolute(file) },
            What::Record(Record::Stop) => Self::RecordStop {},
            What::Record(Record::Snapshot { file }) => Self::RecordSnapshot { file: absolute(file) },
            What::Reload => Self::Reload {},
        }
    }
}

/// The file as the server, which is in another folder, finds it.
fn absolute(file: PathBuf) -> PathBuf {
    std::path::absolute(&file).unwrap_or(file)
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { socket, format, command } = arguments;
    let line = ask(&socket, &command.into())?;
    let unknown = |error| Failure::Failed(format!("{}: the answer is none of this version: {error}", socket.display()));
    let answer: Answer = serde_json::from_str(&line).map_err(unknown)?;
    let mut out = io::stdout();
    if format == Form::Json {
        writeln!(out, "{}", line.trim_end())?;
        return match answer {
            Answer::Refused { .. } => Err(Failure::Said(2)),
            Answer::Failed { .. } => Err(Failure::Said(1)),
            Answer::Done { .. } | Answer::Statistics { .. } => Ok(()),
        };
    }
    match answer {
        Answer::Refused { message } => return Err(Failure::Usage(message)),
        Answer::Failed { message } => return Err(Failure::Failed(message)),
        Answer::Done { message, .. } => writeln!(out, "{message}")?,
        Answer::Statistics { statistics } => write!(out, "{}", Figures::new(&statistics, &Report::default()).table())?,
    }
    Ok(())
}

/// The answer to a command: a line of JSON.
fn ask(socket: &Path, command: &Command) -> Result<String, Failure> {
    let name = socket.display();
    let failed = |error: io::Error| {
        Failure::Failed(format!("{name}: {error}; is there a `forebay serve --control {name}`, and is it yours?"))
    };
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    let mut line = serde_json::to_string(command)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    if answer.is_empty() {
        return Err(Failure::Failed(format!("{name}: the server has closed the connection without an answer")));
    }
    Ok(answer)
}
