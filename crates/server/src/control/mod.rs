//! What a running server can be told to do: by a line of JSON each, through the socket of `--control`.

pub(crate) mod socket;

use crate::cache::Cache;
use crate::error::Error;
use crate::figures::Report;
use crate::frame::Frame;
use crate::managers::ManagerReport;
use crate::record::Recorder;
use crate::volumes::volume::VolumeLimits;
use crate::words::{Age, Count, Limit, Rate, Share, Size};
use clap::Subcommand;
use forebay_basis::show_bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A command: `{"command":"resize","cache":"shared","size":"1GiB"}`. Sizes are numbers of bytes, or as on the command line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, Subcommand)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Show all figures since the server's start
    Statistics {},
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
        #[serde(default)]
        hits: u32,
        /// They were changed there, and have just been written
        #[arg(long)]
        #[serde(default)]
        dirty: bool,
    },
    /// Serves another volume.
    #[command(skip)]
    Attach {
        /// `NAME=PATH[,OPTION=VALUE]…`, as after `--volume`.
        volume: String,
    },
    /// Remove a volume: no new client sees it, and it is closed when those that have it have left
    ///
    /// A volume in memory (memory:SIZE) loses what it holds then.
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
    /// Make the policy of a cache anew, as after it has panicked: the pages stay
    ///
    /// It has to learn again which pages are used often, and which were evicted. Clients wait until it knows all pages: a second for
    /// some millions of them.
    RestartPolicy {
        /// `shared`, or the volume whose own cache it is
        cache: String,
    },
    /// Show or change a volume's limits of what is read from and written to its storage
    Rate {
        /// The volume
        volume: String,
        /// The most bytes a second, as 100MiB, or none
        #[arg(long, value_name = "SIZE")]
        rate: Option<Limit<Rate>>,
        /// The most requests a second, or none
        #[arg(long, value_name = "NUMBER")]
        iops: Option<Limit<Count>>,
    },
    /// Show or change a volume's limit of connections; those there are stay
    Connections {
        /// The volume
        volume: String,
        /// The most at a time, or none
        limit: Option<Limit<Count>>,
    },
    /// Change what is logged
    Log {
        /// error, warn, info, debug, trace or off, or for parts of the program, as info,forebay_nbd=debug
        level: String,
    },
    /// Begins to record the references of clients.
    #[command(skip)]
    RecordStart {
        /// The trace, which is whole when the recording stops.
        file: PathBuf,
    },
    /// Completes the trace that is being recorded.
    #[command(skip)]
    RecordStop {},
    /// Writes a trace of what has been recorded so far.
    #[command(skip)]
    RecordSnapshot {
        /// The trace.
        file: PathBuf,
    },
    /// Put a manager in charge of files of a mount, or of steered files, before all rules, until the configuration is read again
    ///
    /// One for the same owners and files takes the place of the one before.
    Manage {
        /// Whose uses: a pattern of owners' names, as "cscope *", or the number of a process [default: everybody's]
        #[arg(long, value_name = "PATTERN|PID")]
        owner: Option<String>,
        /// Of which files: a pattern of paths below the source or the directory, as "*.db" [default: all]
        #[arg(long, value_name = "PATTERN")]
        file: Option<String>,
        /// The manager, as mru or lru-k:k=3: docs/managers.md lists them
        #[arg(value_name = "MANAGER[:KEY=VALUE]…")]
        manager: String,
    },
    /// Have LRU decide where a manager would, before all rules, until the configuration is read again
    Abdicate {
        /// Whose uses: a pattern of owners' names, as "cscope *", or the number of a process [default: everybody's]
        #[arg(long, value_name = "PATTERN|PID")]
        owner: Option<String>,
        /// Of which files: a pattern of paths below the source or the directory, as "*.db" [default: all]
        #[arg(long, value_name = "PATTERN")]
        file: Option<String>,
    },
    /// Say how a file of a mount, or a steered file, will be used
    ///
    /// willneed reads it ahead and dontneed lets it leave, both at once. normal, random, sequential and noreuse hold from the next time
    /// that it is opened: they become its attribute user.forebay.hint, which normal removes. Readahead of a steered file is the kernel's:
    /// random and sequential are for mounts.
    Hint {
        /// The file, as programs see it, or below the source of a mount; a relative path counts from the current folder
        file: PathBuf,
        /// normal, random, sequential, willneed, dontneed or noreuse
        advice: String,
    },
    /// Show who manages the files of a mount, or steered files: by command, rule, attribute or own word
    Managers {},
    /// Read the configuration again, as SIGHUP does
    Reload {},
}

impl Command {
    /// Whether it may wait for a device, for the folder of a trace, or for another change.
    pub(crate) fn may_wait(&self) -> bool {
        !matches!(
            self,
            Self::Statistics {}
                | Self::Dirty { .. }
                | Self::RestartPolicy { .. }
                | Self::Rate { .. }
                | Self::Connections { .. }
                | Self::Log { .. }
        )
    }
}

/// What a command asks to do, in words for the log.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statistics {} => f.write_str("show all figures"),
            Self::Resize { cache, size } => write!(f, "resize cache {cache} to {}", show_bytes(size.0)),
            Self::Flush { volume: None } => f.write_str("flush all volumes"),
            Self::Flush { volume: Some(volume) } => write!(f, "flush volume {volume}"),
            Self::Drop { volume } => write!(f, "drop the clean pages of volume {volume}"),
            Self::Evicted { volume, offset, length, .. } => {
                write!(f, "note that {} at {} of volume {volume} were evicted above", show_bytes(length.0), offset.0)
            }
            Self::Attach { volume } => write!(f, "attach {volume}"),
            Self::Detach { volume } => write!(f, "detach volume {volume}"),
            Self::Dirty { cache, limit: None, age: None } => write!(f, "show the dirty limits of cache {cache}"),
            Self::Dirty { cache, limit, age } => {
                let share = limit.map(|share| format!("{:.0} %", 100.0 * share.0));
                let limits = [share, age.map(|age| humantime::format_duration(age.0).to_string())];
                let limits = limits.into_iter().flatten().collect::<Vec<_>>().join(" and ");
                write!(f, "let at most {limits} of cache {cache} be dirty")
            }
            Self::RestartPolicy { cache } => write!(f, "restart the policy of cache {cache}"),
            Self::Rate { volume, rate: None, iops: None } | Self::Connections { volume, limit: None } => {
                write!(f, "show the limits of volume {volume}")
            }
            Self::Rate { volume, rate, iops } => {
                let (rate, iops) = (rate.and_then(|rate| rate.0), iops.and_then(|iops| iops.0));
                write!(f, "limit volume {volume} to {}", VolumeLimits { rate, iops, connections: None })
            }
            Self::Connections { volume, limit: Some(limit) } => {
                let limits = VolumeLimits { connections: limit.0, ..VolumeLimits::default() };
                write!(f, "limit volume {volume} to {limits}")
            }
            Self::Log { level } => write!(f, "log at {level}"),
            Self::RecordStart { file } => write!(f, "record to {}", file.display()),
            Self::RecordStop {} => f.write_str("stop the recording"),
            Self::RecordSnapshot { file } => write!(f, "write what is recorded to {}", file.display()),
            Self::Manage { owner, file, manager } => {
                write!(f, "put {manager} in charge of {}", Scope(owner.as_deref(), file.as_deref()))
            }
            Self::Abdicate { owner, file } => {
                write!(f, "have LRU decide for {}", Scope(owner.as_deref(), file.as_deref()))
            }
            Self::Hint { file, advice } => write!(f, "take the hint {advice} for {}", file.display()),
            Self::Managers {} => f.write_str("show who manages"),
            Self::Reload {} => f.write_str("read the configuration again"),
        }
    }
}

/// Owners and files by their patterns, in words.
struct Scope<'a>(Option<&'a str>, Option<&'a str>);

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.1.unwrap_or("all files"), self.0.unwrap_or("everybody"))
    }
}

/// What became of a command.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It was done.
    Done {
        /// What was done, for people.
        message: String,
        /// Figures under their names: bytes, pages, references.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        figures: BTreeMap<String, u64>,
    },
    /// The figures.
    Statistics {
        /// As of `/statistics`.
        statistics: Box<Report>,
    },
    /// Who manages the files of a mount, or steered files.
    Managers {
        /// In the order in which rules are looked at; attributes and own words, which go before rules, by file.
        managers: Vec<ManagerReport>,
    },
    /// The command makes no sense.
    Refused {
        /// Why.
        message: String,
    },
    /// It could not be done.
    Failed {
        /// Why.
        message: String,
    },
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        if error.is_usage() { Self::Refused { message } } else { Self::Failed { message } }
    }
}

pub(crate) fn done(message: String) -> Result<Answer, Error> {
    with_figures(message, [])
}

pub(crate) fn with_figures<const N: usize>(message: String, figures: [(&str, u64); N]) -> Result<Answer, Error> {
    let figures = figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect();
    Ok(Answer::Done { message, figures })
}

/// A running service that commands steer.
pub(crate) trait Steered: Send + Sync {
    /// All figures since its start.
    fn report(&self) -> Report;

    fn frame(&self) -> &Frame;

    /// How long storage is waited for that takes nothing.
    fn patience(&self) -> Duration;

    fn cache(&self, name: &str) -> Result<Arc<Cache>, Error>;

    /// The policy of a cache was made anew.
    fn policy_restarted(&self) {}

    /// Does what not every service does in the same way.
    fn execute_own(self: Arc<Self>, command: Command) -> Result<Answer, Error>;

    /// Does what a command says, and waits until it is done.
    fn execute(self: Arc<Self>, command: Command) -> Answer {
        // Figures alone change nothing, and of evictions there are too many.
        if !matches!(command, Command::Statistics {} | Command::Evicted { .. }) {
            tracing::info!("control: asked to {command}");
        }
        self.try_execute(command).unwrap_or_else(|error| {
            tracing::info!("control: not done: {error}");
            Answer::from(error)
        })
    }

    /// The same.
    ///
    /// # Errors
    /// Why it was not done.
    fn try_execute(self: Arc<Self>, command: Command) -> Result<Answer, Error> {
        match command {
            Command::Statistics {} => Ok(Answer::Statistics { statistics: Box::new(self.report()) }),
            Command::RestartPolicy { cache } => {
                let cache = self.cache(&cache)?;
                let pages = u64::from(cache.pool.restart_policy()?);
                self.policy_restarted();
                let message = format!("cache {}: {} has started anew with {pages} pages", cache.name, cache.policy);
                with_figures(message, [("pages", pages)])
            }
            Command::Log { level } => {
                self.frame().set_log(&level)?;
                done(format!("the log is at {level} now"))
            }
            Command::RecordStart { file } => {
                let message = format!("recording to {}, which is whole when the recording stops", file.display());
                self.frame().recorder.within(self.patience(), move |recorder| recorder.start(&file))?;
                done(message)
            }
            Command::RecordStop {} => match self.frame().recorder.within(self.patience(), Recorder::stop)? {
                Some(recorded) => with_figures(recorded.to_string(), recorded.figures()),
                None => Err(Error::Failed("nothing is being recorded".to_owned())),
            },
            Command::RecordSnapshot { file } => {
                let recorded =
                    self.frame().recorder.within(self.patience(), move |recorder| recorder.snapshot(&file))?;
                with_figures(recorded.to_string(), recorded.figures())
            }
            other => self.execute_own(other),
        }
    }
}

/// Shows or changes how much of a cache may be dirty.
pub(crate) fn dirty(cache: &Cache, limit: Option<Share>, age: Option<Age>) -> Result<Answer, Error> {
    if let Some(share) = limit {
        cache.pool.set_dirty_limit(share.0)?;
    }
    if let Some(age) = age {
        cache.pool.set_dirty_age(age.0);
    }
    let (share, age) = (100.0 * cache.pool.dirty_limit(), cache.pool.dirty_age());
    // Written as it is read: the rest below a millisecond is of no use.
    let age = humantime::format_duration(Duration::from_millis(age.as_millis() as u64));
    done(format!("cache {}: at most {share:.0} % may be dirty, and for {age}", cache.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_line_of_json_and_what_is_wrong_is_told() {
        let read = |text: &str| serde_json::from_str::<Command>(text).map_err(|error| error.to_string());
        let resize = Command::Resize { cache: "shared".to_owned(), size: Size(1 << 30) };
        assert_eq!(read(r#"{"command":"resize","cache":"shared","size":"1GiB"}"#).as_ref(), Ok(&resize));
        assert_eq!(read(r#"{"command":"resize","cache":"shared","size":1073741824}"#), Ok(resize));
        for command in [
            Command::Statistics {},
            Command::Flush { volume: None },
            Command::Dirty {
                cache: "shared".to_owned(),
                limit: Some(Share(0.25)),
                age: Some(Age(Duration::from_millis(1500))),
            },
            Command::Rate { volume: "a".to_owned(), rate: Some(Limit(Some(Rate(4096)))), iops: Some(Limit(None)) },
            Command::Evicted { volume: "a".to_owned(), offset: Size(8192), length: Size(4096), hits: 3, dirty: true },
            Command::RestartPolicy { cache: "shared".to_owned() },
            Command::RecordSnapshot { file: "/a".into() },
        ] {
            assert_eq!(read(&serde_json::to_string(&command).unwrap()), Ok(command));
        }
        for (wrong, told) in [
            (r#"{"command":"halt"}"#, "unknown variant `halt`, expected one of `statistics`"),
            (r#"{"command":"drop"}"#, "missing field `volume`"),
            (r#"{"command":"drop","volume":"a","more":1}"#, "unknown field `more`"),
            (r#"{"command":"resize","cache":"a","size":"much"}"#, "`much` is no number of bytes"),
            ("resize", "expected value"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
