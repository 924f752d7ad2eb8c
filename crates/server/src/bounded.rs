//! Work that may hang, on a thread of its own if there is one.

use crate::error::Error;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often to look whether it goes on.
const LOOK: Duration = Duration::from_millis(50);

/// What `work` comes to. What comes after the limit is dropped.
///
/// # Errors
/// Those of `work`; or `progress` has stayed the same for `limit`: the storage of `what` hangs.
pub(crate) fn bounded<T: Send + 'static>(
    what: &str,
    limit: Duration,
    progress: impl Fn() -> u64,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let failed = |why: &str| Error::Failed(format!("{what}: {why}"));
    let (sender, result) = channel();
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let taken = Arc::clone(&work);
    // Whoever asked may have gone.
    let run = move || drop(take(&taken).map(|work| sender.send(work())));
    if let Err(error) = std::thread::Builder::new().name("bounded".to_owned()).spawn(run) {
        tracing::warn!("{what}: no thread for it: {error}; it is waited for without a limit");
        return take(&work).expect("no thread has taken it")();
    }
    let (mut before, mut last) = (progress(), Instant::now());
    loop {
        match result.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(failed("it failed inside")),
            Err(RecvTimeoutError::Timeout) => {
                let now = progress();
                if now != before {
                    (before, last) = (now, Instant::now());
                } else if last.elapsed() > limit {
                    let limit = humantime::format_duration(limit);
                    return Err(failed(&format!("it has not gone on for {limit}: its storage hangs")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::Sender;

    #[test]
    fn what_hangs_is_an_error_and_what_it_comes_to_later_is_dropped() {
        let (go, wait) = channel::<()>();
        let (kept, dropped) = channel::<()>();
        let work = move || {
            // Its end is the word to go on.
            let _ = wait.recv();
            Ok::<Sender<()>, Error>(kept)
        };
        let error = bounded("file", Duration::from_millis(100), || 0, work).unwrap_err().to_string();
        assert_eq!(error, "file: it has not gone on for 100ms: its storage hangs");
        drop(go);
        assert_eq!(dropped.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected), "not dropped");
    }

    #[test]
    fn what_goes_on_is_waited_for_longer_than_the_limit() {
        let done = Arc::new(AtomicU64::new(0));
        let steps = Arc::clone(&done);
        let work = move || {
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(50));
                steps.fetch_add(1, Ordering::Relaxed);
            }
            Ok(7)
        };
        let limit = Duration::from_millis(700);
        assert_eq!(bounded("file", limit, || done.load(Ordering::Relaxed), work).unwrap(), 7);
    }
}
