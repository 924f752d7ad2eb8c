//! Warnings that repeat: the first few of a kind are in the log, the others are counted there.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

/// How long lines are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// The lines of a kind that are written in that time.
const WRITTEN: u64 = 5;
/// The most kinds that are counted; of others all is written.
const KINDS: usize = 1000;

/// Lets the first warnings and errors of each kind pass. Lines are of one kind if they differ in digits alone.
#[derive(Clone, Default)]
pub(crate) struct Repeats(Arc<Counted>);

#[derive(Default)]
struct Counted {
    kinds: Mutex<HashMap<String, Kind>>,
    begun: Condvar,
}

/// The level and the text of the first line of a kind, and how many lines there were.
struct Kind {
    level: Level,
    first: String,
    lines: u64,
}

impl Repeats {
    /// Writes what was counted each time that a window ends.
    pub(crate) fn reporting(&self) -> std::io::Result<Reporting> {
        let counted = self.clone();
        let report = move || {
            loop {
                let none = |kinds: &mut HashMap<_, _>| kinds.is_empty();
                drop(counted.0.begun.wait_while(counted.kinds(), none).unwrap_or_else(PoisonError::into_inner));
                std::thread::sleep(WINDOW);
                counted.report();
            }
        };
        std::thread::Builder::new().name("log".to_owned()).spawn(report)?;
        Ok(Reporting(self.clone()))
    }

    fn kinds(&self) -> MutexGuard<'_, HashMap<String, Kind>> {
        self.0.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) {
        let kinds = std::mem::take(&mut *self.kinds());
        for Kind { level, first, lines } in kinds.into_values().filter(|kind| kind.lines > WRITTEN) {
            let (more, seconds) = (lines - WRITTEN, WINDOW.as_secs());
            if level == Level::ERROR {
                tracing::error!("{first} … {more} more like this in {seconds} s");
            } else {
                tracing::warn!("{first} … {more} more like this in {seconds} s");
            }
        }
    }
}

/// As long as it is there, what was counted is written; what is left, at its end.
pub(crate) struct Reporting(Repeats);

impl Drop for Reporting {
    fn drop(&mut self) {
        self.0.report();
    }
}

impl<S> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let level = *event.metadata().level();
        if level > Level::WARN {
            return true;
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        let kind: String = line.0.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let mut kinds = self.kinds();
        if kinds.len() >= KINDS && !kinds.contains_key(&kind) {
            return true;
        }
        let kind = kinds.entry(kind).or_insert(Kind { level, first: line.0, lines: 0 });
        kind.lines += 1;
        let passes = kind.lines <= WRITTEN;
        self.0.begun.notify_one();
        passes
    }
}

/// The text of an event and its values.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_lines_of_each_kind_are_written_and_the_others_counted() {
        let (log, repeats) = (Log::default(), Repeats::default());
        let writer = log.clone();
        let lines = tracing_subscriber::fmt::layer()
            .without_time()
            .with_ansi(false)
            .with_target(false)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(lines.with_filter(repeats.clone())),
            || {
                let reporting = Reporting(repeats);
                for number in 0..681 {
                    tracing::warn!(error = "disk full", "page {number} stays dirty");
                    tracing::info!("not counted");
                }
                tracing::error!("page 7 is lost");
                drop(reporting);
            },
        );
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let count = |what: &str| log.lines().filter(|line| line.contains(what)).count();
        assert_eq!((count("INFO not counted"), count("ERROR page 7 is lost")), (681, 1), "{log}");
        assert_eq!(count("stays dirty error=\"disk full\""), 5 + 1, "{log}");
        assert_eq!(count("WARN page 0 stays dirty error=\"disk full\" … 676 more like this in 10 s"), 1, "{log}");
    }
}
