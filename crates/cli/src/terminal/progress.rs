//! A progress bar for what takes longer than two seconds, on a terminal.

use super::interrupt;
use forebay_sim::study::{self, Monitor};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long something may take before it is worth a bar.
const BEFORE_A_BAR: Duration = Duration::from_secs(2);

/// A terminal at which someone waits.
pub(crate) struct Terminal;

impl Monitor for Terminal {
    fn begin(&self, what: String, references: Option<u64>, stoppable: bool) -> Box<dyn study::Progress + '_> {
        interrupt::doing(&what);
        if stoppable {
            interrupt::listen();
        }
        Box::new(Progress::new(what, references, stoppable))
    }

    fn warn(&self, message: &str) {
        eprintln!("forebay: {message}");
    }
}

/// Progress towards an end that is known, or from a start alone; the bar goes when it is dropped.
struct Progress {
    what: String,
    total: Option<u64>,
    done: AtomicU64,
    start: Instant,
    bar: OnceLock<ProgressBar>,
    on_terminal: bool,
    stoppable: bool,
}

/// Progress of what deals with Ctrl-C by itself, and whose end is not known.
pub(crate) fn progress(what: &str) -> impl study::Progress {
    Progress::new(what.to_owned(), None, false)
}

impl Progress {
    fn new(what: String, total: Option<u64>, stoppable: bool) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let (done, start, bar) = (AtomicU64::new(0), Instant::now(), OnceLock::new());
        Self { what, total, done, start, bar, on_terminal, stoppable }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.stoppable {
            interrupt::ignore();
        }
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

impl study::Progress for Progress {
    fn add(&self, more: u64) -> bool {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        self.show(done);
        self.goes_on()
    }

    fn set(&self, done: u64, share: Option<f64>) -> bool {
        self.show(done);
        // The share is measured in the file's bytes: the length in references is an estimate that becomes exact.
        if let (Some(bar), Some(share)) = (self.bar.get(), share.filter(|&share| share > 0.0)) {
            if bar.length().is_none() {
                bar.set_style(style(with_end()));
            }
            bar.set_length((done as f64 / share) as u64);
        }
        self.goes_on()
    }
}

impl Progress {
    fn goes_on(&self) -> bool {
        !self.stoppable || !interrupt::asked()
    }

    fn show(&self, done: u64) {
        if self.on_terminal && (self.bar.get().is_some() || self.start.elapsed() > BEFORE_A_BAR) {
            self.bar.get_or_init(|| self.bar()).set_position(done);
        }
    }

    fn bar(&self) -> ProgressBar {
        let template = if self.total.is_some() { with_end() } else { WITHOUT_END };
        let bar = ProgressBar::with_draw_target(self.total, ProgressDrawTarget::stderr());
        bar.set_style(style(template));
        bar.with_message(self.what.clone()).with_elapsed(self.start.elapsed())
    }
}

/// Terminals with fewer columns have no room for a bar.
const NARROW: u16 = 72;

/// What is done comes last, and is cut where the line ends: a line that wraps would be repeated.
fn with_end() -> &'static str {
    match rustix::termios::tcgetwinsize(std::io::stderr()).map(|size| size.ws_col) {
        // A terminal that does not know its width says 0.
        Ok(1..NARROW) => "{percent:>3}% {left} left, {wide_msg}",
        _ => "[{bar:20}] {percent:>3}% at {rate}, {left} left: {wide_msg}",
    }
}
const WITHOUT_END: &str = "{spinner} {done} at {rate}: {wide_msg}";

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    let style = style.with_key("done", |state: &ProgressState, to: &mut dyn Write| {
        let _ = write!(to, "{} refs", short(state.pos() as f64));
    });
    let style = style.with_key("rate", |state: &ProgressState, to: &mut dyn Write| {
        let _ = write!(to, "{} refs/s", short(state.pos() as f64 / state.elapsed().as_secs_f64().max(1e-3)));
    });
    style.with_key("left", |state: &ProgressState, to: &mut dyn Write| {
        let left = left(state.elapsed(), state.pos(), state.len().unwrap_or(0));
        let _ = write!(to, "{:#}", HumanDuration(left));
    })
}

/// The time for what is left, if it goes on as it went so far.
fn left(elapsed: Duration, done: u64, all: u64) -> Duration {
    elapsed.mul_f64(all.saturating_sub(done) as f64 / done.max(1) as f64)
}

/// Three digits and a unit: 216 M.
fn short(number: f64) -> String {
    let (number, unit) = match number {
        number if number >= 999.5e6 => (number / 1e9, " G"),
        number if number >= 999.5e3 => (number / 1e6, " M"),
        number if number >= 999.5 => (number / 1e3, " k"),
        number => (number, ""),
    };
    let decimals = if unit.is_empty() || number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let numbers = [0.0, 12.0, 999.0, 1000.0, 12_345.0, 999_600.0, 216_400_000.0, 1.5e9];
        let shown = ["0", "12", "999", "1.00 k", "12.3 k", "1.00 M", "216 M", "1.50 G"];
        assert_eq!(numbers.map(short), shown);
    }

    #[test]
    fn the_time_left_goes_by_the_work_done() {
        assert_eq!(left(Duration::from_secs(10), 25, 100), Duration::from_secs(30));
        assert_eq!(left(Duration::from_secs(10), 100, 100), Duration::ZERO);
        assert!(left(Duration::from_secs(10), 0, 100) > Duration::from_secs(100));
    }
}
