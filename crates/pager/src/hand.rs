//! The hand that takes mappings away, so that uses of resident pages show.
//!
//! A mapped page is used without anybody's knowledge. Policies need to know: CLOCK and its kin whether a page was used since they looked last, LRU and
//! its kin in which order pages were used. So the hand goes over the resident pages in a circle and takes their mappings away. The next use of
//! such a page is a minor fault, which the policy learns of as a hit; it sees one use of each page a round, and their order.
//!
//! Uses matter as long as victims are chosen: the hand takes [`STEPS`] mappings away for each page that is missed, and none while all that
//! the program uses is resident. It costs no more than the share of a processor that the pager was given for it.

use crate::pager::Shared;
use forebay_figures::Tally;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Mappings taken away for each miss.
const STEPS: u64 = 2;

/// Misses from which on it pays to wake the hand.
const BATCH: u64 = 32;

/// What a minor fault costs its program beside the time in which it is handled: until it is seen, and until the program goes on.
const WAKING: Duration = Duration::from_micros(10);

/// The hand's work to do.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    misses: AtomicU64,
    stopped: Mutex<bool>,
    turn: Condvar,
}

impl Hand {
    /// Pages were missed, or would have been without readahead.
    pub(crate) fn missed(&self, pages: u64) {
        let before = self.misses.fetch_add(pages, Ordering::Relaxed);
        if before / BATCH != (before + pages) / BATCH {
            self.turn.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.turn.notify_one();
    }

    /// Waits until there is something to do: the misses since the last time. `None`: the pager stops.
    fn wait(&self) -> Option<u64> {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |stopped: &mut bool| !*stopped && self.misses.load(Ordering::Relaxed) < BATCH;
        let stopped = self.turn.wait_while(stopped, idle).unwrap_or_else(PoisonError::into_inner);
        (!*stopped).then(|| self.misses.swap(0, Ordering::Relaxed))
    }
}

/// Takes mappings away until the pager stops; `share` of a processor is what that may cost.
pub(crate) fn turn(shared: &Shared, share: f64) {
    let (mut frame, mut last) = (0, Instant::now());
    while let Some(misses) = shared.hand.wait() {
        let passed = last.elapsed();
        last = Instant::now();
        let handling = shared.counters.fault_time.read().quantile(0.5);
        let cost = Duration::from_nanos(handling) + WAKING;
        let afforded = (share * passed.as_secs_f64() / cost.as_secs_f64()) as u64;
        let most = (STEPS * misses).min(afforded).min(4096);
        let (unmapped, next) = shared.space.unmap_some(frame, most as usize);
        frame = next;
        shared.counters.unmapped.add(unmapped as u64);
    }
}
