//! Moments at which no byte changes.

use crate::common::{PAGE, limit, map, pager, stored};
use forebay_pool::device::MemoryDevice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const PAGES: usize = 64;
const WRITERS: usize = 3;

/// A region's address, for threads that write there together.
#[derive(Clone, Copy)]
struct Words(*mut u64);

// SAFETY: the words are atomic, and the region outlives the threads.
unsafe impl Send for Words {}

impl Words {
    fn at(&self, page: usize) -> &AtomicUsize {
        // SAFETY: the page lies within the region.
        unsafe { &*self.0.byte_add(page * PAGE).cast() }
    }
}

#[test]
fn what_is_frozen_is_what_each_thread_had_written_at_one_moment() {
    let _limit = limit("regions that are frozen while threads write");
    let pager = pager("clock-pro", 32 * PAGE);
    let device = Arc::new(MemoryDevice::new((WRITERS * PAGES * PAGE) as u64));
    let mut region = map(&pager, &device);
    let ended = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (words, ended) = (Words(region.as_mut_ptr().cast()), Arc::clone(&ended));
            std::thread::spawn(move || {
                let mut round = 0;
                // One page after another, so that no page is ever ahead of one before it by more than a round.
                while !ended.load(Ordering::Relaxed) {
                    round += 1;
                    (0..PAGES).for_each(|page| words.at(writer * PAGES + page).store(round, Ordering::Relaxed));
                }
            })
        })
        .collect();
    let read = |bytes: &[u8], page: usize| {
        u64::from_ne_bytes(bytes[page * PAGE..page * PAGE + 8].try_into().expect("eight bytes"))
    };
    for _ in 0..30 {
        let frozen = pager.freeze(PATIENCE).expect("they are frozen");
        assert!(pager.freeze(PATIENCE).is_err(), "once at a time");
        let before = stored(&*device);
        for page in 0..WRITERS * PAGES {
            // Reads do not wait, and find what storage has.
            let seen = Words(region.as_mut_ptr().cast()).at(page).load(Ordering::Relaxed);
            assert_eq!(seen as u64, read(&before, page), "page {page}");
        }
        for first in (0..WRITERS).map(|writer| writer * PAGES) {
            let rounds: Vec<u64> = (first..first + PAGES).map(|page| read(&before, page)).collect();
            assert!(rounds.windows(2).all(|pair| pair[0] == pair[1] || pair[0] == pair[1] + 1), "torn: {rounds:?}");
            assert!(rounds[0] - rounds[PAGES - 1] <= 1, "torn: {rounds:?}");
        }
        assert!(stored(&*device) == before, "nothing was written meanwhile");
        drop(frozen);
    }
    ended.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends: its writes go on"));
    region.close().expect("it is written");
}
