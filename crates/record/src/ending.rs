//! When a recording ends: with its program, by Ctrl-C or SIGTERM, at its limit, or after its time.

use crate::error::Error;
use crate::running::{Running, status};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long a program may take to end once it is asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How long a program may go on after Ctrl-C before the user learns what another Ctrl-C does.
const BEFORE_A_WORD: Duration = Duration::from_secs(1);

/// What happens meanwhile.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// Ctrl-C, which a program in the foreground has got, too.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// As many requests are recorded as were asked.
    Full,
    /// All is recorded.
    Over,
}

/// Passes Ctrl-C, SIGTERM and SIGHUP (the terminal has gone) on as events, but those that are ignored here, as by `nohup`.
pub(crate) fn listen(events: Sender<Event>) -> io::Result<Handle> {
    let ignored = ignored_signals();
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heard)?;
    let handle = signals.handle();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // The recording may be over.
            let _ = events.send(if signal == SIGINT { Event::Interrupt } else { Event::Terminate });
        }
    });
    Ok(handle)
}

impl Event {
    /// Why nothing is recorded, if this is a signal that came before anything was.
    pub(crate) fn stops(self) -> Option<Error> {
        let (code, by) = match self {
            Self::Interrupt => (130, "Ctrl-C"),
            Self::Terminate => (143, "a signal"),
            Self::Full | Self::Over => return None,
        };
        Some(Error::Program(code, format!("stopped by {by} before anything was recorded: there is no trace")))
    }
}

/// Why a recording has ended.
#[derive(Default)]
pub(crate) struct Ended {
    /// For the sake of the limit or the duration.
    pub(crate) of_itself: bool,
    /// The first signal that came.
    pub(crate) signal: Option<Event>,
}

/// The signals that this process ignores, a bit each.
pub fn ignored_signals() -> u64 {
    status("self", "SigIgn").and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0)
}

/// What comes at a time.
enum Then {
    Ask,
    Say,
    Force,
}

/// Ends what is recorded when it is time to.
pub(crate) fn control(
    events: &Receiver<Event>,
    duration: Option<Duration>,
    running: &Running,
    say: &dyn Fn(&str),
) -> Ended {
    let after = |time: Duration, then| Instant::now().checked_add(time).map(|at| (at, then));
    let mut next = duration.and_then(|duration| after(duration, Then::Ask));
    let (mut interrupted, mut asked, mut ended) = (false, false, Ended::default());
    loop {
        let event = match &next {
            Some((at, _)) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => events.recv().map_err(RecvTimeoutError::from),
        };
        if let Ok(signal @ (Event::Interrupt | Event::Terminate)) = event {
            ended.signal.get_or_insert(signal);
        }
        match event {
            Ok(Event::Over) | Err(RecvTimeoutError::Disconnected) => return ended,
            Ok(Event::Full) if asked => {}
            Ok(Event::Interrupt) if running.is_in_foreground() && !interrupted && !asked => {
                interrupted = true;
                next = after(BEFORE_A_WORD, Then::Say);
            }
            Ok(Event::Interrupt | Event::Terminate) if interrupted || asked => {
                running.force();
                next = None;
            }
            Ok(Event::Interrupt | Event::Terminate) => {
                (asked, next) = (true, after(GRACE, Then::Force));
                running.ask();
            }
            Ok(Event::Full) => {
                (asked, ended.of_itself, next) = (true, true, after(GRACE, Then::Force));
                running.ask();
            }
            Err(RecvTimeoutError::Timeout) => match next.take().map(|(_, then)| then) {
                Some(Then::Ask) => {
                    (asked, ended.of_itself, next) = (true, true, after(GRACE, Then::Force));
                    running.ask();
                }
                Some(Then::Say) => say("the program goes on, and is recorded; Ctrl-C again kills it"),
                Some(Then::Force) => {
                    say(&format!("the program did not end in {} s: it is killed", GRACE.as_secs()));
                    running.force();
                }
                None => {}
            },
        }
    }
}
