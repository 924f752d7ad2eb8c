//! What signals ask for.

use crate::error::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// SIGTERM, SIGINT, and SIGXCPU as the limit of processor time comes near: stop in order.
    Stop,
    /// SIGHUP: read the configuration file again.
    Reload,
}

/// What a second signal takes from a service that writes.
pub(crate) const UNWRITTEN: &str = "what is not written yet is lost";

/// Signals to stop that come so soon after the first are the same: `timeout` and service managers signal a process, and then its group.
const SAME: Duration = Duration::from_secs(1);

/// The requests of signals from now on, and of the sender's other users. A second signal to stop, later than [`SAME`], ends the process at once; the log says then what
/// is `lost` by that.
pub(crate) fn listen(lost: &'static str) -> Result<(Sender<Request>, Receiver<Request>), Error> {
    let failed = |error: std::io::Error| Error::Failed(format!("cannot listen to signals: {error}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGXCPU]).map_err(failed)?;
    let (sender, receiver) = channel();
    let asking = sender.clone();
    let serve = move || {
        let mut stopping: Option<Instant> = None;
        for signal in signals.forever() {
            let request = if signal == SIGHUP { Request::Reload } else { Request::Stop };
            if signal == SIGXCPU {
                // It comes again with each second of processor time.
                if stopping.is_some() {
                    continue;
                }
                tracing::error!("the processor time that `ulimit -t` allows is nearly used up");
            }
            if request == Request::Stop {
                match stopping {
                    None => stopping = Some(Instant::now()),
                    Some(first) if first.elapsed() < SAME => continue,
                    Some(_) => {
                        tracing::error!("a second signal to stop: {lost}");
                        std::process::exit(1);
                    }
                }
            }
            if sender.send(request).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(serve).map_err(failed)?;
    Ok((asking, receiver))
}
