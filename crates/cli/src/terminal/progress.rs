//! A progress bar for what takes longer than two seconds, on a terminal.

use super::interrupt;
use forebay_sim::study::{self, Monitor};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
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
        if stoppable {
            interrupt::listen();
        }
        let on_terminal = std::io::stderr().is_terminal();
        let (done, start, bar) = (AtomicU64::new(0), Instant::now(), OnceLock::new());
        Box::new(Progress { what, total: references, done, start, bar, on_terminal, stoppable })
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
            bar.set_length((done as f64 / share) as u64);
            bar.set_style(style(WITH_END));
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
        let template = if self.total.is_some() { WITH_END } else { WITHOUT_END };
        let bar = ProgressBar::with_draw_target(self.total, ProgressDrawTarget::stderr());
        bar.set_style(style(template));
        bar.with_message(self.what.clone()).with_elapsed(self.start.elapsed())
    }
}

const WITH_END: &str = "{msg} [{bar:30}] {percent}% {human_pos}/{human_len} references, {per_sec}, {eta} left";
const WITHOUT_END: &str = "{msg} {spinner} {human_pos} references, {per_sec}";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well formed")
}
