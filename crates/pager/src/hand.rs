//! The hand that takes mappings away, so that uses of resident pages show: for policies that do not say for which uses they wait (those are in uses.rs).
//!
//! A mapped page is used without anybody's knowledge. LRU and its kin need to know in which order pages were used. So the hand goes over the resident
//! pages in a circle and takes their mappings away. The next use of such a page is a minor fault, which the policy learns of as a hit; it sees one use
//! of each page a round, and their order.
//!
//! Uses matter as long as victims are chosen: the hand takes [`STEPS`] mappings away for each page that is missed, and none while all that
//! the program uses is resident. It costs no more than the share of a processor that the pager was given for it. Whoever has just brought a page
//! moves it: a thread of its own would be late where the machine has much to do.

use crate::pager::Shared;
use forebay_figures::Tally;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Mappings taken away for each miss.
const STEPS: u64 = 2;

/// Misses from which on it pays to move.
const BATCH: u64 = 32;

/// The most misses that one move is for: whoever makes it has other work.
const MOST: u64 = 2048;

/// What a minor fault costs its program beside the time in which it is handled: until it is seen, and until the program goes on.
const WAKING: Duration = Duration::from_micros(10);

#[derive(Debug)]
pub(crate) struct Hand {
    /// The share of a processor that may be spent.
    share: f64,
    misses: AtomicU64,
    place: Mutex<Place>,
}

#[derive(Debug)]
struct Place {
    frame: usize,
    moved: Instant,
}

impl Hand {
    pub(crate) fn new(share: f64) -> Self {
        Self { share, misses: AtomicU64::new(0), place: Mutex::new(Place { frame: 0, moved: Instant::now() }) }
    }

    /// Pages were missed, or would have been without readahead.
    pub(crate) fn missed(&self, pages: u64) {
        self.misses.fetch_add(pages, Ordering::Relaxed);
    }

    /// Takes mappings away if it is time to, and nobody else does.
    pub(crate) fn turn(&self, shared: &Shared) {
        if self.share == 0.0 || self.misses.load(Ordering::Relaxed) < BATCH {
            return;
        }
        let Ok(mut place) = self.place.try_lock() else { return };
        let misses = self.misses.swap(0, Ordering::Relaxed).min(MOST);
        let passed = place.moved.elapsed();
        place.moved = Instant::now();
        let handling = shared.counters.fault_time.read().quantile(0.5);
        let cost = Duration::from_nanos(handling) + WAKING;
        let afforded = (self.share * passed.as_secs_f64() / cost.as_secs_f64()) as u64;
        let (unmapped, next) =
            shared.space.unmap_some(place.frame, (STEPS * misses).min(afforded) as usize, |_, _| true);
        place.frame = next;
        shared.counters.unmapped.add(unmapped as u64);
    }
}
