//! When a recording of the page cache or of memory ends: at a signal or with its program, as steering does; or after its time, or at its limit.

use crate::error::Error;
use crate::frame::Frame;
use crate::signals::Request;
use crate::steering::ends::Ends;
use crate::steering::program::Outcome;
use rustix::process::{Signal, getpid, kill_process};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is looked whether it ends.
const LOOKED: Duration = Duration::from_millis(50);
/// How long a program may take to end once it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// A recording of the uses of files, or of programs' memory.
pub struct Recording {
    /// The trace, whose name says the format.
    pub out: PathBuf,
    /// Whether a file of that name is replaced, once the trace is whole.
    pub force: bool,
    /// It ends after this time, and the program with it.
    pub duration: Option<Duration>,
    /// The most uses that are recorded: it ends then, and the program with it.
    pub limit: Option<u64>,
    /// Learns every moment how many uses were seen.
    pub progress: Box<dyn FnMut(u64) + Send>,
}

/// What a recording holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Uses in the trace.
    pub written: u64,
    /// Uses that came too fast, and are not.
    pub lost: u64,
}

/// What ends a recording.
pub(crate) struct Ender {
    /// Uses that were seen so far.
    pub(crate) seen: Arc<AtomicU64>,
    /// Stops the service.
    pub(crate) asking: Sender<Request>,
    /// The program's control group, where there is a program.
    pub(crate) group: Option<PathBuf>,
}

impl Ender {
    /// Begins the recording of a service, and ends it when it is time to.
    pub(crate) fn begin(
        self,
        recording: Recording,
        frame: &Frame,
        (ends, program): (&Arc<Ends>, &Arc<Outcome>),
    ) -> Result<JoinHandle<()>, Error> {
        frame.recorder.start(&recording.out)?;
        let (ends, program) = (Arc::clone(ends), Arc::clone(program));
        // What becomes of the program is of our making then.
        self.start(recording, move || !ends.have_begun(), move || drop(program.set(Ok(0))))
    }

    /// Ends the recording when it is time to, in a thread of its own. `goes_on` says whether the service, and a program, still run; `early` is called if they are
    /// ended.
    fn start(
        self,
        recording: Recording,
        goes_on: impl Fn() -> bool + Send + 'static,
        early: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, Error> {
        let Recording { duration, limit, mut progress, .. } = recording;
        let end = duration.and_then(|duration| Instant::now().checked_add(duration));
        let look = move || {
            while goes_on() {
                let seen = self.seen.load(Ordering::Relaxed);
                progress(seen);
                if limit.is_some_and(|limit| seen >= limit) || end.is_some_and(|end| Instant::now() >= end) {
                    early();
                    return self.end(&goes_on);
                }
                std::thread::sleep(LOOKED);
            }
        };
        let thread = std::thread::Builder::new().name("end".to_owned()).spawn(look);
        thread.map_err(|error| Error::Failed(format!("no thread to end the recording: {error}")))
    }

    fn end(self, goes_on: &impl Fn() -> bool) {
        let Some(group) = self.group else {
            // It may be stopping by itself.
            let _ = self.asking.send(Request::Stop);
            return;
        };
        // Signals to this process go to its program.
        let _ = kill_process(getpid(), Signal::TERM);
        let asked = Instant::now();
        while goes_on() {
            if asked.elapsed() >= GRACE {
                return kill(&group);
            }
            std::thread::sleep(LOOKED);
        }
    }
}

/// Kills all processes of a control group.
fn kill(group: &Path) {
    tracing::warn!("the program did not end in {} s: it is killed", GRACE.as_secs());
    if let Err(error) = std::fs::write(group.join("cgroup.kill"), "1") {
        tracing::error!("the program cannot be killed: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    fn recording(duration: Option<Duration>, limit: Option<u64>) -> Recording {
        Recording { out: PathBuf::new(), force: false, duration, limit, progress: Box::new(|_| ()) }
    }

    #[test]
    fn it_ends_after_its_time_or_at_its_limit() {
        let ends = |recording: Recording, seen: u64| {
            let ((asking, asked), (early, was_early)) = (channel(), channel());
            let ender = Ender { seen: Arc::new(AtomicU64::new(seen)), asking, group: None };
            ender.start(recording, || true, move || early.send(()).unwrap()).unwrap();
            asked.recv_timeout(Duration::from_secs(60)).map(|request| (request, was_early.try_recv().is_ok()))
        };
        assert_eq!(ends(recording(None, Some(7)), 7), Ok((Request::Stop, true)));
        assert_eq!(ends(recording(Some(Duration::ZERO), Some(7)), 6), Ok((Request::Stop, true)));
    }

    #[test]
    fn it_goes_with_what_is_recorded() {
        let (asking, asked) = channel();
        let ender = Ender { seen: Arc::default(), asking, group: None };
        ender.start(recording(None, None), || false, || panic!("it was not ended early")).unwrap();
        assert_eq!(asked.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
    }
}
