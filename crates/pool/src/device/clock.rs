//! What time it is, for devices that wait.

use std::time::{Duration, Instant};

/// Time as a device sees it; a test has its own.
pub trait Clock: Send + Sync {
    /// What has passed since some beginning.
    fn now(&self) -> Duration;

    /// Returns at that time, or somewhat before or after.
    fn sleep_until(&self, time: Duration);
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// What a thread need not sleep for: Linux wakes sleepers late by 50 µs and more. Devices reckon with the times at which
/// requests ought to be done, so that neither what is left out nor what is overslept adds up.
const LEFT_OUT: Duration = Duration::from_micros(100);

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep_until(&self, time: Duration) {
        let rest = time.saturating_sub(self.now());
        if rest >= LEFT_OUT {
            std::thread::sleep(rest);
        }
    }
}

/// A clock that stands still but for sleeps.
#[cfg(all(test, not(feature = "model-check")))]
#[derive(Debug, Default)]
pub(super) struct StillClock(std::sync::Mutex<Duration>);

#[cfg(all(test, not(feature = "model-check")))]
impl Clock for StillClock {
    fn now(&self) -> Duration {
        *self.0.lock().expect("no test panics while it looks at the clock")
    }

    fn sleep_until(&self, time: Duration) {
        let mut now = self.0.lock().expect("no test panics while it looks at the clock");
        *now = time.max(*now);
    }
}
