//! Moments at which no byte changes.

use crate::common::{Hung, PAGE, limit, map, pager, stored};
use forebay_pager::Advice;
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

#[test]
fn a_page_that_is_read_from_hung_storage_for_a_write_keeps_nobody_from_freezing() {
    let _limit = limit("a moment while a page is read for a write, and that page afterwards");
    let pager = pager("clock-pro", 64 * PAGE);
    let (hung, quick) = (Arc::new(Hung::new(8)), Arc::new(MemoryDevice::new(8 * PAGE as u64)));
    let (mut slow, mut fast) = (map(&pager, &hung), map(&pager, &quick));
    let words = Words(slow.as_mut_ptr().cast());
    let written = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let written = Arc::clone(&written);
        move || {
            words.at(3).store(9, Ordering::SeqCst);
            written.store(true, Ordering::SeqCst);
        }
    });
    hung.wait_for_a_read();
    fast[0] = 7;
    let frozen = pager.freeze(Duration::from_secs(20)).expect("the page that is read does not count");
    assert_eq!(stored(&*quick)[0], 7);
    hung.let_go();
    // It has come when it can be read.
    assert_eq!(words.at(3).load(Ordering::SeqCst), 0);
    assert!(!written.load(Ordering::SeqCst), "the write waits");
    drop(frozen);
    writer.join().expect("it goes on");
    assert_eq!(slow[3 * PAGE], 9);
}

#[test]
fn advice_on_one_region_does_not_wait_for_another_regions_storage() {
    let _limit = limit("advice beside advice on a page that is read");
    let pager = pager("clock-pro", 64 * PAGE);
    let (hung, quick) = (Arc::new(Hung::new(8)), Arc::new(MemoryDevice::new(8 * PAGE as u64)));
    let (slow, mut fast) = (map(&pager, &hung), map(&pager, &quick));
    fast[0] = 7;
    let advised = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(slow[3 * PAGE], 0));
        hung.wait_for_a_read();
        scope.spawn(|| {
            advised.fetch_add(1, Ordering::SeqCst);
            slow.advise(0, 8 * PAGE as u64, Advice::Zero).expect("when the page has come");
            advised.fetch_add(1, Ordering::SeqCst);
        });
        while advised.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            fast.advise(0, PAGE as u64, Advice::Zero).expect("it does not wait");
        }
        assert_eq!((fast[0], advised.load(Ordering::SeqCst)), (0, 1));
        hung.let_go();
    });
}
