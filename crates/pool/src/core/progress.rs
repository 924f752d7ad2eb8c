//! Where threads wait for a frame, or for fewer dirty pages: until some page has been loaded, written back, dropped or let go of.

use crate::sync::{AtomicU32, AtomicU64, Condvar, Mutex, Ordering, lock};
use std::time::{Duration, Instant};

/// Invariant: a thread that makes progress raises `made`, then looks at `waiting`; a thread that waits raises `waiting`, then looks at `made`.
/// One of the two sees the other, so no wake-up is lost.
#[derive(Default)]
pub(crate) struct Progress {
    made: AtomicU64,
    waiting: AtomicU32,
    mutex: Mutex<()>,
    woken: Condvar,
}

impl Progress {
    /// What has been made so far: to be asked before a thread looks whether it must wait.
    pub(crate) fn seen(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Some page may have become free, or clean.
    pub(crate) fn make(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _guard = lock(&self.mutex);
            self.woken.notify_all();
        }
    }

    /// Waits until more has been made than was seen, and at most so long: pins that are given back, and devices that begin to hang, are not
    /// told.
    pub(crate) fn wait(&self, seen: u64, most: Duration) {
        // The model checker knows no time.
        if cfg!(feature = "model-check") {
            return crate::sync::yield_now();
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let deadline = Instant::now() + most;
        let mut guard = lock(&self.mutex);
        while self.made.load(Ordering::SeqCst) == seen {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            guard = self.woken.wait_timeout(guard, left).expect("no thread panicked under this lock").0;
        }
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_waits_is_woken_and_what_was_made_before_is_not_waited_for() {
        let progress = Arc::new(Progress::default());
        let begin = Instant::now();
        for _ in 0..1000 {
            let seen = progress.seen();
            let maker = Arc::clone(&progress);
            let thread = std::thread::spawn(move || maker.make());
            progress.wait(seen, Duration::from_secs(30));
            thread.join().expect("no panic");
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "a wake-up was lost");
        progress.wait(progress.seen(), Duration::from_millis(1));
    }
}
