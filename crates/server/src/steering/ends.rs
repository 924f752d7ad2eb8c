//! How steering ends: it is asked to, or its thread ends by itself.

use crate::error::Error;
use crate::signals::Request;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often it is looked whether the thread that steers goes on.
const LOOKED: Duration = Duration::from_millis(500);

/// What has become of steering so far.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    begun: AtomicBool,
    failed: AtomicBool,
}

impl Ends {
    /// The service has been asked to stop.
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    /// Whether it has.
    pub(crate) fn have_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Has the service stop if the thread that steers, of which `runs` says whether it goes on, ends by itself.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn look_after(
        self: &Arc<Self>,
        runs: impl Fn() -> bool + Send + 'static,
        asking: Sender<Request>,
    ) -> Result<(), Error> {
        let ends = Arc::clone(self);
        let look = move || {
            while runs() {
                std::thread::sleep(LOOKED);
            }
            if !ends.have_begun() {
                ends.failed.store(true, Ordering::SeqCst);
                // The service may be stopping: then it reads no more requests.
                let _ = asking.send(Request::Stop);
            }
        };
        let thread = std::thread::Builder::new().name("look".to_owned()).spawn(look);
        thread.map(drop).map_err(|error| Error::Failed(format!("no thread to look after it: {error}")))
    }

    /// Whether the thread that steers went on until it was asked to end.
    ///
    /// # Errors
    /// It did not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::SeqCst) {
            return Err(Error::Failed("steering has failed inside: the kernel's own lists decide again".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_ends_by_itself_stops_the_service_and_is_a_failure() {
        let (asking, asked) = channel();
        let ends = Arc::<Ends>::default();
        ends.look_after(|| false, asking).expect("a thread");
        assert_eq!(asked.recv_timeout(Duration::from_secs(60)), Ok(Request::Stop));
        assert!(ends.check().is_err());
    }

    #[test]
    fn one_that_was_asked_to_end_is_none() {
        let (asking, asked) = channel();
        let ends = Arc::<Ends>::default();
        ends.begin();
        ends.look_after(|| false, asking).expect("a thread");
        assert!(asked.recv_timeout(Duration::from_secs(60)).is_err(), "the thread ends, and asks for nothing");
        assert!(ends.check().is_ok());
    }
}
