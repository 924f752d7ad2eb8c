//! The log of what runs: to standard error or a file, at levels that change while it runs.

mod repeats;

use crate::error::Error;
use crate::frame::SetLog;
use repeats::Repeats;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Mutex;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Levels, for all or for parts. The library takes any word for the name of a part, and a mistyped level would silence the log.
fn filter(text: &str) -> Result<Targets, String> {
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let is_part = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    for word in text.split(',') {
        let known =
            word.split_once('=').map_or_else(|| is_level(word), |(part, level)| is_part(part) && is_level(level));
        if !known {
            let levels = LEVELS.join(", ");
            return Err(format!(
                "`{word}` is no level: write info, or a part and its level, forebay_nbd=debug; levels are {levels}"
            ));
        }
    }
    text.parse::<Targets>().map_err(|error| format!("`{text}`: {error}"))
}

/// Levels as they were written, if they are such.
///
/// # Errors
/// Which word is none, and what levels there are.
pub fn parse(text: &str) -> Result<String, String> {
    filter(text).map(|_| text.to_owned())
}

/// Where the log goes.
pub enum To<'p> {
    /// To standard error.
    Terminal,
    /// Behind what is in this file.
    File(&'p Path),
    /// To the terminal, as long as there is one, and to the system's log.
    System,
}

/// The system's log, a line each.
struct System(UnixDatagram);

impl Write for System {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A daemon's notice.
        const PRIORITY: u32 = 3 << 3 | 5;
        let head = format!("<{PRIORITY}>forebay[{}]: ", std::process::id());
        // Nobody is there to learn that the log is not taken.
        let _ = self.0.send(&[head.as_bytes(), line.trim_ascii_end()].concat());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file, and where it is said that the file takes nothing more: once, until it takes a line again.
struct LogFile<F, S> {
    file: F,
    name: String,
    failing: bool,
    aside: S,
}

impl<F: Write, S: Write> Write for LogFile<F, S> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.file.write(line);
        match &written {
            Ok(_) => self.failing = false,
            // Standard error may be closed, or on the same full disk.
            Err(error) if !std::mem::replace(&mut self.failing, true) => {
                let _ = writeln!(self.aside, "forebay: {}: the log cannot be written: {error}", self.name);
            }
            Err(_) => {}
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn system() -> io::Result<System> {
    let socket = UnixDatagram::unbound()?;
    socket.connect("/dev/log")?;
    socket.set_nonblocking(true)?;
    Ok(System(socket))
}

/// Begins to log; what changes the levels later.
///
/// # Errors
/// A file that cannot be written, or no thread.
pub fn start(levels: &str, to: &To<'_>) -> Result<SetLog, Error> {
    let (filter, level) = reload::Layer::new(filter(levels).map_err(Error::Usage)?);
    let writer = match to {
        To::File(path) => {
            let (opened, name) = (File::options().create(true).append(true).open(path), path.display().to_string());
            let file = opened.map_err(|error| Error::Failed(format!("{name}: {error}")))?;
            BoxMakeWriter::new(Mutex::new(LogFile { file, name, failing: false, aside: io::stderr() }))
        }
        To::System => match system() {
            Ok(system) => BoxMakeWriter::new(std::io::stderr.and(Mutex::new(system))),
            // There is none, as in many a container.
            Err(_) => BoxMakeWriter::new(std::io::stderr),
        },
        To::Terminal => BoxMakeWriter::new(std::io::stderr),
    };
    let ansi = matches!(to, To::Terminal) && std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(ansi).with_target(false);
    let repeats = Repeats::default();
    tracing_subscriber::registry().with(filter).with(lines.with_filter(repeats.clone())).init();
    let reporting = repeats.reporting().map_err(|error| Error::Failed(format!("no thread for the log: {error}")))?;
    Ok(Box::new(move |text| {
        // What was counted is written as long as the log is used.
        let _ = &reporting;
        let filter = self::filter(text).map_err(|error| Error::Usage(format!("log: {error}")))?;
        level.reload(filter).map_err(|error| Error::Failed(error.to_string()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_once_beside_the_log() {
        let file = File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut log = LogFile { file, name: "log".to_owned(), failing: false, aside: Vec::new() };
        for _ in 0..3 {
            log.write_all(b"a line\n").expect_err("it is full");
        }
        let said = String::from_utf8(log.aside).expect("text");
        assert_eq!(said, "forebay: log: the log cannot be written: No space left on device (os error 28)\n");
    }
}
