//! Mistakes of programs, in the log.

use forebay_basis::spelling::printable;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often they are logged.
const PAUSE: Duration = Duration::from_secs(1);

/// Mistakes of programs, which may be many.
#[derive(Debug, Default)]
pub struct Mistakes(Mutex<(Option<Instant>, u64)>);

impl Mistakes {
    /// Logs a mistake of a program, unless one was logged just now. What programs chose does not pass for lines of ours.
    pub fn log(&self, what: &str) {
        let what = printable(what);
        let mut mistakes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, more) = &mut *mistakes;
        if last.is_some_and(|last| last.elapsed() < PAUSE) {
            *more += 1;
            return;
        }
        match std::mem::take(more) {
            0 => tracing::warn!("{what}"),
            more => tracing::warn!("{what} ({more} mistakes before were not logged)"),
        }
        *last = Some(Instant::now());
    }
}
